//! What is known becomes the status, if it differs; and what follows from it: Events, a line in the log, old Bundles, the next
//! reconcile. The records of releases are ControllerRevisions in the system namespace; [`rukpak_plan::record`] decides what they say.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource};
use rukpak_crds::condition::{Conditions, NewCondition, READY, RECONCILING, STALLED, reason};
use rukpak_crds::names::{DELETION_IN_ORDER, FIELD_MANAGER, OBJECT_STATES, OWNER_NAME};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, Condition, ConditionStatus};
use rukpak_plan::decide::next;
use rukpak_plan::prune::Leaving;
use rukpak_plan::record::Recorded;
use rukpak_plan::records::{Due, Record, due};
use rukpak_plan::retry::{self, Class};
use rukpak_plan::status::{Report, status};
use rukpak_runtime::error::Chain;
use rukpak_runtime::events::{EventType, News};
use rukpak_runtime::metrics::{Outcome, count_reconcile};
use rukpak_runtime::traces;
use serde_json::{Value, json};

use super::observe::{Run, View, is_ready};
use super::{Error, execute, news};
use crate::cluster::{self, Deleted, Propagation};
use crate::context::Context;

/// Queues do not take waits of years.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// Writes the status. `decided`: when it was decided that there is nothing to do; what became due since is not forgotten.
pub(super) async fn report(run: &mut Run, decided: Timestamp) -> Result<Action, Error> {
    let now = run.view.reads.now();
    if let Some(until) = run.view.memory.silent_until(&run.view.observed, now) {
        return Ok(Action::requeue(Duration::try_from(until.duration_since(now)).unwrap_or_default()));
    }
    let before = run.view.observed.deployment.status.clone().unwrap_or_default();
    let Report { status, is_settled } = {
        let tracked = run.view.tracker.tracked();
        status(&run.view.observed, &run.view.draft, &run.view.memory, &tracked.objects, run.view.reads.now())
    };
    execute::collect::keep(run, &status).await.map_err(Error::Store)?;
    if !run.view.memory.puts_off(&run.view.observed, &status, now) {
        run.write(status).await?;
        run.view.memory.learn_reported();
    }
    tell(run, &before);
    write_records(run, &before).await;
    execute::approval::settle(run).await;
    if is_settled {
        execute::delete_old(run).await.map_err(Error::OldBundles)?;
    }
    if is_settled && run.view.memory.deletes_helm_releases(&run.view.observed) {
        delete_helm_releases(run).await.map_err(Error::HelmReleases)?;
    }
    Ok(schedule(run, decided))
}

/// Reason of the Event that names the releases of Helm that were deleted.
const HELM_RELEASES_DELETED: &str = "HelmReleasesDeleted";

/// Deletes Helm's releases of a deployment that RukPak v0.16 installed, `sh.helm.release.v1.NAME.vN` in the system namespace, and says
/// so. Nothing reads them once everything is taken over, and RukPak could not come back without them: so they are deleted on request
/// only.
async fn delete_helm_releases(run: &mut Run) -> Result<(), cluster::Error> {
    // Whoever copies Helm's labels has another name.
    let prefix = format!("sh.helm.release.v1.{}.v", run.view.owner.name);
    let mut deleted = Vec::new();
    for Leaving { identity, metadata } in execute::helm_releases(&run.view, None).await? {
        // With the rights of the deployment's ServiceAccount, if it names one.
        if identity.name.starts_with(&prefix)
            && run.objects.delete(&identity, &metadata, Propagation::Background).await? != Deleted::Absent
        {
            deleted.push(identity.name);
        }
    }
    run.view.memory.learn_helm_releases_deleted();
    if deleted.is_empty() {
        return Ok(());
    }
    let (names, namespace) = (deleted.join(", "), &run.view.reads.settings.system_namespace);
    tracing::info!(deployment = %run.view.owner.name, secrets = names, namespace, "Helm releases of RukPak v0.16 deleted");
    let message = format!("Deleted on request, in namespace {namespace:?}: Helm's releases {names}");
    let news = News { type_: EventType::Normal, reason: HELM_RELEASES_DELETED.to_owned(), message };
    run.context.events.tell(run.view.observed.deployment.object_ref(&()), &news);
    Ok(())
}

/// Has the status say how far an installation is that takes its time, and what else `note` writes into it.
pub(super) async fn progress(
    run: &mut Run,
    message: &str,
    note: impl FnOnce(&mut BundleDeploymentStatus),
    now: Timestamp,
) -> Result<(), Error> {
    let generation = run.view.observed.deployment.meta().generation;
    let mut status = run.view.draft.clone();
    for (type_, truth) in [(READY, ConditionStatus::Unknown), (RECONCILING, ConditionStatus::True)] {
        status.conditions.set(
            NewCondition { type_, status: truth, reason: reason::PROGRESSING, message },
            generation,
            now,
        );
    }
    status.conditions.drop_type(STALLED);
    note(&mut status);
    run.write(status).await.map(drop)
}

fn tell(run: &Run, before: &BundleDeploymentStatus) {
    let after = &run.view.observed.status;
    let said = |status: &BundleDeploymentStatus| {
        status.conditions.find(READY).map(|ready| (ready.status, ready.message.clone()))
    };
    let ready = after.conditions.find(READY).filter(|_| said(before) != said(after));
    let outcome = Outcome::of(ready);
    count_reconcile(super::KIND, outcome);
    let failed = ready.filter(|_| outcome == Outcome::Failed);
    traces::outcome(outcome.name(), failed.map(|ready| ready.message.as_str()));
    if let Some(ready) = ready {
        log(&run.view.owner.name, ready);
    }
    let is_rollback = run.view.observed.rollback_to().is_some();
    // Its owner sends an upload, and is told of one that was lost by the Bundle.
    let is_upload = run.view.observed.deployment.spec.template.spec.source.upload.is_some();
    let is_told = |news: &News| !is_upload || news.reason != reason::UNPACK_PENDING;
    for news in news::news(before, after, is_rollback).into_iter().filter(is_told) {
        log_news(&run.view.owner.name, before, &news);
        run.context.events.tell(run.view.observed.deployment.object_ref(&()), &news);
    }
}

/// Says what became of a deployment, once.
fn log(deployment: &str, Condition { status, reason, message, .. }: &Condition) {
    match status {
        ConditionStatus::True => tracing::info!(deployment, detail = message, "BundleDeployment is ready"),
        ConditionStatus::False => tracing::warn!(deployment, reason, detail = message, "BundleDeployment is not ready"),
        ConditionStatus::Unknown => {
            tracing::debug!(deployment, reason, detail = message, "BundleDeployment is in progress");
        }
    }
}

/// Says what was installed in the place of what, and when its health changes. What failed stands in the line that says "not ready".
fn log_news(deployment: &str, before: &BundleDeploymentStatus, news: &News) {
    let (reason, detail) = (&news.reason, &news.message);
    let from = before.active_bundle.as_deref();
    match news.reason.as_str() {
        reason::INSTALLATION_SUCCEEDED => tracing::info!(deployment, detail, "BundleDeployment installed"),
        news::UPGRADE_SUCCEEDED => tracing::info!(deployment, from, detail, "BundleDeployment upgraded"),
        news::ROLLBACK_SUCCEEDED => tracing::info!(deployment, from, detail, "BundleDeployment rolled back"),
        reason::HEALTHY => tracing::info!(deployment, "BundleDeployment is healthy"),
        reason::UNHEALTHY => tracing::warn!(deployment, detail, "BundleDeployment is not healthy any more"),
        _ => tracing::debug!(deployment, reason, detail, "Event written"),
    }
}

/// The deployments that depend on `name`, or wait for it in a circle, look whether they can go on.
pub fn enqueue_dependents(context: &Context, name: &str) {
    for (other, is_direct) in context.reads.index.dependants_of(name) {
        let is_waiting =
            || context.reads.deployments.get(&ObjectRef::new(&other)).is_some_and(|other| !is_ready(&other));
        if other != name && (is_direct || is_waiting()) {
            context.deployment_queue.add(&other);
        }
    }
}

/// Those that the deployment depended on may go now, if they wait for that.
pub fn enqueue_dependencies(context: &Context, gone: &BundleDeployment) {
    for dependency in &gone.spec.depends_on {
        context.deployment_queue.add(&dependency.name);
    }
}

fn schedule(run: &mut Run, decided: Timestamp) -> Action {
    if run.view.memory.is_refetching() {
        return Action::requeue(retry::delay(Class::Transient, run.context.failures.another(&run.view.owner.uid)));
    }
    let class = match &run.view.observed.desired {
        rukpak_plan::observed::Desired::Unknown { class, .. } => Some(*class),
        _ => None,
    };
    let retry = class.map(|class| retry::delay(class, run.context.failures.another(&run.view.owner.uid)));
    if retry.is_none() {
        run.context.failures.clear(&run.view.owner.uid);
    }
    let now = run.view.reads.now();
    let next = next(&run.view.observed, &run.view.memory, decided)
        .into_iter()
        .chain(execute::health::next_read(&run.view))
        .min();
    let wait = next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
    match wait.into_iter().chain(retry).min() {
        Some(wait) => Action::requeue(wait.min(LONGEST_WAIT)),
        None => Action::await_change(),
    }
}

/// How often a deletion that takes its time is looked at.
const DELETION_INTERVAL: Duration = Duration::from_secs(15);

/// A deployment that is being deleted: what is waited for, in words. `removed`: what the controller itself has deleted and waits for,
/// where it deletes in order.
pub(super) async fn deletion(run: &mut Run, removed: Option<Vec<String>>) -> Result<Action, Error> {
    let finalizers = run.view.observed.deployment.meta().finalizers.clone().unwrap_or_default();
    if finalizers.is_empty() {
        return Ok(Action::await_change());
    }
    let dependants = &run.view.observed.dependants;
    let is_held = finalizers.iter().any(|finalizer| finalizer == DELETION_IN_ORDER) && !dependants.is_empty();
    let now = run.view.reads.now();
    if removed.is_none()
        && !is_held
        && let Some(until) = run.view.memory.leaves_deletion_until(&run.view.observed, now)
    {
        return Ok(Action::requeue(Duration::try_from(until.duration_since(now)).unwrap_or_default()));
    }

    let message = if is_held {
        format!("waiting until the BundleDeployments that depend on it are gone: {}", dependants.join(", "))
    } else {
        let left = match removed {
            Some(left) => left,
            None => execute::leftovers(&run.view).await,
        };
        if left.is_empty() {
            format!("waiting for the finalizers of the BundleDeployment: {}", finalizers.join(", "))
        } else {
            format!("waiting until these objects are gone: {}", left.join("; "))
        }
    };
    let mut status = run.view.draft.clone();
    let new = NewCondition { type_: "Deleting", status: ConditionStatus::True, reason: "Deleting", message: &message };
    status.conditions.set(new, run.view.observed.deployment.meta().generation, now);
    run.write(status).await?;
    Ok(Action::requeue(DELETION_INTERVAL))
}

/// Brings the records up to the status, which was `before`. A record that cannot be written fails nothing: it is tried again when
/// there is something to report.
async fn write_records(run: &mut Run, before: &BundleDeploymentStatus) {
    let Due { record, change, obsolete } = {
        let tracked = run.view.tracker.tracked();
        due(&run.view.owner.name, &mut run.view.memory, &tracked.objects, before, &run.view.observed.status)
    };
    let api: Api<ControllerRevision> =
        Api::namespaced(run.context.client.clone(), &run.view.reads.settings.system_namespace);
    if let Some(Record { name, data, recorded }) = record {
        match create_record(&run.view, &api, &name, &data, &recorded).await {
            Ok(()) => run.view.memory.learn_recorded(name, recorded),
            Err(error) => warn_of_record(&run.view, &name, &error),
        }
    }
    if let Some((name, recorded)) = change {
        match change_record(&api, &name, &recorded).await {
            Ok(()) => run.view.memory.learn_record_changed(name, recorded),
            Err(error) => warn_of_record(&run.view, &name, &error),
        }
    }
    for name in obsolete {
        match api.delete(&name, &DeleteParams::default()).await.map_err(cluster::Error::from) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => warn_of_record(&run.view, &name, &error),
        }
        execute::forget_manifests(run, &name).await;
    }
}

fn warn_of_record(view: &View, name: &str, error: &cluster::Error) {
    tracing::warn!(deployment = %view.owner.name, record = name, error = %Chain(error), "cannot write the record of a release");
}

async fn create_record(
    view: &View,
    api: &Api<ControllerRevision>,
    name: &str,
    data: &Value,
    recorded: &Recorded,
) -> Result<(), cluster::Error> {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        // Without the label of the owner's kind: it is no object of the bundle.
        "metadata": {"name": name, "labels": {OWNER_NAME: view.owner.name}, "annotations": annotations(recorded),
            "ownerReferences": [view.owner.reference()]},
        "revision": recorded.revision,
        "data": data,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &parameters, &Patch::Apply(&body)).await.map_err(cluster::Error::from);
    match applied {
        // Nobody can change what is declared: an earlier version has read the content in another way.
        Err(error) if error.is_invalid() => {
            api.delete(name, &DeleteParams::default()).await.map_err(cluster::Error::from)?;
            api.patch(name, &parameters, &Patch::Apply(&body)).await.map_err(cluster::Error::from)?;
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Changes what may change. There is none where an earlier version has installed the release: it comes with the next installation.
async fn change_record(api: &Api<ControllerRevision>, name: &str, recorded: &Recorded) -> Result<(), cluster::Error> {
    let patch = json!({"metadata": {"annotations": annotations(recorded)}, "revision": recorded.revision});
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(name, &parameters, &Patch::Merge(&patch)).await.map_err(cluster::Error::from) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn annotations(recorded: &Recorded) -> Value {
    match &recorded.standing {
        Some(standing) => json!({OBJECT_STATES: json!(standing).to_string()}),
        None => json!({}),
    }
}
