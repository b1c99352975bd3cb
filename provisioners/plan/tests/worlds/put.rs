//! One object: what the crate's machine asks for is sent, and it is told what came of that. As `execute/put.rs`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crds::names::{FIELD_MANAGER, SHARING_MANAGER};
use rukpak_plan::owner::{ForeignOwner, Predecessors};
use rukpak_plan::owner_metadata::{creating, updating};
use rukpak_plan::put::{Answer, Compared, End, Known, Next, Put, Request as Wish, Sharing, Task};
use rukpak_plan::put::{Replacement, replacement};
use rukpak_plan::resolve::{Basis, Live, needs_live, resolve};
use rukpak_plan::retry::Class;
use rukpak_plan::{Owner, Step};
use serde_json::{Value, json};

use super::{Run, Stop, get, key_of};
use crate::server::{Refusal, Request};
use crate::world::{NAMESPACE, metadata};

/// Why an object could not be applied.
pub enum Error {
    Collision(String, ForeignOwner),
    InTheWay(String),
    Refused(String, Refusal),
    Deleted,
}

pub enum Outcome {
    Applied(Value, Option<String>),
    Used,
}

impl Error {
    pub fn refused(step: &Step, refusal: Refusal) -> Self {
        Self::Refused(step.identity.to_string(), refusal)
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(_, Refusal::NotFound))
    }

    pub fn is_collision(&self) -> bool {
        matches!(self, Self::Collision(..))
    }

    pub fn may_be_taken_over(&self) -> bool {
        matches!(self, Self::Collision(_, foreign) if !matches!(foreign, ForeignOwner::Controller { is_deployment: true, .. }))
    }

    pub fn is_transient(&self) -> bool {
        match self {
            Self::Collision(..) => false,
            Self::InTheWay(_) | Self::Deleted => true,
            Self::Refused(_, refusal) => matches!(refusal, Refusal::Unavailable | Refusal::Conflict),
        }
    }

    pub fn class(&self) -> Class {
        match self {
            _ if self.is_transient() => Class::Transient,
            _ if self.may_be_taken_over() => Class::Blocked,
            _ => Class::Terminal,
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::Collision(what, foreign) => format!("{what} exists: {}", foreign.why()),
            Self::InTheWay(what) => format!("{what} is in the way: waiting until it is gone"),
            Self::Refused(what, refusal) => format!("{what}: {refusal:?}"),
            Self::Deleted => "the BundleDeployment is being deleted".to_owned(),
        }
    }
}

/// The object as the server answered with it, and what stays as it is, in words.
type Came = (Value, Option<String>);

impl Run<'_> {
    pub(super) fn put(
        &mut self,
        step: &Step,
        known: Option<Known>,
        basis: &Basis<'_>,
        is_trial: bool,
    ) -> Result<Result<Outcome, Error>, Stop> {
        let (owner, body) = (self.owner.clone(), step.body());
        let task = Task {
            owner: &owner,
            predecessors: Predecessors { system_namespace: NAMESPACE, extension: None },
            take_over: None,
            body: &body,
            sharing: Sharing::of(&step.key, &body),
            is_trial,
            may_replace: basis.why.policy().replaces_immutable,
        };
        let mut put = Put::new(task, known);
        let mut wish = put.first();
        loop {
            let answer = self.grant(step, &wish, basis, is_trial)?.unwrap_or_else(judge);
            match put.next(wish, answer) {
                Next::Send(next) => wish = next,
                Next::End(end) => return Ok(self.put_ended(step, end)),
            }
        }
    }

    fn grant(
        &mut self,
        step: &Step,
        wish: &Wish<Refusal>,
        basis: &Basis<'_>,
        is_trial: bool,
    ) -> Result<Result<Answer<Came, Refusal>, Refusal>, Stop> {
        Ok(match wish {
            Wish::Create => {
                let (body, kept) = self.body(step, None, basis)?;
                self.send_apply(step, creating(body), is_trial)?.map(|written| Answer::Applied((written, kept)))
            }
            Wish::Update(known) => {
                let (body, kept) = self.body(step, Some(known), basis)?;
                let body = updating(body, &known.uid, known.version.as_deref());
                self.send_apply(step, body, is_trial)?.map(|written| Answer::Applied((written, kept)))
            }
            Wish::Inherit(known) => {
                let (body, _) = self.body(step, Some(known), basis)?;
                let mut body = updating(body, &known.uid, known.version.as_deref());
                body["metadata"]["ownerReferences"] = json!([self.owner.reference()]);
                self.send_apply(step, body, is_trial)?.map(|written| Answer::Moved(Box::new(metadata(&written))))
            }
            Wish::Look => match self.send(&get(&step.identity))? {
                Ok(found) => Ok(Answer::Seen(Some(Box::new(metadata(&found))))),
                Err(Refusal::NotFound) => Ok(Answer::Seen(None)),
                Err(refusal) => Err(refusal),
            },
            Wish::AskWanted(_) => self.is_wanted()?.map(Answer::Wanted),
            Wish::MoveFields(found, entries) => {
                let change = json!({"resourceVersion": found.resource_version, "managedFields": entries});
                let moved = self.patch(&step.identity, &change, FIELD_MANAGER)?;
                moved.map(|moved| Answer::Moved(Box::new(metadata(&moved))))
            }
            Wish::TakeOver(..) => unreachable!("no deployment is made for a ClusterExtension"),
            Wish::Compare => match self.send(&get(&step.identity))? {
                Ok(found) => Ok(Answer::Compared(Box::new(metadata(&found)), compare(&found, &step.body()))),
                Err(Refusal::NotFound) => Ok(Answer::Seen(None)),
                Err(refusal) => Err(refusal),
            },
            Wish::Share(found) => {
                let change = shared(found, &self.owner);
                self.patch(&step.identity, &change, SHARING_MANAGER)?.map(|_| Answer::Shared)
            }
            // The small server has no trials of patches.
            Wish::Extend(..) if is_trial => Ok(Answer::Shared),
            Wish::Extend(found, versions) => {
                let (key, version) = key_of(&step.identity);
                let body = json!({"metadata": shared(found, &self.owner), "spec": {"versions": versions}});
                let manager = SHARING_MANAGER.to_owned();
                self.send(&Request::Patch { key, version, body, manager, is_status: false })?.map(|_| Answer::Shared)
            }
            // What would be replaced is found out when it is.
            Wish::Replace(_) if is_trial => Ok(Answer::Replaced(true)),
            Wish::Replace(_) => self.replace(step, basis)?.map(Answer::Replaced),
        })
    }

    fn put_ended(&mut self, step: &Step, end: End<Came, Refusal>) -> Result<Outcome, Error> {
        let what = step.identity.to_string();
        if matches!(end, End::Terminating | End::LeftBehind { .. } | End::Foreign(_)) {
            self.known().blocking.insert(step.key.clone());
        }
        match end {
            End::Applied((written, kept)) => Ok(Outcome::Applied(written, kept)),
            End::Used | End::Replaceable => Ok(Outcome::Used),
            End::Paused(_) => unreachable!("nobody asks for it in these worlds"),
            End::Unwanted => Err(Error::Deleted),
            End::Terminating | End::LeftBehind { .. } => Err(Error::InTheWay(what)),
            End::Foreign(foreign) => Err(Error::Collision(what, foreign)),
            End::Refused(refusal) => Err(Error::Refused(what, refusal)),
        }
    }

    fn send_apply(&mut self, step: &Step, body: Value, is_trial: bool) -> Result<Result<Value, Refusal>, Stop> {
        let (key, version) = key_of(&step.identity);
        self.send(&Request::Apply { key, version, body, manager: FIELD_MANAGER.to_owned(), is_trial })
    }

    /// What to send. The object is only read where that decides anything.
    fn body(&mut self, step: &Step, known: Option<&Known>, basis: &Basis<'_>) -> Result<(Value, Option<String>), Stop> {
        let declared = step.body();
        let live = match known.filter(|_| needs_live(&step.key, &declared, basis)) {
            Some(_) => self.send(&get(&step.identity))?.ok(),
            None => None,
        };
        let meta = live.as_ref().map(metadata);
        let live = live.as_ref().zip(meta.as_ref()).map(|(body, metadata)| Live { metadata, body });
        let resolved = resolve(&step.key, &declared, live, basis);
        Ok((resolved.body, resolved.kept.map(|kept| format!("{} {kept}", step.identity))))
    }

    fn replace(&mut self, step: &Step, basis: &Basis<'_>) -> Result<Result<bool, Refusal>, Stop> {
        let live = match self.send(&get(&step.identity))? {
            Ok(live) => live,
            Err(Refusal::NotFound) => return Ok(Ok(false)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let meta = metadata(&live);
        let live = Live { metadata: &meta, body: &live };
        let refusal = serde_json::from_value(json!({"code": 422})).unwrap();
        let replacement = replacement(&step.key, &step.body(), live, basis, &refusal);
        if !self.owner.owns_fully(&meta) || replacement != Replacement::Replace {
            return Ok(Ok(false));
        }
        let (key, version) = key_of(&step.identity);
        let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
        Ok(self.send(&Request::Delete { key, version, uid, resource_version })?.map(|_| true))
    }
}

/// As `execute::put::compare`.
fn compare(live: &Value, declared: &Value) -> Compared {
    match crd_upgrade::share(live, declared).expect("because the manifests are ours") {
        crd_upgrade::Sharing::Covered => Compared::Covered,
        crd_upgrade::Sharing::Extended(versions) => Compared::Extended(versions),
        crd_upgrade::Sharing::Incompatible(_) => Compared::Incompatible("it is declared otherwise".to_owned()),
    }
}

/// As `cluster::writer::shared`.
fn shared(found: &ObjectMeta, owner: &Owner) -> Value {
    let mut owners = found.owner_references.clone().unwrap_or_default();
    if !owners.iter().any(|other| other.uid == owner.uid) {
        owners.push(sharer(owner));
    }
    json!({"resourceVersion": found.resource_version, "ownerReferences": owners})
}

/// As a sharer's owner reference is written.
fn sharer(owner: &Owner) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..owner.reference() }
}

fn judge(refusal: Refusal) -> Answer<Came, Refusal> {
    match refusal {
        Refusal::Conflict | Refusal::OtherObject => Answer::Conflict(refusal),
        Refusal::Invalid => Answer::Invalid(refusal),
        _ => Answer::Refused(refusal),
    }
}

pub fn is_namespace(key: &rukpak_plain::ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}
