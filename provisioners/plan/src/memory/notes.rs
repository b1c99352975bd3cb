//! What is asked of the memory, and what is noted in it while things are done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rukpak_content::Digest;
use rukpak_crds::{ReleasedObject, names};
use rukpak_plain::ObjectKey;

use super::{Failure, Installation, Memory, Pause, Traits};
use crate::Release;
use crate::applied::Objects;
use crate::approval::Question;
use crate::conflict::Repairs;
use crate::fields::Taken;
use crate::missing::Missing;
use crate::observed::Observed;
use crate::prune::Pruning;
use crate::rewrite::Rewrite;

/// How the cluster stands to a release, and what fails.
impl Memory {
    /// How the cluster stands to a release.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// What that release has beside its objects.
    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Stands for the authorities that were applied; `None` also after a restart.
    pub fn authorities(&self) -> Option<&Digest> {
        self.traits.authorities.as_ref()
    }

    /// The last attempt at what is to be in the cluster, if it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether the last attempt failed: at what is to be in the cluster, or at an upgrade.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some() || self.is_upgrade_held()
    }

    /// Whether the last attempt at another release than the installed one failed.
    pub fn is_upgrade_held(&self) -> bool {
        self.failed_upgrade.is_some()
    }

    /// These Namespaces and CRDs of others are used as they are.
    pub fn learn_used(&mut self, used: Vec<String>) {
        if let Installation::Applied { differences, .. } = &mut self.installation {
            differences.used = used;
        }
    }

    /// Whether an object of the installed release is left as it is because it says so.
    pub fn learn_paused(&mut self, key: &ObjectKey, is_paused: bool) {
        let Installation::Applied { differences, .. } = &mut self.installation else { return };
        if is_paused {
            differences.paused.insert(key.clone());
        } else {
            differences.paused.remove(key);
        }
    }

    /// Some of these objects of the installed release were applied again, so that the proof is another. `own`: what is not used as
    /// somebody else's.
    pub fn learn_objects(&mut self, own: &BTreeSet<String>, objects: &Objects, now: Timestamp) {
        if let Installation::Applied { applied, differences, .. } = &mut self.installation {
            differences.used.retain(|used| !own.contains(used));
            *applied = applied.again(&differences.used, objects);
            self.told.learn_repair(now);
        }
    }

    /// What is gone of what left `release`, which is installed.
    pub fn learn_pruned(&mut self, release: &Release, pruned: Pruning) {
        if let Installation::Applied { applied, pruning, .. } = &mut self.installation
            && applied.release() == release
        {
            *pruning = pruned;
        }
    }
}

/// What is waited for.
impl Memory {
    /// Whether content has to be fetched again before anything goes on.
    pub fn is_refetching(&self) -> bool {
        self.pause == Pause::Content
    }

    /// Content has to be fetched again.
    pub fn learn_refetching(&mut self) {
        self.pause = Pause::Content;
    }

    /// Until when the first lists are waited for.
    pub(crate) fn awaits_lists_until(&self) -> Option<Timestamp> {
        match self.pause {
            Pause::Lists(until) => Some(until),
            Pause::None | Pause::Content => None,
        }
    }

    /// Whether the process began by looking at what the one before had left.
    pub(crate) fn has_resumed(&self) -> bool {
        self.resuming_since.is_some()
    }

    /// Whether something came that was waited for, and nothing was written since.
    pub(crate) fn is_unblocked(&self) -> bool {
        self.is_unblocked
    }

    /// Since when an upgrade that was begun waits for the Bundle of the template that came after it.
    pub(crate) fn waits_for_bundle_since(&self) -> Option<Timestamp> {
        self.waits_for_bundle_since
    }

    /// The Bundle was created.
    pub fn learn_created(&mut self, bundle: String, now: Timestamp) {
        self.created_bundle = Some((bundle, now));
    }

    /// Nobody serves these kinds, and `release` waits for them.
    pub fn learn_unserved(&mut self, release: Release, missing: Vec<Missing>) {
        self.waits_for_kinds = Some((release, missing));
    }

    /// Takes out the kinds that `release` was refused for, to look whether they are still missing.
    pub fn take_unserved(&mut self, release: &Release) -> Option<Vec<Missing>> {
        self.waits_for_kinds.take_if(|(waiting, _)| waiting == release).map(|(_, missing)| missing)
    }

    /// Whether `release` was refused because of kinds that nobody serves.
    pub(crate) fn waits_for_kinds(&self, release: &Release) -> bool {
        self.waits_for_kinds.as_ref().is_some_and(|(waiting, _)| waiting == release)
    }
}

/// What is remembered of objects.
impl Memory {
    /// The repairs of objects that were repaired lately.
    pub(crate) fn repairs(&self) -> &BTreeMap<ObjectKey, Repairs> {
        &self.repairs
    }

    /// The repairs of an object, which is repaired now.
    pub fn repairs_of(&mut self, key: &ObjectKey) -> &mut Repairs {
        self.repairs.entry(key.clone()).or_default()
    }

    /// Whether the object was repaired lately.
    pub fn is_repaired(&self, key: &ObjectKey) -> bool {
        self.repairs.contains_key(key)
    }

    /// These fields of the object are ours: the others of `set` are left to nobody.
    pub fn learn_own(&mut self, key: &ObjectKey, set: &serde_json::Value) {
        if let Some(repairs) = self.repairs.get_mut(key) {
            repairs.own(set);
        }
    }

    /// Fields of the object that are left to others; `None` if it was not repaired lately.
    pub fn relinquished(&self, key: &ObjectKey) -> Option<&BTreeSet<Taken>> {
        self.repairs.get(key).map(Repairs::relinquished)
    }

    /// Whether fields of the object are left to others.
    pub fn is_contested(&self, key: &ObjectKey) -> bool {
        self.relinquished(key).is_some_and(|fields| !fields.is_empty())
    }

    /// Whether a reconcile was asked for, and something is to be repaired still.
    pub(crate) fn makes_again(&self) -> bool {
        self.makes_again
    }

    /// Whether an object that somebody deletes stays deleted until a reconcile is asked for, or everything is applied: a CRD that
    /// installations have in common. Whoever deletes it deletes the objects of all of them with it, on purpose, and waits for its end.
    pub fn leaves_deleted(&self, observed: &Observed, key: &ObjectKey) -> bool {
        observed.is_in_common(key) && !self.makes_again
    }

    /// Objects that were left in the cluster, as long as no status says so.
    pub fn released(&self) -> &[ReleasedObject] {
        &self.released
    }

    /// These objects were left in the cluster.
    pub fn learn_released(&mut self, objects: impl IntoIterator<Item = ReleasedObject>) {
        self.released.extend(objects);
    }

    /// These are not left in the cluster any more.
    pub fn forget_released(&mut self, is_over: impl Fn(&ReleasedObject) -> bool) {
        self.released.retain(|object| !is_over(object));
    }

    /// How far the stored objects of a CRD are migrated.
    pub fn rewrite(&self, crd: &str) -> Option<&Rewrite> {
        self.rewrites.get(crd)
    }

    /// Takes that out: the migration goes on, or is over.
    pub fn take_rewrite(&mut self, crd: &str) -> Option<Rewrite> {
        self.rewrites.remove(crd)
    }

    /// The stored objects of a CRD are migrated so far.
    pub fn learn_rewritten(&mut self, crd: &str, rewrite: Rewrite) {
        self.rewrites.insert(crd.to_owned(), rewrite);
    }
}

/// What was told, asked and kept.
impl Memory {
    /// A status says everything: what was repaired, and what was left in the cluster.
    pub fn learn_reported(&mut self) {
        self.released.clear();
        self.told.proof_due = None;
    }

    /// Whether the store keeps these contents, and no others, for the deployment.
    pub fn keeps(&self, contents: &BTreeSet<Digest>) -> bool {
        self.kept_contents.as_ref() == Some(contents)
    }

    /// The store keeps these contents.
    pub fn learn_kept(&mut self, contents: BTreeSet<Digest>) {
        self.kept_contents = Some(contents);
    }

    /// Whether the release that is asked for may be installed, and what was answered.
    pub fn question(&self) -> Option<&Question> {
        self.question.as_deref()
    }

    /// That is asked.
    pub fn learn_asked(&mut self, question: Question) {
        self.question = Some(Box::new(question));
    }

    /// It is asked no more.
    pub fn forget_question(&mut self, is_over: impl FnOnce(&Question) -> bool) {
        self.question.take_if(|question| is_over(question));
    }

    /// Whether the releases of Helm are to be deleted now: the deployment's annotation asks for it, they may be there, and all that Helm
    /// installed is taken over, so everything is applied and what left the bundle is gone.
    pub fn deletes_helm_releases(&mut self, observed: &Observed) -> bool {
        let is_requested = observed.annotation(names::DELETE_HELM_RELEASES) == Some("true");
        self.has_no_helm_releases &= is_requested;
        let is_complete = match &self.installation {
            Installation::Applied { applied, pruning, .. } => *pruning == Pruning::Done && applied.missing().is_empty(),
            Installation::Unknown | Installation::Partial { .. } => false,
        };
        is_requested && is_complete && !self.has_no_helm_releases
    }

    /// There are no releases of RukPak v0.16 any more.
    pub fn learn_helm_releases_deleted(&mut self) {
        self.has_no_helm_releases = true;
    }
}
