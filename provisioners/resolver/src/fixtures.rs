//! What the tests of several modules begin with.

use rukpak_catalog::model::{Bundle, Facts as Stated, RequiredPackage};

/// A bundle that needs other packages, in these ranges.
pub fn bundle(package: &str, version: &str, needs: &[(&str, &str)]) -> Bundle {
    let required =
        |(name, range): &(&str, &str)| RequiredPackage { name: (*name).to_owned(), range: (*range).to_owned() };
    Bundle {
        name: format!("{package}.v{version}"),
        version: version.parse().ok(),
        version_text: version.to_owned(),
        facts: Stated { requires_packages: needs.iter().map(required).collect(), ..Stated::default() },
        ..Bundle::default()
    }
}
