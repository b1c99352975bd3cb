//! From a release to its objects. Reads the store and renders, off the runtime; then certificates are put in.

use std::sync::Arc;

use rukpak_content::Digest;
use rukpak_crds::names::IGNORE_DEPENDENCIES;
use rukpak_store::{Ref, RefKind, Store};

use super::Pass;
use super::certificates;
use super::release::Release;
use crate::format::{self, Rendered, Settings};

/// Why a release could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not have the content, or has it damaged: it can be fetched again by the Bundle's pin.
    #[error("the content is not in the store")]
    Lost(#[source] rukpak_store::Error),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] rukpak_store::Error),
    /// The content is not of the format, or does not go with the settings.
    #[error(transparent)]
    Format(Box<format::Error>),
    /// The certificates of webhooks could not be read or made.
    #[error(transparent)]
    Certificates(certificates::Error),
    /// The task that loaded it ended without a result.
    #[error("loading was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// Loads and verifies the content of `release`, and renders its objects as they are to be applied.
pub(crate) async fn load(pass: &Pass, release: &Release) -> Result<Rendered, Error> {
    let context = &pass.context;
    let annotations = pass.deployment.metadata.annotations.as_ref();
    let settings = Settings {
        config: release.config.clone(),
        certificates: context.bundle_certificates,
        ignores_dependencies: annotations
            .and_then(|annotations| annotations.get(IGNORE_DEPENDENCIES))
            .is_some_and(|value| value == "true")
            // What is installed is guarded, whatever it depends on.
            || super::converge::installed(pass).as_ref() == Some(release),
    };
    let (store, limits, release) = (context.store.clone(), context.limits.clone(), release.clone());
    let is_published = {
        let state = pass.installation.state();
        state.complete && state.suspects.is_empty() && state.release.as_ref() == Some(&release)
    };
    let work = move || {
        let tree = store
            .load(&release.content, &|path| release.format.has_part(path), &limits)
            .map_err(|error| if error.mended_by_refill() { Error::Lost(error) } else { Error::Store(error) })?;
        release.format.render(&tree, &limits, &settings).map_err(|error| Error::Format(Box::new(error)))
    };
    let rendered = tokio::task::spawn_blocking(work).await.map_err(Error::Interrupted)??;
    certificates::put_in(pass, rendered, is_published).await.map_err(Error::Certificates)
}

/// Makes the store keep `content` for as long as `deployment` has it installed, whatever becomes of its Bundle.
pub(crate) async fn keep(store: Arc<Store>, deployment: String, content: Digest) -> Result<(), Error> {
    let set = move || match store.get_ref(RefKind::Deployment, &deployment) {
        Ok(Some(current)) if current.content == content => Ok(()),
        _ => store.set_ref(RefKind::Deployment, &deployment, &Ref { content, source: String::new() }),
    };
    tokio::task::spawn_blocking(set).await.map_err(Error::Interrupted)?.map_err(Error::Store)
}
