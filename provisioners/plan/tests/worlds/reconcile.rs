//! One reconcile, as the controller makes it: observe -> decide -> execute -> report. What is decided, remembered, resolved and
//! reported is the crate's. In what order requests follow one another is written here a second time, where the crate has no machine
//! for it yet: the README says which parts.

#[path = "end.rs"]
mod end;
#[path = "install.rs"]
mod install;
#[path = "prune.rs"]
mod prune;
#[path = "put.rs"]
mod put;
#[path = "repair.rs"]
mod repair;

use std::sync::Arc;

use rukpak_crds::BundleDeploymentStatus;
use rukpak_crds::names::ADOPT_BY;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::complaints;
use rukpak_plan::decide::{Decision, decide, next};
use rukpak_plan::health::{self, Health, State};
use rukpak_plan::inbox::Inbox;
use rukpak_plan::memory::{Installation, Memory, later};
use rukpak_plan::observed::Observed;
use rukpak_plan::prune::is_same_object;
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::status::status;
use rukpak_plan::{Identity, MissingKind, Owner, Release};

use crate::properties;
use crate::server::{Answer, Key, Refusal, Request};
use crate::world::{Known, World, metadata};

/// As the controller's.
const DECISIONS: usize = 8;
const RENDERER: &str = "plain/1";

/// What comes between at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The server has no time.
    Unavailable,
    /// It does what is asked, and the answer is lost.
    Lost,
    /// The process is killed when the request was carried out.
    Killed,
    /// Just before it somebody acts.
    Hand(usize),
}

/// How a reconcile ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// For each request whether it writes.
    pub requests: Vec<bool>,
    /// In words.
    pub story: Vec<String>,
    pub violation: Option<String>,
}

/// Why it ended early.
pub enum Stop {
    Killed,
    /// The status could not be written.
    Unreported,
    Superseded,
}

pub struct Run<'a> {
    world: &'a mut World,
    controller: usize,
    deployment: usize,
    owner: Owner,
    observed: Observed,
    memory: Memory,
    /// The version of the deployment that is known.
    version: u64,
    /// What was waited for had come before it began.
    is_unblocked: bool,
    disturbance: Option<(usize, Disturbance)>,
    ended: Ended,
}

pub fn reconcile(
    world: &mut World,
    controller: usize,
    deployment: usize,
    disturbance: Option<(usize, Disturbance)>,
) -> Ended {
    let observed = world.observed(controller, deployment);
    let owner = world.deployments[deployment].owner.clone();
    let known = &mut world.controllers[controller].known[deployment];
    (known.is_due, known.next) = (false, None);
    Arc::make_mut(&mut known.inbox).is_unblocked = false;
    let mut memory = (*known.memory).clone();
    memory.refresh(&observed, world.now);
    if std::mem::take(&mut Arc::make_mut(&mut known.inbox).has_left) {
        memory.learn_gone(world.now);
    }
    let ended = Ended::default();
    let is_unblocked = observed.is_unblocked;
    let version = world.deployments[deployment].version;
    let mut run =
        Run { world, controller, deployment, owner, observed, memory, version, is_unblocked, disturbance, ended };
    let stopped = run.reconcile().err();
    let Run { memory, ended, world, .. } = run;
    let now = world.now;
    let known = &mut world.controllers[controller].known[deployment];
    known.memory = Arc::new(memory);
    Arc::make_mut(&mut known.inbox).gone = None;
    match stopped {
        None => {}
        Some(Stop::Killed) => world.restart(controller),
        Some(Stop::Unreported) => known.next = Some(later(now, retry::delay(Class::Transient, 1))),
        Some(Stop::Superseded) => known.is_due = true,
    }
    ended
}

impl Run<'_> {
    fn inbox(&mut self) -> &mut Inbox {
        Arc::make_mut(&mut self.world.controllers[self.controller].known[self.deployment].inbox)
    }

    fn known(&mut self) -> &mut Known {
        &mut self.world.controllers[self.controller].known[self.deployment]
    }

    fn seen(&self, key: &ObjectKey) -> Option<&crate::world::Seen> {
        self.world.controllers[self.controller].seen.get(key)
    }

    /// Sends a request, and lets happen what is to come between.
    fn send(&mut self, request: &Request) -> Result<Answer, Stop> {
        let number = self.ended.requests.len();
        self.ended.requests.push(request.written().is_some());
        let disturbance = self.disturbance.filter(|(at, _)| *at == number).map(|(_, disturbance)| disturbance);
        let known = self.world.server.objects.clone();
        let was_current = self.is_current();
        if let Some(Disturbance::Hand(hand)) = disturbance {
            let hand = self.world.small.hands[hand];
            self.ended.story.push(format!("just then {}", hand.words));
            (hand.act)(self.world);
        }
        if disturbance == Some(Disturbance::Unavailable) {
            self.ended.story.push(format!("{} -> not answered, nor done", properties::words(request)));
            return Ok(Err(Refusal::Unavailable));
        }
        let before = self.world.server.objects.clone();
        let answer = self.world.server.answer(request);
        if let Some(key) = request.written() {
            let end = match (&answer, disturbance) {
                (_, Some(Disturbance::Lost)) => " -> done, and the answer is lost".to_owned(),
                (_, Some(Disturbance::Killed)) => " -> done, and the controller is killed".to_owned(),
                (Err(refusal), _) => format!(" -> {refusal:?}"),
                _ => String::new(),
            };
            self.ended.story.push(format!("{}{end}", properties::words(request)));
            let of = (self.controller, self.deployment);
            let wanted = properties::wanted(self.world, self.deployment).map(|wanted| self.world.release(wanted));
            let has_failed = wanted.is_some_and(|wanted| self.memory.held_upgrade(&wanted).is_some());
            let is_wanted = self.is_current() && !has_failed;
            let mut violation = properties::of_write(self.world, of, is_wanted, key, (&before, &known));
            if let Request::Apply { body, .. } = request
                && self.is_current()
            {
                violation = violation.or_else(|| properties::of_apply(self.world, self.deployment, key, body));
            }
            if self.observed.deployment.metadata.deletion_timestamp.is_some() && !was_current {
                violation = Some("it goes on deleting, though the deployment has changed".to_owned());
            }
            self.ended.violation = self.ended.violation.take().or(violation);
        }
        self.world.spread();
        match disturbance {
            Some(Disturbance::Lost) => Ok(Err(Refusal::Unavailable)),
            Some(Disturbance::Killed) => Err(Stop::Killed),
            _ => Ok(answer),
        }
    }

    /// A request about the deployment itself. Whether it was answered.
    fn ask(&mut self, what: &str, act: impl FnOnce(&mut Self)) -> Result<bool, Stop> {
        let number = self.ended.requests.len();
        self.ended.requests.push(!what.starts_with("ask"));
        match self.disturbance.filter(|(at, _)| *at == number).map(|(_, disturbance)| disturbance) {
            Some(Disturbance::Unavailable) => {
                self.ended.story.push(format!("{what} -> not answered, nor done"));
                return Ok(false);
            }
            Some(Disturbance::Hand(hand)) => {
                let hand = self.world.small.hands[hand];
                self.ended.story.push(format!("just then {}", hand.words));
                (hand.act)(self.world);
                act(self);
                return Ok(true);
            }
            Some(Disturbance::Lost) => {
                act(self);
                self.ended.story.push(format!("{what} -> done, and the answer is lost"));
                return Ok(false);
            }
            Some(Disturbance::Killed) => {
                act(self);
                self.ended.story.push(format!("{what} -> done, and the controller is killed"));
                return Err(Stop::Killed);
            }
            None => act(self),
        }
        Ok(true)
    }

    fn reconcile(&mut self) -> Result<(), Stop> {
        if self.observed.deployment.metadata.deletion_timestamp.is_some() {
            return self.end();
        }
        if self.follow_policy()? { Ok(()) } else { self.converge() }
    }

    fn converge(&mut self) -> Result<(), Stop> {
        let now = self.world.now;
        self.refresh()?;
        self.look_at_released()?;
        let mut is_exhausted = true;
        for _ in 0..DECISIONS {
            self.look();
            let objects = self.inbox().objects.clone();
            if complaints(&objects).is_empty() {
                self.memory.learn_healthy(now);
            }
            self.memory.notice_deadline(&self.observed, &objects, now);
            let decision = decide(&self.observed, &self.memory, now);
            if decision == Decision::Report {
                is_exhausted = false;
                break;
            }
            self.ended.story.push(properties::decision(self.world, &decision));
            let before = self.world.controllers[self.controller].known[self.deployment].memory.clone();
            let violation = self
                .is_current()
                .then(|| properties::of_decision(self.world, self.deployment, (&before, self.is_unblocked), &decision));
            let violation = violation.flatten();
            self.ended.violation = self.ended.violation.take().or(violation);
            self.execute(decision)?;
        }
        if is_exhausted {
            self.ended.violation = Some("it decides without an end".to_owned());
        }
        if let Some(until) = self.memory.silent_until(&self.observed, now) {
            self.world.controllers[self.controller].known[self.deployment].next = Some(until);
            return Ok(());
        }
        let objects = self.inbox().objects.clone();
        let report = status(&self.observed, &self.memory, &objects, now);
        self.write_status(report.status)?;
        self.memory.released.clear();
        let next = next(&self.observed, &self.memory, now).into_iter().chain(self.inbox().next_read(now)).min();
        self.world.controllers[self.controller].known[self.deployment].next = next;
        Ok(())
    }

    /// Reads the health of what moved.
    fn refresh(&mut self) -> Result<(), Stop> {
        let now = self.world.now;
        for (key, identity) in self.inbox().take_reads(now) {
            let health = self.read_health(&identity)?;
            self.inbox().note_health(&key, health, now);
        }
        Ok(())
    }

    /// The health of an object; `None` if there is no answer.
    fn read_health(&mut self, identity: &Identity) -> Result<Option<Health>, Stop> {
        Ok(match self.send(&get(identity))? {
            Ok(live) => Some(health::assess(&live, self.world.now)),
            Err(Refusal::NotFound) => Some(Health::new(State::NotFound, "not found")),
            Err(Refusal::Unavailable) => None,
            Err(refusal) => Some(Health::new(State::Unknown, format!("{refusal:?}"))),
        })
    }

    /// Takes off the list what was left without an owner and is gone, or somebody's. As `execute/prune.rs`.
    fn look_at_released(&mut self) -> Result<(), Stop> {
        for object in self.observed.inventory().released {
            let Some(kind) = self.world.kind(&object.kind, &object.version) else { continue };
            let (key, version) = (Key::new(&object.kind, &object.name), kind.resource.version.clone());
            let is_left = match self.send(&Request::Get { key, version })? {
                Ok(found) => {
                    metadata(&found).annotations.is_some_and(|all| all.get(ADOPT_BY) == Some(&self.owner.name))
                }
                Err(Refusal::NotFound) => false,
                Err(_) => true,
            };
            if !is_left {
                self.memory.released.retain(|known| !is_same_object(known, &object));
                let inventory = self.observed.status.inventory.get_or_insert_default();
                inventory.released.retain(|known| !is_same_object(known, &object));
            }
        }
        Ok(())
    }

    /// As `Run::look`.
    fn look(&mut self) {
        let this = &mut self.world.controllers[self.controller];
        let (seen, inbox) = (&this.seen, Arc::make_mut(&mut this.known[self.deployment].inbox));
        let inherited = seen.iter().filter(|(_, seen)| !seen.has_controller && seen.sharers.contains(&self.owner));
        let inherited = inherited.map(|(key, _)| key.clone());
        let seen = |key: &ObjectKey| seen.get(key).map(|seen| (seen.owner.clone(), seen.fingerprint.clone()));
        inbox.collect_drift(&self.owner, seen, inherited);
        self.observed.drifted = inbox.drifted.clone();
        if inbox.drifted.is_empty() {
            self.memory.learn_repaired();
        }
    }

    fn execute(&mut self, decision: Decision) -> Result<(), Stop> {
        match decision {
            Decision::Report | Decision::CreateBundle { .. } | Decision::Remove | Decision::LetGo => Ok(()),
            Decision::Resume(release) => self.resume(&release),
            Decision::Install { release, why } => self.install(&release, why),
            Decision::Repair { release, objects } => self.repair(&release, objects),
            Decision::Discover(release) => self.discover(release),
            Decision::Prune(release) => self.prune_again(&release),
        }
    }

    /// Asks whether the kinds that are missing are served.
    fn discover(&mut self, release: Release) -> Result<(), Stop> {
        let missing = match &self.memory.installation {
            Installation::Applied { applied, .. } => applied.missing().to_vec(),
            Installation::Unknown | Installation::Partial { .. } => Vec::new(),
        };
        if missing.iter().any(|missing| self.is_served(&missing.kind)) {
            return self.install(&release, Why::Resync);
        }
        self.memory.learn_missing(release, &missing, self.world.now);
        Ok(())
    }

    fn is_served(&self, MissingKind { api_version, kind }: &MissingKind) -> bool {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        self.world.kind(kind, version).is_some_and(|found| found.resource.version == version)
    }

    /// Returns whether there was anything to write.
    fn write_status(&mut self, status: BundleDeploymentStatus) -> Result<bool, Stop> {
        let is_news = status != *self.world.deployments[self.deployment].status;
        if is_news {
            let text = properties::status_words(&status);
            let new = status.clone();
            let mut is_other = false;
            let is_answered = self.ask(&format!("write the status: {text}"), |run| {
                let this = &mut run.world.deployments[run.deployment];
                is_other = this.version != run.version;
                if !is_other {
                    (this.status, this.version, run.version) = (Arc::new(new), this.version + 1, this.version + 1);
                }
            })?;
            if is_other {
                self.ended.story.push("the status is not written: somebody has changed the deployment".to_owned());
            }
            if !is_answered || is_other {
                return Err(Stop::Unreported);
            }
            self.ended.story.push(format!("the status says: {text}"));
            self.world.controllers[self.controller].known[self.deployment].is_touched = false;
        }
        self.observed.status = status;
        Ok(is_news)
    }

    /// Asks the API server whether the deployment still asks for what this reconcile is about.
    fn is_wanted(&mut self) -> Result<Result<bool, Refusal>, Stop> {
        let is_answered = self.ask("ask for the deployment", |_| {})?;
        let is_wanted = self.is_current() && self.world.deployments[self.deployment].controller == self.controller;
        Ok(if is_answered { Ok(is_wanted) } else { Err(Refusal::Unavailable) })
    }

    /// Goes on only if it does.
    fn confirm(&mut self) -> Result<(), Stop> {
        match self.is_wanted()? {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Stop::Superseded),
        }
    }

    /// Changes the metadata of an object.
    fn patch(&mut self, identity: &Identity, metadata: &serde_json::Value, manager: &str) -> Result<Answer, Stop> {
        let (key, version) = key_of(identity);
        let (body, manager) = (serde_json::json!({"metadata": metadata}), manager.to_owned());
        self.send(&Request::Patch { key, version, body, manager, is_status: false })
    }
}

fn key_of(identity: &Identity) -> (Key, String) {
    (Key::new(&identity.kind.resource.kind, &identity.name), identity.kind.resource.version.clone())
}

fn get(identity: &Identity) -> Request {
    let (key, version) = key_of(identity);
    Request::Get { key, version }
}
