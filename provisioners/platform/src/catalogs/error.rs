//! Why a package cannot be looked up: in words, when to try again, and what helps.

use std::sync::Arc;

use rukpak_catalog::{origin, registry};
use rukpak_plan::retry::Class;

use super::sources::NotReady;

/// Why a package cannot be looked up. The words are those of OpenShift's manager where it has the case.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No catalog has the package.
    #[error("failed to find candidate olm.bundles from the {package} package")]
    NoPackage {
        package: String,
        /// The catalogs that were asked.
        asked: Vec<String>,
    },
    /// There is nothing to look in.
    #[error("there is no catalog: name one with --catalog, or {0}")]
    NoCatalog(String),
    /// The PlatformOperator names a catalog that nobody knows.
    #[error("spec.package.catalog: there is no catalog {name:?}; there are {}", .known.join(", "))]
    UnknownCatalog { name: String, known: Vec<String> },
    /// The catalog that something was installed from is not among those that are asked any more.
    #[error(
        "the catalog {name:?} that it was installed from is not asked any more; there are {}: name one in spec.package.catalog",
        .known.join(", ")
    )]
    Left {
        /// As the status has it.
        name: String,
        known: Vec<String>,
    },
    /// A ClusterCatalog has nothing to show.
    #[error(
        "ClusterCatalog {name}: {why}; to do without it, name another catalog in spec.package.catalog, or set its \
         spec.availabilityMode to Unavailable"
    )]
    Unserved { name: String, why: String },
    /// Several catalogs have the package, and none goes before the others.
    #[error(
        "package {package:?} is in several catalogs of the same priority, {priority}: {}; name one of them in spec.package.catalog, or \
         give a ClusterCatalog another spec.priority",
        .catalogs.join(", ")
    )]
    Tie {
        package: String,
        priority: i32,
        /// What a status calls them.
        catalogs: Vec<String>,
    },
    /// A configured catalog cannot be loaded.
    #[error("catalog {name} ({origin})")]
    Load { name: String, origin: String, source: Arc<origin::Error> },
    /// A CatalogSource is not there, or not ready.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The server of a CatalogSource gives no catalog.
    #[error(transparent)]
    Registry(#[from] Arc<registry::Error>),
}

impl Error {
    /// When to try again, if nobody tells us.
    pub fn class(&self) -> Class {
        match self {
            Self::NotReady(NotReady::Connection { .. } | NotReady::Unwatched { .. }) => Class::Transient,
            Self::Load { source, .. } if source.class() == origin::Class::Unavailable => Class::Transient,
            Self::Registry(error) if error.class() == registry::Class::Unavailable => Class::Transient,
            _ => Class::Terminal,
        }
    }

    /// What the words of OpenShift's manager do not tell.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPackage { asked, .. } => {
                let asked = asked.join(", ");
                Some(format!("looked in {asked}; `rukpakctl catalog list` shows what a catalog has"))
            }
            Self::NotReady(NotReady::Missing { .. }) => {
                let hint = "rukpak-platform is told by --catalog-source which CatalogSources there are, or none";
                Some(hint.to_owned())
            }
            Self::Load { name, .. } => Some(format!(
                "to do without this catalog, name another one in spec.package.catalog, or take --catalog={name}=... out of the \
                 arguments of rukpak-platform"
            )),
            _ => None,
        }
    }

    /// Whether nobody tells us when it is mended.
    pub fn is_unwatched(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Registry(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_to_do_without_a_catalog_that_cannot_be_loaded() {
        let source = Arc::new(origin::Error::NotAdmitted { why: "unsigned".to_owned() });
        let error = Error::Load { name: "community".to_owned(), origin: "image:x".to_owned(), source };
        let hint = error.hint().unwrap();
        assert!(hint.contains("spec.package.catalog") && hint.contains("--catalog=community=..."), "{hint}");
    }
}
