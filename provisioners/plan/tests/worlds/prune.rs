//! What left: what the crate's pass asks for is sent, and it is told what came of that. As `execute/prune.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::InventoryKind;
use rukpak_crds::names::{self, FIELD_MANAGER};
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{self, Declared, complaints};
use rukpak_plan::memory::{Installation, later};
use rukpak_plan::prune::{
    Answer, End, Guard, HEALTHY_WITHIN, Leaving, NONE_SERVED, Order, Outcome, Pass, Pruning, Request as Wish,
    add_released, instances, released, would_be_lost,
};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::{Identity, Plan, Release};
use serde_json::{Value, json};

use super::install::{Bases, Members, used_name};
use super::{Run, Stop, get, key_of};
use crate::server::{Refusal, Request};
use crate::world::{NAMESPACE, metadata};

const QUESTIONS: u32 = 5;

impl Run<'_> {
    pub(super) fn prune(
        &mut self,
        mut members: Members,
        bases: &Bases,
        declared: &Declared,
        why: Why,
    ) -> Result<Pruning, Stop> {
        let (mut failed, mut stripped) = (Vec::new(), Vec::new());
        let plans: Vec<&Plan> = [&bases.installed, &bases.begun].into_iter().flatten().map(|plan| &**plan).collect();
        for step in plans.iter().flat_map(|plan| plan.steps.values()) {
            let is_unlisted =
                members.unlisted.iter().any(|kind| kind.group == step.key.group && kind.kind == step.key.kind);
            if declared.contains(&step.key) || members.objects.contains_key(&step.key) || is_unlisted {
                continue;
            }
            match self.send(&get(&step.identity))? {
                Ok(found) if self.is_marked(&metadata(&found)) => {
                    stripped.push(Leaving { identity: step.identity.clone(), metadata: Arc::new(metadata(&found)) });
                }
                Ok(_) | Err(Refusal::NotFound) => {}
                Err(refusal) => failed.push(format!("{}: {refusal:?}", step.identity)),
            }
        }
        let mut leaving = self.leaving(&mut members, declared);
        self.find_shared(|key| declared.contains(key), &members, &mut stripped, &mut failed)?;
        let has_stripped = !stripped.is_empty();
        leaving.extend(stripped);
        let is_ill = !complaints(&self.inbox().objects).is_empty();
        if !leaving.is_empty() && why != Why::WayBack && is_ill {
            return Ok(Pruning::Awaiting { until: later(self.world.now, HEALTHY_WITHIN) });
        }
        if has_stripped {
            self.confirm()?;
        }
        self.remove(leaving, failed, members)
    }

    pub(super) fn prune_again(&mut self, release: &Release) -> Result<(), Stop> {
        let kinds: BTreeSet<InventoryKind> = self.observed.inventory().kinds.into_iter().collect();
        let mut members = self.list(&kinds)?;
        let objects = self.inbox().objects.clone();
        let Installation::Applied { applied, differences, .. } = &self.memory.installation else { return Ok(()) };
        let declared = applied.declared(&objects, NAMESPACE);
        let used = differences.used.clone();
        let mut leaving = self.leaving(&mut members, &declared);
        let mut failed = Vec::new();
        let is_declared = |key: &ObjectKey| declared.contains(key) || used.contains(&used_name(key));
        self.find_shared(is_declared, &members, &mut leaving, &mut failed)?;
        if !leaving.is_empty() {
            self.confirm()?;
        }
        let pruned = self.remove(leaving, failed, members)?;
        if let Installation::Applied { applied, pruning, .. } = &mut self.memory.installation
            && applied.release() == release
        {
            *pruning = pruned;
        }
        Ok(())
    }

    fn is_marked(&self, metadata: &ObjectMeta) -> bool {
        self.owner.is_controller(metadata) || self.owner.is_sharer(metadata)
    }

    /// What we share and do not declare.
    fn find_shared(
        &mut self,
        is_declared: impl Fn(&ObjectKey) -> bool,
        members: &Members,
        found: &mut Vec<Leaving>,
        failed: &mut Vec<String>,
    ) -> Result<(), Stop> {
        let seen = self.world.controllers[self.controller].seen.iter();
        let shared = seen.filter(|(_, seen)| seen.sharers.contains(&self.owner)).map(|(key, _)| key.clone());
        for key in shared.collect::<Vec<_>>() {
            let is_known = members.objects.contains_key(&key) || found.iter().any(|known| known.identity.key() == key);
            let Some(kind) = self.world.kind(&key.kind, "v1").filter(|_| !is_declared(&key) && !is_known) else {
                continue;
            };
            let identity = Identity { kind, namespace: key.namespace.clone(), name: key.name.clone() };
            match self.send(&get(&identity))? {
                Ok(live) if self.is_marked(&metadata(&live)) => {
                    found.push(Leaving { identity, metadata: Arc::new(metadata(&live)) });
                }
                Ok(_) | Err(Refusal::NotFound) => {}
                Err(refusal) => failed.push(format!("{identity}: {refusal:?}")),
            }
        }
        Ok(())
    }

    fn leaving(&mut self, members: &mut Members, declared: &Declared) -> Vec<Leaving> {
        let applied = self.inbox().objects.values().map(|object| object.fingerprint.uid.clone()).collect();
        let found = members.objects.iter().map(|(key, member)| (key, &*member.metadata));
        let leaving = applied::leaving(found, declared, &applied);
        leaving.iter().filter_map(|key| members.objects.remove(key)).collect()
    }

    fn remove(&mut self, leaving: Vec<Leaving>, mut failed: Vec<String>, members: Members) -> Result<Pruning, Stop> {
        let (attempts, unanswered) = match &self.memory.installation {
            Installation::Applied { pruning: Pruning::Pending { attempts, unanswered, .. }, .. } => {
                (attempts.saturating_add(1), *unanswered)
            }
            _ => (1, 0),
        };
        let outcome = self.pass(leaving, &members.unlisted, unanswered < QUESTIONS)?;
        if outcome.is_superseded {
            return Err(Stop::Superseded);
        }
        failed.extend(outcome.failed);
        failed.extend(members.why);
        self.inbox().leaving = outcome.waiting.iter().map(|(key, _)| key.clone()).collect();
        if failed.is_empty() && outcome.waiting.is_empty() {
            return Ok(Pruning::Done);
        }
        let waiting = outcome.waiting.into_iter().map(|(_, why)| why);
        Ok(Pruning::Pending {
            message: failed.iter().cloned().chain(waiting).collect::<Vec<_>>().join("; "),
            is_failed: !failed.is_empty(),
            unlisted: members.unlisted,
            attempts,
            unanswered: if outcome.is_unanswered { unanswered.saturating_add(1) } else { 0 },
            until: later(self.world.now, retry::delay(Class::Transient, attempts)),
        })
    }

    fn pass(&mut self, leaving: Vec<Leaving>, unlisted: &[InventoryKind], is_patient: bool) -> Result<Outcome, Stop> {
        let before = self.inbox().leaving.clone();
        self.run_pass(Pass::new(self.owner.clone(), leaving, is_patient).wait_for(unlisted, &before))
    }

    pub(super) fn run_pass(&mut self, mut pass: Pass) -> Result<Outcome, Stop> {
        while let Some(order) = pass.next_order() {
            let id = order.id;
            let answer = self.carry_out(order)?;
            let Some((leaving, end)) = pass.answer(id, answer) else { continue };
            self.inbox().objects.remove(&leaving.identity.key());
            if let End::Released { reason } = end {
                let object = released(&leaving.identity, reason);
                // The controller does so when the pass is over.
                self.memory.released.push(object.clone());
                add_released(&mut self.observed.status.inventory.get_or_insert_default().released, [object]);
            }
        }
        Ok(pass.outcome())
    }

    fn carry_out(&mut self, Order { object, request, .. }: Order) -> Result<Answer, Stop> {
        let Leaving { identity, metadata: known } = &object;
        if !self.is_current() {
            return Ok(Answer::Wanted(false));
        }
        Ok(match request {
            Wish::Ask { guard, going } => self.would_lose(identity, guard, &going)?,
            Wish::Look => match self.send(&get(identity))? {
                Ok(found) => Answer::Seen(Some(Box::new(metadata(&found)))),
                Err(Refusal::NotFound) => Answer::Seen(None),
                Err(refusal) => refused(refusal),
            },
            Wish::AskWanted => match self.is_wanted()? {
                Ok(is_wanted) => Answer::Wanted(is_wanted),
                Err(refusal) => refused(refusal),
            },
            Wish::Delete => {
                let (key, version) = key_of(identity);
                let (uid, resource_version) = (known.uid.clone(), known.resource_version.clone());
                match self.send(&Request::Delete { key: key.clone(), version, uid, resource_version })? {
                    Ok(_) if self.world.server.objects.contains_key(&key) => Answer::Accepted,
                    Ok(_) => Answer::Done,
                    Err(Refusal::NotFound) => Answer::Absent,
                    Err(refusal) => refused(refusal),
                }
            }
            Wish::Release { .. } => {
                let change = self.unmarked(known);
                written(&self.patch(identity, &change, FIELD_MANAGER)?)
            }
            Wish::HandOver => {
                if !self.ask("ask for the other owners", |_| {})? {
                    return Ok(refused(Refusal::Unavailable));
                }
                let living = self.without_dead_owners(known);
                if !self.owner.is_shared(&living) {
                    return Ok(Answer::Alone(Box::new(living)));
                }
                let change = json!({"resourceVersion": known.resource_version,
                    "annotations": {names::OWNER_UID: null}, "ownerReferences": self.others(&living)});
                written(&self.patch(identity, &change, FIELD_MANAGER)?)
            }
            Wish::FollowVersion => {
                let resource = &identity.kind.resource;
                let found =
                    self.world.kind(&resource.kind, "").filter(|kind| kind.resource.version != resource.version);
                Answer::Version(found.map(|kind| Identity { kind, ..identity.clone() }))
            }
        })
    }

    fn would_lose(&mut self, identity: &Identity, guard: Guard, going: &BTreeSet<ObjectKey>) -> Result<Answer, Stop> {
        let lost = match guard {
            Guard::None | Guard::Data => return Ok(Answer::WouldLose(None)),
            Guard::Instances => self.instances(identity, going)?,
            Guard::Contents => self.contents(&identity.name, going)?,
        };
        Ok(match lost {
            Ok(lost) => Answer::WouldLose(lost),
            Err(refusal) => {
                let is_transient = refusal == Refusal::Unavailable;
                Answer::Unseen { why: format!("it cannot be seen what hangs on it: {refusal:?}"), is_transient }
            }
        })
    }

    fn instances(
        &mut self,
        crd: &Identity,
        going: &BTreeSet<ObjectKey>,
    ) -> Result<Result<Option<String>, Refusal>, Stop> {
        let crd = match self.send(&get(crd))? {
            Ok(crd) => crd,
            Err(Refusal::NotFound) => return Ok(Ok(None)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(resource) = instances(&crd) else { return Ok(Ok(Some(NONE_SERVED.to_owned()))) };
        self.living((&resource.group, &resource.kind, &resource.version), None, going)
    }

    fn contents(
        &mut self,
        namespace: &str,
        going: &BTreeSet<ObjectKey>,
    ) -> Result<Result<Option<String>, Refusal>, Stop> {
        for kind in ["ConfigMap", "Db"] {
            let Some(found) = self.world.kind(kind, "v1") else { continue };
            let found = (found.resource.group.as_str(), kind, found.resource.version.as_str());
            match self.living(found, Some(namespace), going)? {
                Ok(None) => {}
                other => return Ok(other),
            }
        }
        Ok(Ok(None))
    }

    fn living(
        &mut self,
        (group, kind, version): (&str, &str, &str),
        namespace: Option<&str>,
        going: &BTreeSet<ObjectKey>,
    ) -> Result<Result<Option<String>, Refusal>, Stop> {
        let list = Request::List { kind: kind.to_owned(), version: version.to_owned(), labels: Vec::new() };
        Ok(match self.send(&list)? {
            Ok(list) => {
                let all = list["items"].as_array().into_iter().flatten().map(metadata);
                let mut all = all.filter(|object| namespace.is_none() || object.namespace.as_deref() == namespace);
                let living = all.find(|object| would_be_lost(group, kind, object, namespace.is_some(), going));
                Ok(living.map(|object| format!("{kind} {:?} hangs on it", object.name.unwrap_or_default())))
            }
            Err(Refusal::NotFound) => Ok(None),
            Err(refusal) => Err(refusal),
        })
    }

    /// As `execute::prune::without_dead_owners`.
    fn without_dead_owners(&self, found: &ObjectMeta) -> ObjectMeta {
        let deployments = &self.world.deployments;
        let is_alive = |uid: &str| deployments.iter().any(|one| one.owner.uid == uid && !one.is_deleted);
        let mut living = found.clone();
        let own = &self.owner.uid;
        living.owner_references.iter_mut().for_each(|all| {
            all.retain(|owner| owner.kind != "BundleDeployment" || owner.uid == *own || is_alive(&owner.uid));
        });
        living
    }

    fn others(&self, found: &ObjectMeta) -> Value {
        let owners = found.owner_references.iter().flatten();
        json!(owners.filter(|owner| owner.uid != self.owner.uid).collect::<Vec<_>>())
    }

    /// As `Writer::release`.
    fn unmarked(&self, found: &ObjectMeta) -> Value {
        json!({
            "resourceVersion": found.resource_version,
            "labels": {names::OWNER_KIND: null, names::OWNER_NAME: null},
            "annotations": {names::OWNER_UID: null, names::PRIMARY_RESOURCE: null, names::PRIMARY_RESOURCE_TYPE: null,
                names::ADOPT_BY: self.owner.name},
            "ownerReferences": self.others(found),
        })
    }
}

fn written(sent: &Result<Value, Refusal>) -> Answer {
    match sent {
        Ok(_) => Answer::Done,
        Err(Refusal::NotFound) => Answer::Absent,
        Err(refusal) => refused(*refusal),
    }
}

fn refused(refusal: Refusal) -> Answer {
    let why = format!("{refusal:?}");
    if refusal == Refusal::Conflict { Answer::Conflict(why) } else { Answer::Refused(why) }
}
