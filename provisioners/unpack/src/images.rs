//! What images held that this process has fetched: many Bundles of one image are one pull and one copy.
//!
//! Each Bundle asks its registry for the manifest, with its own login, and policies are asked of each. Whoever is shown a manifest
//! by the registry and repository that the layers came from gets what they held. A manifest alone is no proof of anything: another
//! registry that serves the same bytes is asked for the layers too. Only what was fetched here counts: statuses may be written by
//! others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rukpak_content::Digest;
use rukpak_runtime::lock::lock;
use tokio::sync::OwnedMutexGuard;

/// So many images are remembered, and then none but those that are being fetched.
const REMEMBERED: usize = 4_096;

/// What an image held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// As the store names it.
    pub digest: Digest,
    pub size_bytes: u64,
}

/// Who has it may fetch the image; others wait. `None` until somebody has fetched it.
pub type Turn = OwnedMutexGuard<Option<Content>>;

type Image = Arc<tokio::sync::Mutex<Option<Content>>>;

/// The images, by registry, repository and the digest of the manifest or index: `registry/repository@sha256:...`.
#[derive(Default)]
pub struct Images(Mutex<HashMap<String, Image>>);

impl Images {
    /// Waits until nobody else fetches the image.
    pub async fn turn(&self, image: &str) -> Turn {
        self.image(image).lock_owned().await
    }

    /// The content was not what it should be: whoever wants an image of it fetches that again.
    pub fn forget(&self, content: &Digest) {
        let held = |image: &Image| {
            image.try_lock().is_ok_and(|held| held.as_ref().is_some_and(|held| held.digest == *content))
        };
        lock(&self.0).retain(|_, image| !held(image));
    }

    fn image(&self, reference: &str) -> Image {
        let mut images = lock(&self.0);
        if let Some(image) = images.get(reference) {
            return Arc::clone(image);
        }
        if images.len() >= REMEMBERED {
            images.retain(|_, image| Arc::strong_count(image) > 1);
        }
        Arc::clone(images.entry(reference.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_many_who_want_an_image_one_fetches_it() {
        let images = Images::default();
        let (image, other) = ("registry.example/a@sha256:1", "registry.example/b@sha256:1");
        let mut turn = images.turn(image).await;
        let mut second = std::pin::pin!(images.turn(image));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(images.turn(other).await.is_none(), "another image is nobody's business");
        let content = Content { digest: Digest::sha256(b"tree"), size_bytes: 4 };
        *turn = Some(content.clone());
        drop(turn);
        assert_eq!(*second.await, Some(content.clone()));
        images.forget(&content.digest);
        assert!(images.turn(image).await.is_none());
    }

    #[tokio::test]
    async fn memory_is_bounded_and_who_fetches_is_not_forgotten() {
        let images = Images::default();
        let first = "registry.example/first@sha256:1";
        let turn = images.turn(first).await;
        for index in 0..2 * REMEMBERED {
            drop(images.turn(&format!("registry.example/{index}@sha256:1")).await);
        }
        assert!(images.0.lock().unwrap().len() <= REMEMBERED);
        assert!(futures::poll!(std::pin::pin!(images.turn(first))).is_pending());
        drop(turn);
    }
}
