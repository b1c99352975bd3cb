//! What is done about an installed release: after a restart, and where objects have drifted. As `execute/repair.rs`.

use std::collections::BTreeSet;

use rukpak_crds::Inventory;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{self, Applied};
use rukpak_plan::health::{self, Health, State};
use rukpak_plan::kind::is_crd;
use rukpak_plan::memory::{Installation, Problem, Stage};
use rukpak_plan::plan::Missing;
use rukpak_plan::put::Known;
use rukpak_plan::resolve::{Basis, Why};
use rukpak_plan::{Fingerprint, Identity, Phase, Release, Step, fields};

use super::install::used_name;
use super::{Run, Stop, get, put};
use crate::server::Refusal;
use crate::world::{NAMESPACE, metadata};

impl Run<'_> {
    /// After a restart: whether what the watches show is what was applied.
    pub(super) fn resume(&mut self, release: &Release) -> Result<(), Stop> {
        let (now, owner) = (self.world.now, self.owner.clone());
        self.memory.begin_resuming(now);
        let inventory = self.observed.inventory();
        self.inbox().missing_groups = inventory.missing.iter().map(|object| object.group.clone()).collect();
        let Some(missing) = self.missing_still(&inventory) else {
            self.memory.learn_differs(release);
            return Ok(());
        };
        let seen: Vec<(ObjectKey, Fingerprint)> = {
            let seen = self.world.controllers[self.controller].seen.iter().filter(|(_, seen)| seen.owner == owner);
            seen.map(|(key, seen)| (key.clone(), seen.fingerprint.clone())).collect()
        };
        let mut objects = applied::Objects::new();
        for (key, fingerprint) in seen {
            let Some(kind) = self.world.kind(&key.kind, "v1") else { continue };
            let identity = Identity { kind, namespace: key.namespace.clone(), name: key.name.clone() };
            let health = if health::has_rule(&key.group, &key.kind) {
                self.read_health(&identity)?
            } else {
                Some(Health::new(State::Current, ""))
            };
            let object = self.inbox().adopt(&key, (identity, fingerprint), health, now);
            objects.insert(key, object);
        }
        for key in missing.iter().flat_map(|missing| missing.keys(NAMESPACE)) {
            objects.remove(&key);
        }
        let resumed = Applied::resumed(&inventory, release, &self.renderer(), &objects, missing);
        self.inbox().objects = objects;
        match resumed {
            Some(applied) => self.memory.learn_resumed(&self.observed, applied, now),
            None => self.memory.learn_differs(release),
        }
        Ok(())
    }

    /// What the status says is missing, if it still is.
    fn missing_still(&self, inventory: &Inventory) -> Option<Vec<Missing>> {
        let missing = inventory.missing.iter().map(|object| {
            let found = self.world.kind(&object.kind, &object.version);
            let is_missing = found.as_ref().is_none_or(|found| found.resource.version != object.version);
            is_missing.then(|| Missing::read(object, found))
        });
        missing.collect()
    }

    pub(super) fn repair(&mut self, release: &Release, objects: BTreeSet<ObjectKey>) -> Result<(), Stop> {
        let (plan, now) = (self.world.plan(release, self.deployment, true), self.world.now);
        self.inbox().missing_groups = plan.missing_groups();
        if let Err(problem) = self.ask_rights(plan.steps.values().filter(|step| objects.contains(&step.key)))? {
            for key in objects {
                self.memory.repairs.entry(key).or_default().failed(problem.class, now);
            }
            self.memory.learn_unrepaired(&self.observed, release.clone(), problem, now);
            return Ok(());
        }
        let mut left = objects;
        let (mut failed, mut is_stopped) = (Vec::new(), false);
        for phase in Phase::ALL {
            for step in plan.phase(phase).filter(|_| !is_stopped) {
                if left.remove(&step.key)
                    && let Err(error) = self.repair_one(step)?
                {
                    self.memory.repairs.entry(step.key.clone()).or_default().failed(error.class(), now);
                    failed.push(error);
                }
            }
            is_stopped = !failed.is_empty();
        }
        if failed.iter().any(put::Error::is_not_found) {
            return self.install(release, Why::Resync);
        }
        if failed.is_empty() {
            let tracked = self.inbox();
            tracked.drifted.retain(|key| !left.contains(key));
            let (missing, declined): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|key| tracked.objects.contains_key(key));
            tracked.declined.extend(declined);
            if !missing.is_empty() {
                self.memory.learn_missing(release.clone(), &plan.missing, now);
            }
        }
        let objects = self.inbox().objects.clone();
        if let Installation::Applied { applied, differences, .. } = &mut self.memory.installation {
            *applied = applied.again(&[], &objects);
            // What was inherited is not somebody else's any more.
            let is_shared = |key: &&ObjectKey| put::is_namespace(key) || is_crd(key);
            let own: BTreeSet<String> = objects.keys().filter(is_shared).map(used_name).collect();
            differences.used.retain(|used| !own.contains(used));
        }
        if self.inbox().drifted.is_empty() {
            self.memory.learn_repaired();
        }
        if let Some(first) = failed.first() {
            let (message, class) = (first.message(), first.class());
            let problem = Problem { stage: Stage::Repair, message, class, can_go_back: false };
            self.memory.learn_unrepaired(&self.observed, release.clone(), problem, now);
        }
        Ok(())
    }

    fn repair_one(&mut self, step: &Step) -> Result<Result<(), put::Error>, Stop> {
        let now = self.world.now;
        let live = match self.send(&get(&step.identity))? {
            Ok(live) => Some(metadata(&live)),
            Err(Refusal::NotFound) => None,
            Err(refusal) => return Ok(Err(put::Error::refused(step, refusal))),
        };
        if let Some(live) = &live {
            let repairs = self.memory.repairs.entry(step.key.clone()).or_default();
            if let Some(set) = repairs.set().cloned() {
                repairs.count(fields::taken(&set, live, FIELD_MANAGER), now);
            }
        }
        let tracked = self.inbox().objects.get(&step.key).map(|tracked| tracked.fingerprint.uid.clone());
        let known = live.as_ref().filter(|live| live.uid.is_some() && live.uid == tracked);
        let known = known
            .map(|live| Known { uid: live.uid.clone().unwrap_or_default(), version: live.resource_version.clone() });
        if !live.as_ref().is_some_and(|live| self.owner.owns_fully(live)) {
            match self.is_wanted()? {
                Ok(true) => {}
                Ok(false) => return Ok(Err(put::Error::Deleted)),
                Err(refusal) => return Ok(Err(put::Error::refused(step, refusal))),
            }
        }
        let relinquished = self.relinquished(&step.key);
        let basis = Basis { relinquished: relinquished.as_ref(), ..Basis::plain(Why::Repair, Some(step.body())) };
        match self.put(step, known, &basis, false)? {
            Ok(put::Outcome::Applied(written, _)) => {
                let version = metadata(&written).resource_version;
                let is_changed = tracked.is_some() && live.is_none_or(|live| live.resource_version != version);
                self.note(step, &written);
                let set = fields::applied(&metadata(&written), FIELD_MANAGER).cloned();
                self.memory.repairs.entry(step.key.clone()).or_default().repaired(is_changed, set, now);
                Ok(Ok(()))
            }
            Ok(put::Outcome::Used) => {
                self.inbox().drifted.remove(&step.key);
                self.memory.repairs.entry(step.key.clone()).or_default().repaired(false, None, now);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }
}
