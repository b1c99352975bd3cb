//! A catalog that is loaded once for all who ask, and again when its revision changes.

use std::sync::Arc;

use tokio::sync::Mutex;

/// The catalog of one origin, as a `T`; `R` names its state.
#[derive(Debug)]
pub(super) struct Cached<T, R> {
    // Held while loading: those who come meanwhile wait for that instead of loading too.
    known: Mutex<Option<(Arc<T>, R)>>,
}

impl<T, R> Default for Cached<T, R> {
    fn default() -> Self {
        Self { known: Mutex::new(None) }
    }
}

impl<T: Default, R> Cached<T, R> {
    /// The catalog as it is known, or loaded now.
    pub async fn get<E>(&self, load: impl AsyncFnOnce(Option<&R>) -> Result<Option<(T, R)>, E>) -> Result<Arc<T>, E> {
        let mut known = self.known.lock().await;
        if let Some((catalog, _)) = &*known {
            return Ok(catalog.clone());
        }
        let (catalog, revision) = match load(None).await? {
            Some(loaded) => loaded,
            // Without a revision to compare with, nothing can be unchanged.
            None => return Ok(Arc::default()),
        };
        let catalog = Arc::new(catalog);
        *known = Some((catalog.clone(), revision));
        Ok(catalog)
    }

    /// Loads it if it is known already and its revision is another by now. Returns whether it is.
    pub async fn refresh<E>(&self, load: impl AsyncFnOnce(Option<&R>) -> Result<Option<(T, R)>, E>) -> Result<bool, E> {
        let mut known = self.known.lock().await;
        let Some((_, revision)) = &*known else { return Ok(false) };
        let Some((catalog, revision)) = load(Some(revision)).await? else { return Ok(false) };
        *known = Some((Arc::new(catalog), revision));
        Ok(true)
    }
}

impl<T, R: PartialEq> Cached<T, R> {
    /// The catalog at `revision`: as it is known, or loaded now.
    pub async fn at<E>(&self, revision: R, load: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut known = self.known.lock().await;
        if let Some((catalog, _)) = known.as_ref().filter(|(_, of)| *of == revision) {
            return Ok(catalog.clone());
        }
        let catalog = Arc::new(load().await?);
        *known = Some((catalog.clone(), revision));
        Ok(catalog)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rukpak_catalog::Catalog;

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_load_once() {
        let (cached, loads) = (Cached::<Catalog, u8>::default(), AtomicUsize::new(0));
        let load = || async {
            loads.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(Catalog::default())
        };
        let all = (0..10).map(|_| cached.at(1, load));
        futures::future::join_all(all).await;
        assert_eq!(loads.load(Ordering::Relaxed), 1);
        cached.at(2, load).await.unwrap();
        assert_eq!(loads.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept_and_a_refresh_keeps_what_is_known() {
        let cached = Cached::<Catalog, u8>::default();
        assert_eq!(cached.get(async |_| Err("gone")).await.unwrap_err(), "gone");
        assert_eq!(cached.refresh(async |_| Err("not asked for yet")).await, Ok(false));
        cached.get(async |_| Ok::<_, &str>(Some((Catalog::default(), 1)))).await.unwrap();
        assert_eq!(cached.refresh(async |_| Err("gone")).await, Err("gone"));
        assert_eq!(cached.refresh(async |known| Ok::<_, &str>(known.map(|_| (Catalog::default(), 2)))).await, Ok(true));
        cached.get(async |_| Err("known")).await.unwrap();
    }
}
