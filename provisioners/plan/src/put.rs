//! One object that is applied, as a machine: it says what to send next and is told what came of it. It sends nothing itself.
//!
//! An object that is not known is created, in one request that fails where it exists. Then it is looked at, and what is done follows
//! from whose it is: see [`Ownership`].

mod replacement;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use rukpak_crds::TakeOver;
use rukpak_crds::names::{self, FIELD_MANAGER, RECONCILE};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::fields::{self, Heir};
use crate::kind::is_crd;
use crate::owner::{self, ForeignOwner, Predecessors};
use crate::{Owner, Ownership, opt_out};

pub use self::replacement::{Replacement, has_dependents, may_be_replaced, replacement};

/// An object of ours as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its UID.
    pub uid: String,
    /// The version in which it was ours. A write that names it cannot own an object again that was orphaned meanwhile.
    pub version: Option<String>,
}

/// What is to be applied, and how.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// For whom.
    pub owner: &'a Owner,
    /// Who may have installed it before.
    pub predecessors: Predecessors<'a>,
    /// The rule that has it taken over, if one does.
    pub take_over: Option<&'a TakeOver>,
    /// What the release declares.
    pub body: &'a Value,
    /// Whether one of somebody else may be used.
    pub sharing: Sharing,
    /// Whether nothing is to be stored.
    pub is_trial: bool,
    /// Whether an object that cannot be changed may be deleted, to be made anew.
    pub may_replace: bool,
}

/// Whether an object of somebody else may be used in place of one's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It may not.
    #[default]
    Never,
    /// Whosever it is, as it is: a Namespace.
    AsItIs,
    /// If it is that of other BundleDeployments, and all of them can have it: a CRD.
    United,
    /// It may not, and others may not have this one: a CRD that outlives its owner would go with theirs.
    Kept,
    /// If its annotation names the package that the declared one names, and all installations can have it: a CRD that outlives them all.
    InCommon,
}

impl Sharing {
    /// How the object `key` may be shared, of which the release declares `body`.
    pub fn of(key: &ObjectKey, body: &Value) -> Self {
        let is_owned = !body["metadata"]["ownerReferences"].is_null();
        match (key.group.as_str(), key.kind.as_str()) {
            ("", "Namespace") => Self::AsItIs,
            _ if is_crd(key) && is_owned => Self::United,
            _ if is_crd(key) && package(body).is_some() => Self::InCommon,
            _ if is_crd(key) => Self::Kept,
            _ => Self::Never,
        }
    }

    /// Whether the object outlives whoever declares it.
    pub fn is_to_outlive(self) -> bool {
        matches!(self, Self::Kept | Self::InCommon)
    }
}

/// The package whose installations have the declared CRD in common.
fn package(body: &Value) -> Option<&str> {
    body["metadata"]["annotations"][names::IN_COMMON].as_str()
}

/// How the object in the cluster stands to what is declared.
#[derive(Clone, Debug, PartialEq)]
pub enum Compared {
    /// It has all that is declared.
    Covered,
    /// It can have it too, with these as `spec.versions`.
    Extended(Value),
    /// It cannot: why, in words.
    Incompatible(String),
}

/// What to send. `E` is how the API server says no.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<E> {
    /// Create the object; a conflict if it exists.
    Create,
    /// Apply to this very object; a conflict if it is another, or in another version where one is named.
    Update(Known),
    /// Apply to this very object, in this version, as the owner that controls it: what comes after may then take the owner off.
    Inherit(Known),
    /// Read the metadata.
    Look,
    /// Ask the API server, not a cache, whether the deployment still asks for the object. If it does, this follows.
    ///
    /// An owner reference that is added while the deployment is deleted with `--cascade=orphan` would make garbage collection delete
    /// the object. And an object of ours that was written since we saw it may have been written by another of our controllers, for a
    /// newer spec. The order is what makes that safe: the object is looked at first, so who wrote it before is in the answer, and who
    /// writes it later has the version changed.
    AskWanted(Box<Request<E>>),
    /// Make these the managers of its fields.
    MoveFields(Box<ObjectMeta>, Vec<ManagedFieldsEntry>),
    /// Replace its controller by the owner, and its managers by these.
    TakeOver(Box<ObjectMeta>, Option<Vec<ManagedFieldsEntry>>),
    /// Read the object, and compare it to what is declared.
    Compare,
    /// Add the owner as one that is no controller.
    Share(Box<ObjectMeta>),
    /// The same, and have the CRD have these versions.
    Extend(Box<ObjectMeta>, Value),
    /// Delete the object if it is ours and cannot be changed, which may be why it was refused so. In a trial: see whether that would be
    /// done.
    Replace(E),
}

/// What came of a request. `W` is what tells of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<W, E> {
    /// It was applied; the API server answered so.
    Applied(W),
    /// The metadata after fields were moved or the object was taken over.
    Moved(Box<ObjectMeta>),
    /// The metadata of the object that was compared, and what came of that.
    Compared(Box<ObjectMeta>, Compared),
    /// The owner was added.
    Shared,
    /// It exists already, is another object, or another version of it.
    Conflict(E),
    /// The API server says that the object cannot be as it is sent.
    Invalid(E),
    /// It failed in another way.
    Refused(E),
    /// The metadata; `None` if there is no such object.
    Seen(Option<Box<ObjectMeta>>),
    /// The metadata of an object whose controller keeps it, whatever the rule says: see [`is_outranked`](owner::is_outranked).
    Kept(Box<ObjectMeta>),
    /// Whether the deployment still asks for the object.
    Wanted(bool),
    /// Whether the object was deleted, or in a trial would be.
    Replaced(bool),
}

/// What became of the object.
#[derive(Clone, Debug, PartialEq)]
pub enum End<W, E> {
    /// It stands as declared.
    Applied(W),
    /// It is somebody else's, and used as it is.
    Used,
    /// It would be deleted and created again. The end of a trial.
    Replaceable,
    /// It is left as it is, for its annotation says so.
    Paused(Box<ObjectMeta>),
    /// It is being deleted.
    Terminating,
    /// It belongs to an earlier BundleDeployment of this name and is about to be garbage collected.
    LeftBehind {
        /// UID of the earlier one.
        uid: String,
    },
    /// It is somebody else's.
    Foreign(ForeignOwner),
    /// The deployment asks for something else by now, or is being deleted.
    Unwanted,
    /// The API server refuses it.
    Refused(E),
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<W, E> {
    /// Send this.
    Send(Request<E>),
    /// It is over.
    End(End<W, E>),
}

/// One object on its way into the cluster.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    task: Task<'a>,
    known: Option<Known>,
    /// The UID of the object that was known before the last look.
    had: Option<String>,
    /// Writes of the object that were sent.
    attempts: usize,
    /// Writes of its ownership that came too late.
    races: usize,
}

/// A lost race is run again this often before it is reported.
const ATTEMPTS: usize = 5;
/// And from this attempt on an object that others write all the time is told by its UID alone.
const PATIENCE: usize = 3;

impl<'a> Put<'a> {
    /// Begins; without `known` the object is first tried to be created.
    pub fn new(task: Task<'a>, known: Option<Known>) -> Self {
        Self { task, known, had: None, attempts: 0, races: 0 }
    }

    /// The first request.
    pub fn first<E>(&mut self) -> Request<E> {
        self.attempts += 1;
        match self.known.clone() {
            None => Request::Create,
            Some(Known { uid, version }) => {
                let version = version.filter(|_| !self.task.is_trial && self.attempts <= PATIENCE);
                Request::Update(Known { uid, version })
            }
        }
    }

    /// What follows from the answer to `sent`. One that does not fit is as good as none: the request is sent again.
    pub fn next<W, E>(&mut self, sent: Request<E>, answer: Answer<W, E>) -> Next<W, E> {
        let is_write = matches!(sent, Request::Create | Request::Update(_));
        match (sent, answer) {
            (_, Answer::Applied(written)) => Next::End(End::Applied(written)),
            (_, Answer::Shared) => Next::End(End::Used),
            (_, Answer::Conflict(_)) if is_write && self.attempts < ATTEMPTS => {
                self.had = self.known.take().map(|known| known.uid);
                Next::Send(Request::Look)
            }
            (_, Answer::Conflict(_)) if !is_write && self.races + 1 < ATTEMPTS => {
                self.races += 1;
                Next::Send(Request::Look)
            }
            (_, Answer::Invalid(refusal)) if is_write && self.task.may_replace => Next::Send(Request::Replace(refusal)),
            (_, Answer::Conflict(refusal) | Answer::Invalid(refusal) | Answer::Refused(refusal))
            | (Request::Replace(refusal), Answer::Replaced(false)) => Next::End(End::Refused(refusal)),
            (_, Answer::Replaced(true)) if self.task.is_trial => Next::End(End::Replaceable),
            (_, Answer::Seen(Some(metadata))) => self.found(metadata),
            (_, Answer::Kept(metadata)) => {
                self.task.take_over = None;
                self.found(metadata)
            }
            (_, Answer::Compared(metadata, compared)) => self.compared(metadata, compared),
            (_, Answer::Seen(None) | Answer::Replaced(true)) => self.write(None),
            (_, Answer::Moved(metadata)) => self.write(Some(known(&metadata))),
            (_, Answer::Wanted(false)) => Next::End(End::Unwanted),
            (Request::AskWanted(then), Answer::Wanted(true)) => match *then {
                Request::Update(known) => self.write(Some(known)),
                request => Next::Send(request),
            },
            (sent, Answer::Wanted(true) | Answer::Replaced(false)) => Next::Send(sent),
        }
    }

    /// What is done about the object that stands in the way.
    fn found<W, E>(&mut self, metadata: Box<ObjectMeta>) -> Next<W, E> {
        let is_known = self.had.as_ref().is_some_and(|had| metadata.uid.as_ref() == Some(had));
        let is_trial = self.task.is_trial;
        let known = known(&metadata);
        let ownership = self.ownership(&metadata);
        let is_lost = |foreign: &ForeignOwner| is_known && !matches!(foreign, ForeignOwner::Controller { .. });
        let is_written = match &ownership {
            Ownership::Terminating | Ownership::LeftBehind { .. } => false,
            Ownership::Foreign(foreign) => is_lost(foreign),
            _ => true,
        };
        if is_written && opt_out::is_paused(&metadata) {
            return Next::End(End::Paused(metadata));
        }
        match ownership {
            Ownership::Terminating => Next::End(End::Terminating),
            Ownership::LeftBehind { uid } => Next::End(End::LeftBehind { uid }),
            Ownership::Ours if self.task.sharing.is_to_outlive() && self.task.owner.is_shared(&metadata) => {
                let others = owner::owners(&metadata).filter(|other| other.uid != self.task.owner.uid);
                let names = others.map(|other| other.name.clone()).collect();
                Next::End(End::Foreign(ForeignOwner::Sharers { names }))
            }
            Ownership::Ours => match self.adoption(&metadata).filter(|_| !is_trial) {
                Some(adoption) => Next::Send(adoption),
                None if is_trial => self.write(Some(known)),
                None => ask(Request::Update(known)),
            },
            // It was ours and lost our owner reference: by hand, or because the deployment is deleted and leaves its objects.
            Ownership::Foreign(foreign) if is_lost(&foreign) => ask(Request::Update(known)),
            Ownership::HelmRelease | Ownership::AdoptionAllowed | Ownership::Inherited if is_trial => {
                self.write(Some(known))
            }
            Ownership::HelmRelease | Ownership::AdoptionAllowed => {
                ask(self.adoption(&metadata).unwrap_or(Request::Update(known)))
            }
            // It is to outlive us, and the owner reference by which we shared it would have it deleted with us.
            Ownership::Inherited if self.task.body["metadata"]["ownerReferences"].is_null() => {
                ask(Request::Inherit(known))
            }
            // By its version: another deployment that shares it may be first.
            Ownership::Inherited => ask(Request::Update(known)),
            // A trial would have two controllers, which is refused.
            Ownership::Extension if is_trial => Next::End(End::Used),
            Ownership::Extension => {
                let entries = fields::adopted(&metadata, self.heir(true));
                ask(Request::TakeOver(metadata, entries))
            }
            Ownership::Foreign(_) if self.task.sharing == Sharing::AsItIs => self.share(metadata),
            Ownership::Foreign(_) if self.is_united(&metadata) => Next::Send(Request::Compare),
            Ownership::Foreign(foreign) => Next::End(End::Foreign(foreign)),
        }
    }

    fn ownership(&self, metadata: &ObjectMeta) -> Ownership {
        self.task.owner.ownership(metadata, self.task.predecessors).ruled(self.task.take_over)
    }

    /// Whether an object of somebody else may be one that all who have it declare.
    fn is_united(&self, metadata: &ObjectMeta) -> bool {
        match self.task.sharing {
            Sharing::United => owner::owners(metadata).next().is_some(),
            Sharing::InCommon => {
                owner::in_common(metadata).is_some_and(|common| Some(common) == package(self.task.body))
            }
            Sharing::Never | Sharing::AsItIs | Sharing::Kept => false,
        }
    }

    /// What is done about an object of other BundleDeployments that was compared to what is declared.
    fn compared<W, E>(&mut self, metadata: Box<ObjectMeta>, compared: Compared) -> Next<W, E> {
        let is_trial = self.task.is_trial;
        // It may have become another's since it was looked at, or ours.
        let is_foreign = matches!(self.ownership(&metadata), Ownership::Foreign(_));
        if !is_foreign || !self.is_united(&metadata) {
            return self.found(metadata);
        }
        match compared {
            Compared::Covered => self.share(metadata),
            Compared::Extended(_) if opt_out::is_paused(&metadata) => {
                let name = leader_name(&metadata);
                let why = format!("it lacks versions, and is left as it is for its annotation {RECONCILE}");
                Next::End(End::Foreign(ForeignOwner::Incompatible { name, why }))
            }
            Compared::Extended(versions) if is_trial => Next::Send(Request::Extend(metadata, versions)),
            Compared::Extended(versions) => ask(Request::Extend(metadata, versions)),
            Compared::Incompatible(why) => {
                Next::End(End::Foreign(ForeignOwner::Incompatible { name: leader_name(&metadata), why }))
            }
        }
    }

    /// Uses the object; as one of its owners, where it would go with them, and with a note on one that is used in common.
    fn share<W, E>(&self, metadata: Box<ObjectMeta>) -> Next<W, E> {
        let is_noted = match self.task.sharing {
            Sharing::InCommon => owner::is_used_in_common(&metadata) || opt_out::is_paused(&metadata),
            _ => !self.task.owner.would_lose(&metadata),
        };
        if self.task.is_trial || is_noted { Next::End(End::Used) } else { Next::Send(Request::Share(metadata)) }
    }

    fn write<W, E>(&mut self, known: Option<Known>) -> Next<W, E> {
        self.known = known;
        Next::Send(self.first())
    }

    /// Moves the fields of whoever installed the object before, if there are any.
    fn adoption<E>(&self, metadata: &ObjectMeta) -> Option<Request<E>> {
        let entries = fields::adopted(metadata, self.heir(false))?;
        Some(Request::MoveFields(Box::new(metadata.clone()), entries))
    }

    fn heir(&self, replaces_olm: bool) -> Heir<'a> {
        let Task { owner, body, .. } = self.task;
        Heir { manager: FIELD_MANAGER, uid: &owner.uid, body, replaces_olm }
    }
}

fn leader_name(metadata: &ObjectMeta) -> String {
    let leader = owner::controller(metadata).or_else(|| owner::owners(metadata).next());
    leader.map_or_else(|| owner::claimed(metadata).name, |leader| leader.name.clone())
}

fn ask<W, E>(then: Request<E>) -> Next<W, E> {
    Next::Send(Request::AskWanted(Box::new(then)))
}

fn known(metadata: &ObjectMeta) -> Known {
    Known { uid: metadata.uid.clone().unwrap_or_default(), version: metadata.resource_version.clone() }
}
