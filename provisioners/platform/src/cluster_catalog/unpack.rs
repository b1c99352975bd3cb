//! From the reference of an image to stored content. Network and disk; the words are catalogd's.

use std::sync::Arc;

use kube::ResourceExt;
use rukpak_catalog::origin::{self, CONFIGS_LABEL, Revision};
use rukpak_crds::olm::rules::Violation;
use rukpak_crds::olm::{CatalogImage, ClusterCatalog};
use rukpak_plan::retry::Class;
use rukpak_runtime::error::Chain;

use super::store::{self, Stored};
use super::{Context, Outcome};

/// Why there is no content, or none that is newer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The image cannot be had, or is no catalog.
    Source { error: Box<origin::Error>, is_pinned: bool },
    /// It cannot be stored.
    Store(store::Error),
    /// The login that the catalog names cannot be had: why, in words.
    Login(String),
    /// Nobody wants it any more.
    Superseded,
}

/// The content that the `image` of a catalog names now: what is stored, if it is that already. It is stored only if `is_wanted` says so
/// still.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn unpack(
    of: &ClusterCatalog,
    image: &CatalogImage,
    stored: Option<Arc<Stored>>,
    context: &Context,
    is_wanted: impl Fn() -> bool,
) -> Result<Arc<Stored>, Failure> {
    let known = stored.as_ref().map(|stored| Revision(stored.digest.clone()));
    let name = of.name_any();
    let credentials = context.logins.of(of).await.map_err(Failure::Login)?;
    let stage = context.content.stage().map_err(Failure::Store)?;
    let folder = stage.path().to_owned();
    let unpacked = context.images.unpack(&image.reference, known.as_ref(), &credentials, folder).await;
    let source = |error| Failure::Source { error: Box::new(error), is_pinned: image.is_pinned() };
    match (unpacked.map_err(source)?, stored) {
        (None, Some(stored)) => Ok(stored),
        // Nothing was known that it could be.
        (None, None) => Err(Failure::Superseded),
        (Some((catalog, Revision(digest))), _) => {
            if !is_wanted() {
                return Err(Failure::Superseded);
            }
            let packages = catalog.packages.len();
            let stored = context.content.put(&name, &digest, stage, catalog).await.map_err(Failure::Store)?;
            tracing::info!(catalog = name, packages, digest, "ClusterCatalog unpacked");
            if is_wanted() {
                return Ok(stored);
            }
            // It went while this was written, and whoever was told of it found nothing to remove yet.
            context.content.remove(&name).await.map_err(Failure::Store)?;
            Err(Failure::Superseded)
        }
    }
}

/// The image by its digest.
pub(super) fn pinned(reference: &str, digest: &str) -> String {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    // A colon behind the last slash begins a tag, any other a port.
    let name = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    };
    format!("{name}@{digest}")
}

/// The spec breaks a rule that the API server did not check.
pub(super) fn refused(violation: &Violation) -> Outcome {
    let message = format!("source catalog content: terminal error: error parsing ClusterCatalog: {violation}");
    Outcome::Failed { message, is_terminal: true, retry: None }
}

impl Failure {
    pub fn outcome(self) -> Outcome {
        let failed = |message: String, class| Outcome::Failed { message, is_terminal: false, retry: Some(class) };
        match self {
            Self::Source { error, is_pinned } => {
                let is_terminal = is_pinned && is_no_catalog(&error);
                let class = match *error {
                    // A signature may come, or another policy.
                    origin::Error::NotAdmitted { .. } => Class::Blocked,
                    _ if error.class() == origin::Class::Unavailable => Class::Transient,
                    _ => Class::Terminal,
                };
                let text = text(&error);
                if is_terminal {
                    let message = format!("source catalog content: terminal error: {text}");
                    return Outcome::Failed { message, is_terminal, retry: None };
                }
                let stage = if matches!(*error, origin::Error::Read(_)) {
                    "error storing fbc"
                } else {
                    "source catalog content"
                };
                failed(format!("{stage}: {text}"), class)
            }
            Self::Store(error) => failed(format!("error storing fbc: {}", Chain(&error)), Class::Transient),
            // Whoever mends the Secret is not seen.
            Self::Login(why) => failed(format!("source catalog content: {why}"), Class::Blocked),
            Self::Superseded => failed("the catalog was changed while it was unpacked".to_owned(), Class::Conflict),
        }
    }
}

/// Whether no other answer can come for these bytes.
fn is_no_catalog(error: &origin::Error) -> bool {
    matches!(error, origin::Error::NotACatalog { .. } | origin::Error::Sqlite { .. } | origin::Error::Label { .. })
}

fn text(error: &origin::Error) -> String {
    match error {
        origin::Error::Resolve(error) => format!("error creating image source: {}", Chain(error)),
        origin::Error::Image(error) => format!("error copying image: {}", Chain(error)),
        origin::Error::Read(error) => format!("error walking FBC root: {}", Chain(error)),
        origin::Error::NotACatalog { hint, .. } => {
            format!("catalog image is missing the required label {CONFIGS_LABEL:?}: {hint}")
        }
        error => Chain(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_port_and_loses_its_tag() {
        for (reference, expected) in [
            ("r.example/a/b:v1", "r.example/a/b@sha256:1"),
            ("r.example:5000/a:v1", "r.example:5000/a@sha256:1"),
            ("r.example:5000/a@sha256:0", "r.example:5000/a@sha256:1"),
            ("r.example/a:v1@sha256:0", "r.example/a@sha256:1"),
        ] {
            assert_eq!(pinned(reference, "sha256:1"), expected);
        }
    }
}
