//! What each decision writes: install, prune, resume, repair.

use std::collections::{BTreeMap, BTreeSet};

use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{Applied, Objects};
use rukpak_plan::memory::{Differences, Installation, Problem, Stage, later};
use rukpak_plan::prune::Pruning;
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::{Plan, Release, fields};

use super::{Fault, RENDERER, Run, Stop, Unwritten, tracked};
use crate::world::{Live, NAMES, Version, key};

impl Run<'_> {
    pub(super) fn install(&mut self, release: &Release, why: Why) -> Result<(), Stop> {
        let version = Version::of(release);
        let is_upgrade = matches!(why, Why::Upgrade | Why::Rollback);
        let can_go_back = is_upgrade && self.observed.installed().is_some_and(|installed| installed != *release);
        let mut problem = self.check(version, why);
        if problem.is_none() {
            self.intend(release)?;
            let failed = self.apply(version)?;
            problem = failed.map(|(name, class)| Problem {
                stage: Stage::Apply,
                message: format!("{name} could not be applied"),
                class,
                can_go_back,
            });
        }
        let Some(problem) = problem else { return self.finish(release, version) };
        let now = self.world.now;
        self.world.memory.learn_failed(&self.observed, (release.clone(), why), problem, now);
        Ok(())
    }

    /// What is asked for before the first write.
    fn check(&mut self, version: Version, why: Why) -> Option<Problem> {
        let is_early = why.policy().tries_first && version == Version::RefusedEarly;
        let problem = |stage, class| {
            let message = format!("{stage:?} failed");
            Some(Problem { stage, message, class, can_go_back: true })
        };
        match self.faults.check.take() {
            Some(Fault::Transient) if why.policy().tries_first => problem(Stage::Check, Class::Transient),
            Some(Fault::Transient) => problem(Stage::Ask, Class::Transient),
            // The content was unreadable this once.
            Some(_) => problem(Stage::Load, Class::Transient),
            None if is_early => problem(Stage::Check, Class::Terminal),
            None => None,
        }
    }

    fn intend(&mut self, release: &Release) -> Result<(), Stop> {
        let mut status = self.observed.status.clone();
        let inventory = status.inventory.get_or_insert_default();
        release.begin_in(inventory, self.world.now);
        self.write_status(status)?;
        self.world.memory.learn_begun(&self.observed, &plan(release));
        self.observed.drifted.clear();
        Ok(())
    }

    /// Object by object. Returns the one that failed.
    fn apply(&mut self, version: Version) -> Result<Option<(&'static str, Class)>, Stop> {
        for name in version.objects() {
            match self.apply_one(name, version) {
                Ok(()) => {}
                Err(Unwritten::Killed) => return Err(Stop::Killed),
                Err(Unwritten::Failed(class)) => return Ok(Some((name, class))),
            }
        }
        Ok(None)
    }

    fn apply_one(&mut self, name: &'static str, version: Version) -> Result<(), Unwritten> {
        let is_refused = version.is_refused() && name == "d";
        let left = self.world.memory.is_contested(&key(name));
        self.write(|world| {
            if is_refused {
                return Err(Class::Terminal);
            }
            let serial = world.serial();
            let live = world.cluster.entry(name).or_insert(Live {
                uid: serial,
                version: serial,
                of: version,
                is_changed: false,
            });
            let is_left = left && live.is_changed && live.of == version;
            *live = Live { uid: live.uid, version: serial, of: version, is_changed: is_left };
            let tracked = tracked(name, live, world.is_cured, world.now);
            world.objects.insert(key(name), tracked);
            Ok(())
        })
    }

    fn finish(&mut self, release: &Release, version: Version) -> Result<(), Stop> {
        self.world.objects.retain(|key, _| version.objects().contains(&key.name.as_str()));
        let pruning = self.prune(version)?;
        let applied = Applied::by(&plan(release), RENDERER, &self.world.objects, |_| false);
        let now = self.world.now;
        self.world.memory.learn_applied(applied.unwrap(), pruning, Differences::default(), now);
        Ok(())
    }

    /// Whatever is in the cluster and not of the release goes.
    pub(super) fn prune(&mut self, version: Version) -> Result<Pruning, Stop> {
        let attempts = match self.world.memory.installation() {
            Installation::Applied { pruning: Pruning::Pending { attempts, .. }, .. } => attempts + 1,
            _ => 1,
        };
        for name in NAMES.into_iter().filter(|name| !version.objects().contains(name)) {
            if !self.world.cluster.contains_key(name) {
                continue;
            }
            match self.write(|world| {
                world.cluster.remove(name);
                Ok(())
            }) {
                Ok(()) => {}
                Err(Unwritten::Killed) => return Err(Stop::Killed),
                Err(Unwritten::Failed(_)) => {
                    let until = later(self.world.now, retry::delay(Class::Transient, attempts));
                    return Ok(Pruning::Pending {
                        message: format!("{name} stays"),
                        is_failed: true,
                        unanswered: 0,
                        unlisted: Vec::new(),
                        attempts,
                        until,
                    });
                }
            }
        }
        Ok(Pruning::Done)
    }

    pub(super) fn resume(&mut self, release: &Release) {
        let world = &mut *self.world;
        let objects: Objects = world
            .cluster
            .iter()
            .map(|(name, live)| (key(name), tracked(name, live, world.is_cured, world.now)))
            .collect();
        match Applied::resumed(&self.observed.inventory(), release, RENDERER, &objects, Vec::new()) {
            Some(applied) => {
                world.objects = objects;
                world.memory.learn_resumed(&self.observed, applied, world.now);
            }
            None => world.memory.learn_differs(release),
        }
    }

    pub(super) fn repair(&mut self, release: &Release, objects: &BTreeSet<ObjectKey>) -> Result<(), Stop> {
        let (version, now) = (Version::of(release), self.world.now);
        let mut failed = None;
        for key in objects {
            let name = NAMES.into_iter().find(|name| *name == key.name).unwrap();
            self.count(key, name);
            let result = self.apply_one(name, version);
            let repairs = self.world.memory.repairs_of(key);
            match result {
                Ok(()) => {
                    let live = self.world.cluster[name].metadata();
                    repairs.repaired(true, fields::applied(&live, FIELD_MANAGER).cloned(), now);
                    self.observed.drifted.remove(key);
                }
                Err(Unwritten::Killed) => return Err(Stop::Killed),
                Err(Unwritten::Failed(class)) => {
                    repairs.failed(class, now);
                    failed = Some((name, class));
                    break;
                }
            }
        }
        self.world.memory.learn_objects(&BTreeSet::new(), &self.world.objects, now);
        if self.observed.drifted.is_empty() {
            self.world.memory.learn_repaired();
        }
        if let Some((name, class)) = failed {
            let message = format!("{name} could not be repaired");
            let problem = Problem { stage: Stage::Repair, message, class, can_go_back: false };
            self.world.memory.learn_unrepaired(&self.observed, release.clone(), problem, now);
        }
        Ok(())
    }

    fn count(&mut self, key: &ObjectKey, name: &str) {
        let Some(live) = self.world.cluster.get(name) else { return };
        let repairs = self.world.memory.repairs_of(key);
        let Some(set) = repairs.set().cloned() else { return };
        let taken = fields::taken(&set, &live.metadata(), FIELD_MANAGER);
        repairs.count(taken, self.world.now);
    }
}

/// Which objects it has is the model's to know.
fn plan(release: &Release) -> Plan {
    Plan {
        release: release.clone(),
        certificates_due: None,
        properties: Vec::new(),
        namespace: None,
        authorities: None,
        steps: BTreeMap::new(),
        missing: Vec::new(),
        hooks: Vec::new(),
    }
}
