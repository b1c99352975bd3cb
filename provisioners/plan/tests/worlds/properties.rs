//! What has to hold in every state of every world; and how things that happen are told of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rukpak_crds::condition::{ConditionStatus, Conditions};
use rukpak_crds::names::OWNER_UID;
use rukpak_crds::{BundleDeploymentStatus, DeletionPolicy};
use rukpak_plan::decide::Decision;
use rukpak_plan::memory::{Memory, later};
use rukpak_plan::{Phase, Release};
use serde_json::Value;

use crate::server::{Key, Object, Operation, Request};
use crate::world::{Deployment, World, named, object};

/// So long an upgrade that was begun waits for the Bundle of the template that came after it.
const PATIENCE: Duration = Duration::from_mins(5);

type Objects = BTreeMap<Key, Arc<Object>>;

/// Says what is wrong with a write that `controller` made of `key` for `deployment`. `before` is what was there, `known` what was there
/// before somebody acted at the last moment; `is_wanted`: what is asked for is still what it was when the reconcile began, and has not failed.
pub fn of_write(
    world: &World,
    (controller, deployment): (usize, usize),
    is_wanted: bool,
    key: &Key,
    (before, known): (&Objects, &Objects),
) -> Option<String> {
    let (was, is) = (before.get(key), world.server.objects.get(key));
    let was = was.filter(|was| is.is_none_or(|is| is != *was))?;
    let is_end = is.is_none_or(|is| is.is_terminating && !was.is_terminating);
    if is_end {
        return of_deletion(world, (controller, deployment), is_wanted, (key, was), (before, known));
    }
    let is = is?;
    let owner = &world.deployments[deployment].owner;
    let applied = &world.controllers[controller].known[deployment].inbox.objects;
    let is_known = applied
        .iter()
        .any(|(known, tracked)| known.kind == key.kind && known.name == key.name && tracked.fingerprint.uid == was.uid);
    let metadata = &was.value["metadata"];
    let may_adopt =
        metadata["annotations"]["core.rukpak.io/adopt-by"] == owner.name.as_str() && controlled_by(was).is_none();
    // One more owner is added to it, and versions.
    let is_united =
        key.kind == "CustomResourceDefinition" && metadata["labels"]["core.rukpak.io/owner-kind"] == "BundleDeployment";
    if !is_ours(was, &owner.uid) && !is_known && !may_adopt && key.kind != "Namespace" && !is_united {
        return Some(format!("{} {:?}, which is not ours, is written", key.kind, key.name));
    }
    let finalizers = |object: &Object| object.value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if let Some(lost) = finalizers(was).iter().find(|finalizer| !finalizers(is).contains(finalizer)) {
        return Some(format!("the finalizer {lost} of {} {:?}, which is not ours, is taken away", key.kind, key.name));
    }
    of_others(world, key, was, is)
}

/// Says what is wrong with what is applied of `key` for `deployment`: it is of a release that is neither installed, nor begun, nor asked
/// for.
pub fn of_apply(world: &World, deployment: usize, key: &Key, body: &Value) -> Option<String> {
    let declared = |release: &usize| {
        let mut all = world.small.releases[*release].iter().filter(|body| named(body).0 == *key);
        all.next().map(content)
    };
    let status = &world.deployments[deployment].status;
    let begun = status.inventory.as_ref().and_then(|inventory| Release::read(&inventory.pending.as_ref()?.release));
    let begun = begun.map(|begun| world.number(&begun));
    let known = [installed(world, deployment), begun, wanted(world, deployment)];
    // Less of it may be sent: some fields are left to others. Of a CRD versions are kept, and defaults are said.
    if key.kind == "CustomResourceDefinition" {
        return None;
    }
    let is_of = |declared: &Value| {
        let compared = crate::server::values::compare(declared, content(body));
        compared.added.is_empty() && compared.modified.is_empty()
    };
    let is_known = known.iter().flatten().filter_map(declared).any(is_of);
    (!is_known).then(|| {
        format!("{} {:?} is applied as neither the installed nor the wanted release has it", key.kind, key.name)
    })
}

/// The part of an object that tells releases apart.
fn content(body: &Value) -> &Value {
    if body["data"].is_null() { &body["spec"] } else { &body["data"] }
}

/// Values of others go only where a manifest of ours says something of them, or has said.
fn of_others(world: &World, key: &Key, was: &Object, is: &Object) -> Option<String> {
    let ours: Vec<Value> =
        world.small.releases.iter().flatten().filter(|body| named(body).0 == *key).cloned().collect();
    let declared: crate::server::values::Set = ours.iter().flat_map(crate::server::values::leaves).collect();
    let compared = crate::server::values::compare(&was.value, &is.value);
    let by_others = was
        .managers
        .iter()
        .filter(|(manager, _)| manager.operation == Operation::Update && manager.name != "rukpak-core");
    for (manager, owned) in by_others {
        let lost = owned.set.iter().find(|path| compared.removed.contains(*path) && !declared.contains(*path));
        if let Some(path) = lost.filter(|path| path.len() > 1 && path[0] != "f:metadata") {
            return Some(format!(
                "{} of {} {:?}, which {} has set, is taken away",
                path.join("."),
                key.kind,
                key.name,
                manager.name
            ));
        }
    }
    None
}

/// What garbage collection took although a deployment that is not deleted says that it has it.
pub fn of_collection(world: &World, before: &Objects) -> Option<String> {
    let gone = |key: &Key| {
        before.contains_key(key) && world.server.objects.get(key).is_none_or(|object| object.is_terminating)
    };
    world.deployments.iter().enumerate().find_map(|(number, this)| {
        let release = installed(world, number).filter(|_| !this.is_deleted)?;
        let is_said = this.status.conditions.is("Installed", ConditionStatus::True);
        let is_begun = this.status.inventory.as_ref().is_some_and(|inventory| inventory.pending.is_some());
        let mut declared =
            world.small.releases[release].iter().filter(|_| is_said && !is_begun).map(|body| named(body).0);
        let lost = declared.find(|key| gone(key))?;
        Some(format!("{} {:?}, which {:?} has, is collected as garbage", lost.kind, lost.name, this.owner.name))
    })
}

fn of_deletion(
    world: &World,
    (controller, deployment): (usize, usize),
    is_wanted: bool,
    (key, was): (&Key, &Object),
    (before, known): (&Objects, &Objects),
) -> Option<String> {
    let owner = &world.deployments[deployment].owner;
    let what = format!("{} {:?}", key.kind, key.name);
    let was = without_dead_owners(world, was, &owner.uid);
    if !is_ours(&was, &owner.uid) {
        return Some(format!("{what}, which is not ours, is deleted"));
    }
    // Once all of another release was written, nobody misses what only the installed one has.
    let tracked = &world.controllers[controller].known[deployment].inbox.objects;
    let is_written =
        |body: &Value| tracked.keys().any(|known| known.kind == named(body).0.kind && known.name == named(body).0.name);
    let inventory = world.deployments[deployment].status.inventory.as_ref();
    let begun = inventory.and_then(|inventory| Release::read(&inventory.pending.as_ref()?.release));
    // What is being deleted wants nothing any more.
    let is_ending = world.deployments[deployment].is_terminating;
    let begun = begun.map(|begun| world.number(&begun)).filter(|_| !is_ending);
    let is_over = begun.is_some_and(|begun| world.small.releases[begun].iter().all(is_written));
    let installed = installed(world, deployment).filter(|_| !is_over && !is_ending);
    let wanted = wanted(world, deployment).filter(|_| is_wanted && !is_ending);
    let declares = |release: usize, key: &Key| world.small.releases[release].iter().any(|body| named(body).0 == *key);
    for (role, release) in [("installed", installed), ("wanted", wanted)] {
        let Some(release) = release else { continue };
        if declares(release, key) {
            return Some(format!("{what}, which the {role} release declares, is deleted"));
        }
    }
    let sharers = was.value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    if sharers.clone().any(|sharer| sharer["uid"] != owner.uid.as_str()) {
        return Some(format!("{what}, which another BundleDeployment shares, is deleted"));
    }
    let phase = |key: &Key| world.server.kind(&key.kind).map(|kind| Phase::of(&kind.group, &key.kind));
    let is_later = |other: &Key| phase(other) > phase(key);
    let stays = |key: &Key| [begun, installed, wanted].into_iter().flatten().any(|release| declares(release, key));
    let mut waiting =
        before.iter().filter(|(other, object)| is_ours(object, &owner.uid) && is_later(other) && !stays(other));
    if let Some((other, _)) = waiting.next() {
        return Some(format!("{what} is deleted before {} {:?}, which needs it, is gone", other.kind, other.name));
    }
    let defined = was.value["spec"]["names"]["kind"].as_str().unwrap_or_default();
    // Nobody can ask and delete in one request: what is made between the two is lost.
    let mut instances = known.iter().filter(|(other, object)| other.kind == defined && !object.is_terminating);
    instances.next().map(|(instance, _)| {
        format!("{what} is deleted with {} {:?}, which nobody has deleted", defined, instance.name)
    })
}

/// The object as the deployment `ours` may take it: garbage collection takes the owner references of others off that are gone.
fn without_dead_owners(world: &World, object: &Object, ours: &str) -> Object {
    let mut object = object.clone();
    let dead = world.deployments.iter().filter(|one| one.is_deleted && one.owner.uid != ours);
    let is_dead = |uid: &Value| dead.clone().any(|one| uid == one.owner.uid.as_str());
    if let Some(owners) = object.value["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| !is_dead(&owner["uid"]));
    }
    object
}

fn controlled_by(object: &Object) -> Option<&str> {
    let owners = object.value["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// It has our controller owner reference; or our annotation, and nobody else controls it.
fn is_ours(object: &Object, uid: &str) -> bool {
    let metadata = &object.value["metadata"];
    if let Some(controller) = controlled_by(object) {
        return controller == uid;
    }
    let is_shared = metadata["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["uid"] == uid);
    metadata["annotations"][OWNER_UID] == uid || is_shared
}

/// The number of the release that the status says is installed.
pub fn installed(world: &World, deployment: usize) -> Option<usize> {
    let inventory = world.deployments[deployment].status.inventory.as_ref()?;
    Some(world.number(&Release::installed(inventory)?))
}

/// The number of the release that is asked for.
pub fn wanted(world: &World, deployment: usize) -> Option<usize> {
    let this = &world.deployments[deployment];
    let Some(number) = this.spec.rollback_to else { return Some(this.template) };
    let revision = this.status.history.iter().find(|revision| revision.revision == number)?;
    Some(world.number(&Release::read(&revision.release)?))
}

/// What is wrong with a state in which the controller has heard of everything, and is at rest or about to do something else.
pub fn of_state(world: &World, deployment: usize) -> Option<String> {
    let this = &world.deployments[deployment];
    let status = &*this.status;
    let is_begun = status.inventory.as_ref().is_some_and(|inventory| inventory.pending.is_some());
    let release = installed(world, deployment).filter(|_| !this.is_terminating)?;
    if status.conditions.is("Installed", ConditionStatus::True) && !is_begun {
        for body in &world.small.releases[release] {
            if let Some(why) = differs(world, deployment, body) {
                return Some(format!("Installed is True, and {why}"));
            }
        }
    }
    let is_ready =
        status.conditions.is("Ready", ConditionStatus::True) && status.observed_generation == Some(this.generation);
    if is_ready && wanted(world, deployment) != Some(release) {
        return Some("Ready is True, and what is asked for is not installed".to_owned());
    }
    let mut declared = world.small.releases[release].iter().filter(|_| is_ready);
    declared.find_map(|body| policy_differs(world, deployment, body).or_else(|| account_differs(this, body)))
}

/// What is wrong with a deployment that has just gone with its finalizer.
pub fn of_end(world: &World, deployment: usize) -> Option<String> {
    let this = &world.deployments[deployment];
    let is_in_order = this.spec.deletion_policy == Some(DeletionPolicy::InOrder);
    // What was to outlive it has no owner reference until the other policy is carried out, and stays.
    let goes_with_it = |object: &Object| is_in_order && controlled_by(object) == Some(&*this.owner.uid);
    let mut left = world.server.objects.iter().filter(|(_, object)| goes_with_it(object));
    left.next().map(|(key, _)| format!("the finalizer is taken off, and {} {:?} is not gone", key.kind, key.name))
}

/// What is wrong with a deployment that is being deleted, and of which nothing has gone for a while.
pub fn of_waiting(world: &World, deployment: usize) -> Option<String> {
    let this = &world.deployments[deployment];
    let mut all = world.server.objects.values();
    let waits_for_nothing = all.all(|object| !object.is_terminating && is_ours(object, &this.owner.uid));
    (this.is_terminating && waits_for_nothing).then(|| "it is being deleted, and waits for nothing".to_owned())
}

/// What is wrong with a deployment for which nothing is to be done any more.
pub fn of_rest(world: &World, deployment: usize) -> Option<String> {
    let this = &world.deployments[deployment];
    if this.is_terminating {
        return Some("it is being deleted, and nothing is done about that".to_owned());
    }
    if this.spec.suspend || this.is_deleted || this.status.conditions.is("Ready", ConditionStatus::True) {
        return None;
    }
    let (wanted, installed) = (wanted(world, deployment)?, installed(world, deployment));
    if this.spec.rollback_to.is_some() && Some(wanted) != installed && !this.has_dependencies {
        return Some("what was asked for by its number waits for what is ill".to_owned());
    }
    let is_ending = |key: &Key| world.server.objects.get(key).is_some_and(|object| object.is_terminating);
    let ending = world.small.releases[installed.unwrap_or(wanted)].iter().any(|body| is_ending(&named(body).0));
    let is_waiting = !this.is_unpacked || !this.has_dependencies || ending;
    let is_told = this.status.conditions.iter().any(|condition| condition.type_ == "Stalled");
    (!is_waiting && !is_told).then(|| "it is at rest, neither Ready nor Stalled".to_owned())
}

/// What is wrong with a decision that was made with `memory`, as it was before the reconcile.
pub fn of_decision(
    world: &World,
    deployment: usize,
    (memory, is_unblocked): (&Memory, bool),
    decision: &Decision,
) -> Option<String> {
    let Decision::Install { release, .. } = decision else { return None };
    let this = &world.deployments[deployment];
    let failed =
        memory.failed_upgrade.as_ref().filter(|failed| failed.release == *release && failed.problem.is_definite());
    let is_unchanged = this.status.observed_generation == Some(this.generation);
    if !is_unblocked && is_unchanged && failed.is_some_and(|failed| failed.is_held(world.now)) {
        return Some(
            "what was refused is begun again before its time, though nobody has changed what is asked for".to_owned(),
        );
    }
    let pending =
        this.status.inventory.as_ref().and_then(|inventory| Release::read(&inventory.pending.as_ref()?.release));
    let is_back = pending.is_some_and(|pending| pending != *release && memory.held_upgrade(&pending).is_none());
    if is_back
        && !this.is_unpacked
        && memory.waits_for_bundle_since.is_none_or(|since| world.now < later(since, PATIENCE))
        && memory.failed_upgrade.is_none()
        && installed(world, deployment) == Some(world.number(release))
    {
        return Some("the installed release comes back in the middle of an upgrade that has not failed".to_owned());
    }
    None
}

/// How an object is not as `body` declares it, if the status does not say so.
fn differs(world: &World, deployment: usize, body: &Value) -> Option<String> {
    let (key, _) = named(body);
    let this = &world.deployments[deployment];
    let known = &world.controllers[this.controller].known[deployment];
    let is_awaited = (known.next.is_some() || this.spec.suspend)
        && known.inbox.drifted.iter().any(|drifted| drifted.kind == key.kind && drifted.name == key.name);
    if is_told(&this.status, &key) || is_awaited {
        return None;
    }
    let what = format!("{} {:?}", key.kind, key.name);
    let Some(live) = world.server.objects.get(&key) else { return Some(format!("{what} is not there")) };
    let sharers = live.value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_shared = sharers.clone().any(|sharer| sharer["uid"] == this.owner.uid.as_str());
    if !is_ours(live, &this.owner.uid) && !is_shared {
        return Some(format!("{what} is not ours"));
    }
    if key.kind == "CustomResourceDefinition" {
        return lacks_version(body, live).map(|version| format!("{what} lacks version {version}"));
    }
    let contested = this.status.inventory.iter().flat_map(|inventory| &inventory.contested);
    let contested: Vec<_> = contested.filter(|field| field.kind == key.kind && field.name == key.name).collect();
    let compared =
        crate::server::values::compare(&object(body).without_server_fields(&mut Vec::new()).into_value(), &live.value);
    let is_left = |path: &[String]| {
        let theirs =
            live.managers.iter().filter(|(_, owned)| owned.set.contains(path)).map(|(manager, _)| &manager.name);
        let theirs: Vec<&String> = theirs.collect();
        contested.iter().any(|field| path.starts_with(&field.path) && theirs.contains(&&field.manager))
    };
    let is_declared = |path: &&Vec<String>| path.first().is_some_and(|key| key == "f:data" || key == "f:spec");
    let mut wrong = compared.removed.iter().chain(&compared.modified).filter(is_declared);
    wrong.find(|path| !is_left(path)).map(|path| format!("{} of {what} is not as declared", path.join(".")))
}

/// The first version that is declared and that the CRD does not serve. It may have more.
fn lacks_version(body: &Value, live: &Object) -> Option<String> {
    let versions = |body: &Value| body["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let is_served = |name: &Value| {
        versions(&live.value).iter().any(|version| version["name"] == *name && version["served"] == true)
    };
    let declared = versions(body).into_iter().filter(|version| version["served"] == true);
    let mut names = declared.map(|version| version["name"].clone());
    names.find(|name| !is_served(name)).map(|name| name.to_string())
}

/// Whether the status names the object: as missing, kept, used or left.
fn is_told(status: &BundleDeploymentStatus, key: &Key) -> bool {
    let name = format!("{:?}", key.name);
    let ready =
        status.conditions.iter().filter(|condition| condition.type_ == "Ready" || condition.type_ == "Contested");
    ready
        .into_iter()
        .any(|condition| condition.message.contains(&name) || condition.message.contains(&format!("/{}:", key.name)))
}

fn account_differs(this: &Deployment, body: &Value) -> Option<String> {
    let (key, _) = named(body);
    let account = this.spec.service_account.as_ref().map(|account| &account.name);
    (this.asked.get(&key) != account)
        .then(|| format!("Ready is True, and nobody asked whether the account may write {} {:?}", key.kind, key.name))
}

fn policy_differs(world: &World, deployment: usize, body: &Value) -> Option<String> {
    let (key, _) = named(body);
    let this = &world.deployments[deployment];
    if this.spec.deletion_policy == Some(DeletionPolicy::InOrder) && !this.has_finalizer {
        return Some("Ready is True, and a deletion would not be in order: there is no finalizer".to_owned());
    }
    let live = world.server.objects.get(&key).filter(|live| is_ours(live, &this.owner.uid))?;
    let goes = match this.spec.deletion_policy.unwrap_or_default() {
        DeletionPolicy::Delete | DeletionPolicy::InOrder => true,
        DeletionPolicy::Orphan => false,
        DeletionPolicy::KeepCRDs => key.kind != "CustomResourceDefinition",
    };
    let has_owner = controlled_by(live).is_some();
    (goes != has_owner)
        .then(|| format!("Ready is True, and the deletion policy of {} {:?} is not carried out", key.kind, key.name))
}

/// A request in words.
pub fn words(request: &Request) -> String {
    let by = |body: &Value| {
        let data = content(body);
        if data.is_null() { body["metadata"].to_string() } else { data.to_string() }
    };
    match request {
        Request::Get { key, .. } => format!("get {} {:?}", key.kind, key.name),
        Request::List { kind, .. } => format!("list {kind}"),
        Request::Create { key, body, .. } => format!("create {} {:?} with {}", key.kind, key.name, by(body)),
        Request::Apply { key, body, is_trial, .. } => {
            let trial = if *is_trial { " as a trial" } else { "" };
            let body: String = by(body).chars().take(90).collect();
            format!("apply {} {:?} with {body}{trial}", key.kind, key.name)
        }
        Request::Patch { key, body, .. } => format!("patch {} {:?} with {}", key.kind, key.name, by(body)),
        Request::Delete { key, .. } => format!("delete {} {:?}", key.kind, key.name),
    }
}

/// A decision in words.
pub fn decision(world: &World, decision: &Decision) -> String {
    let number = |release: &Release| world.number(release) + 1;
    match decision {
        Decision::Install { release, why } => format!("decision: install release {} ({why:?})", number(release)),
        Decision::Resume(release) => format!("decision: look whether release {} is there", number(release)),
        Decision::Repair { objects, .. } => {
            let names: Vec<&str> = objects.iter().map(|key| key.name.as_str()).collect();
            format!("decision: repair {}", names.join(", "))
        }
        other => format!("decision: {other:?}").chars().take(60).collect(),
    }
}

/// What a status says, in short.
pub fn status_words(status: &BundleDeploymentStatus) -> String {
    let all = status.conditions.iter().filter(|condition| matches!(condition.type_.as_str(), "Installed" | "Ready"));
    let mut words: Vec<String> =
        all.map(|condition| format!("{}={:?} ({})", condition.type_, condition.status, condition.reason)).collect();
    if status.inventory.as_ref().is_some_and(|inventory| inventory.pending.is_some()) {
        words.push("something is begun".to_owned());
    }
    words.join(", ")
}
