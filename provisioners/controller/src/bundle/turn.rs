//! What a Bundle needs before anything of it is fetched: to be let in again after what happened before, and permits.

use kube::ResourceExt as _;
use rukpak_crds::validate::Source;
use rukpak_crds::{Bundle, names};
use tokio::sync::SemaphorePermit;

use super::Error;
use super::attempts::{Admitted, Attempt, Candidate};
use super::failure::Failure;
use super::fetches::{self, Permit};
use super::report::Report;
use super::reporter::Reporter;
use crate::context::Context;

/// Dropped, it lets others have theirs, and says that the attempt has ended.
pub struct Turn {
    _attempt: Attempt,
    _permits: Option<Permits>,
}

/// Waits for the Bundle's turn. `pass` bounds passes at once, and is given back: from here on permits do. With a `reporter`
/// the status says that it waits.
#[tracing::instrument(level = "debug", name = "wait", skip_all)]
pub async fn take(
    bundle: &Bundle,
    source: &Source,
    pass: Option<SemaphorePermit<'_>>,
    reporter: Option<&mut Reporter>,
    context: &Context,
) -> Result<Result<Turn, Failure>, Error> {
    let mut candidate = match admit(bundle, context) {
        Ok(candidate) => candidate,
        Err(failure) => return Ok(Err(failure)),
    };
    let host = fetches::host(source);
    let need = Need { host: host.as_deref(), git: matches!(source, Source::Git { .. }) };
    let mut permits = if candidate.is_suspect() { None } else { need.try_acquire(context) };
    if let (None, Some(reporter)) = (&permits, reporter) {
        reporter.begin(&Report::Waiting).await.map_err(Error::Status)?;
    }
    drop(pass);
    candidate.wait().await;
    if permits.is_none() {
        permits = need.acquire(context).await;
    }
    let attempt = candidate.begin().map_err(Failure::Attempts);
    Ok(attempt.map(|attempt| Turn { _attempt: attempt, _permits: permits }))
}

fn admit(bundle: &Bundle, context: &Context) -> Result<Candidate, Failure> {
    let uid = bundle.uid().unwrap_or_default();
    let request = bundle.annotations().get(names::RECONCILE_REQUESTED_AT).map_or("", String::as_str);
    match context.attempts.admit(&uid, request).map_err(Failure::Attempts)? {
        Admitted::PutAside(count) => Err(Failure::PutAside(count)),
        Admitted::Try(candidate) => Ok(candidate),
    }
}

/// Waits for the permits alone.
pub async fn permits(source: &Source, context: &Context) -> Option<Permits> {
    let host = fetches::host(source);
    let need = Need { host: host.as_deref(), git: matches!(source, Source::Git { .. }) };
    need.acquire(context).await
}

/// Which permits a source needs.
#[derive(Clone, Copy)]
struct Need<'a> {
    host: Option<&'a str>,
    git: bool,
}

/// To ask a server, and to run a child where one is needed for it.
pub struct Permits {
    _git: Option<Permit>,
    _fetch: Permit,
}

impl Need<'_> {
    fn try_acquire(self, context: &Context) -> Option<Permits> {
        let git = if self.git { Some(context.git_fetches.try_acquire(self.host)?) } else { None };
        Some(Permits { _git: git, _fetch: context.fetches.try_acquire(self.host)? })
    }

    /// The narrower first: who waits for it holds nothing that others need.
    async fn acquire(self, context: &Context) -> Option<Permits> {
        let git = if self.git { Some(context.git_fetches.acquire(self.host).await?) } else { None };
        Some(Permits { _git: git, _fetch: context.fetches.acquire(self.host).await? })
    }
}
