//! What a Bundle needs before anything of it is fetched: to be let in again after what happened before, and permits.

use std::pin::pin;

use kube::ResourceExt as _;
use rukpak_crds::validate::Source;
use rukpak_crds::{Bundle, names};
use tokio::sync::SemaphorePermit;

use super::failure::Failure;
use super::report::Report;
use super::reporter::Reporter;
use super::{Error, SOON};
use crate::attempts::{Admitted, Attempt, Candidate};
use crate::context::Context;
use crate::fetches::{self, Claim, Permit};

/// Dropped, it lets others have theirs, and says that the attempt has ended.
pub struct Turn {
    _attempt: Attempt,
    _permits: Option<Permits>,
}

/// Waits for the Bundle's turn. `pass` bounds passes at once, and is given back: from here on permits do. With a `reporter`
/// the status says that it waits, unless its turn comes soon.
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
    let need = Need::of(bundle, source, context);
    let at_once = if candidate.is_suspect() { None } else { need.try_acquire(context) };
    drop(pass);
    let permits = if at_once.is_some() {
        at_once
    } else {
        let mut wait = pin!(async {
            candidate.wait().await;
            need.acquire(context).await
        });
        if let Ok(permits) = tokio::time::timeout(SOON, &mut wait).await {
            permits
        } else {
            if let Some(reporter) = reporter {
                reporter.begin(&Report::Waiting).await.map_err(Error::Status)?;
            }
            wait.await
        }
    };
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
pub async fn permits(bundle: &Bundle, source: &Source, context: &Context) -> Option<Permits> {
    Need::of(bundle, source, context).acquire(context).await
}

/// Which permits a source needs.
struct Need {
    claim: Claim,
    git: bool,
}

/// To ask a server, and to run a child where one is needed for it.
pub struct Permits {
    _git: Option<Permit>,
    _fetch: Permit,
}

impl Need {
    fn of(bundle: &Bundle, source: &Source, context: &Context) -> Self {
        let claim = Claim { owner: owner(bundle, context), host: fetches::host(source) };
        Self { claim, git: matches!(source, Source::Git { .. }) }
    }

    fn try_acquire(&self, context: &Context) -> Option<Permits> {
        let git = if self.git { Some(context.permits.git_fetches.try_acquire(&self.claim)?) } else { None };
        Some(Permits { _git: git, _fetch: context.permits.fetches.try_acquire(&self.claim)? })
    }

    /// The narrower first: who waits for it holds nothing that others need.
    async fn acquire(&self, context: &Context) -> Option<Permits> {
        let git = if self.git { Some(context.permits.git_fetches.acquire(&self.claim).await?) } else { None };
        Some(Permits { _git: git, _fetch: context.permits.fetches.acquire(&self.claim).await? })
    }
}

/// Whose turn it is when the Bundle is fetched. Tenants name an account, and are told apart by its namespace: whoever has one may
/// make many BundleDeployments. Bundles that nothing owns share one turn, because anybody can make many of these too.
fn owner(bundle: &Bundle, context: &Context) -> String {
    match super::made_for(bundle, context) {
        None => "bundles".to_owned(),
        Some(deployment) => match &deployment.spec.service_account {
            Some(account) => format!("namespace/{}", account.namespace),
            None => format!("bundledeployment/{}", deployment.name_any()),
        },
    }
}
