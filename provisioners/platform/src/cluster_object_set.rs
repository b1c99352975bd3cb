//! The ClusterObjectSet reconciler: resolve -> apply a BundleDeployment for each phase -> report (pure).
//!
//! ```text
//! known       what was read of a set and has not changed since              pure
//! content     what the phases hold, from the set itself and from Secrets    API server
//! probes      what is asked of objects, as checks of a BundleDeployment     pure
//! deployment  the BundleDeployments of the phases, and what they install    API server
//! report      what is known to a status                                     pure
//! ```
//!
//! The BundleDeployment of a phase depends on that of the phase before, and is deleted before it. No finalizer: deletion is garbage
//! collection by owner references.

mod content;
mod deployment;
mod known;
mod probes;
mod report;
mod start;

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use kube::{Client, Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::cluster_object_set::LifecycleState;
use rukpak_crds::olm::{ClusterObjectSet, ClusterObjectSetStatus, PROGRESSING, UPSTREAM_FINALIZERS};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::api;
use rukpak_runtime::clock;
use rukpak_runtime::error::Chain;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::finalizers::strip;
use rukpak_runtime::status::{StatusWriter, WrittenVersions};

use self::known::{Known, KnownSets};
use self::report::{PhaseState, Report};
use super::cluster_catalog::changed;
use super::events::Events;
use super::outcome::{Error, class};

pub(crate) use start::{Sets, Wake};

/// Name of the CRD.
const DEFINITION: &str = "clusterobjectsets.olm.operatorframework.io";
/// What nobody tells of is looked at again so often: Secrets that have to become immutable.
const AGAIN: Duration = Duration::from_mins(1);

/// What every reconcile of a ClusterObjectSet is handed.
pub(crate) struct Context {
    pub client: Client,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// Where the content of BundleDeployments lies.
    pub system_namespace: String,
    pub failures: Failures,
    pub known: KnownSets,
    /// Of what was written of sets and of BundleDeployments, whoever they are of.
    pub written: Arc<WrittenVersions>,
    pub events: Arc<Events>,
}

/// Why nothing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    message: String,
    /// When to try again; `None` if the set, or what it names, has to be changed.
    retry: Option<Class>,
}

impl Fault {
    fn blocked(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: None }
    }

    fn retried(message: impl Into<String>, class: Class) -> Self {
        Self { message: message.into(), retry: Some(class) }
    }

    /// Of a request for `what`.
    fn of(what: &str, error: &api::Error) -> Self {
        Self::retried(format!("{what}: {}", Chain(error)), class(error))
    }
}

/// One reconcile of a ClusterObjectSet.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub(crate) async fn reconcile(set: Arc<ClusterObjectSet>, context: Arc<Context>) -> Result<Action, Error> {
    if context.written.is_stale(&*set) {
        return Ok(Action::await_change());
    }
    if set.meta().deletion_timestamp.is_some() {
        strip(&context.client, &*set, &UPSTREAM_FINALIZERS).await.map_err(Error::Metadata)?;
        return Ok(Action::await_change());
    }
    // A revision of a ClusterExtension, which has a BundleDeployment of its own: operator-controller made it, or it shows that.
    if set.is_left_alone() {
        return Ok(Action::await_change());
    }

    let (report, retry) = outcome(&set, &context).await;
    let now = clock::now();
    write(&set, &report::status(&set, &report, now), &context).await?;
    if report.is_over() {
        strip(&context.client, &*set, &UPSTREAM_FINALIZERS).await.map_err(Error::Metadata)?;
    }

    let uid = set.uid().unwrap_or_default();
    let wait = match retry {
        None => {
            context.failures.clear(&uid);
            matches!(report, Report::Blocked(_)).then_some(AGAIN)
        }
        Some(class) => Some(retry::delay(class, context.failures.another(&uid))),
    };
    let deadline = report::deadline(&set).and_then(|until| Duration::try_from(until.duration_since(now)).ok());
    let deadline = deadline.filter(|left| !left.is_zero());
    Ok(wait.into_iter().chain(deadline).min().map_or_else(Action::await_change, Action::requeue))
}

/// Has the objects installed or deleted; what came of it, and when to look again if nobody tells us.
async fn outcome(set: &ClusterObjectSet, context: &Context) -> (Report, Option<Class>) {
    let done = match set.spec.lifecycle_state {
        LifecycleState::Archived => deployment::archive(set, context).await,
        LifecycleState::Active => install(set, context).await,
    };
    match done {
        Ok(report) => (report, None),
        Err(Fault { message, retry: None }) => (Report::Blocked(message), None),
        Err(Fault { message, retry }) => (Report::Retrying(message), retry),
    }
}

/// Has the objects installed: the BundleDeployments are made in their order, and wait for one another.
async fn install(set: &ClusterObjectSet, context: &Context) -> Result<Report, Fault> {
    let stamps = content::stamps(set, context).await?;
    if let Some(known) = context.known.of(set, &stamps)
        && let Some(states) = standing(set, &known, context).await?
    {
        return Ok(Report::Phases { states, observed: known.observed.clone() });
    }

    let phases = content::resolve(set, context).await?;
    let observed = content::observed(set, &phases)?;
    let mut wanted = Vec::with_capacity(phases.len());
    let mut before: Option<String> = None;
    for phase in phases.iter().filter(|phase| !phase.objects.is_empty()) {
        let checks = probes::checks(&set.spec.progression_probes, &phase.objects)?;
        let (next, secrets) = deployment::wanted(set, phase, (checks, before.take()), context)?;
        before = Some(next.deployment.clone());
        wanted.push((next, secrets));
    }

    // All of them were looked at before anything is applied.
    let mut states = Vec::with_capacity(wanted.len());
    for (wanted, secrets) in &wanted {
        let deployment = deployment::keep(set, wanted, secrets, context).await?;
        states.push(report::phase(wanted.index, &wanted.name, &deployment));
    }
    let wanted = wanted.into_iter().map(|(wanted, _)| wanted).collect();
    let generation = set.metadata.generation;
    context.known.learn(set, Known { generation, stamps, wanted, observed: observed.clone() });
    Ok(Report::Phases { states, observed })
}

/// How the phases are, if each has its BundleDeployment and what that installs: no manifest is read or written then.
async fn standing(set: &ClusterObjectSet, known: &Known, context: &Context) -> Result<Option<Vec<PhaseState>>, Fault> {
    let mut states = Vec::with_capacity(known.wanted.len());
    for wanted in &known.wanted {
        let Some(deployment) = deployment::standing(set, wanted, context).await? else { return Ok(None) };
        states.push(report::phase(wanted.index, &wanted.name, &deployment));
    }
    Ok(Some(states))
}

/// Writes the status, and tells of the progress if it is another.
async fn write(set: &ClusterObjectSet, status: &ClusterObjectSetStatus, context: &Context) -> Result<(), Error> {
    let mut writer = StatusWriter::new(&context.client, set, set.status.as_ref());
    let is_written = writer.write(status, &context.written).await.map_err(Error::Status)?;
    crate::outcome::of_progress(&status.conditions, is_written);
    if !is_written {
        return Ok(());
    }
    let old = set.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    for (before, now) in changed(old, &status.conditions).filter(|(_, now)| now.type_ == PROGRESSING) {
        let (reason, detail) = (&now.reason, &now.message);
        tracing::info!(set = %set.name_any(), status = ?now.status, reason, detail, "status of ClusterObjectSet changed");
        context.events.tell_condition(set.object_ref(&()), before, now);
    }
    Ok(())
}
