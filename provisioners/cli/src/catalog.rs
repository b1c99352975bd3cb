//! `rukpakctl catalog`: what a PlatformOperator would get from a catalog, and what is wrong with one.
//!
//! ```text
//! place     where it is, as people write it       open      a place  ->  a catalog
//! served    the content of a ClusterCatalog
//! list      packages, channels, bundles           show      the bundle for a request, why, and upgrades
//! validate  documents  ->  findings               graph     Mermaid
//! ```
//!
//! Bundles are chosen and refused by [`rukpak_catalog`], as the manager does it.

mod graph;
mod list;
mod open;
mod place;
pub(crate) mod served;
mod show;
mod validate;

use rukpak_catalog::Package;
use rukpak_catalog::validate::Finding;

use crate::args::CatalogCommand;
use crate::exit::Exit;
use crate::output::{chain, talk};
use crate::table::one_line;
use open::Opened;
pub use place::{Error as PlaceError, Place};

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
    talk(&format!("error: {}", chain(error)));
    Exit::Unknown
}

/// The package, with a word about everything that is odd about it.
fn package<'a>(opened: &'a Opened, name: &str) -> Result<&'a Package, String> {
    let found = opened.catalog.packages.get(name);
    // The words of the manager.
    let package = found.ok_or_else(|| format!("failed to find candidate olm.bundles from the {name} package"))?;
    for remark in &package.remarks {
        talk(&format!("warning: package {name:?}: {}", one_line(remark)));
    }
    Ok(package)
}

/// Says that the catalog was asked and has no such thing.
fn none(opened: &Opened, why: &str) -> Exit {
    talk(&format!("error: {}: {why}", opened.from));
    Exit::No
}

/// Warns of what is broken, in the words of `catalog validate`.
fn warn_of(findings: &[Finding]) {
    for finding in findings {
        talk(&format!("warning: {}", one_line(&finding.message)));
    }
}
