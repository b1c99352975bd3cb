//! `/healthz`, `/readyz` and `/metrics`.
//!
//! Alive means that the runtime answers. Ready means what it says: the API types are served, the watches have seen
//! everything once, and the content service and the content store, where there are such, can be used. Asking costs next to
//! nothing, however often: anybody in the cluster may.

mod metrics;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub use metrics::{Kind, Outcome, count, count_panic, render, set_catalogs, set_confinement, set_platform_operators};

/// How long an answer of the disk is good for.
const STORE_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for the disk. The kubelet waits for a second.
const STORE_TIMEOUT: Duration = Duration::from_millis(900);

/// What must hold before the process is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The CustomResourceDefinitions are served.
    Definitions,
    /// The watches have seen all Bundles and BundleDeployments once.
    Caches,
    /// Callers of the content service can be answered. Only of a process that is to answer them: one that stands by is ready
    /// without.
    Content,
    /// The content store can be written to.
    Store,
}

/// Whether the process is ready, check by check.
#[derive(Debug)]
pub struct Readiness {
    state: Mutex<Facts>,
}

#[derive(Debug)]
struct Facts {
    definitions: Result<(), String>,
    caches: Result<(), String>,
    content: Option<Result<(), String>>,
}

impl Readiness {
    /// Nothing holds yet.
    pub fn new() -> Self {
        let not_yet = || Err("not yet".to_owned());
        Self { state: Mutex::new(Facts { definitions: not_yet(), caches: not_yet(), content: None }) }
    }

    /// What was found out of the CRDs.
    pub fn definitions(&self, state: Result<(), String>) {
        self.facts().definitions = state;
    }

    /// What was found out of the watches.
    pub fn caches(&self, state: Result<(), String>) {
        self.facts().caches = state;
    }

    /// What is known of the content service, which this process is to run.
    pub fn content(&self, state: Result<(), String>) {
        self.facts().content = Some(state);
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checks(&self, store: Option<Result<(), String>>) -> Vec<(Check, Result<(), String>)> {
        let facts = self.facts();
        let mut checks = vec![(Check::Definitions, facts.definitions.clone()), (Check::Caches, facts.caches.clone())];
        checks.extend(facts.content.clone().map(|content| (Check::Content, content)));
        checks.extend(store.map(|store| (Check::Store, store)));
        checks
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Definitions => "definitions",
            Self::Caches => "caches",
            Self::Content => "content",
            Self::Store => "store",
        }
    }
}

/// Asks until the API types are served. By requests, not a watch: while the types are not served there is nothing to watch.
pub(crate) async fn until_served<F>(readiness: &Readiness, hint: &str, ask: impl Fn() -> F)
where
    F: Future<Output = Result<(), kube::Error>>,
{
    const PAUSE: Duration = Duration::from_secs(2);
    while let Err(error) = ask().await {
        readiness.definitions(Err(format!("{error}; {hint}")));
        tokio::time::sleep(PAUSE).await;
    }
    readiness.definitions(Ok(()));
}

/// `/healthz` and `/readyz`. `stage` is the folder where bundles are staged, if the process has one.
pub fn health(readiness: Arc<Readiness>, stage: Option<PathBuf>) -> Router {
    let store = stage.map(|stage| Arc::new(StoreCheck::new(stage)));
    Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready)).with_state((readiness, store))
}

/// `/metrics`, in Prometheus' text form.
pub fn metrics() -> Router {
    let text = async || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render());
    Router::new().route("/metrics", get(text))
}

type Shared = (Arc<Readiness>, Option<Arc<StoreCheck>>);

async fn ready(State((readiness, store)): State<Shared>) -> (StatusCode, String) {
    let usable = match store {
        Some(store) => Some(store.usable().await),
        None => None,
    };
    answer(&readiness.checks(usable))
}

/// Whether the store can be written to. The disk is asked every few seconds at most, and by one thread, however long it takes.
struct StoreCheck {
    stage: PathBuf,
    last: tokio::sync::Mutex<Tried>,
}

#[derive(Default)]
struct Tried {
    found: Option<(Instant, Result<(), String>)>,
    /// An attempt that did not end in time.
    under_way: Option<JoinHandle<Result<(), String>>>,
}

impl StoreCheck {
    fn new(stage: PathBuf) -> Self {
        Self { stage, last: tokio::sync::Mutex::default() }
    }

    async fn usable(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((at, found)) = &last.found
            && at.elapsed() < STORE_INTERVAL
        {
            return found.clone();
        }
        let mut attempt = last.under_way.take().unwrap_or_else(|| {
            let stage = self.stage.clone();
            tokio::task::spawn_blocking(move || try_store(&stage))
        });
        let found = match timeout(STORE_TIMEOUT, &mut attempt).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                last.under_way = Some(attempt);
                Err(format!("write to {}: no answer within {STORE_TIMEOUT:?}", self.stage.display()))
            }
        };
        last.found = Some((Instant::now(), found.clone()));
        found
    }
}

/// Makes and removes a file where bundles are staged.
fn try_store(stage: &Path) -> Result<(), String> {
    let file = stage.join("ready");
    let shown = |error: io::Error| format!("write {}: {error}", file.display());
    std::fs::write(&file, b"").map_err(shown)?;
    std::fs::remove_file(&file).map_err(shown)
}

/// One line a check, in the form of Kubernetes' own components.
fn answer(checks: &[(Check, Result<(), String>)]) -> (StatusCode, String) {
    let mut text = String::new();
    let mut status = StatusCode::OK;
    for (check, state) in checks {
        // Writing to a String does not fail.
        let _ = match state {
            Ok(()) => writeln!(text, "[+]{} ok", check.name()),
            Err(why) => {
                status = StatusCode::SERVICE_UNAVAILABLE;
                writeln!(text, "[-]{} failed: {why}", check.name())
            }
        };
    }
    (status, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_everything_at_once() {
        let readiness = Readiness::new();
        assert_eq!(answer(&readiness.checks(Some(Ok(())))).0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.definitions(Ok(()));
        readiness.caches(Ok(()));
        assert_eq!(answer(&readiness.checks(Some(Ok(())))).0, StatusCode::OK);
        readiness.definitions(Err("bundles.core.rukpak.io is not served".into()));
        let (status, text) = answer(&readiness.checks(Some(Ok(()))));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[-]definitions failed: bundles.core.rukpak.io is not served\n[+]caches ok\n[+]store ok\n");
    }

    #[test]
    fn the_content_service_counts_where_it_is_to_run() {
        let readiness = Readiness::new();
        readiness.definitions(Ok(()));
        readiness.caches(Ok(()));
        readiness.content(Err("no certificate".into()));
        let (status, text) = answer(&readiness.checks(None));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[+]definitions ok\n[+]caches ok\n[-]content failed: no certificate\n");
        readiness.content(Ok(()));
        assert_eq!(answer(&readiness.checks(None)).0, StatusCode::OK);
    }

    #[tokio::test]
    async fn the_disk_is_asked_once_in_a_while_however_often_readiness_is() {
        let root = tempfile::tempdir().unwrap();
        let stage = root.path().join("tmp");
        let check = StoreCheck::new(stage.clone());
        assert!(check.usable().await.is_err());
        std::fs::create_dir(&stage).unwrap();
        assert!(check.usable().await.is_err(), "it was asked just now");
        let long_ago = Instant::now().checked_sub(STORE_INTERVAL).unwrap();
        check.last.lock().await.found.as_mut().unwrap().0 = long_ago;
        assert_eq!(check.usable().await, Ok(()));
        std::fs::remove_dir(&stage).unwrap();
        assert_eq!(check.usable().await, Ok(()), "it was asked just now");
    }

    #[tokio::test]
    async fn a_disk_that_hangs_costs_one_thread_and_is_not_waited_for() {
        let check = StoreCheck::new(PathBuf::from("/nowhere"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        check.last.lock().await.under_way = Some(tokio::task::spawn_blocking(move || {
            // Ends with an error when the sender is dropped.
            let _ = held.recv();
            Ok(())
        }));
        let hangs = "write to /nowhere: no answer within 900ms".to_owned();
        assert_eq!(check.usable().await, Err(hangs.clone()));
        assert_eq!(check.usable().await, Err(hangs), "without a wait");
        assert!(check.last.lock().await.under_way.is_some(), "the same attempt goes on");
        drop(release);
        check.last.lock().await.found = None;
        assert_eq!(check.usable().await, Ok(()));
    }

    #[test]
    fn a_store_that_cannot_be_written_is_not_ready() {
        let root = tempfile::tempdir().unwrap();
        let stage = root.path().join("tmp");
        assert!(try_store(&stage).unwrap_err().contains("ready"));
        std::fs::create_dir(&stage).unwrap();
        assert_eq!(try_store(&stage), Ok(()));
    }
}
