//! What images held that this process has fetched: many Bundles of one image are one pull and one copy.
//!
//! Each Bundle asks its registry for the manifest, with its own login, and policies are asked of each. The layers are named by the
//! manifest, so whoever was shown it gets what it names. Only what was fetched here counts: statuses may be written by others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rukpak_content::Digest;
use tokio::sync::OwnedMutexGuard;

/// So many images are remembered, and then none but those that are being fetched.
const REMEMBERED: usize = 4_096;

/// What an image held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// As the store names it.
    pub digest: Digest,
    /// All files together.
    pub size_bytes: u64,
}

/// Who has it may fetch the image; others wait. `None` until somebody has fetched it.
pub type Turn = OwnedMutexGuard<Option<Content>>;

type Image = Arc<tokio::sync::Mutex<Option<Content>>>;

/// The images, by the digest of the manifest or index.
#[derive(Default)]
pub struct Images(Mutex<HashMap<Digest, Image>>);

impl Images {
    /// Waits until nobody else fetches the image.
    pub async fn turn(&self, manifest: &Digest) -> Turn {
        self.image(manifest).lock_owned().await
    }

    /// The content was not what it should be: the next one fetches it again.
    pub fn forget(&self, manifest: &Digest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(manifest);
    }

    fn image(&self, manifest: &Digest) -> Image {
        let mut images = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = images.get(manifest) {
            return Arc::clone(image);
        }
        if images.len() >= REMEMBERED {
            images.retain(|_, image| Arc::strong_count(image) > 1);
        }
        Arc::clone(images.entry(manifest.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_many_who_want_an_image_one_fetches_it() {
        let images = Images::default();
        let (image, other) = (Digest::sha256(b"image"), Digest::sha256(b"other"));
        let mut turn = images.turn(&image).await;
        let mut second = std::pin::pin!(images.turn(&image));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(images.turn(&other).await.is_none(), "another image is nobody's business");
        let content = Content { digest: Digest::sha256(b"tree"), size_bytes: 4 };
        *turn = Some(content.clone());
        drop(turn);
        assert_eq!(*second.await, Some(content));
        images.forget(&image);
        assert!(images.turn(&image).await.is_none());
    }

    #[tokio::test]
    async fn memory_is_bounded_and_who_fetches_is_not_forgotten() {
        let images = Images::default();
        let first = Digest::sha256(b"first");
        let turn = images.turn(&first).await;
        for index in 0..2 * REMEMBERED {
            drop(images.turn(&Digest::sha256(&index.to_le_bytes())).await);
        }
        assert!(images.0.lock().unwrap().len() <= REMEMBERED);
        assert!(futures::poll!(std::pin::pin!(images.turn(&first))).is_pending());
        drop(turn);
    }
}
