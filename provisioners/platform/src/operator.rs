//! The PlatformOperator reconciler: observe -> its BundleDeployment -> choose and create, or follow the graph -> report.

mod deployment;
mod lookup;
mod report;
mod source;
mod standing;
mod step;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{Conditions, INSTALLED, READY};
use rukpak_crds::{BundleDeployment, ConditionStatus, PlatformOperator, PlatformOperatorStatus};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::api;
use rukpak_runtime::clock;
use rukpak_runtime::error::Chain;
use rukpak_runtime::status::StatusWriter;
use rukpak_runtime::warn_first;

use self::step::UpgradeState;
use super::context::Context;
use super::owned::Existing;

/// Why a pass ended early. The next one starts over from what is in the cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] api::Error),
    /// The BundleDeployment was changed before it could be pointed at the next version, or there was no answer.
    #[error("cannot upgrade the BundleDeployment")]
    Upgrade(#[source] api::Error),
    /// The BundleDeployment was changed before it could be made to say what the PlatformOperator says, or there was no answer.
    #[error("cannot set spec.approval, spec.windows or spec.config of the BundleDeployment")]
    Settings(#[source] api::Error),
    /// The object as it was read has no UID: it did not come from an API server.
    #[error("the object has no UID")]
    NoUid,
}

/// One pass: everything that the stages read and write.
struct Pass {
    operator: Arc<PlatformOperator>,
    name: String,
    uid: String,
    context: Arc<Context>,
    status: PlatformOperatorStatus,
    writer: StatusWriter<PlatformOperator>,
    /// State of the catalogs that it is about, see [`Catalogs::epoch`](super::catalogs::Catalogs::epoch).
    epoch: u64,
    now: Timestamp,
}

/// What came of a pass.
enum Outcome {
    /// Something must happen first that will wake us.
    Waiting(String),
    /// Another PlatformOperator has the package.
    Duplicate(String),
    /// Somebody else's BundleDeployment has the name.
    Foreign(String),
    /// No bundle could be chosen.
    NotSourced { message: String, hint: Option<String>, class: Class, is_unwatched: bool },
    /// The catalog states that the bundle cannot be installed.
    Unsupported(String),
    /// The API server refused the BundleDeployment.
    NotCreated { message: String, class: Class },
    /// The BundleDeployment is there.
    Deployed { deployment: Arc<BundleDeployment>, upgrade: UpgradeState },
}

/// One pass over a PlatformOperator.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub(super) async fn reconcile(operator: Arc<PlatformOperator>, context: Arc<Context>) -> Result<Action, Error> {
    tracing::debug!(operator = %operator.name_any(), "reconciling");
    let Some(mut pass) = observe(operator, context)? else { return Ok(Action::await_change()) };
    let existing = deployment::find(&pass);
    if let Some(Existing::Ours(live)) = &existing {
        // The event of our last write to it is still to come, and wakes us again.
        if pass.context.written.is_stale(&**live) || deployment::adjust(&pass, live).await? {
            return Ok(Action::await_change());
        }
    }
    let outcome = match existing {
        Some(Existing::Ours(deployment)) => {
            upgrade::settle(&mut pass, &deployment);
            if let Some(upgrade) = upgrade::decided(&pass, &deployment) {
                Outcome::Deployed { deployment, upgrade }
            } else {
                pass.report_first(&deployment).await?;
                if let Some(left) = pass.held() {
                    return Ok(Action::requeue(left));
                }
                match upgrade::follow(&mut pass, deployment).await? {
                    Some(outcome) => outcome,
                    None => return Ok(Action::await_change()),
                }
            }
        }
        Some(Existing::Foreign(message)) => Outcome::Foreign(message),
        Some(Existing::Leaving(message)) => Outcome::Waiting(message),
        None => match pass.held() {
            // Unless the status speaks of a BundleDeployment that is gone by now.
            Some(left) if !pass.status.conditions.is(INSTALLED, ConditionStatus::True) => {
                return Ok(Action::requeue(left));
            }
            _ => match install(&mut pass).await? {
                Some(outcome) => outcome,
                None => return Ok(Action::await_change()),
            },
        },
    };
    let retry = pass.report(&outcome).await?;
    Ok(pass.schedule(retry))
}

/// After a pass that could not report.
pub(super) fn error_policy(operator: &PlatformOperator, error: &Error, context: &Context) -> Action {
    let class = match error {
        Error::Status(error) | Error::Upgrade(error) | Error::Settings(error)
            if error.is_conflict() || error.is_not_found() =>
        {
            Class::Conflict
        }
        _ => Class::Transient,
    };
    let uid = operator.uid().unwrap_or_default();
    let delay = retry::delay(class, context.failures.another(&uid));
    if class == Class::Conflict {
        tracing::debug!(operator = %operator.name_any(), error = %Chain(error), "reconcile ended early; it runs again");
    } else {
        let (is_first, operator) = (context.failures.is_first(&uid), operator.name_any());
        warn_first!(is_first, operator, error = %Chain(error), ?delay, "reconcile failed; will retry");
    }
    Action::requeue(delay)
}

/// Looks whether there is something to do, and gathers what a pass needs. No I/O.
fn observe(operator: Arc<PlatformOperator>, context: Arc<Context>) -> Result<Option<Pass>, Error> {
    // What is being deleted keeps its BundleDeployment only until garbage collection has come to it.
    if operator.meta().deletion_timestamp.is_some() || context.written.is_stale(&*operator) {
        return Ok(None);
    }
    let mut status = operator.status.clone().unwrap_or_default();
    status.observed_generation = operator.meta().generation;
    Ok(Some(Pass {
        name: operator.name_any(),
        uid: operator.uid().ok_or(Error::NoUid)?,
        writer: StatusWriter::new(&context.client, &*operator, operator.status.as_ref()),
        epoch: context.catalogs.epoch(lookup::wanted(&operator, &status)),
        operator,
        context,
        status,
        now: clock::now(),
    }))
}

/// Chooses a bundle and makes the BundleDeployment for it. `None` if something else happened to the PlatformOperator
/// that wakes us again, or nobody is left to be woken.
async fn install(pass: &mut Pass) -> Result<Option<Outcome>, Error> {
    if let Some(message) = source::conflict(pass) {
        return Ok(Some(Outcome::Duplicate(message)));
    }
    let chosen = match source::choose(pass).await {
        Ok(Some(chosen)) => chosen,
        Ok(None) => return Ok(None),
        Err(error @ (source::Error::Unsupported(_) | source::Error::Unmet { .. } | source::Error::Digest(_))) => {
            return Ok(Some(Outcome::Unsupported(error.to_string())));
        }
        Err(error @ source::Error::Obtaining(_)) => return Ok(Some(Outcome::Waiting(error.to_string()))),
        Err(error) => {
            let message = Chain(&error).to_string();
            let (hint, class, is_unwatched) = (error.hint(), error.class(), error.is_unwatched());
            return Ok(Some(Outcome::NotSourced { message, hint, class, is_unwatched }));
        }
    };
    deployment::create(pass, chosen).await
}

impl Pass {
    /// Whether `operator` is what this pass is about: another spec is another choice, and its event wakes us.
    fn is_about(&self, operator: &PlatformOperator) -> bool {
        operator.uid().as_deref() == Some(&self.uid)
            && operator.meta().deletion_timestamp.is_none()
            && operator.meta().generation == self.operator.meta().generation
    }

    /// Says what came of it. Returns when to try again, if nobody tells us.
    async fn report(&mut self, outcome: &Outcome) -> Result<Option<Class>, Error> {
        self.now = clock::now();
        let before = self.status.clone();
        let report = report::report(self, outcome);
        self.write(report.status).await?;
        self.log(&before);
        self.context.events.tell(&self.operator, &before, &self.status);
        Ok(report.retry)
    }

    /// Logs what `Ready` says, where that is something else than `before`.
    fn log(&self, before: &PlatformOperatorStatus) {
        let ready = |status: &PlatformOperatorStatus| status.conditions.find(READY).cloned();
        let Some(now) = ready(&self.status) else { return };
        if ready(before).is_some_and(|before| (before.status, &before.reason) == (now.status, &now.reason)) {
            return;
        }
        let (operator, reason, message) = (&self.name, &now.reason, &now.message);
        if now.status == ConditionStatus::False {
            tracing::warn!(operator, reason, detail = message, "PlatformOperator is not ready");
        } else {
            tracing::info!(operator, reason, detail = message, ready = ?now.status, "status of PlatformOperator changed");
        }
    }

    /// Says what is known without asking a catalog, which may hang. It must be what the pass says in the end as well, or each
    /// pass would wake the next: so nothing while it is not known where the bundle came from.
    async fn report_first(&mut self, deployment: &Arc<BundleDeployment>) -> Result<(), Error> {
        if self.status.source.is_some() {
            let upgrade = UpgradeState::default();
            self.report(&Outcome::Deployed { deployment: deployment.clone(), upgrade }).await?;
        }
        Ok(())
    }

    /// How long catalogs are not to be asked again.
    fn held(&self) -> Option<Duration> {
        self.context.holds.left(&self.uid, self.operator.meta().generation, self.epoch)
    }

    fn schedule(&self, retry: Option<Class>) -> Action {
        let Some(class) = retry else {
            self.context.failures.clear(&self.uid);
            self.context.holds.clear(&self.uid);
            return Action::await_change();
        };
        let delay = retry::delay(class, self.context.failures.another(&self.uid));
        self.context.holds.set(&self.uid, delay, self.operator.meta().generation, self.epoch);
        Action::requeue(delay)
    }

    /// Makes `status` the status.
    async fn write(&mut self, status: PlatformOperatorStatus) -> Result<(), Error> {
        let is_written = self.writer.write(&status, &self.context.written).await.map_err(Error::Status)?;
        crate::outcome::of_ready(&status.conditions, is_written);
        self.status = status;
        Ok(())
    }
}
