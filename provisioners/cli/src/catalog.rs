//! `rukpakctl catalog`: what a PlatformOperator would get from a catalog, and what is wrong with one.
//!
//! ```text
//! location  where it is, as people write it       open      a location  ->  a catalog
//! served    the content of a ClusterCatalog
//! list      packages, channels, bundles           show      the bundle for a request, why, and upgrades
//! validate  documents  ->  findings               graph     Mermaid
//! ```
//!
//! Bundles are chosen and refused by [`rukpak_catalog`], as the manager does it.

pub(crate) mod choice;
mod graph;
mod list;
mod location;
mod open;
pub(crate) mod served;
mod show;
mod validate;

use rukpak_catalog::Package;
use rukpak_catalog::validate::Finding;

use crate::args::{CatalogArgs, CatalogCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};
use crate::table::one_line;
use open::Opened;

/// Does what is asked of a catalog.
pub async fn run(command: &CatalogCommand) -> Exit {
    match command {
        CatalogCommand::List(arguments) => list::run(arguments).await,
        CatalogCommand::Show(arguments) => show::run(arguments).await,
        CatalogCommand::Validate(arguments) => validate::run(arguments).await,
        CatalogCommand::Graph(arguments) => graph::run(arguments).await,
    }
}

/// Says why there is no answer.
fn failed(error: &dyn std::error::Error) -> Exit {
    to_stderr(&format!("error: {}", chain(error)));
    Exit::Unknown
}

/// The package, with a word about everything that is odd about it.
fn package<'a>(opened: &'a Opened, name: &str) -> Result<&'a Package, String> {
    let found = opened.catalog.packages.get(name);
    // The words of the manager.
    let package = found.ok_or_else(|| format!("failed to find candidate olm.bundles from the {name} package"))?;
    for remark in &package.remarks {
        to_stderr(&format!("warning: package {name:?}: {}", one_line(remark)));
    }
    Ok(package)
}

/// The catalog was asked and has no such thing; the hint is how to see what it has.
fn missing(opened: &Opened, place: &CatalogArgs, package: &str, why: &str) -> Failure {
    let known = if opened.catalog.packages.contains_key(package) { format!(" {package}") } else { String::new() };
    let hint = format!("rukpakctl catalog list {}{known}", place.catalog.to_string_lossy());
    Failure::no(format!("{}: {why}", opened.from)).hint(hint)
}

/// Warns of what is broken, in the words of `catalog validate`.
fn warn_of(findings: &[Finding]) {
    for finding in findings {
        to_stderr(&format!("warning: {}", one_line(&finding.message)));
    }
}
