//! The ClusterServiceVersion that is in the image of a bundle. Network; it is shown, and nothing is installed by it.

use std::sync::Arc;

use rukpak_content::{BundleTree, Entry, Limits, RelativePath};
use rukpak_plain::{Budget, yaml};
use rukpak_source::image::{self, Credentials, Puller};
use serde_json::Value;
use tokio::sync::Semaphore;

/// So many images are pulled at once: each may fill its limits, on disk and in memory.
const AT_ONCE: usize = 4;
const KIND: &str = "ClusterServiceVersion";
const FOLDER: &str = "manifests";

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("image {0}")]
    Pull(String, #[source] Box<image::Error>),
    #[error("image {0}: its manifests cannot be read")]
    Content(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("image {0}: there is no ClusterServiceVersion in it")]
    None(String),
}

/// Images of bundles.
pub(super) struct Bundles {
    puller: Arc<Puller>,
    limits: Limits,
    turns: Semaphore,
}

impl Bundles {
    pub fn new(puller: Arc<Puller>) -> Self {
        Self { puller, limits: Limits::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// The ClusterServiceVersion in the bundle of an image, as it stands there.
    pub async fn version(&self, reference: &str) -> Result<Value, Error> {
        // It is never closed.
        let _turn = self.turns.acquire().await.ok();
        let pull = |error| Error::Pull(reference.to_owned(), Box::new(error));
        // Without a login, as the controller pulls it: who writes a catalog gets nothing of what logins open.
        let credentials = Credentials::anonymous();
        let image = self.puller.resolve(reference, &credentials).await.map_err(pull)?;
        let stage = self.puller.fetch(&image, &credentials).await.map_err(pull)?;
        let limits = self.limits.clone();
        let named = reference.to_owned();
        // Files and YAML: not on the threads that wait for the network.
        let read = tokio::task::spawn_blocking(move || {
            let wants = |path: &RelativePath| path.components().next() == Some(FOLDER);
            let tree = BundleTree::collect(&stage, &wants, &limits)
                .map_err(|error| Error::Content(named.clone(), Box::new(error)))?;
            found(&tree, &limits, &named)
        });
        read.await.map_err(|error| Error::Content(reference.to_owned(), Box::new(error)))?
    }
}

/// The last one in the order of the files, as whoever renders the bundle takes it.
fn found(tree: &BundleTree, limits: &Limits, image: &str) -> Result<Value, Error> {
    let mut budget = Budget::new(limits);
    let mut last = None;
    for (name, entry) in tree.list(FOLDER).into_iter().flatten() {
        let Entry::File { body, .. } = entry else { continue };
        let file = Arc::from(format!("{FOLDER}/{name}"));
        let documents =
            yaml::parse(&file, body, &mut budget).map_err(|error| Error::Content(image.to_owned(), Box::new(error)))?;
        let versions = documents.into_iter().map(|document| document.value).filter(|value| value["kind"] == KIND);
        last = versions.last().or(last);
    }
    last.ok_or_else(|| Error::None(image.to_owned()))
}
