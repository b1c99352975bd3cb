//! One reconcile: observe -> decide -> execute -> report, as the controller makes it. Only the writes are a model.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::{BundleDeploymentStatus, Pending};
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{Applied, Objects, Tracked, complaints};
use rukpak_plan::decide::{Decision, decide, next};
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::health::{Health, State};
use rukpak_plan::memory::{Differences, Installation, Problem, Pruning, Stage, later};
use rukpak_plan::observed::Observed;
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::status::status;
use rukpak_plan::{Fingerprint, Identity, Kind, Plan, Release, fields};

use crate::world::{Bundle, Live, NAMES, Version, World, key, owner};

const RENDERER: &str = "renderer/1";
/// As the controller's.
const DECISIONS: usize = 8;

/// What goes wrong at a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Transient,
    Conflict,
    Refused,
    /// The process is killed, and the write was not made.
    KilledBefore,
    /// The write was made.
    KilledAfter,
}

/// What goes wrong in one reconcile.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// When something is asked for before the first write.
    pub check: Option<Fault>,
    /// At the write of that number.
    pub write: Option<(usize, Fault)>,
}

/// How a reconcile ended.
#[derive(Debug, Default)]
pub struct Ended {
    pub decisions: Vec<Decision>,
    /// When the next one is due.
    pub next: Option<Timestamp>,
    /// There was no end of decisions.
    pub is_exhausted: bool,
}

/// Why it ended early.
enum Stop {
    Killed,
    /// The status could not be written.
    Unreported,
}

enum Unwritten {
    Killed,
    Failed(Class),
}

struct Run<'a> {
    world: &'a mut World,
    observed: Observed,
    faults: Faults,
    written: usize,
}

pub fn reconcile(world: &mut World, faults: Faults) -> Ended {
    let observed = world.observed();
    let now = world.now;
    world.memory.refresh(&observed, now);
    let mut run = Run { world, observed, faults, written: 0 };
    let mut ended = Ended::default();
    match run.converge(&mut ended) {
        Ok(()) => {}
        Err(Stop::Killed) => run.world.restart(),
        Err(Stop::Unreported) => ended.next = Some(later(now, retry::delay(Class::Transient, 1))),
    }
    ended
}

impl Run<'_> {
    fn converge(&mut self, ended: &mut Ended) -> Result<(), Stop> {
        let now = self.world.now;
        ended.is_exhausted = true;
        for _ in 0..DECISIONS {
            self.look();
            self.world.memory.notice_deadline(&self.observed, &complaints(&self.world.objects), now);
            match decide(&self.observed, &self.world.memory, now) {
                Decision::Report => {
                    ended.is_exhausted = false;
                    break;
                }
                decision => {
                    ended.decisions.push(decision.clone());
                    self.execute(decision)?;
                }
            }
        }
        let report = status(&self.observed, &self.world.memory, &self.world.objects, now);
        self.write_status(report.status)?;
        self.world.memory.released.clear();
        ended.next = next(&self.observed, &self.world.memory, now);
        Ok(())
    }

    /// What the watches have shown: they see everything at once.
    fn look(&mut self) {
        let (mut drifted, is_cured) = (BTreeSet::new(), self.world.is_cured);
        for (key, tracked) in &mut self.world.objects {
            let live = self.world.cluster.get(key.name.as_str());
            let seen = live.map(|live| Fingerprint::of(&live.metadata(), &owner(), FIELD_MANAGER));
            if seen.is_none_or(|seen| tracked.fingerprint.drift(&seen) != Drift::None) {
                drifted.insert(key.clone());
            }
            tracked.health = health(live.is_some(), live.is_none_or(|live| live.of != Version::Sick) || is_cured);
        }
        self.observed.drifted = drifted;
    }

    fn execute(&mut self, decision: Decision) -> Result<(), Stop> {
        match decision {
            Decision::Report => {}
            Decision::CreateBundle { .. } => {
                if self.world.bundle == Bundle::Absent {
                    self.world.bundle = Bundle::Waiting;
                }
                self.observed.desired = self.world.desired();
            }
            Decision::Resume(release) => self.resume(&release),
            Decision::Install { release, why } => self.install(&release, why)?,
            Decision::Repair { release, objects } => self.repair(&release, &objects)?,
            Decision::Prune(release) => {
                let pruning = self.prune(Version::of(&release))?;
                if let Installation::Applied { pruning: known, .. } = &mut self.world.memory.installation {
                    *known = pruning;
                }
            }
        }
        Ok(())
    }

    fn install(&mut self, release: &Release, why: Why) -> Result<(), Stop> {
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
                is_definite: class == Class::Terminal,
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
        let is_early = why.is_tried_first() && version == Version::RefusedEarly;
        let problem = |stage, class, is_definite| {
            let message = format!("{stage:?} failed");
            Some(Problem { stage, message, class, is_definite, can_go_back: true })
        };
        match self.faults.check.take() {
            Some(Fault::Transient) if why.is_tried_first() => problem(Stage::Check, Class::Transient, false),
            Some(Fault::Transient) => problem(Stage::Ask, Class::Transient, false),
            // The content was unreadable this once.
            Some(_) => problem(Stage::Load, Class::Transient, false),
            None if is_early => problem(Stage::Check, Class::Terminal, true),
            None => None,
        }
    }

    fn intend(&mut self, release: &Release) -> Result<(), Stop> {
        let mut status = self.observed.status.clone();
        let inventory = status.inventory.get_or_insert_default();
        let is_begun = self.observed.pending().is_some_and(|(pending, _)| pending == *release);
        if Release::installed(inventory).as_ref() != Some(release) && !is_begun {
            inventory.pending = Some(Pending { release: release.record(), since: self.world.now });
        }
        self.write_status(status)?;
        let memory = &mut self.world.memory;
        if memory.applied().is_none_or(|applied| applied != release)
            && self.observed.installed().as_ref() != Some(release)
        {
            memory.repairs.clear();
        }
        memory.installation = Installation::Partial { release: release.clone() };
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
        let left = self.world.memory.repairs.get(&key(name)).is_some_and(|repairs| !repairs.relinquished().is_empty());
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
    fn prune(&mut self, version: Version) -> Result<Pruning, Stop> {
        let attempts = match &self.world.memory.installation {
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
                        unlisted: Vec::new(),
                        attempts,
                        until,
                    });
                }
            }
        }
        Ok(Pruning::Done)
    }

    fn resume(&mut self, release: &Release) {
        let world = &mut *self.world;
        let objects: Objects = world
            .cluster
            .iter()
            .map(|(name, live)| (key(name), tracked(name, live, world.is_cured, world.now)))
            .collect();
        world.memory.installation = match Applied::resumed(&self.observed.inventory(), release, RENDERER, &objects) {
            Some(applied) => {
                world.objects = objects;
                Installation::Applied { applied, pruning: Pruning::Done, differences: Differences::default() }
            }
            None => Installation::Partial { release: release.clone() },
        };
    }

    fn repair(&mut self, release: &Release, objects: &BTreeSet<ObjectKey>) -> Result<(), Stop> {
        let (version, now) = (Version::of(release), self.world.now);
        let mut failed = None;
        for key in objects {
            let name = NAMES.into_iter().find(|name| *name == key.name).unwrap();
            self.count(key, name);
            let result = self.apply_one(name, version);
            let repairs = self.world.memory.repairs.entry(key.clone()).or_default();
            match result {
                Ok(()) => {
                    let live = self.world.cluster[name].metadata();
                    repairs.repaired(fields::applied(&live, FIELD_MANAGER).cloned(), now);
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
        if let Installation::Applied { applied, .. } = &mut self.world.memory.installation {
            *applied = applied.again(RENDERER, &self.world.objects);
        }
        if self.observed.drifted.is_empty() {
            self.world.memory.learn_repaired();
        }
        if let Some((name, class)) = failed {
            let message = format!("{name} could not be repaired");
            let problem = Problem { stage: Stage::Repair, message, class, is_definite: false, can_go_back: false };
            self.world.memory.learn_unrepaired(&self.observed, release.clone(), problem, now);
        }
        Ok(())
    }

    fn count(&mut self, key: &ObjectKey, name: &str) {
        let Some(live) = self.world.cluster.get(name) else { return };
        let repairs = self.world.memory.repairs.entry(key.clone()).or_default();
        let Some(set) = repairs.set().cloned() else { return };
        let taken = fields::taken(&set, &live.metadata(), FIELD_MANAGER);
        repairs.count(taken, self.world.now);
    }

    /// A write, unless something goes wrong at it.
    fn write(&mut self, make: impl FnOnce(&mut World) -> Result<(), Class>) -> Result<(), Unwritten> {
        let number = self.written;
        self.written += 1;
        let fault = self.faults.write.take_if(|(at, _)| *at == number).map(|(_, fault)| fault);
        match fault {
            Some(Fault::Transient) => return Err(Unwritten::Failed(Class::Transient)),
            Some(Fault::Conflict) => return Err(Unwritten::Failed(Class::Conflict)),
            Some(Fault::Refused) => return Err(Unwritten::Failed(Class::Terminal)),
            Some(Fault::KilledBefore) => return Err(Unwritten::Killed),
            _ => {}
        }
        self.world.writes += 1;
        make(self.world).map_err(Unwritten::Failed)?;
        if fault == Some(Fault::KilledAfter) { Err(Unwritten::Killed) } else { Ok(()) }
    }

    /// Sends nothing if the status is as it was.
    fn write_status(&mut self, status: BundleDeploymentStatus) -> Result<(), Stop> {
        if status != self.world.status {
            let written = self.write(|world| {
                world.status = status.clone();
                world.is_touched = false;
                Ok(())
            });
            written.map_err(|error| match error {
                Unwritten::Killed => Stop::Killed,
                Unwritten::Failed(_) => Stop::Unreported,
            })?;
        }
        self.observed.status = status;
        Ok(())
    }
}

fn health(is_there: bool, is_healthy: bool) -> Health {
    match (is_there, is_healthy) {
        (false, _) => Health::new(State::NotFound, "not found"),
        (true, true) => Health::new(State::Current, ""),
        (true, false) => Health::new(State::InProgress, "still at work"),
    }
}

fn tracked(name: &str, live: &Live, is_cured: bool, now: Timestamp) -> Tracked {
    let resource = std::sync::Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")));
    let identity =
        Identity { kind: Kind { resource, namespaced: true }, namespace: Some("ns".into()), name: name.to_owned() };
    let fingerprint = Fingerprint::of(&live.metadata(), &owner(), FIELD_MANAGER);
    Tracked { identity, fingerprint, health: health(true, live.of != Version::Sick || is_cured), read_at: now }
}

/// Which objects it has is the model's to know.
fn plan(release: &Release) -> Plan {
    Plan {
        release: release.clone(),
        certificates_due: None,
        authorities: None,
        steps: BTreeMap::new(),
        missing: Vec::new(),
    }
}
