//! What a reconcile starts from: the deployment, its Bundle, what it depends on, what the watches have seen. Reads caches only.

mod bundles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{ConditionStatus, Conditions, READY};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, InventoryKind};
use rukpak_format::Proxy;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{complaints, rendered_for, using};
use rukpak_plan::memory::Memory;
use rukpak_plan::observed::{Dependencies, DependencyGraph, Observed};
use rukpak_plan::owner::{self, Predecessors};
use rukpak_plan::prune::add_released;
use rukpak_plan::{Format, Owner};
use rukpak_runtime::status::StatusWriter;
use tokio::time::Instant;

use super::Error;
use crate::cluster::{self, Writer};
use crate::context::{Context, Reads};
use crate::tracker::Tracker;

pub(crate) use bundles::{desired, generated, is_generated, owned};

/// What one reconcile knows, and what it may read. Nothing in it writes to the cluster.
pub(crate) struct View {
    pub owner: Owner,
    pub observed: Observed,
    /// What the next status begins with: the last one, and what was noted since.
    pub draft: BundleDeploymentStatus,
    pub memory: Memory,
    pub tracker: Arc<Tracker>,
    /// The proxy that operators are told of in this reconcile.
    pub proxy: Proxy,
    pub reads: Arc<Reads>,
}

/// One reconcile: its view, and the ways to write.
pub(crate) struct Run {
    pub view: View,
    pub context: Arc<Context>,
    /// Every write to the objects of the bundle, with the rights that the deployment names.
    pub objects: Writer,
    writer: StatusWriter<BundleDeployment>,
    /// When the deployment was last known to ask for what this reconcile is about.
    confirmed: Mutex<Instant>,
}

/// The deployment was changed, deleted or given to another controller meanwhile.
pub(crate) struct Superseded;

/// So long it counts that the deployment asked for something. An answer costs one request, which is nothing in an installation that
/// takes longer.
const TRUSTED: Duration = Duration::from_secs(5);

/// Looks whether the deployment is ours to work on, and gathers what a reconcile needs.
#[expect(clippy::needless_pass_by_value, reason = "the run owns it, as it does the context")]
pub(crate) fn observe(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Result<Option<Run>, Error> {
    let is_ours = Format::of_class(&deployment.spec.provisioner_class_name).is_some();
    if !is_ours || context.written.is_stale(&*deployment) {
        return Ok(None);
    }
    let owner = Owner { name: deployment.name_any(), uid: deployment.uid().ok_or(Error::NoUid)? };

    let tracker = context.reads.trackers.of(&owner);
    let mut memory = tracker.take_memory();
    let status = deployment.status.clone().unwrap_or_default();
    let mut draft = status.clone();
    if !memory.released().is_empty() {
        let inventory = draft.inventory.get_or_insert_default();
        add_released(&mut inventory.released, memory.released().iter().cloned());
    }

    let is_touched = !context.written.is_last(&*deployment);
    let is_unblocked = std::mem::take(&mut tracker.tracked().is_unblocked);
    let kinds = status.inventory.iter().flat_map(|inventory| &inventory.kinds);
    let proxy = context.reads.proxy.get();
    let observed = Observed {
        unwatched: context.reads.dependents.refused(kinds),
        status,
        desired: desired(&context, &owner, &deployment),
        dependencies: dependencies(&context.reads, &deployment),
        dependants: dependants(&context.reads, &owner.name),
        foreign_bundles: bundles::foreign(&context.reads, &owner, &deployment),
        drifted: BTreeSet::new(),
        is_touched,
        is_unblocked,
        health_gate: context.reads.settings.health_gate,
        proxy: proxy.digest(),
        deployment: deployment.clone(),
    };

    memory.refresh(&observed, context.reads.now());
    if std::mem::take(&mut tracker.tracked().has_left) {
        memory.learn_gone(context.reads.now());
    }
    if std::mem::take(&mut tracker.tracked().is_hook_over) {
        memory.learn_hook_over(context.reads.now());
    }

    let writer = StatusWriter::new(&context.client, &*deployment, deployment.status.as_ref());
    let objects = context.cluster.writer(deployment.spec.service_account.as_ref());
    let view = View { owner, observed, draft, memory, tracker, proxy, reads: context.reads.clone() };
    Ok(Some(Run { view, context, objects, writer, confirmed: Mutex::new(Instant::now()) }))
}

impl View {
    /// Whether the deployment is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.observed.deployment.meta().deletion_timestamp.is_some()
    }

    /// Whose objects may be taken over, beside those that say so.
    pub fn predecessors(&self) -> Predecessors<'_> {
        Predecessors {
            system_namespace: &self.reads.settings.system_namespace,
            extension: owner::extension(&self.observed.deployment.metadata),
        }
    }

    /// What makes the objects of `release`, whose they are, and how they are applied.
    pub fn renderer(&self, release: &rukpak_plan::Release) -> String {
        let renderer = rukpak_format::renderer(release, self.reads.settings.bundle_certificates);
        rendered_for(&renderer, &self.observed.deployment.spec)
    }

    /// The same, and which CRDs of other BundleDeployments it uses.
    pub fn renderer_using(&self, release: &rukpak_plan::Release, used: &[String]) -> String {
        using(&self.renderer(release), used)
    }

    /// The kinds that may have objects of the deployment.
    pub fn kinds(&self) -> BTreeSet<InventoryKind> {
        self.draft.inventory.iter().flat_map(|inventory| inventory.kinds.iter().cloned()).collect()
    }

    /// Takes what the watches have put into the inbox: objects that really differ from what was applied.
    pub fn look(&mut self) {
        let mut tracked = self.tracker.tracked();
        let seen = |key: &ObjectKey| {
            let seen = self.reads.dependents.get(key)?;
            Some(((*seen.owner).clone(), seen.fingerprint))
        };
        tracked.collect_drift(&self.owner, seen, self.reads.dependents.inherited(&self.owner));
        let is_left = |key: &&ObjectKey| {
            self.memory.leaves_deleted(&self.observed, key) && self.reads.dependents.get(key).is_none()
        };
        let drifted = tracked.drifted.iter().filter(|key| !is_left(key)).cloned().collect();
        self.observed.drifted = drifted;
        // What could not be repaired stands as it was applied: the answer was lost, or somebody put it back.
        if self.observed.drifted.is_empty() {
            self.memory.learn_repaired();
        }
    }

    /// Notices that the installed release is healthy, or that an upgrade was not healthy in time.
    pub fn notice_health(&mut self, now: Timestamp) {
        let objects = &self.tracker.tracked().objects;
        if complaints(objects).is_empty() {
            self.memory.learn_healthy(now);
        }
        let is_late = self.memory.notice_deadline(&self.observed, objects, now);
        if is_late {
            tracing::warn!(deployment = %self.owner.name, "progress deadline exceeded; rolling back to the revision before");
        }
    }

    /// Puts the memory back, and the news that nobody has acted upon.
    pub fn give_back(&mut self) {
        self.tracker.tracked().is_unblocked |= self.observed.is_unblocked;
        self.remember();
    }

    /// Puts the memory back for the next reconcile.
    pub fn remember(&mut self) {
        self.tracker.put_memory(std::mem::take(&mut self.memory));
    }

    /// Whether the deployment is still there and not being deleted, as a watch saw it last.
    pub fn is_there(&self) -> bool {
        let now = self.reads.deployments.get(&ObjectRef::new(&self.owner.name));
        now.is_some_and(|now| {
            now.metadata.uid.as_ref() == Some(&self.owner.uid) && now.metadata.deletion_timestamp.is_none()
        })
    }

    /// Whether the deployment, as a watch saw it last, still asks for what this reconcile is about.
    pub fn is_current(&self) -> bool {
        let now = self.reads.deployments.get(&ObjectRef::new(&self.owner.name));
        now.is_some_and(|now| self.is_about(&now.metadata))
    }

    /// Whether this reconcile is about the deployment with this metadata: nobody has changed its spec, deleted it, or given it to another
    /// shard. Of one that was being deleted already, nobody has changed what becomes of its objects: a finalizer may say that they stay.
    fn is_about(&self, now: &ObjectMeta) -> bool {
        let then = &self.observed.deployment.metadata;
        let is_ending_alike = match then.deletion_timestamp {
            None => now.deletion_timestamp.is_none(),
            Some(_) => now.finalizers == then.finalizers,
        };
        let is_same = now.uid == then.uid && now.generation == then.generation && is_ending_alike;
        is_same && self.reads.settings.shard.is_unmoved(then.labels.as_ref(), now.labels.as_ref())
    }
}

impl Run {
    /// Makes `status` the status, if it is not already. Returns whether it was written.
    ///
    /// # Errors
    /// A conflict if the deployment was changed meanwhile.
    pub async fn write(&mut self, status: BundleDeploymentStatus) -> Result<bool, Error> {
        let is_written = self.writer.write(&status, &self.context.written).await.map_err(Error::Status)?;
        self.view.observed.status.clone_from(&status);
        self.view.draft = status;
        Ok(is_written)
    }

    /// Asks the API server, not a cache, whether the deployment still asks for what this reconcile is about. A watch may have hung, and
    /// this process with it.
    pub async fn is_wanted(&self) -> Result<bool, cluster::Error> {
        let live = self.context.cluster.deployment(&self.view.owner.name).await?;
        let is_wanted = live.is_some_and(|live| self.view.is_about(&live));
        if is_wanted {
            *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        Ok(is_wanted)
    }

    /// Goes on only if the deployment still asks for what this reconcile is about. No answer counts as no: the next reconcile asks again.
    pub async fn confirm(&self) -> Result<(), Superseded> {
        match self.is_wanted().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Superseded),
            Err(error) => {
                tracing::debug!(deployment = %self.view.owner.name, %error, "cannot ask whether the BundleDeployment has changed");
                Err(Superseded)
            }
        }
    }

    /// Whether it was asked so long ago, or this process stood still for so long, that it has to be asked again where nothing but the
    /// answer prevents that an object is made for nobody.
    pub fn is_doubtful(&self) -> bool {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= TRUSTED
    }
}

/// Whether the deployments that this one depends on are ready.
fn dependencies(reads: &Reads, deployment: &BundleDeployment) -> Dependencies {
    if deployment.spec.depends_on.is_empty() {
        return Dependencies::Ready;
    }
    let needed = needed(reads, deployment);
    let graph: DependencyGraph<'_> = needed
        .iter()
        .map(|(name, other)| {
            let needed = other.spec.depends_on.iter().map(|dependency| dependency.name.as_str()).collect();
            (name.as_str(), (is_ready(other), needed))
        })
        .collect();
    Dependencies::of(&deployment.name_any(), &graph)
}

/// The deployments that depend on this one. Where they do so in a circle nobody would go first.
fn dependants(reads: &Reads, name: &str) -> Vec<String> {
    let is_there = |other: &String| reads.deployments.get(&ObjectRef::new(other)).is_some();
    let is_in_circle = |other: &String| reads.index.dependants_of(other).contains_key(name);
    let direct = reads.index.dependants_of(name).into_iter().filter(|(_, is_direct)| *is_direct);
    let mut names: Vec<String> = direct.map(|(other, _)| other).collect();
    names.retain(|other| other != name && is_there(other) && !is_in_circle(other));
    names.sort();
    names
}

/// The deployment and all that it depends on, at any distance, by name.
fn needed(reads: &Reads, deployment: &BundleDeployment) -> BTreeMap<String, Arc<BundleDeployment>> {
    let mut found = BTreeMap::new();
    let mut open = vec![deployment.name_any()];
    while let Some(name) = open.pop() {
        let Some(next) = reads.deployments.get(&ObjectRef::new(&name)) else { continue };
        if found.insert(name, next.clone()).is_none() {
            open.extend(next.spec.depends_on.iter().map(|dependency| dependency.name.clone()));
        }
    }
    found
}

/// Whether a deployment is ready as it is asked for now.
pub(crate) fn is_ready(deployment: &BundleDeployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.conditions.is(READY, ConditionStatus::True)
    })
}

/// Whether the content of a release can be fetched again: some Bundle of this deployment is pinned to it and does not fail.
pub(crate) fn can_refetch(run: &Run, content: &rukpak_content::Digest) -> bool {
    let content = content.to_string();
    owned(&run.view.reads, &run.view.owner, &run.view.observed.deployment).iter().any(|bundle| {
        let pin = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
        pin.is_some_and(|pin| pin.content_digest == content) && !bundle.is_in(rukpak_crds::BundlePhase::Failing)
    })
}
