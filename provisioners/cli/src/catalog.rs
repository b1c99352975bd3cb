//! `rukpakctl catalog`: what a PlatformOperator would get from a catalog.
//!
//! ```text
//! location  where it is, as people write it       open      a location  ->  a catalog
//! served    the content of a ClusterCatalog
//! list      packages, channels, bundles           show      the bundle for a request, why, and upgrades
//! ```
//!
//! Bundles are chosen and refused by [`rukpak_catalog`], as the manager does it.

pub(crate) mod choice;
mod list;
mod location;
mod open;
pub(crate) mod served;
mod show;

use rukpak_catalog::{Package, graph};

use crate::args::{CatalogArgs, CatalogCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::to_stderr;
use crate::table::one_line;
use open::Opened;

/// How many packages an error names.
const NEAR: usize = 8;

/// Does what is asked of a catalog.
pub async fn run(command: &CatalogCommand) -> Result<Exit, Failure> {
    match command {
        CatalogCommand::List(arguments) => list::run(arguments).await,
        CatalogCommand::Show(arguments) => show::run(arguments).await,
    }
}

/// The package, with a word about everything that is odd about it.
fn package<'a>(opened: &'a Opened, name: &str) -> Result<&'a Package, String> {
    let found = opened.catalog.packages.get(name);
    // The words of the manager, and what it has no room for.
    let package = found.ok_or_else(|| {
        let near = near(opened.catalog.packages.keys().map(String::as_str), name);
        format!("failed to find candidate olm.bundles from the {name} package{near}")
    })?;
    for remark in &package.remarks {
        to_stderr(&format!("warning: package {name:?}: {}", one_line(remark)));
    }
    Ok(package)
}

/// Returns the packages that `name` may stand for: all of a small catalog, else those whose names hold it or are held by it.
fn near<'a>(packages: impl Iterator<Item = &'a str>, name: &str) -> String {
    let mut known: Vec<&str> = packages.collect();
    if known.len() > NEAR {
        known.retain(|known| known.contains(name) || name.contains(known));
        known.truncate(NEAR);
    }
    if known.is_empty() { String::new() } else { format!(": the catalog has {}", known.join(", ")) }
}

/// The catalog was asked and has no such thing; the hint is how to see what it has.
fn missing(opened: &Opened, place: &CatalogArgs, package: &str, why: &str) -> Failure {
    let known = if opened.catalog.packages.contains_key(package) { format!(" {package}") } else { String::new() };
    let hint = format!("rukpakctl catalog list {}{known}", place.catalog.to_string_lossy());
    Failure::no(format!("{}: {why}", opened.from)).hint(hint)
}

/// Warns of what is broken in the graph of a package.
fn warn_of_faults(package: &Package) {
    for fault in graph::faults(package) {
        to_stderr(&format!("warning: {}", one_line(&fault)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_packages_that_a_wrong_name_may_stand_for() {
        assert_eq!(near(["pump-operator", "valve"].into_iter(), "pomp"), ": the catalog has pump-operator, valve");
        assert_eq!(near([].into_iter(), "pomp"), "");

        let many: Vec<String> = (0..20).map(|number| format!("operator-{number}")).collect();
        let of = |name| near(many.iter().map(String::as_str).chain(["pump-operator"]), name);
        assert_eq!(of("pump"), ": the catalog has pump-operator");
        assert_eq!(of("pump-operator-v2"), ": the catalog has pump-operator");
        assert_eq!(of("pomp"), "", "a list of hundreds helps nobody");
        assert_eq!(of("operator").matches(", ").count(), NEAR - 1);
    }
}
