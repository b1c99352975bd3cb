//! A catalog that is loaded once for all who ask, and again when its revision changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rukpak_runtime::lock::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The catalog of one origin, as a `T`; `R` names its state, and `E` says why there is none.
#[derive(Debug)]
pub(super) struct Cached<T, R, E> {
    state: Mutex<State<T, R, E>>,
    /// Held while loading: who comes meanwhile waits for that instead of loading too. Nobody waits for what is known.
    loading: tokio::sync::Mutex<()>,
    /// How often it may have come to say something else than before.
    changes: AtomicU64,
    /// Told when it can be had again.
    news: Arc<Notify>,
}

#[derive(Debug)]
struct State<T, R, E> {
    known: Option<(Arc<T>, R)>,
    failure: Option<(E, Instant)>,
}

impl<T, R: Clone + PartialEq, E: Clone> Cached<T, R, E> {
    /// Not loaded yet. `news` is told when it could be loaded after all.
    pub fn new(news: Arc<Notify>) -> Self {
        let state = State { known: None, failure: None };
        Self { state: Mutex::new(state), loading: tokio::sync::Mutex::default(), changes: AtomicU64::new(0), news }
    }

    /// Whether it was loaded when it was last tried; `None` if it never was.
    pub fn is_loaded(&self) -> Option<bool> {
        let state = lock(&self.state);
        let is_failing = state.failure.is_some();
        (is_failing || state.known.is_some()).then_some(!is_failing)
    }

    /// Moves whenever it may say something else than before: a new revision, or an answer after a failure.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// It may say something else from now on.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The catalog as it is known (at the revision `wanted`, if one is), or loaded now. All who wait for one attempt share what
    /// comes of it.
    pub async fn get(&self, wanted: Option<&R>, load: impl AsyncFnOnce() -> Result<(T, R), E>) -> Result<Arc<T>, E> {
        let asked = Instant::now();
        if let Some(known) = self.known(wanted) {
            return Ok(known);
        }
        let _turn = self.loading.lock().await;
        if let Some(known) = self.known(wanted) {
            return Ok(known);
        }
        let failed = lock(&self.state).failure.as_ref().filter(|(_, at)| *at >= asked).map(|(error, _)| error.clone());
        if let Some(error) = failed {
            return Err(error);
        }
        self.note(load().await)
    }

    /// Loads it again if its revision is another by now, or if it could not be loaded before. What nobody asked for is not
    /// loaded. Returns whether there is something new; what was known is known until then.
    pub async fn refresh(&self, load: impl AsyncFnOnce(Option<&R>) -> Result<Option<(T, R)>, E>) -> Result<bool, E> {
        let _turn = self.loading.lock().await;
        let revision = {
            let state = lock(&self.state);
            if state.known.is_none() && state.failure.is_none() {
                return Ok(false);
            }
            state.known.as_ref().map(|(_, revision)| revision.clone())
        };
        match load(revision.as_ref()).await {
            Ok(None) => {
                lock(&self.state).failure = None;
                Ok(false)
            }
            Ok(Some(loaded)) => {
                self.note(Ok(loaded))?;
                self.changed();
                Ok(true)
            }
            Err(error) => self.note(Err(error)).map(|_| false),
        }
    }

    fn known(&self, wanted: Option<&R>) -> Option<Arc<T>> {
        let state = lock(&self.state);
        let (catalog, revision) = state.known.as_ref()?;
        wanted.is_none_or(|wanted| wanted == revision).then(|| catalog.clone())
    }

    fn note(&self, loaded: Result<(T, R), E>) -> Result<Arc<T>, E> {
        let mut state = lock(&self.state);
        match loaded {
            Ok((catalog, revision)) => {
                let catalog = Arc::new(catalog);
                state.known = Some((catalog.clone(), revision));
                if state.failure.take().is_some() {
                    self.changed();
                    self.news.notify_one();
                }
                Ok(catalog)
            }
            Err(error) => {
                state.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    fn cached() -> (Cached<&'static str, u8, &'static str>, Arc<Notify>) {
        let news = Arc::new(Notify::new());
        (Cached::new(news.clone()), news)
    }

    #[tokio::test]
    async fn many_who_ask_at_once_load_once_also_in_vain() {
        let ((cached, _), loads) = (cached(), AtomicUsize::new(0));
        let load = |loaded| {
            let loads = &loads;
            async move || {
                loads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                loaded
            }
        };
        let failed = join_all((0..10).map(|_| cached.get(None, load(Err("gone"))))).await;
        assert!(failed.iter().all(|loaded| *loaded == Err("gone")));
        assert_eq!(loads.load(Ordering::Relaxed), 1);
        join_all((0..10).map(|_| cached.get(Some(&1), load(Ok(("one", 1)))))).await;
        assert_eq!(loads.load(Ordering::Relaxed), 2);
        assert_eq!(*cached.get(Some(&2), load(Ok(("two", 2)))).await.unwrap(), "two");
        assert_eq!(*cached.get(None, load(Err("not asked"))).await.unwrap(), "two");
    }

    #[tokio::test]
    async fn a_refresh_keeps_what_is_known_and_mends_what_failed() {
        let (cached, news) = cached();
        assert_eq!(cached.refresh(async |_| Err("not asked for yet")).await, Ok(false));
        assert_eq!(cached.is_loaded(), None);
        assert_eq!(cached.get(None, async || Err("gone")).await, Err("gone"));
        assert_eq!(cached.changes(), 0);
        assert_eq!(cached.refresh(async |known| Ok(Some(("one", 1)).filter(|_| known.is_none()))).await, Ok(true));
        news.notified().await;
        let mended = cached.changes();
        assert_ne!(mended, 0);
        assert_eq!(cached.refresh(async |_| Err("gone")).await, Err("gone"));
        assert_eq!(*cached.get(None, async || Err("not asked")).await.unwrap(), "one");
        assert_eq!(cached.changes(), mended, "it says what it said");
        assert_eq!(cached.refresh(async |known| Ok(known.map(|_| ("two", 2)))).await, Ok(true));
        assert_ne!(cached.changes(), mended);
        assert_eq!(cached.refresh(async |_| Err("gone")).await, Err("gone"));
        assert_eq!(cached.is_loaded(), Some(false), "what is known is not what is there");
        assert_eq!(cached.refresh(async |_| Ok(None)).await, Ok(false));
        assert_eq!(cached.is_loaded(), Some(true));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_refresh() {
        let (cached, _) = cached();
        cached.get(None, async || Ok(("one", 1))).await.unwrap();
        let mut refresh = std::pin::pin!(cached.refresh(async |_| std::future::pending().await));
        assert!(futures::poll!(&mut refresh).is_pending());
        assert_eq!(*cached.get(None, async || Err("not asked")).await.unwrap(), "one");
    }
}
