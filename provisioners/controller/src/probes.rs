//! `/healthz`, `/readyz` and `/metrics`.
//!
//! Alive means that the runtime answers. Ready means what it says: the API types are served, the watches have seen
//! everything once, and the content store, where there is one, can be written to.

mod metrics;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use metrics::{Kind, Outcome, count, render, set_catalogs, set_platform_operators};

/// What must hold before the process is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The CustomResourceDefinitions are served.
    Definitions,
    /// The watches have seen all Bundles and BundleDeployments once.
    Caches,
    /// The content store can be written to. Tried at each question.
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
}

impl Readiness {
    /// Nothing holds yet.
    pub fn new() -> Self {
        let not_yet = || Err("not yet".to_owned());
        Self { state: Mutex::new(Facts { definitions: not_yet(), caches: not_yet() }) }
    }

    /// What was found out of the definitions.
    pub fn definitions(&self, state: Result<(), String>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).definitions = state;
    }

    /// What was found out of the watches.
    pub fn caches(&self, state: Result<(), String>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).caches = state;
    }

    fn checks(&self, store: Option<Result<(), String>>) -> Vec<(Check, Result<(), String>)> {
        let facts = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checks = vec![(Check::Definitions, facts.definitions.clone()), (Check::Caches, facts.caches.clone())];
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
    Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready)).with_state((readiness, stage))
}

/// `/metrics`, in Prometheus' text form.
pub fn metrics() -> Router {
    let text = async || ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render());
    Router::new().route("/metrics", get(text))
}

/// Answers until `stop` is cancelled.
///
/// # Errors
/// The listener's.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

type Shared = (Arc<Readiness>, Option<PathBuf>);

async fn ready(State((readiness, stage)): State<Shared>) -> (StatusCode, String) {
    let usable = match stage {
        Some(folder) => {
            let tried = tokio::task::spawn_blocking(move || try_store(&folder)).await;
            Some(tried.unwrap_or_else(|error| Err(error.to_string())))
        }
        None => None,
    };
    answer(&readiness.checks(usable))
}

/// Makes and removes a file where bundles are staged.
fn try_store(stage: &Path) -> Result<(), String> {
    let file = stage.join("ready");
    let shown = |error: io::Error| format!("write {}: {error}", file.display());
    std::fs::write(&file, b"").map_err(shown)?;
    std::fs::remove_file(&file).or_else(|error| match error.kind() {
        // Another question came in between.
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(shown(error)),
    })
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
    fn a_store_that_cannot_be_written_is_not_ready() {
        let root = tempfile::tempdir().unwrap();
        let stage = root.path().join("tmp");
        assert!(try_store(&stage).unwrap_err().contains("ready"));
        std::fs::create_dir(&stage).unwrap();
        assert_eq!(try_store(&stage), Ok(()));
    }
}
