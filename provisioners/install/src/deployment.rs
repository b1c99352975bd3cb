//! The BundleDeployment reconciler: observe -> decide -> execute -> report.
//!
//! [`observe`] reads. [`rukpak_plan::decide`] decides, without I/O and without a clock. [`execute`] alone writes to the cluster, and
//! alone makes an [`Applied`](rukpak_plan::applied::Applied). [`report`] turns what is known into the status, by
//! [`rukpak_plan::status`].

mod execute;
mod news;
mod observe;
mod report;

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::controller::Action;
use rukpak_crds::BundleDeployment;
use rukpak_plan::decide::{Decision, decide};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::error::Chain;
use rukpak_runtime::metrics::{Outcome, count_reconcile};
use rukpak_runtime::warn_first;

use crate::cluster;
use crate::context::Context;

pub use execute::collect::{collector, gone, sweep};
use observe::Run;
pub use report::{enqueue_dependencies, enqueue_dependents};

/// Why a reconcile ended early. The next one starts over from what is in the cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] cluster::Error),
    /// The deployment as it was read has no UID: it did not come from an API server.
    #[error("the object has no UID")]
    NoUid,
    /// The store could not note what is installed.
    #[error("cannot keep the installed content")]
    Store(#[source] rukpak_store::Error),
    /// The deployment was changed or deleted while it was worked on: the next reconcile starts from what it is then.
    #[error("changed meanwhile")]
    Superseded,
    /// Old Bundles could not be deleted.
    #[error("failed to delete old bundles")]
    OldBundles(#[source] cluster::Error),
    /// The finalizer of a deletion in order could not be set, or taken off.
    #[error("cannot write the finalizer")]
    Finalizer(#[source] cluster::Error),
    /// Helm's releases could not be deleted.
    #[error("failed to delete Helm's releases")]
    HelmReleases(#[source] cluster::Error),
}

/// The kind, as metrics call it.
const KIND: &str = "BundleDeployment";

/// So many decisions follow one another at most: an upgrade that fails, the way back, a repair, pruning.
const DECISIONS: usize = 8;

/// One reconcile of a BundleDeployment.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub async fn reconcile(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Result<Action, Error> {
    let Some(mut run) = observe::observe(deployment, context)? else { return Ok(Action::await_change()) };
    if run.view.is_deleted() {
        let result = end(&mut run).await;
        run.view.remember();
        return result;
    }
    let followed = execute::follow_policy(&run).await.map_err(Error::Finalizer);
    if !matches!(followed, Ok(false)) {
        run.view.give_back();
        return followed.map(|_| Action::await_change());
    }
    let result = converge(&mut run).await;
    run.view.remember();
    result
}

/// What is left to do about a deployment that is being deleted.
async fn end(run: &mut Run) -> Result<Action, Error> {
    let left = match decide(&run.view.observed, &run.view.memory, run.view.reads.now()) {
        Decision::LetGo => Vec::new(),
        Decision::Remove => execute::remove(run).await?,
        _ => return report::deletion(run, None).await,
    };
    if !left.is_empty() {
        return report::deletion(run, Some(left)).await;
    }
    execute::let_go(run).await.map_err(Error::Finalizer)?;
    Ok(Action::await_change())
}

async fn converge(run: &mut Run) -> Result<Action, Error> {
    execute::health::refresh(&run.view).await;
    execute::look_at_released(&mut run.view).await;
    let mut now = run.view.reads.now();
    for _ in 0..DECISIONS {
        run.view.look();
        now = run.view.reads.now();
        run.view.notice_health(now);
        match decide(&run.view.observed, &run.view.memory, now) {
            Decision::Report => break,
            decision => execute::execute(run, decision).await?,
        }
    }
    report::report(run, now).await
}

/// After a reconcile that could not report.
pub fn error_policy(deployment: &BundleDeployment, error: &Error, context: &Context) -> Action {
    let class = match error {
        Error::Status(error) | Error::Finalizer(error) | Error::OldBundles(error) | Error::HelmReleases(error)
            if error.is_conflict() || error.is_not_found() =>
        {
            Class::Conflict
        }
        Error::Superseded => Class::Conflict,
        _ => Class::Transient,
    };
    let uid = deployment.uid().unwrap_or_default();
    let delay = retry::delay(class, context.failures.another(&uid));
    count_reconcile(KIND, Outcome::Error);
    if class == Class::Conflict {
        tracing::debug!(deployment = %deployment.name_any(), error = %Chain(error), "reconcile ended early; it runs again");
    } else {
        let (is_first, deployment) = (context.failures.is_first(&uid), deployment.name_any());
        warn_first!(is_first, deployment, error = %Chain(error), ?delay, "reconcile failed; will retry");
    }
    Action::requeue(delay)
}
