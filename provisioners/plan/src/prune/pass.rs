//! One pass of pruning as a machine: it says what to ask and to delete next, and is told what came of it. It sends nothing itself.
//!
//! ```text
//! every guarded object: would anything be lost with it?      before the first one goes, for the operator that answers
//!                                                            for its instances may be among what leaves
//! phase by phase, in the reverse order of applying:
//!     guarded: would anything be lost by now? -> release     the phases before may have taken minutes
//!     delete -> look -> gone, or it waits for finalizers
//!     somebody wrote it meanwhile -> look -> is it still to go? -> delete
//! the next phase begins when everything of this one is gone, released or handed over, as far as it could be listed
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::{InventoryKind, names};
use rukpak_plain::ObjectKey;

use super::{Answer, Decision, End, Guard, Leaving, Order, Outcome, Request, decide, waits};
use crate::{Owner, Phase, opt_out};

/// One pass over everything that leaves.
#[derive(Clone, Debug)]
pub struct Pass {
    owner: Owner,
    /// In the order in which they leave.
    objects: Vec<Object>,
    stage: Stage,
    /// Those that want something.
    waiting: VecDeque<usize>,
    /// So many orders have no answer yet.
    under_way: usize,
    /// What is about to be deleted, as far as no question is asked about it.
    going: Arc<BTreeSet<ObjectKey>>,
    /// What is gone.
    gone: BTreeSet<ObjectKey>,
    /// What is removed after this phase waits.
    bar: Option<Phase>,
    /// What was being deleted when its kind could be listed last.
    unseen: BTreeSet<ObjectKey>,
    /// Whether a question without an answer is asked again in the next pass.
    is_patient: bool,
    is_unanswered: bool,
}

#[derive(Clone, Debug)]
struct Object {
    leaving: Leaving,
    key: ObjectKey,
    phase: Phase,
    extent: Extent,
    /// Why it is not deleted, if it is not.
    keep: Option<String>,
    /// Writes that were sent.
    attempts: usize,
    state: State,
}

/// What goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// What left the bundle.
    Left,
    /// All that there is.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asking,
    Removing(Phase),
    Over,
}

#[derive(Clone, Debug)]
enum State {
    Resting,
    Wants(Request),
    Asked(Request),
    Ended(End),
}

/// So often an object that is written all the time is tried.
const ATTEMPTS: usize = 5;
const DATA: &str = "its data would be lost";
const UNFIT: &str = "the answer does not fit what was asked";

impl Pass {
    /// Begins a pass. With `is_patient`, a question that gets no answer ends it, to be asked again in the next one; otherwise what
    /// cannot be found out counts as data.
    pub fn new(owner: Owner, leaving: impl IntoIterator<Item = Leaving>, is_patient: bool) -> Self {
        Self::of(owner, leaving, is_patient, Extent::Left)
    }

    /// Begins a pass over everything that the owner has, which is being deleted. Data goes as it would by garbage collection; but
    /// instances of CRDs that are not among what goes are waited for, as long as those are there who finalize them.
    pub fn whole(owner: Owner, objects: impl IntoIterator<Item = Leaving>) -> Self {
        Self::of(owner, objects, false, Extent::Whole)
    }

    fn of(owner: Owner, leaving: impl IntoIterator<Item = Leaving>, is_patient: bool, extent: Extent) -> Self {
        let object = |leaving: Leaving| {
            let key = leaving.identity.key();
            let phase = Phase::of(&key.group, &key.kind);
            let mut object = Object { leaving, key, phase, extent, keep: None, attempts: 0, state: State::Resting };
            if object.is_paused() {
                object.state = State::Ended(End::Paused);
            } else if let Some(guard) = object.guard(&owner) {
                object.state = State::Wants(Request::Ask { guard, going: Arc::default() });
            }
            object
        };
        let mut objects: Vec<Object> = leaving.into_iter().map(object).collect();
        objects.sort_by(|a, b| b.phase.cmp(&a.phase).then_with(|| a.key.cmp(&b.key)));
        let wants = |(id, object): (usize, &Object)| matches!(object.state, State::Wants(_)).then_some(id);
        let waiting: VecDeque<usize> = objects.iter().enumerate().filter_map(wants).collect();
        let is_going =
            |object: &&Object| object.guard(&owner).is_none() && !object.is_released() && !object.is_paused();
        let going = objects.iter().filter(|_| !waiting.is_empty()).filter(is_going);
        let going = Arc::new(going.map(|object| object.key.clone()).collect());
        let (stage, under_way, gone) = (Stage::Asking, 0, BTreeSet::new());
        let (bar, unseen, is_unanswered) = (None, BTreeSet::new(), false);
        Self { owner, objects, stage, waiting, under_way, going, gone, bar, unseen, is_patient, is_unanswered }
    }

    /// Has what is removed after these kinds wait for them: they could not be listed, so nobody knows whether their objects are gone,
    /// and who lets them go may be what is removed next. Without patience only the kinds count of which an object was being deleted
    /// (`leaving`): that it is gone would have been seen.
    #[must_use]
    pub fn wait_for(mut self, unlisted: &[InventoryKind], leaving: &BTreeSet<ObjectKey>) -> Self {
        let is_of = |key: &ObjectKey, kind: &InventoryKind| key.group == kind.group && key.kind == kind.kind;
        let is_unlisted = |key: &&ObjectKey| unlisted.iter().any(|kind| is_of(key, kind));
        self.unseen = leaving.iter().filter(is_unlisted).cloned().collect();
        let barring = unlisted.iter().filter(|kind| self.is_patient || self.unseen.iter().any(|key| is_of(key, kind)));
        self.bar = barring.map(|kind| Phase::of(&kind.group, &kind.kind)).max();
        self
    }

    /// What to send next. `None` if nothing is to be sent before another answer has come, or at all.
    pub fn next_order(&mut self) -> Option<Order> {
        while self.waiting.is_empty() {
            if self.under_way > 0 || !self.advance() {
                return None;
            }
        }
        let id = self.waiting.pop_front()?;
        let object = self.objects.get_mut(id)?;
        let State::Wants(mut request) = std::mem::replace(&mut object.state, State::Resting) else { return None };
        if let Request::Ask { going, .. } = &mut request {
            let is_early = self.stage == Stage::Asking;
            *going = if is_early { self.going.clone() } else { Arc::new(self.gone.clone()) };
        }
        object.attempts += usize::from(is_write(&request));
        object.state = State::Asked(request.clone());
        self.under_way += 1;
        Some(Order { id, object: object.leaving.clone(), request })
    }

    /// Tells what came of an order. Returns the object and what became of it, if that is known now.
    pub fn answer(&mut self, id: usize, answer: Answer) -> Option<(&Leaving, &End)> {
        let object = self.objects.get_mut(id)?;
        let State::Asked(request) = std::mem::replace(&mut object.state, State::Resting) else { return None };
        self.under_way -= 1;
        self.is_unanswered |= self.is_patient && matches!(answer, Answer::Unseen { is_transient: true, .. });
        object.state = object.follow(&self.owner, request, answer, (self.stage, self.is_patient));
        match &object.state {
            State::Wants(_) => {
                self.waiting.push_back(id);
                None
            }
            State::Ended(end) => {
                match end {
                    End::Gone => drop(self.gone.insert(object.key.clone())),
                    End::Unwanted => {
                        self.stage = Stage::Over;
                        self.waiting.clear();
                    }
                    _ => {}
                }
                Some((&object.leaving, end))
            }
            State::Resting | State::Asked(_) => None,
        }
    }

    /// What it has come to, when there is nothing to send any more.
    pub fn outcome(&self) -> Outcome {
        let unseen =
            self.unseen.iter().map(|key| (key.clone(), format!("{} {:?} is being deleted", key.kind, key.name)));
        let (failed, waiting) = (Vec::new(), unseen.collect());
        let (paused, is_unanswered) = (BTreeSet::new(), self.is_unanswered);
        let mut outcome = Outcome { failed, waiting, paused, is_unanswered, is_superseded: false };
        for object in &self.objects {
            match &object.state {
                State::Ended(End::Failed { why }) => {
                    outcome.failed.push(format!("{}: {why}", object.leaving.identity));
                }
                State::Ended(End::Paused) => drop(outcome.paused.insert(object.key.clone())),
                State::Ended(End::Waits { why }) => outcome.waiting.push((object.key.clone(), why.clone())),
                State::Ended(End::Unwanted) => outcome.is_superseded = true,
                _ => {}
            }
        }
        outcome
    }

    /// Begins the next phase, if everything of this one has ended well. Whether there is one.
    fn advance(&mut self) -> bool {
        let is_stuck = |object: &Object| matches!(object.state, State::Ended(End::Failed { .. } | End::Waits { .. }));
        let resting = self.objects.iter().filter(|object| matches!(object.state, State::Resting));
        let next = resting.map(|object| object.phase).max();
        let Some(phase) = next.filter(|_| self.stage != Stage::Over && !self.objects.iter().any(is_stuck)) else {
            self.stage = Stage::Over;
            return false;
        };
        if self.bar.is_some_and(|bar| phase < bar) {
            self.is_unanswered |= self.is_patient;
            self.stage = Stage::Over;
            return false;
        }
        self.stage = Stage::Removing(phase);
        for (id, object) in self.objects.iter_mut().enumerate() {
            if object.phase == phase && matches!(object.state, State::Resting) {
                object.state = State::Wants(object.open(&self.owner));
                self.waiting.push_back(id);
            }
        }
        true
    }
}

impl Object {
    /// What has to be asked before it may be deleted.
    fn guard(&self, owner: &Owner) -> Option<Guard> {
        let metadata = &self.leaving.metadata;
        if metadata.deletion_timestamp.is_some() || owner.is_shared(metadata) {
            return None;
        }
        match decide(&self.key.group, &self.key.kind, metadata) {
            Decision::DeleteUnless(Guard::Instances) => Some(Guard::Instances),
            Decision::DeleteUnless(Guard::Contents) if self.extent == Extent::Left => Some(Guard::Contents),
            _ => None,
        }
    }

    /// Whether it is left as it is. What is being deleted goes whatever it says.
    fn is_paused(&self) -> bool {
        let metadata = &self.leaving.metadata;
        self.extent == Extent::Left && metadata.deletion_timestamp.is_none() && opt_out::is_paused(metadata)
    }

    fn is_released(&self) -> bool {
        self.extent == Extent::Left
            && decide(&self.key.group, &self.key.kind, &self.leaving.metadata) == Decision::Release
    }

    /// The first request when its turn has come, and the next one when it has changed meanwhile.
    fn open(&self, owner: &Owner) -> Request {
        let metadata = &self.leaving.metadata;
        if metadata.deletion_timestamp.is_some() {
            return Request::Look;
        }
        if owner.is_shared(metadata) {
            return Request::HandOver;
        }
        if let Some(reason) = &self.keep {
            return Request::Release { reason: reason.clone() };
        }
        if self.is_released() {
            return Request::Release { reason: DATA.to_owned() };
        }
        match self.guard(owner) {
            Some(guard) => Request::Ask { guard, going: Arc::default() },
            None => Request::Delete,
        }
    }

    fn follow(&mut self, owner: &Owner, request: Request, answer: Answer, (stage, is_patient): (Stage, bool)) -> State {
        let failed = |why: &str| State::Ended(End::Failed { why: why.to_owned() });
        match (request, answer) {
            (Request::Ask { .. }, Answer::WouldLose(None)) if stage == Stage::Asking => State::Resting,
            (Request::Ask { .. }, Answer::WouldLose(None)) => State::Wants(Request::Delete),
            (Request::Ask { .. }, Answer::Unseen { why, is_transient: true }) if is_patient => failed(&why),
            (Request::Ask { .. }, Answer::WouldLose(Some(why)) | Answer::Unseen { why, .. })
                if self.extent == Extent::Whole =>
            {
                let (identity, allow) = (&self.leaving.identity, names::ALLOW_DELETION);
                let why = format!(
                    "{identity} stays, for {why}; delete what is to be finalized, or allow the loss with the annotation {allow}=\"true\" on it"
                );
                State::Ended(End::Waits { why })
            }
            // What cannot be found out is as good as data.
            (Request::Ask { .. }, Answer::WouldLose(Some(why)) | Answer::Unseen { why, .. }) => {
                self.keep = Some(why);
                if stage == Stage::Asking { State::Resting } else { State::Wants(self.open(owner)) }
            }
            (Request::Release { reason }, Answer::Done) => State::Ended(End::Released { reason }),
            (Request::HandOver, Answer::Done) => State::Ended(End::HandedOver),
            // None of the others is there any more: it is ours alone, and what hangs on it is asked.
            (Request::HandOver, Answer::Alone(metadata)) => {
                self.leaving.metadata = Arc::from(metadata);
                if owner.is_shared(&self.leaving.metadata) { failed(UNFIT) } else { State::Wants(self.open(owner)) }
            }
            (Request::Delete, Answer::Done) | (Request::FollowVersion, Answer::Version(None)) => {
                State::Ended(End::Gone)
            }
            (Request::Delete, Answer::Accepted) => State::Wants(Request::Look),
            (Request::Look, Answer::Seen(seen)) => self.seen(owner, seen),
            (Request::FollowVersion, Answer::Version(Some(identity))) => {
                self.leaving.identity = identity;
                State::Wants(Request::Look)
            }
            (Request::AskWanted, Answer::Wanted(true)) => State::Wants(self.open(owner)),
            (_, Answer::Wanted(false)) => State::Ended(End::Unwanted),
            // The upgrade itself may have ended the version in which the object was listed.
            (write, Answer::Absent) if is_write(&write) => {
                let may_have_moved = self.key.group.contains('.') && self.attempts < ATTEMPTS;
                if may_have_moved { State::Wants(Request::FollowVersion) } else { State::Ended(End::Gone) }
            }
            // A status write in between makes the looked-at version an old one.
            (write, Answer::Conflict(_)) if is_write(&write) && self.attempts < ATTEMPTS => State::Wants(Request::Look),
            (_, Answer::Refused(why) | Answer::Conflict(why)) => failed(&why),
            _ => failed(UNFIT),
        }
    }

    /// What is done about the object as it is now.
    fn seen(&mut self, owner: &Owner, seen: Option<Box<ObjectMeta>>) -> State {
        let Some(metadata) = seen.filter(|now| now.uid == self.leaving.metadata.uid) else {
            return State::Ended(End::Gone);
        };
        if metadata.deletion_timestamp.is_some() {
            return State::Ended(End::Waits { why: waits(&self.leaving.identity, &metadata) });
        }
        if !owner.is_controller(&metadata) && !owner.owns_fully(&metadata) && !owner.is_sharer(&metadata) {
            return State::Ended(End::Gone);
        }
        self.leaving.metadata = Arc::from(metadata);
        if self.is_paused() {
            return State::Ended(End::Paused);
        }
        if self.attempts >= ATTEMPTS {
            return State::Ended(End::Failed { why: "it is still there".to_owned() });
        }
        State::Wants(Request::AskWanted)
    }
}

fn is_write(request: &Request) -> bool {
    matches!(request, Request::Delete | Request::Release { .. } | Request::HandOver)
}
