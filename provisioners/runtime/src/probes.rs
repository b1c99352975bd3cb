//! `/healthz` and `/readyz`.
//!
//! Alive means that the runtime answers. Ready means what it says, check by check: a program tells what it needs to do its work.
//! Asking costs next to nothing, however often: anybody in the cluster may.

mod folder;
pub(crate) mod watches;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

pub use folder::WithFolder;

use crate::lock::lock;

/// The name of a check, and whether it passes; if not, why.
pub type Verdict = (&'static str, Result<(), String>);

/// What a program needs to be ready.
pub trait Checks: Send + Sync + 'static {
    /// Every check with its verdict, in the order in which they are shown.
    fn verdicts(&self) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// Whether a program that watches is ready: the API types are served, the watches have seen everything once, none of them waits in
/// vain for the API server, and whatever else it [names](Self::set).
#[derive(Debug)]
pub struct Readiness {
    state: Mutex<Facts>,
}

#[derive(Debug)]
struct Facts {
    definitions: Result<(), String>,
    caches: Result<(), String>,
    others: BTreeMap<&'static str, Result<(), String>>,
}

impl Readiness {
    /// Nothing holds yet.
    pub fn new() -> Self {
        let not_yet = || Err("not yet".to_owned());
        Self { state: Mutex::new(Facts { definitions: not_yet(), caches: not_yet(), others: BTreeMap::new() }) }
    }

    /// What was found out of the CRDs.
    pub fn definitions(&self, state: Result<(), String>) {
        lock(&self.state).definitions = state;
    }

    /// What was found out of the watches.
    pub fn caches(&self, state: Result<(), String>) {
        lock(&self.state).caches = state;
    }

    /// What is known of something else that this process is to do. Whoever only stands by, and is not to do it, is ready without.
    pub fn set(&self, check: &'static str, state: Result<(), String>) {
        lock(&self.state).others.insert(check, state);
    }

    fn checks(&self) -> Vec<Verdict> {
        let facts = lock(&self.state);
        let mut checks = vec![
            ("definitions", facts.definitions.clone()),
            ("caches", facts.caches.clone()),
            ("watches", watches::check()),
        ];
        checks.extend(facts.others.iter().map(|(name, state)| (*name, state.clone())));
        checks
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Checks for Readiness {
    async fn verdicts(&self) -> Vec<Verdict> {
        self.checks()
    }
}

/// Asks until the API types are served. By requests, not a watch: while the types are not served there is nothing to watch.
pub async fn until_served<F>(readiness: &Readiness, hint: &str, ask: impl Fn() -> F)
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

/// `/healthz` and `/readyz`.
pub fn router<C: Checks>(checks: Arc<C>) -> Router {
    Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready::<C>)).with_state(checks)
}

async fn ready<C: Checks>(State(checks): State<Arc<C>>) -> (StatusCode, String) {
    answer(&checks.verdicts().await)
}

/// One line a check, in the form of Kubernetes' own components.
fn answer(checks: &[Verdict]) -> (StatusCode, String) {
    let mut text = String::new();
    let mut status = StatusCode::OK;
    for (check, state) in checks {
        // Writing to a String does not fail.
        let _ = match state {
            Ok(()) => writeln!(text, "[+]{check} ok"),
            Err(why) => {
                status = StatusCode::SERVICE_UNAVAILABLE;
                writeln!(text, "[-]{check} failed: {why}")
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
        assert_eq!(answer(&readiness.checks()).0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.definitions(Ok(()));
        readiness.caches(Ok(()));
        assert_eq!(answer(&readiness.checks()).0, StatusCode::OK);
        readiness.definitions(Err("bundles.core.rukpak.io is not served".into()));
        let (status, text) = answer(&readiness.checks());
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[-]definitions failed: bundles.core.rukpak.io is not served\n[+]caches ok\n[+]watches ok\n");
    }

    #[test]
    fn what_else_is_to_be_done_counts_where_it_is_to_be_done() {
        let readiness = Readiness::new();
        readiness.definitions(Ok(()));
        readiness.caches(Ok(()));
        readiness.set("content", Err("no certificate".into()));
        let (status, text) = answer(&readiness.checks());
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[+]definitions ok\n[+]caches ok\n[+]watches ok\n[-]content failed: no certificate\n");
        readiness.set("content", Ok(()));
        assert_eq!(answer(&readiness.checks()).0, StatusCode::OK);
    }
}
