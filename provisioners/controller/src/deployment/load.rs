//! From a digest to the objects of a bundle. Reads the store, off the runtime.

use std::sync::Arc;

use rukpak_content::{Digest, Limits, RelativePath};
use rukpak_plain::Object;
use rukpak_store::Store;

/// Part of the digest over an installation: a change of what we make of the same content applies it anew.
pub(crate) const RENDERER: &str = "plain/1";

/// Why content could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not have it, or has it damaged: it can be fetched again by the Bundle's pin.
    #[error("the content is not in the store")]
    Lost(#[source] rukpak_store::Error),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] rukpak_store::Error),
    /// The content is not of the format.
    #[error(transparent)]
    Format(rukpak_plain::bundle::Error),
    /// The task that loaded it ended without a result.
    #[error("loading was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// Loads and verifies `content`, and reads its manifests.
pub(crate) async fn objects(store: Arc<Store>, content: Digest, limits: Limits) -> Result<Vec<Object>, Error> {
    tokio::task::spawn_blocking(move || {
        let tree = store
            .load(&content, &in_manifests, &limits)
            .map_err(|error| if error.mended_by_refill() { Error::Lost(error) } else { Error::Store(error) })?;
        rukpak_plain::load(&tree, &limits).map(|loaded| loaded.objects).map_err(Error::Format)
    })
    .await
    .map_err(Error::Interrupted)?
}

fn in_manifests(path: &RelativePath) -> bool {
    path.components().next() == Some("manifests")
}

/// Makes the store keep `content` for as long as `deployment` has it installed, whatever becomes of its Bundle.
pub(crate) async fn keep(store: Arc<Store>, deployment: String, content: Digest) -> Result<(), Error> {
    use rukpak_store::{Ref, RefKind};
    let set = move || match store.get_ref(RefKind::Deployment, &deployment) {
        Ok(Some(current)) if current.content == content => Ok(()),
        _ => store.set_ref(RefKind::Deployment, &deployment, &Ref { content, source: String::new() }),
    };
    tokio::task::spawn_blocking(set).await.map_err(Error::Interrupted)?.map_err(Error::Store)
}
