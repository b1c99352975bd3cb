//! One reconcile: observe -> decide -> execute -> report, as the controller makes it. Only the writes are a model; what a decision
//! makes of the cluster is in `steps.rs`.

#[path = "steps.rs"]
mod steps;

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::BundleDeploymentStatus;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plan::applied::Tracked;
use rukpak_plan::decide::{Decision, decide, next};
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::health::{Health, State};
use rukpak_plan::memory::later;
use rukpak_plan::observed::Observed;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::status::status;
use rukpak_plan::{Fingerprint, Identity, Kind};

use crate::world::{Bundle, Live, Version, World, owner};

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
            self.world.memory.notice_deadline(&self.observed, &self.world.objects, now);
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
        let report = status(&self.observed, &self.observed.status, &self.world.memory, &self.world.objects, now);
        self.write_status(report.status)?;
        self.world.memory.learn_reported();
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
            Decision::Report | Decision::Remove | Decision::LetGo => {}
            Decision::CreateBundle { .. } => {
                if self.world.bundle == Bundle::Absent {
                    self.world.bundle = Bundle::Waiting;
                }
                self.observed.desired = self.world.desired();
            }
            Decision::Resume(release) => self.resume(&release),
            Decision::Install { release, why } => self.install(&release, why)?,
            Decision::Repair { release, objects } => self.repair(&release, &objects)?,
            // Every kind is served in these histories.
            Decision::Discover(release) => panic!("nothing of {release:?} is missing"),
            Decision::Prune(release) => {
                let pruning = self.prune(Version::of(&release))?;
                self.world.memory.learn_pruned(&release, pruning);
            }
        }
        Ok(())
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
    let health = health(true, live.of != Version::Sick || is_cured);
    Tracked { identity, fingerprint, health, is_read: true, read_at: now }
}
