//! The BundleDeployment reconciler:
//! observe -> bundle for this template -> choose content -> converge (load, plan, apply, prune, health) -> report.

mod apply;
mod certificates;
mod collision;
mod converge;
mod desired;
mod drift;
mod health;
mod installation;
mod load;
mod old_bundles;
mod pivot;
mod plan;
mod preflight;
mod prune;
mod put;
mod release;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, Condition, ConditionStatus};
use rukpak_plan::Owner;
use rukpak_plan::retry::Class;

use crate::cluster;
use crate::context::Context;
use crate::events::Tone;
use crate::format::Format;
use crate::status::StatusWriter;

pub use installation::{Installation, Installations, Reaction};

/// Why a pass ended early. The next one starts over from what is in the cluster.
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
    Store(#[source] load::Error),
    /// Old Bundles could not be deleted.
    #[error("failed to delete old bundles")]
    OldBundles(#[source] cluster::Error),
}

/// One pass: everything that the stages read and write.
pub(crate) struct Pass {
    pub deployment: Arc<BundleDeployment>,
    pub owner: Owner,
    pub installation: Arc<Installation>,
    pub context: Arc<Context>,
    pub status: BundleDeploymentStatus,
    pub writer: StatusWriter<BundleDeployment>,
    pub now: Timestamp,
}

/// One pass over a BundleDeployment.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub async fn reconcile(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Result<Action, Error> {
    tracing::debug!(deployment = %deployment.name_any(), "pass");
    let Some(mut pass) = observe(deployment, context)? else { return Ok(Action::await_change()) };
    let desired = desired::bundle(&pass).await;
    let target = converge::choose(&pass, &desired);
    let outcome = converge::converge(&mut pass, target).await?;
    if let converge::Outcome::Held(remaining) = outcome {
        return Ok(Action::requeue(remaining));
    }
    let report = report::report(&pass, &desired, &outcome);
    pass.write(report.status).await?;
    if let Some(ready) = &report.ready {
        log(&pass.owner.name, ready);
    }
    if let Some(contested) = &report.contested {
        pass.context.events.tell(pass.deployment.object_ref(&()), Tone::Warning, contested).await;
    }
    if report.settled {
        old_bundles::delete(&pass, &desired).await?;
    }
    Ok(pass.schedule(report.next))
}

/// Says what became of a deployment, once.
fn log(deployment: &str, Condition { status, reason, message, .. }: &Condition) {
    match status {
        ConditionStatus::True => tracing::info!(deployment, message, "ready"),
        ConditionStatus::False => tracing::warn!(deployment, reason, message, "not as it is asked for"),
        ConditionStatus::Unknown => tracing::debug!(deployment, reason, message, "on the way"),
    }
}

/// After a pass that could not report.
pub fn error_policy(deployment: &BundleDeployment, error: &Error, context: &Context) -> Action {
    let class = match error {
        Error::Status(error) | Error::OldBundles(error) if error.is_conflict() || error.is_not_found() => Class::Stale,
        _ => Class::Transient,
    };
    let delay = context.failures.next_delay(&deployment.uid().unwrap_or_default(), class);
    if class == Class::Stale {
        tracing::debug!(deployment = %deployment.name_any(), error = %crate::error::Chain(error), "looking again");
    } else {
        tracing::warn!(deployment = %deployment.name_any(), error = %crate::error::Chain(error), ?delay, "reconcile failed; will retry");
    }
    Action::requeue(delay)
}

/// Queues do not take waits of years.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// When to look again without being woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// All is well, or a watch will wake us.
    Wait,
    /// After the wait that the failures in a row ask for.
    Retry(Class),
    /// After this long.
    After(Duration),
}

/// Looks whether the deployment is ours to work on, and gathers what a pass needs. No I/O.
fn observe(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Result<Option<Pass>, Error> {
    let is_ours = Format::of_class(&deployment.spec.provisioner_class_name).is_some();
    let is_deleted = deployment.meta().deletion_timestamp.is_some();
    if !is_ours || is_deleted || context.written.is_stale(&*deployment) {
        return Ok(None);
    }
    let owner = Owner { name: deployment.name_any(), uid: deployment.uid().ok_or(Error::NoUid)? };
    let mut status = deployment.status.clone().unwrap_or_default();
    status.observed_generation = deployment.meta().generation;
    Ok(Some(Pass {
        installation: context.installations.of(&owner),
        writer: StatusWriter::new(&context.client, &*deployment, deployment.status.as_ref()),
        owner,
        deployment,
        context,
        status,
        now: Timestamp::now(),
    }))
}

impl Pass {
    /// Makes `status` the status.
    async fn write(&mut self, status: BundleDeploymentStatus) -> Result<(), Error> {
        self.writer.write(&status, &self.context.written).await.map_err(Error::Status)?;
        self.status = status;
        Ok(())
    }

    fn schedule(&self, next: Next) -> Action {
        match next {
            Next::Wait => {
                self.context.failures.clear(&self.owner.uid);
                match self.installation.state().certificates_due {
                    Some(due) => {
                        Action::requeue(due.duration_since(SystemTime::now()).unwrap_or_default().min(LONGEST_WAIT))
                    }
                    None => Action::await_change(),
                }
            }
            Next::Retry(class) => {
                let delay = self.context.failures.next_delay(&self.owner.uid, class);
                self.installation.state().hold_until = Some(Instant::now() + delay);
                Action::requeue(delay)
            }
            Next::After(delay) => Action::requeue(delay),
        }
    }
}

/// A BundleDeployment is gone: garbage collection takes its objects, we forget what we know and let its content go.
pub async fn gone(context: &Arc<Context>, name: &str) {
    context.installations.forget(name);
    context.dependents.retain(&context.installations.kinds());
    let store = context.store.clone();
    let name = name.to_owned();
    collected(move || {
        store.remove_ref(rukpak_store::RefKind::Deployment, &name)?;
        store.collect().map(|_| ())
    })
    .await;
}

/// After the first list: content that no deployment of `live` has installed may go.
pub async fn sweep(context: &Arc<Context>, live: &std::collections::BTreeSet<String>) {
    let store = context.store.clone();
    let live = live.clone();
    collected(move || {
        for name in store.refs(rukpak_store::RefKind::Deployment)?.into_keys().filter(|name| !live.contains(name)) {
            store.remove_ref(rukpak_store::RefKind::Deployment, &name)?;
        }
        store.collect().map(|_| ())
    })
    .await;
}

async fn collected(work: impl FnOnce() -> Result<(), rukpak_store::Error> + Send + 'static) {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = %crate::error::Chain(&error), "content could not be collected"),
        Err(error) => tracing::warn!(%error, "content could not be collected"),
    }
}
