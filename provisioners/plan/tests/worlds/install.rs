//! Installing a release, as `execute.rs`, `execute/members.rs` and `execute/apply.rs` do it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::{InventoryKind, ReleasedObject};
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{self, Applied};
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::inbox::Reaction;
use rukpak_plan::kind::is_crd;
use rukpak_plan::memory::{Differences, FORWARD_FOR, Installation, Problem, Stage, later};
use rukpak_plan::plan::{Missing, missing_text};
use rukpak_plan::prune::{Leaving, Pruning};
use rukpak_plan::put::Known;
use rukpak_plan::resolve::{Basis, Why};
use rukpak_plan::retry::Class;
use rukpak_plan::{Fingerprint, Identity, Owner, Phase, Plan, Release, Step, fields, health};
use serde_json::Value;

use super::{RENDERER, Run, Stop, key_of, put};
use crate::server::{Key, Request};
use crate::world::{NAMESPACE, metadata};

/// Why an installation did not end with everything applied.
enum Stopped {
    Failed(Problem),
    Early(Stop),
}

/// What was in the cluster before.
#[derive(Default)]
pub struct Bases {
    pub installed: Option<Rc<Plan>>,
    pub begun: Option<Rc<Plan>>,
    settled: BTreeSet<ObjectKey>,
}

#[derive(Default)]
pub struct Members {
    pub objects: BTreeMap<ObjectKey, Leaving>,
    /// Those of kinds of which nothing leaves, as the watches saw them last.
    watched: BTreeMap<ObjectKey, Fingerprint>,
    pub unlisted: Vec<InventoryKind>,
    pub why: Option<String>,
}

impl Run<'_> {
    pub(super) fn install(&mut self, release: &Release, why: Why) -> Result<(), Stop> {
        let now = self.world.now;
        match self.attempt(release, why) {
            Ok(()) => {
                self.known().failing_since = None;
                Ok(())
            }
            Err(Stopped::Failed(problem)) => {
                self.ended.story.push(format!("it fails: {}", problem.message));
                let known = &mut self.world.controllers[self.controller].known[self.deployment];
                let since = *known.failing_since.get_or_insert(now);
                let (may_pass, is_short) = (!problem.is_definite(), later(since, FORWARD_FOR) > now);
                self.memory.learn_failed(&self.observed, (release.clone(), why), problem, now);
                let is_begun = self.observed.pending().is_some_and(|(pending, _)| pending == *release);
                let is_held = self.memory.held_upgrade(release).is_some_and(|failure| failure.is_held(now));
                if may_pass && is_short && is_begun && is_held {
                    self.ended.violation =
                        Some("an upgrade is turned back by what may pass, before its five minutes".to_owned());
                }
                Ok(())
            }
            Err(Stopped::Early(stop)) => Err(stop),
        }
    }

    fn attempt(&mut self, release: &Release, why: Why) -> Result<(), Stopped> {
        self.still_missing(release, why)?;
        let plan = self.world.plan(release, self.deployment, !why.policy().waits_for_kinds);
        self.inbox().missing_groups = plan.missing_groups();
        self.refuse_missing(&plan, why)?;
        let mut bases = self.bases(&plan, why);
        let kinds: BTreeSet<InventoryKind> = self.observed.inventory().kinds.into_iter().collect();
        let members = self.members(&kinds, &plan)?;
        bases.settled = self.settled(&plan, &members, &bases);
        self.ask_rights(plan.steps.values()).map_err(Stopped::Early)?.map_err(Stopped::Failed)?;
        if why.policy().tries_first {
            self.try_out(&plan, why, &members, &bases)?;
        }
        let used = kinds.into_iter().chain(plan.inventory()).collect();
        if !self.intend(used, &plan).map_err(Stopped::Early)? {
            self.confirm().map_err(Stopped::Early)?;
        }
        self.begin(&plan);
        let (used, kept) = self.apply(&plan, why, &members, &bases)?;
        self.finish(&plan, members, (&bases, why), &used, kept)
    }

    /// A release that waits for kinds is not planned again before one of them is served.
    fn still_missing(&mut self, release: &Release, why: Why) -> Result<(), Stopped> {
        let waits =
            self.memory.waits_for_kinds.take_if(|(waiting, _)| waiting == release && why.policy().waits_for_kinds);
        let Some((_, missing)) = waits else { return Ok(()) };
        if missing.iter().all(|missing| self.is_served(&missing.kind)) {
            return Ok(());
        }
        let refusal = refusal(&missing);
        self.memory.waits_for_kinds = Some((release.clone(), missing));
        Err(refusal)
    }

    fn refuse_missing(&mut self, plan: &Plan, why: Why) -> Result<(), Stopped> {
        let blocking: Vec<Missing> = plan.blocking().into_iter().cloned().collect();
        if blocking.is_empty() || !why.policy().waits_for_kinds {
            return Ok(());
        }
        let refusal = refusal(&blocking);
        self.memory.waits_for_kinds = Some((plan.release.clone(), blocking));
        Err(refusal)
    }

    fn bases(&self, plan: &Plan, why: Why) -> Bases {
        let mut bases = Bases::default();
        let Some(other) = self.memory.release_before(&self.observed, &plan.release, why) else { return bases };
        let prepared = Some(self.world.plan(&other, self.deployment, true));
        if why == Why::WayBack {
            bases.begun = prepared;
        } else {
            bases.installed = prepared;
        }
        bases
    }

    /// Whether each write of the release before was answered.
    fn is_clean(&self) -> bool {
        let is_applied = matches!(self.memory.installation, Installation::Applied { pruning: Pruning::Done, .. });
        is_applied && self.memory.failed_upgrade.is_none()
    }

    fn members(&mut self, kinds: &BTreeSet<InventoryKind>, plan: &Plan) -> Result<Members, Stopped> {
        let (mut watched, mut others) = (BTreeMap::new(), BTreeSet::new());
        for kind in kinds {
            match self.staying(kind, plan) {
                Some(objects) => watched.extend(objects),
                None => drop(others.insert(kind.clone())),
            }
        }
        let listed = self.list(&others).map_err(Stopped::Early)?;
        Ok(Members { watched, ..listed })
    }

    fn staying(&mut self, kind: &InventoryKind, plan: &Plan) -> Option<BTreeMap<ObjectKey, Fingerprint>> {
        if !self.is_clean() {
            return None;
        }
        let is_of = |key: &ObjectKey| key.group == kind.group && key.kind == kind.kind;
        let this = &self.world.controllers[self.controller];
        let seen = this.seen.iter().filter(|(key, seen)| is_of(key) && seen.owner == self.owner);
        let mut watched: BTreeMap<_, _> = seen.map(|(key, seen)| (key.clone(), seen.fingerprint.clone())).collect();
        let mut count = 0;
        for (key, object) in this.known[self.deployment].inbox.objects.iter().filter(|(key, _)| is_of(key)) {
            count += 1;
            let seen = watched.get_mut(key).filter(|seen| seen.is_owned() && plan.steps.contains_key(key))?;
            if seen.version? < object.fingerprint.version? {
                seen.clone_from(&object.fingerprint);
            }
        }
        (count == watched.len()).then_some(watched)
    }

    pub(super) fn list(&mut self, kinds: &BTreeSet<InventoryKind>) -> Result<Members, Stop> {
        let mut members = Members::default();
        let by_kind: BTreeMap<(&str, &str), &InventoryKind> =
            kinds.iter().map(|kind| ((kind.group.as_str(), kind.kind.as_str()), kind)).collect();
        for kind in by_kind.into_values() {
            let Some(found) = self.world.kind(&kind.kind, &kind.version) else { continue };
            let labels =
                [("core.rukpak.io/owner-kind", "BundleDeployment"), ("core.rukpak.io/owner-name", &self.owner.name)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
            let version = found.resource.version.clone();
            let Ok(list) = self.send(&Request::List { kind: kind.kind.clone(), version, labels })? else {
                members.why.get_or_insert_with(|| format!("{} cannot be listed", kind.kind));
                members.unlisted.push(kind.clone());
                continue;
            };
            let all = list["items"].as_array().into_iter().flatten().map(metadata);
            for metadata in all.filter(|metadata| self.owner.owns_fully(metadata)) {
                let name = metadata.name.clone().unwrap_or_default();
                let namespace = found.namespaced.then(|| NAMESPACE.to_owned());
                let identity = Identity { kind: found.clone(), namespace, name };
                members.objects.insert(identity.key(), Leaving { identity, metadata: Arc::new(metadata) });
            }
        }
        Ok(members)
    }

    fn settled(&mut self, plan: &Plan, members: &Members, bases: &Bases) -> BTreeSet<ObjectKey> {
        let objects = self.inbox().objects.clone();
        let (Some(installed), Installation::Applied { applied, differences, .. }) =
            (&bases.installed, &self.memory.installation)
        else {
            return BTreeSet::new();
        };
        let is_proven = *applied.release() == installed.release
            && applied.proves(&self.renderer(), &objects)
            && differences.kept.is_empty();
        if !is_proven {
            return BTreeSet::new();
        }
        let stands = |key: &ObjectKey| {
            let (Some(now), Some(applied)) = (members.fingerprint(key, &self.owner), objects.get(key)) else {
                return false;
            };
            applied.fingerprint.drift(&now) == Drift::None
        };
        let is_contested =
            |key: &ObjectKey| self.memory.repairs.get(key).is_some_and(|repairs| !repairs.relinquished().is_empty());
        let unchanged = plan.steps.values().filter(|step| !bases.is_changed(step)).map(|step| &step.key);
        unchanged.filter(|key| stands(key) && !is_contested(key)).cloned().collect()
    }

    pub(super) fn renderer(&self) -> String {
        applied::rendered_for(RENDERER, &self.observed.deployment.spec)
    }

    /// Whether the account may write these objects. As `execute/rights.rs`.
    pub(super) fn ask_rights<'s>(
        &mut self,
        steps: impl Iterator<Item = &'s Step>,
    ) -> Result<Result<(), Problem>, Stop> {
        let account = self.observed.deployment.spec.service_account.clone().map(|account| account.name);
        let keys: Vec<Key> = steps.map(|step| key_of(&step.identity).0).collect();
        if account.is_some() && !self.ask("ask what the account may do", |_| {})? {
            return Ok(Err(Problem::unanswered("nobody says what the account may do".to_owned())));
        }
        if let Some(key) = keys.iter().find(|key| self.world.lacks(account.as_deref(), key)) {
            let message = format!("the account lacks rights: {} {:?}", key.kind, key.name);
            return Ok(Err(Problem::blocked(Stage::Rights, message)));
        }
        let asked = &mut self.world.deployments[self.deployment].asked;
        for key in keys {
            match &account {
                Some(account) => drop(asked.insert(key, account.clone())),
                None => drop(asked.remove(&key)),
            }
        }
        Ok(Ok(()))
    }

    /// The dry run of what changes.
    fn try_out(&mut self, plan: &Plan, why: Why, members: &Members, bases: &Bases) -> Result<(), Stopped> {
        for step in plan.steps.values().filter(|step| bases.is_changed(step) && !step.defined_here) {
            let chosen = Self::basis(bases, step, why);
            let relinquished = self.relinquished(&step.key);
            let chosen = Basis { relinquished: relinquished.as_ref(), ..chosen };
            let tried = self.put(step, members.known(&step.key), &chosen, true).map_err(Stopped::Early)?;
            if let Err(refused) = tried
                && !(is_crd(&step.key) && matches!(refused, put::Error::InTheWay(_)))
            {
                let class = if refused.is_transient() { Class::Transient } else { Class::Terminal };
                let message = refused.message();
                return Err(Stopped::Failed(Problem { stage: Stage::Check, message, class, can_go_back: true }));
            }
        }
        Ok(())
    }

    fn basis(bases: &Bases, step: &Step, why: Why) -> Basis<'static> {
        let body = |plan: &Option<Rc<Plan>>| plan.as_ref().and_then(|plan| plan.steps.get(&step.key)).map(Step::body);
        Basis::plain(why, body(&bases.installed))
    }

    pub(super) fn relinquished(&self, key: &ObjectKey) -> Option<BTreeSet<fields::Taken>> {
        self.memory.repairs.get(key).map(|repairs| repairs.relinquished().clone())
    }

    fn intend(&mut self, kinds: BTreeSet<InventoryKind>, plan: &Plan) -> Result<bool, Stop> {
        let (mut status, now) = (self.observed.status.clone(), self.world.now);
        let inventory = status.inventory.get_or_insert_default();
        inventory.kinds = kinds.into_iter().collect();
        plan.release.begin_in(inventory, now);
        self.write_status(status)
    }

    fn begin(&mut self, plan: &Plan) {
        self.memory.learn_begun(&mut self.observed, plan);
        let inbox = self.inbox();
        inbox.drifted.clear();
        inbox.declined.clear();
    }

    /// Object by object, phase by phase. Returns what is used as it is, and what is kept.
    fn apply(
        &mut self,
        plan: &Plan,
        why: Why,
        members: &Members,
        bases: &Bases,
    ) -> Result<(BTreeSet<ObjectKey>, Vec<String>), Stopped> {
        let (mut used, mut kept, mut collisions) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut ending = BTreeSet::new();
        for phase in Phase::ALL {
            let (mut is_first, mut failed) = (true, Vec::new());
            let is_barred = |step: &&Step, ending: &BTreeSet<String>| {
                let resource = &step.identity.kind.resource;
                ending.contains(&format!("{}.{}", resource.plural, resource.group))
            };
            let steps = plan.phase(phase).filter(|step| !bases.settled.contains(&step.key));
            let steps: Vec<&Step> = steps.filter(|step| !is_barred(step, &ending)).collect();
            for step in steps {
                if std::mem::take(&mut is_first) && !self.is_current() {
                    return Err(Stopped::Early(Stop::Superseded));
                }
                let relinquished = self.relinquished(&step.key);
                let chosen = Basis { relinquished: relinquished.as_ref(), ..Self::basis(bases, step, why) };
                match self.put(step, members.known(&step.key), &chosen, false).map_err(Stopped::Early)? {
                    Ok(put::Outcome::Applied(written, keeps)) => {
                        kept.extend(keeps);
                        if let Some(set) = fields::applied(&metadata(&written), FIELD_MANAGER) {
                            self.memory.repairs.entry(step.key.clone()).and_modify(|repairs| repairs.own(set));
                        }
                        self.note(step, &written);
                    }
                    Ok(put::Outcome::Used) => drop(used.insert(step.key.clone())),
                    Err(put::Error::Deleted) => return Err(Stopped::Early(Stop::Superseded)),
                    Err(error @ put::Error::InTheWay(_)) if is_crd(&step.key) => {
                        ending.insert(step.key.name.clone());
                        collisions.push(error);
                    }
                    Err(error) => failed.push(error),
                }
            }
            if !why.policy().stops_at_collisions && failed.iter().all(put::Error::is_collision) {
                collisions.append(&mut failed);
            }
            Self::refuse(&failed, bases)?;
        }
        Self::refuse(&collisions, bases)?;
        Ok((used, kept))
    }

    fn refuse(failed: &[put::Error], bases: &Bases) -> Result<(), Stopped> {
        if failed.is_empty() {
            return Ok(());
        }
        let is_transient = failed.iter().all(put::Error::is_transient);
        let class = match () {
            () if is_transient => Class::Transient,
            () if failed.iter().any(put::Error::may_be_taken_over) => Class::Blocked,
            () => Class::Terminal,
        };
        let message = failed.iter().map(put::Error::message).collect::<Vec<_>>().join(", ");
        let can_go_back = bases.installed.is_some();
        Err(Stopped::Failed(Problem { stage: Stage::Apply, message, class, can_go_back }))
    }

    /// Whether the deployment asks for what this reconcile is about. As `View::is_about`.
    pub(super) fn is_current(&self) -> bool {
        let now = &self.world.deployments[self.deployment];
        let then = &self.observed.deployment.metadata;
        let is_ending_alike = now.is_terminating == then.deletion_timestamp.is_some();
        !now.is_deleted && is_ending_alike && Some(now.generation) == then.generation
    }

    /// As `apply::note` and `Tracker::applied`.
    pub(super) fn note(&mut self, step: &Step, written: &Value) {
        let (metadata, now) = (metadata(written), self.world.now);
        let fingerprint = Fingerprint::of(&metadata, &self.owner, FIELD_MANAGER);
        let health = health::assess(written, now);
        let object =
            applied::Tracked { identity: step.identity.clone(), fingerprint, health, is_read: true, read_at: now };
        let owner = self.owner.clone();
        let seen = self.seen(&step.key).cloned();
        let seen = seen.as_ref().map(|seen| (&seen.owner, &seen.fingerprint));
        let reaction = self.inbox().note_applied(&owner, &step.key, object, seen);
        self.known().is_due |= reaction == Reaction::Enqueue;
    }

    fn finish(
        &mut self,
        plan: &Plan,
        members: Members,
        (bases, why): (&Bases, Why),
        used: &BTreeSet<ObjectKey>,
        kept: Vec<String>,
    ) -> Result<(), Stopped> {
        self.inbox().objects.retain(|key, _| plan.steps.contains_key(key));
        let unlisted = members.unlisted.clone();
        let pruning = self.prune(members, bases, &plan.declared(NAMESPACE), why).map_err(Stopped::Early)?;
        let is_back =
            |object: &ReleasedObject| plan.steps.keys().any(|key| key.kind == object.kind && key.name == object.name);
        self.memory.released.retain(|object| !is_back(object));
        let inventory = self.observed.status.inventory.get_or_insert_default();
        inventory.released.retain(|object| !is_back(object));
        if pruning == Pruning::Done {
            let used = plan.inventory();
            let is_missing = |kind: &InventoryKind| {
                plan.missing.iter().any(|missing| missing.kind.group() == kind.group && missing.kind.kind == kind.kind)
            };
            inventory.kinds.retain(|kind| used.contains(kind) || unlisted.contains(kind) || is_missing(kind));
        }
        let renderer = self.renderer();
        let objects = self.inbox().objects.clone();
        let applied = Applied::by(plan, &renderer, &objects, |key| used.contains(key));
        let applied = applied.expect("because every write was answered");
        // The end of what is used is drift.
        self.known().blocking.clone_from(used);
        let spec = &self.observed.deployment.spec;
        let differences = Differences {
            used: used.iter().map(used_name).collect(),
            kept,
            policy: spec.deletion_policy.unwrap_or_default(),
            account: spec.service_account.clone().map(Box::new),
            ..Differences::default()
        };
        self.memory.learn_applied(applied, pruning, differences, self.world.now);
        Ok(())
    }
}

/// How a Namespace or CRD of somebody else is told of.
pub fn used_name(key: &ObjectKey) -> String {
    format!("{} {:?}", key.kind, key.name)
}

fn refusal(missing: &[Missing]) -> Stopped {
    let message = missing_text(&missing.iter().collect::<Vec<_>>());
    let (stage, class) = (Stage::Check, Class::Transient);
    Stopped::Failed(Problem { stage, message, class, can_go_back: true })
}

impl Members {
    fn known(&self, key: &ObjectKey) -> Option<Known> {
        if let Some(Fingerprint { uid, version, .. }) = self.watched.get(key) {
            return Some(Known { uid: uid.clone(), version: version.map(|version| version.to_string()) });
        }
        let metadata = &self.objects.get(key)?.metadata;
        fields::applied(metadata, FIELD_MANAGER)?;
        Some(Known { uid: metadata.uid.clone()?, version: metadata.resource_version.clone() })
    }

    fn fingerprint(&self, key: &ObjectKey, owner: &Owner) -> Option<Fingerprint> {
        if let Some(watched) = self.watched.get(key) {
            return Some(watched.clone());
        }
        let metadata = &self.objects.get(key)?.metadata;
        metadata.deletion_timestamp.is_none().then(|| Fingerprint::of(metadata, owner, FIELD_MANAGER))
    }
}

impl Bases {
    fn is_changed(&self, step: &Step) -> bool {
        let before = self.installed.as_ref().and_then(|plan| plan.steps.get(&step.key));
        before.is_none_or(|before| !before.is_same(step))
    }
}
