//! From what is known to the status. Upstream's conditions, reasons and messages are to the letter.

mod summary;

use jiff::Timestamp;
use rukpak_crds::condition::{
    ConditionStatus, Conditions, DEFINITION_DELETED, HAS_VALID_BUNDLE, HEALTHY, INSTALLED, NewCondition, READY,
    RECONCILING, reason,
};
use rukpak_crds::{BundleDeploymentStatus, Condition, ContestedField, Progress, ReleasedObject, RevisionResult};

use self::summary::{Summary, unpack_failure, wait};
use crate::applied::{Objects, are_healthy, complaints, known_complaints};
use crate::decide::{Target, is_load_failure, target};
use crate::health::State;
use crate::memory::{Failure, Installation, Memory, Reason};
use crate::observed::{Desired, Observed};
use crate::prune::Pruning;
use crate::{Release, history, opt_out};

/// Fields or objects that others keep changing (additive).
pub const CONTESTED: &str = "Contested";
/// Bundles claim to be generated for the deployment and are not (additive).
pub const FOREIGN_BUNDLES: &str = "ForeignBundles";
/// Kinds of its objects cannot be watched (additive; the reason is upstream's).
pub const UNWATCHED: &str = "Unwatched";
/// Nothing is written for the deployment (additive).
pub const SUSPENDED: &str = "Suspended";

/// The first conditions of the list; others follow as they came.
const ORDER: [&str; 5] = [HAS_VALID_BUNDLE, READY, INSTALLED, HEALTHY, RECONCILING];

/// The status to write, and what it says in short.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The status.
    pub status: BundleDeploymentStatus,
    /// Whether the desired Bundle is installed, and healthy where that counts: older Bundles can go.
    pub is_settled: bool,
}

/// The status of a deployment of which `objects` are in the cluster. It begins with `draft`: the last one, and what was noted since.
pub fn status(
    observed: &Observed,
    draft: &BundleDeploymentStatus,
    memory: &Memory,
    objects: &Objects,
    now: Timestamp,
) -> Report {
    let target = target(observed, memory, now);
    let is_doubted = is_doubted(observed, memory);
    let complaints = match memory.installation() {
        Installation::Applied { .. } => complaints(objects),
        Installation::Partial { .. } if is_doubted => doubts(observed, objects),
        Installation::Unknown | Installation::Partial { .. } => Vec::new(),
    };
    let mut writer = Writer {
        observed,
        memory,
        target,
        is_doubted,
        complaints,
        are_healthy: are_healthy(objects),
        is_known_unhealthy: !known_complaints(objects).is_empty(),
        deleted: deleted(observed, memory, objects),
        now,
        status: draft.clone(),
    };
    writer.status.observed_generation = observed.deployment.metadata.generation;
    writer.acknowledge();
    writer.bundle();
    writer.installed();
    writer.history();
    writer.progress();
    writer.health();
    writer.contested();
    writer.definitions();
    writer.suspended();
    writer.unwatched();
    writer.foreign_bundles();
    let summary = writer.summary();
    writer.summarise(&summary);
    // Whatever was said first: clients show them in the order of the list.
    let rank = |condition: &Condition| ORDER.iter().position(|type_| *type_ == condition.type_).unwrap_or(ORDER.len());
    writer.status.conditions.sort_by_key(rank);
    let is_wanted = writer.is_applied() && writer.target.held.is_none() && !writer.target.is_rollback;
    Report { is_settled: summary == Summary::Ready && is_wanted, status: writer.status }
}

/// Names of the CRDs that somebody has deleted, and that are made again on request. What is being applied makes them again by itself.
fn deleted(observed: &Observed, memory: &Memory, objects: &Objects) -> Vec<String> {
    if memory.applied().is_none() {
        return Vec::new();
    }
    let gone = objects.iter().filter(|(_, tracked)| tracked.health.state == State::NotFound);
    gone.filter(|(key, _)| memory.leaves_deleted(observed, key)).map(|(key, _)| key.name.clone()).collect()
}

struct Writer<'a> {
    observed: &'a Observed,
    memory: &'a Memory,
    target: Target,
    /// Whether what the status says is installed was not seen so by this process.
    is_doubted: bool,
    complaints: Vec<String>,
    /// Whether everything was read, and is healthy.
    are_healthy: bool,
    /// Whether something was read, and is not.
    is_known_unhealthy: bool,
    /// Names of CRDs that were deleted and are not made again.
    deleted: Vec<String>,
    now: Timestamp,
    status: BundleDeploymentStatus,
}

impl Writer<'_> {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let generation = self.observed.deployment.metadata.generation;
        let new = NewCondition { type_, status, reason, message };
        self.status.conditions.set(new, generation, self.now);
    }

    fn acknowledge(&mut self) {
        let requested = self.observed.annotation(rukpak_crds::names::RECONCILE_REQUESTED_AT);
        self.status.last_handled_reconcile_at = requested.map(str::to_owned);
    }

    /// What failed last: an upgrade, or what is to be in the cluster anyway.
    fn failure(&self) -> Option<&Failure> {
        let failure = self.memory.failure();
        // What failed before something else was asked for is no news any more.
        let failure = failure.filter(|failure| self.target.release.as_ref() == Some(&failure.release));
        self.failed_upgrade().or(failure)
    }

    /// What `Installed` tells of that: what is put off was not tried, what waits for a hook has not failed, and what is installed stays so.
    fn told_failure(&self) -> Option<&Failure> {
        self.failure().filter(|failure| !failure.problem.stage.is_open())
    }

    /// The failed upgrade in whose place the release before is guarded.
    fn failed_upgrade(&self) -> Option<&Failure> {
        self.memory.held_upgrade(self.target.wanted.as_ref()?)
    }

    /// `HasValidBundle`: True while waiting, as upstream's clients rely on.
    fn bundle(&mut self) {
        use ConditionStatus::{False, True, Unknown};
        match &self.observed.desired {
            Desired::Unknown { message, .. } => {
                self.set(HAS_VALID_BUNDLE, Unknown, reason::RECONCILE_FAILED, message);
            }
            Desired::Absent { bundle, .. } | Desired::Waiting { bundle, .. } => {
                self.set(HAS_VALID_BUNDLE, True, reason::UNPACK_PENDING, &wait(bundle));
            }
            desired @ Desired::Failed { .. } => {
                self.set(HAS_VALID_BUNDLE, False, reason::UNPACK_FAILED, &unpack_failure(desired));
            }
            Desired::Ready { bundle, release, .. } => {
                let unloadable =
                    self.failure().filter(|failure| is_load_failure(failure) && failure.release == *release);
                if let Some(failure) = unloadable {
                    let message = failure.message();
                    self.set(HAS_VALID_BUNDLE, False, reason::BUNDLE_LOAD_FAILED, &message);
                    return;
                }
                let message = format!("Successfully unpacked the {bundle} Bundle");
                self.set(HAS_VALID_BUNDLE, True, reason::UNPACK_SUCCESSFUL, &message);
            }
        }
    }

    /// `Installed`, `activeBundle` and what is installed; they keep their values while there is nothing new to say.
    fn installed(&mut self) {
        if let Installation::Applied { applied, pruning, differences } = self.memory.installation() {
            let inventory = self.status.inventory.get_or_insert_default();
            let is_news = Release::installed(inventory).as_ref() != Some(applied.release());
            applied.write(inventory);
            opt_out::write(&differences.paused, inventory);
            inventory.certificates_renewal =
                self.memory.traits().certificates_due.and_then(|due| Timestamp::from_second(due.as_second()).ok());
            inventory.properties.clone_from(&self.memory.traits().properties);
            inventory.namespace.clone_from(&self.memory.traits().namespace);
            inventory.proxy = differences.proxy.as_ref().map(ToString::to_string);
            inventory.unlisted = match pruning {
                Pruning::Pending { unlisted, .. } => unlisted.clone(),
                Pruning::Done | Pruning::Awaiting { .. } | Pruning::Held { .. } => Vec::new(),
            };
            // If the report of an upgrade was lost, and the template has changed, nobody knows the name of its Bundle.
            let active = self.active(applied.release());
            self.status.active_bundle = active.or_else(|| self.status.active_bundle.take().filter(|_| !is_news));
        }
        let is_going_forward = |failure: &Failure| self.failed_upgrade().is_none() && is_interrupted(failure);
        let failure =
            self.told_failure().filter(|failure| !is_load_failure(failure) && !is_going_forward(failure)).cloned();
        if let Some(failure) = failure {
            let mut message = failure.message();
            if let Some(kept) = self.kept().filter(|_| failure.reason.installed() == Reason::UpgradeFailed.installed())
            {
                message.push_str("; the previous release is installed again, except that ");
                message.push_str(&kept);
            }
            self.set(INSTALLED, ConditionStatus::False, failure.reason.installed(), &message);
            return;
        }
        if self.is_doubted && self.status.conditions.is(INSTALLED, ConditionStatus::True) {
            let message = self.unseen();
            self.set(INSTALLED, ConditionStatus::Unknown, reason::NOT_OBSERVED, message);
        }
        let Some(release) = self.memory.applied() else { return };
        let is_wanted = self.target.wanted.as_ref() == Some(release);
        // What an upgrade failed with stands until another one succeeds; only a repair that failed is over.
        let failed = self.status.conditions.find(INSTALLED).filter(|now| now.status == ConditionStatus::False);
        let is_over =
            self.told_failure().is_none() && failed.is_none_or(|failed| failed.reason == reason::RECONCILE_FAILED);
        if is_wanted || is_over {
            // If the first report was lost, and the template changed meanwhile, the Bundle's name is not known any more.
            let active = self.status.active_bundle.clone().unwrap_or_else(|| release.content.to_string());
            let message = format!("Instantiated bundle {active} successfully");
            self.set(INSTALLED, ConditionStatus::True, reason::INSTALLATION_SUCCEEDED, &message);
        }
    }

    /// What stays as it is in the cluster.
    fn kept(&self) -> Option<String> {
        let Installation::Applied { differences, .. } = self.memory.installation() else { return None };
        (!differences.kept.is_empty()).then(|| bounded(&differences.kept, "; "))
    }

    /// The Bundle that an installed release is of.
    fn active(&self, release: &Release) -> Option<String> {
        match &self.observed.desired {
            Desired::Ready { bundle, release: desired, .. } if desired == release => Some(bundle.clone()),
            _ => {
                let known = self.observed.status.history.iter();
                let mut known = known.filter(|revision| Release::read(&revision.release).as_ref() == Some(release));
                known.find_map(|revision| revision.bundle.clone())
            }
        }
    }

    fn history(&mut self) {
        let wanted = self.target.wanted.clone();
        let failed = wanted.as_ref().and_then(|wanted| self.memory.held_upgrade(wanted));
        // What may pass by itself is no result yet.
        let failed = failed.filter(|failure| failure.problem.is_definite());
        if let Some(failure) = failed {
            let is_late = failure.reason == Reason::DeadlineExceeded;
            let result = if is_late { RevisionResult::DeadlineExceeded } else { RevisionResult::Failed };
            let told = (result, failure.problem.message.as_str());
            history::failed(&mut self.status, self.observed, &failure.release, told, self.now);
        }
        if let Some(release) = self.memory.applied().filter(|release| self.memory.held_upgrade(release).is_none()) {
            history::applied(&mut self.status, self.observed, release, failed.is_some(), self.now);
            if self.are_healthy {
                history::healthy(&mut self.status, release);
            }
        }
    }

    /// Since when the deadline counts: as long as a deployment is suspended, none does.
    fn progress(&mut self) {
        let is_counted = !self.observed.deployment.spec.suspend && self.observed.progress_deadline().is_some();
        let deadline = self.observed.deployment.spec.progress_deadline.clone().filter(|_| is_counted);
        self.status.progress = deadline.map(|deadline| {
            let known = self.status.progress.take().filter(|known| known.deadline == deadline);
            known.unwrap_or_else(|| Progress { deadline, since: history::whole_second(self.now) })
        });
    }

    /// `Healthy`, where the gate is on.
    fn health(&mut self) {
        use ConditionStatus::{False, True, Unknown};
        if !self.observed.health_gate {
            self.status.conditions.drop_type(HEALTHY);
        } else if self.status.conditions.is(INSTALLED, False) {
            let message = "Installed condition is false";
            self.set(HEALTHY, False, reason::INSTALLATION_STATUS_FALSE, message);
        } else if self.memory.applied().is_some() {
            if self.complaints.is_empty() {
                self.set(HEALTHY, True, reason::HEALTHY, "BundleDeployment is healthy");
            } else {
                let message = self.complaints.join("\n");
                self.set(HEALTHY, False, reason::UNHEALTHY, &message);
            }
        } else if !self.complaints.is_empty() {
            let message = self.complaints.join("\n");
            self.set(HEALTHY, False, reason::UNHEALTHY, &message);
        } else if self.status.conditions.find(HEALTHY).is_some() {
            self.set(HEALTHY, Unknown, reason::NOT_OBSERVED, self.unseen());
        }
    }

    fn contested(&mut self) {
        if self.memory.applied().is_none() {
            return;
        }
        let lines: Vec<String> = self
            .memory
            .repairs()
            .iter()
            .flat_map(|(key, repairs)| {
                let now = self.now;
                let fields = repairs.relinquished().iter().map(move |field| {
                    format!("{key}: {} is left to {:?}, which keeps changing it", field.words(), field.manager)
                });
                let slowed = repairs
                    .is_slowed(now)
                    .then(|| format!("{key}: is changed or deleted again and again; it is repaired ever more slowly"));
                fields.chain(slowed)
            })
            .collect();
        let fields = self.contested_fields();
        self.status.inventory.get_or_insert_default().contested = fields;
        if lines.is_empty() {
            self.status.conditions.drop_type(CONTESTED);
        } else {
            self.set(CONTESTED, ConditionStatus::True, "FieldsLeftToOthers", &bounded(&lines, "\n"));
        }
    }

    fn contested_fields(&self) -> Vec<ContestedField> {
        let all = self.memory.repairs().iter();
        all.flat_map(|(key, repairs)| {
            repairs.relinquished().iter().map(move |field| ContestedField {
                group: key.group.clone(),
                kind: key.kind.clone(),
                namespace: key.namespace.clone().unwrap_or_default(),
                name: key.name.clone(),
                path: field.path.clone(),
                manager: field.manager.clone(),
            })
        })
        .collect()
    }

    fn suspended(&mut self) {
        if self.observed.deployment.spec.suspend {
            let message = "spec.suspend is true: nothing is installed, upgraded or repaired";
            self.set(SUSPENDED, ConditionStatus::True, "Suspended", message);
        } else {
            self.status.conditions.drop_type(SUSPENDED);
        }
    }

    /// Whoever has them made again looks here: `Ready` may tell of an upgrade meanwhile that waits for its approval.
    fn definitions(&mut self) {
        if self.deleted.is_empty() {
            self.status.conditions.drop_type(DEFINITION_DELETED);
            return;
        }
        // With every name, where `Ready` has as many as fit: requirements of ClusterServiceVersions are looked up in this message.
        let message = deleted_text(&self.deleted.join(", "));
        self.set(DEFINITION_DELETED, ConditionStatus::True, reason::DEFINITION_DELETED, &message);
    }

    fn unwatched(&mut self) {
        if self.observed.unwatched.is_empty() {
            self.status.conditions.drop_type(UNWATCHED);
            return;
        }
        let kinds = bounded(&self.observed.unwatched, "\n");
        let message = format!("changes of objects of these kinds are not seen, and not repaired: {kinds}");
        self.set(UNWATCHED, ConditionStatus::True, reason::CREATE_DYNAMIC_WATCH_FAILED, &message);
    }

    fn foreign_bundles(&mut self) {
        if self.observed.foreign_bundles.is_empty() {
            self.status.conditions.drop_type(FOREIGN_BUNDLES);
            return;
        }
        let message = format!(
            "these Bundles carry the owner reference of this BundleDeployment, but were not generated by it; they are ignored, \
             and should be deleted: {}",
            bounded(&self.observed.foreign_bundles, ", ")
        );
        self.set(FOREIGN_BUNDLES, ConditionStatus::True, "NotGenerated", &message);
    }
}

/// Whether nobody in this process has seen the objects of what the status says is installed, or they were not as they had been left.
/// An upgrade that is under way is another matter: what is installed until it is done is known.
fn is_doubted(observed: &Observed, memory: &Memory) -> bool {
    match memory.installation() {
        Installation::Unknown => observed.installed().is_some(),
        Installation::Partial { release } => memory.has_resumed() && observed.installed().as_ref() == Some(release),
        Installation::Applied { .. } => false,
    }
}

/// What is wrong with what is in the cluster by its owner labels, as far as that is known without the content.
fn doubts(observed: &Observed, objects: &Objects) -> Vec<String> {
    let mut doubts = complaints(objects);
    let installed = observed.inventory().objects.unwrap_or_default();
    let found = i64::try_from(objects.len()).unwrap_or(i64::MAX);
    if found < installed {
        doubts.push(format!("{found} of {installed} objects are in the cluster"));
    }
    doubts
}

/// Whether an upgrade was interrupted in the middle and goes on by itself: that is no outcome yet.
fn is_interrupted(failure: &Failure) -> bool {
    failure.reason == Reason::UpgradeFailed && !failure.problem.is_definite() && failure.way_back.is_none()
}

/// An object that was left in the cluster, in words.
pub(crate) fn released_text(object: &ReleasedObject) -> String {
    let place =
        if object.namespace.is_empty() { String::new() } else { format!(" in namespace {:?}", object.namespace) };
    format!(
        "{} {:?}{place}: {}; deleting it loses that: by hand, or before it leaves the bundle with the annotation {}=\"true\"",
        object.kind,
        object.name,
        object.reason,
        rukpak_crds::names::ALLOW_DELETION
    )
}

/// So many lines say it all to a reader; the condition that upstream has lists the rest.
const LINES: usize = 10;

fn bounded(lines: &[String], between: &str) -> String {
    let mut text = lines.iter().take(LINES).cloned().collect::<Vec<_>>().join(between);
    if lines.len() > LINES {
        text.push_str(between);
        text.push_str("and ");
        text.push_str(&(lines.len() - LINES).to_string());
        text.push_str(" more");
    }
    text
}

fn deleted_text(names: &str) -> String {
    format!(
        "CustomResourceDefinition {names} was deleted, with all objects of its kind; a new value of the annotation {} has it \
         made again",
        rukpak_crds::names::RECONCILE_REQUESTED_AT
    )
}

#[cfg(test)]
mod tests;
