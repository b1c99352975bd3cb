//! What has to hold, of what the cluster shows. What the controller remembers is not looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use rukpak_crds::condition::{ConditionStatus, Conditions};
use rukpak_crds::names::{ADOPT_BY, DELETION_IN_ORDER, OWNER_UID};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, DeletionPolicy, ServiceAccountReference};
use rukpak_plan::{Phase, Release};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Pending, State};
use crate::server::values::{Set, compare, leaves};
use crate::server::{Key, Kind, Object, Operation};
use crate::story::{Told, named, release_of};
use crate::wire::may_write;

pub type Objects = BTreeMap<Key, Arc<Object>>;

const CRD: &str = "CustomResourceDefinition";
/// An upgrade that was taken back is tried again so seldom.
const SELDOM: Duration = Duration::from_hours(4);
const NEITHER: &str = "it is neither Ready nor Stalled";
/// Kinds that our programs have for themselves.
const OWN: [&str; 9] = [
    "Bundle",
    "BundleDeployment",
    "ClusterCatalog",
    "ClusterExtension",
    "ControllerRevision",
    "Lease",
    "Plan",
    "PlatformOperator",
    "Secret",
];

/// A BundleDeployment that is there.
pub struct Deployment {
    pub name: String,
    object: BundleDeployment,
    uid: String,
    status: BundleDeploymentStatus,
    is_deleted: bool,
}

pub fn deployments(objects: &Objects) -> Vec<Deployment> {
    let all = objects.iter().filter(|(key, _)| key.kind == "BundleDeployment");
    let read = |(key, object): (&Key, &Arc<Object>)| {
        let shown = object.shown(key, "core.rukpak.io/v1alpha1");
        let read: BundleDeployment = serde_json::from_value(shown).expect("because the controller wrote it");
        let status = read.status.clone().unwrap_or_default();
        let (uid, is_deleted) = (object.uid.clone(), object.is_terminating);
        Deployment { name: key.name.clone(), object: read, uid, status, is_deleted }
    };
    all.map(read).collect()
}

impl Deployment {
    pub fn installed(&self, told: &Told) -> Option<usize> {
        Some(told.number(&Release::installed(self.status.inventory.as_ref()?)?.content))
    }

    fn begun(&self, told: &Told) -> Option<usize> {
        let pending = self.status.inventory.as_ref()?.pending.as_ref()?;
        Some(told.number(&Release::read(&pending.release)?.content))
    }

    fn wanted(&self, told: &Told) -> Option<usize> {
        wanted(&self.object, told)
    }

    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or_default()
    }

    fn is(&self, condition: &str, truth: ConditionStatus) -> bool {
        self.status.conditions.is(condition, truth)
    }
}

/// The release that a deployment asks for.
fn wanted(deployment: &BundleDeployment, told: &Told) -> Option<usize> {
    let Some(number) = deployment.spec.rollback_to else {
        let template = serde_json::to_value(&deployment.spec.template).expect("JSON");
        return release_of(&template["spec"]);
    };
    let mut history = deployment.status.iter().flat_map(|status| &status.history);
    let revision = history.find(|revision| revision.revision == number)?;
    Some(told.number(&Release::read(&revision.release)?.content))
}

fn owners(object: &Object) -> impl Iterator<Item = &Value> {
    object.value["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// The UID of the deployment that an object is of: by its controller, or by our annotation if it has none.
fn owner(object: &Object) -> Option<&str> {
    let controller = owners(object).find(|owner| owner["controller"] == true);
    match controller {
        Some(controller) => controller["uid"].as_str().filter(|uid| uid.starts_with("BundleDeployment/")),
        None => object.value["metadata"]["annotations"][OWNER_UID].as_str(),
    }
}

fn is_shared_by(object: &Object, uid: &str) -> bool {
    owners(object).any(|owner| owner["uid"] == uid)
}

fn declares(told: &Told, release: usize, key: &Key) -> bool {
    told.story.releases[release].iter().any(|body| named(body).0 == *key)
}

/// The part of an object that tells releases apart.
fn content(body: &Value) -> &Value {
    if body["data"].is_null() { &body["spec"] } else { &body["data"] }
}

/// The content of an object in a release.
fn declared<'a>(told: &'a Told, release: usize, key: &Key) -> Option<&'a Value> {
    told.story.releases[release].iter().find(|body| named(body).0 == *key).map(content)
}

/// Says what is wrong with what was applied: it is of a release that is neither installed, nor begun, nor asked for; or it takes an
/// upgrade back that has not failed.
pub fn of_apply(state: &State, told: &Told, request: &Pending, before: &Objects) -> Option<String> {
    let asked = &request.asked;
    let name = asked.body["metadata"]["labels"]["core.rukpak.io/owner-name"].as_str()?;
    let place = asked.place(&state.server).filter(|_| asked.is_apply && asked.is_write())?;
    let key = Key { kind: place.kind, name: place.name? };
    // Of a CRD versions are kept.
    if key.kind == CRD || OWN.contains(&key.kind.as_str()) {
        return None;
    }
    let this = deployments(before).into_iter().find(|this| this.name == name && !this.is_deleted)?;
    let (known, _) = state.begun.get(&(request.process, name.to_owned()))?;
    let status = known.status.clone().unwrap_or_default();
    let (uid, object, is_deleted) = (this.uid.clone(), (**known).clone(), false);
    let then = Deployment { name: name.to_owned(), object, uid, status, is_deleted };
    let of = |this: &Deployment| [this.installed(told), this.begun(told), this.wanted(told)];
    // Less of it may be sent: some fields are left to others.
    let is_of = |release: usize| {
        let declared = declared(told, release, &key);
        declared
            .map(|declared| compare(declared, content(&asked.body)))
            .is_some_and(|compared| compared.added.is_empty() && compared.modified.is_empty())
    };
    if !of(&this).into_iter().chain(of(&then)).flatten().any(is_of) {
        return Some(format!(
            "{} {:?} is applied as no release has it that is installed, begun or wanted",
            key.kind, key.name
        ));
    }
    let (installed, begun) = (this.installed(told)?, this.begun(told)?);
    let is_back = is_of(installed) && !is_of(begun) && installed != begun && then.wanted(told) != Some(installed);
    (is_back && is_early(state, told, &this, begun, before)).then(|| {
        format!(
            "{} {:?} of the installed release comes back in the middle of an upgrade that has not failed",
            key.kind, key.name
        )
    })
}

/// Whether an upgrade that was begun is given more time: it was not refused, what fails may pass (not every failure is that of a
/// write), and what is asked for instead is not there yet.
fn is_early(state: &State, told: &Told, this: &Deployment, begun: usize, objects: &Objects) -> bool {
    let Some(upgrade) = state.upgrades.get(&this.name) else { return false };
    let is_foreign = |key: &Key| {
        objects.get(key).is_some_and(|live| owner(live) != Some(&this.uid) && !is_shared_by(live, &this.uid))
    };
    let is_blocked = told.story.releases[begun].iter().any(|body| {
        let (key, version) = named(body);
        let is_served = state.server.kind(&key.kind).is_some_and(|kind| kind.versions.contains(&version));
        !is_served || is_foreign(&key)
    });
    let (wanted, asked_since) = (this.wanted(told), upgrade.asked_since.map(|(_, since)| since));
    let is_awaited = wanted == Some(begun) || !is_unpacked(objects, wanted) && is_recent(asked_since);
    !upgrade.is_refused && !is_blocked && is_awaited && is_recent(upgrade.failing_since.or(upgrade.begun_since))
}

/// So long an upgrade is given.
fn is_recent(since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() < Duration::from_mins(5))
}

fn is_unpacked(objects: &Objects, release: Option<usize>) -> bool {
    objects.iter().any(|(key, object)| {
        key.kind == "Bundle"
            && release_of(&object.value["spec"]) == release
            && !object.value["status"]["phase"].is_null()
    })
}

/// Says what is wrong with what a request of `process` has changed. `known`: what there was when its last reconcile began.
pub fn of_write(state: &State, told: &Told, process: usize, before: &Objects) -> Option<String> {
    let after = &state.server.objects;
    if let Some(wrong) = of_end(before, after) {
        return Some(wrong);
    }
    let changed = before.iter().filter(|(key, was)| after.get(*key) != Some(*was) && !OWN.contains(&key.kind.as_str()));
    let mut wrong = changed.filter_map(|(key, was)| {
        let is = after.get(key);
        let is_end = is.is_none_or(|is| is.is_terminating && !was.is_terminating);
        // The instances of a CRD go with it.
        let is_of_crd = before.iter().any(|(crd, object)| {
            crd.kind == CRD
                && object.value["spec"]["names"]["kind"] == key.kind.as_str()
                && after.get(crd) != Some(object)
        });
        match is {
            _ if is_end && is_of_crd => None,
            _ if is_end => of_deletion(state, told, process, (key, was), before),
            Some(is) => of_change(told, key, was, is),
            None => None,
        }
    });
    wrong.next()
}

/// What is wrong with a deployment that has just gone with its finalizer: what it controls was to go before.
fn of_end(before: &Objects, after: &Objects) -> Option<String> {
    let gone =
        deployments(before).into_iter().filter(|this| !after.contains_key(&Key::new("BundleDeployment", &this.name)));
    let mut in_order = gone.filter(|this| this.object.spec.deletion_policy == Some(DeletionPolicy::InOrder));
    in_order.find_map(|this| {
        let controls = |object: &Object| {
            owners(object).any(|owner| owner["controller"] == true && owner["uid"] == this.uid.as_str())
        };
        let mut left = after.iter().filter(|(key, object)| controls(object) && !OWN.contains(&key.kind.as_str()));
        left.next().map(|(key, _)| {
            format!("the finalizer of {} is taken off, and {} {:?} is not gone", this.name, key.kind, key.name)
        })
    })
}

fn of_change(told: &Told, key: &Key, was: &Object, is: &Object) -> Option<String> {
    let metadata = &was.value["metadata"];
    let what = format!("{} {:?}", key.kind, key.name);
    let has_controller = owners(was).any(|owner| owner["controller"] == true);
    let is_ours = owner(was).is_some() || owners(was).any(|owner| owner["kind"] == "BundleDeployment");
    let may_adopt = metadata["annotations"][ADOPT_BY].is_string() && !has_controller;
    let is_united = key.kind == CRD && metadata["labels"]["core.rukpak.io/owner-kind"] == "BundleDeployment";
    if !is_ours && !may_adopt && !is_united && key.kind != "Namespace" {
        return Some(format!("{what}, which is not ours, is written"));
    }
    let finalizers = |object: &Object| object.value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if let Some(lost) = finalizers(was).iter().find(|finalizer| !finalizers(is).contains(finalizer)) {
        return Some(format!("the finalizer {lost} of {what} is taken away"));
    }
    // Values of others go only where a manifest of ours says something of them, or has said.
    let ours = told.story.releases.iter().flatten().filter(|body| named(body).0 == *key);
    let declared: Set = ours.flat_map(leaves).collect();
    let compared = compare(&was.value, &is.value);
    let others = was
        .managers
        .iter()
        .filter(|(other, _)| other.operation == Operation::Update && !other.name.starts_with("rukpak"));
    for (manager, owned) in others {
        let lost = owned.set.iter().find(|path| compared.removed.contains(*path) && !declared.contains(*path));
        if let Some(path) = lost.filter(|path| path.len() > 1 && path[0] != "f:metadata") {
            return Some(format!("{} of {what}, which {} has set, is taken away", path.join("."), manager.name));
        }
    }
    None
}

fn of_deletion(
    state: &State,
    told: &Told,
    process: usize,
    (key, was): (&Key, &Object),
    before: &Objects,
) -> Option<String> {
    let what = format!("{} {:?}", key.kind, key.name);
    let live = deployments(before);
    let is_deployment = |owner: &&Value| owner["kind"] == "BundleDeployment";
    let owner = owner(was).or_else(|| owners(was).filter(is_deployment).find_map(|owner| owner["uid"].as_str()));
    let Some(uid) = owner else { return Some(format!("{what}, which is not ours, is deleted")) };
    let sharer = live.iter().find(|one| one.uid != uid && !one.is_deleted && is_shared_by(was, &one.uid));
    if let Some(sharer) = sharer {
        return Some(format!("{what}, which {} shares, is deleted", sharer.name));
    }
    let us = live.iter().find(|one| one.uid == uid && !one.is_deleted)?;
    let (known, length) = state.begun.get(&(process, us.name.clone()))?;
    // Once all of another release was written, nobody misses what only the installed one has.
    let begun = us.begun(told);
    let applied = state.upgrades.get(&us.name).map(|upgrade| &upgrade.applied);
    let is_written = |body: &Value| {
        let (key, _) = named(body);
        let is_there = |live: &Object| self::owner(live) == Some(uid) || is_shared_by(live, uid);
        applied.is_some_and(|applied| applied.contains(&key)) || before.get(&key).is_some_and(|live| is_there(live))
    };
    let is_over = begun.is_some_and(|begun| told.story.releases[begun].iter().all(is_written));
    let installed = us.installed(told).filter(|_| !is_over);
    // What nobody has told the process yet, it does not know.
    let wanted = us.wanted(told).filter(|_| Some(us.generation()) == known.metadata.generation);
    // A rollback deletes what the failed upgrade created. Taken for that is all that the installed release does not declare.
    let is_given_up = state.upgrades.get(&us.name).is_some_and(|upgrade| {
        upgrade.is_refused || upgrade.failing_since.is_some_and(|since| !is_recent(Some(since)))
    });
    let is_kept = us.installed(told).is_none_or(|release| declares(told, release, key));
    let wanted = wanted.filter(|_| is_kept || !is_given_up);
    for (role, release) in [("installed", installed), ("wanted", wanted)] {
        if release.is_some_and(|release| declares(told, release, key)) {
            return Some(format!("{what}, which the {role} release of {} declares, is deleted", us.name));
        }
    }
    let phase = |key: &Key| state.server.kind(&key.kind).map(|kind| Phase::of(&kind.group, &key.kind));
    let stays =
        |key: &Key| [begun, installed, wanted].into_iter().flatten().any(|release| declares(told, release, key));
    let is_later = |other: &Key| phase(other) > phase(key) && !OWN.contains(&other.kind.as_str());
    let mut waiting =
        before.iter().filter(|(other, object)| self::owner(object) == Some(uid) && is_later(other) && !stays(other));
    if let Some((other, _)) = waiting.next() {
        return Some(format!("{what} is deleted before {} {:?}, which needs it, is gone", other.kind, other.name));
    }
    // Nobody can ask and delete in one request: what is made between the two is lost.
    let defined = was.value["spec"]["names"]["kind"].as_str().filter(|_| key.kind == CRD)?;
    // With one deployment, the request before was the question.
    let length = if live.len() == 1 { state.known } else { *length };
    let is_older = |object: &Object| object.version <= state.version_at(length);
    let mut instances =
        before.iter().filter(|(other, object)| other.kind == defined && !object.is_terminating && is_older(object));
    instances.next().map(|(instance, _)| {
        format!("{what} is deleted with {} {:?}, which nobody has deleted", defined, instance.name)
    })
}

/// What garbage collection took although a deployment that is not deleted says that it has it.
pub fn of_collection(state: &State, told: &Told, before: &Objects) -> Option<String> {
    let after = &state.server.objects;
    let gone = |key: &Key| {
        before.get(key).is_some_and(|was| !was.is_terminating)
            && after.get(key).is_none_or(|object| object.is_terminating)
    };
    deployments(after).iter().find_map(|this| {
        let is_said = this.is("Installed", ConditionStatus::True) && !this.is_deleted && this.begun(told).is_none();
        let release = this.installed(told).filter(|_| is_said)?;
        let lost = told.story.releases[release].iter().map(|body| named(body).0).find(|key| gone(key))?;
        Some(format!("{} {:?}, which {} has, is collected as garbage", lost.kind, lost.name, this.name))
    })
}

/// What is wrong when nothing happens any more.
pub fn of_rest(state: &State, told: &Told) -> Option<String> {
    let objects = &state.server.objects;
    let all = deployments(objects);
    let ends = all.iter().find(|this| this.is_deleted && state.server.undeletable.is_empty());
    if let Some(this) = ends {
        return Some(format!("at rest, {} is being deleted, and waits for nothing", this.name));
    }
    let wrong = all.iter().filter(|this| !this.is_deleted).find_map(|this| {
        let account = this.object.spec.service_account.as_ref().map(ServiceAccountReference::user_name);
        let is_unasked =
            account.as_ref().is_some_and(|user| !state.reviewed.contains(user) || !may_write(user, &state.server));
        let is_ready = this.is("Ready", ConditionStatus::True) && !this.object.spec.suspend;
        let unasked =
            (is_unasked && is_ready).then(|| "Ready is True, and nobody asked what its account may do".to_owned());
        let wrong = of_deployment(objects, told, this).or(unasked)?;
        let is_served = |kind: &Kind, version: &String| kind.versions.contains(version);
        let lacks_kind = |body: &Value| {
            let (key, version) = named(body);
            state.server.kind(&key.kind).is_none_or(|kind| !is_served(&kind, &version))
        };
        let is_unserved = this.wanted(told).is_some_and(|release| told.story.releases[release].iter().any(lacks_kind));
        let said = words(&this.status);
        // What a webhook or a policy keeps from it, is tried again, ever more seldom.
        let failed = state.upgrades.get(&this.name).and_then(|upgrade| upgrade.failed);
        let is_late = failed.is_none_or(|failed| failed.elapsed() > SELDOM);
        let may_pass = said.contains("ServiceUnavailable") && !(is_late && state.server.refused.is_empty());
        let is_excused = said.contains("cannot be imported into the current release")
            || (is_unserved && said.contains("resource mapping not found"))
            || may_pass
            || !state.server.undeletable.is_empty();
        if is_excused && wrong == NEITHER {
            return None;
        }
        Some(format!("at rest, {}: {wrong}; its status says {}", this.name, words(&this.status)))
    });
    wrong.or_else(|| (told.story.rest)(state, told))
}

fn of_deployment(objects: &Objects, told: &Told, this: &Deployment) -> Option<String> {
    let (installed, wanted) = (this.installed(told), this.wanted(told));
    let is_current = this.status.observed_generation == Some(this.generation());
    if !is_current {
        return Some("what is asked for was not looked at".to_owned());
    }
    let is_ready = this.is("Ready", ConditionStatus::True);
    if let Some(release) = installed.filter(|_| this.is("Installed", ConditionStatus::True)) {
        let is_kept = !this.object.spec.suspend && this.begun(told).is_none();
        let mut declared = told.story.releases[release].iter().filter(|_| is_kept);
        if let Some(wrong) = declared.find_map(|body| differs(objects, this, body)) {
            return Some(format!("Installed is True, and {wrong}"));
        }
    }
    if is_ready && installed != wanted && !this.object.spec.suspend {
        return Some("Ready is True, and what is asked for is not installed".to_owned());
    }
    if is_ready {
        let release = installed?;
        let has_finalizer = this.object.finalizers().iter().any(|finalizer| finalizer == DELETION_IN_ORDER);
        if this.object.spec.deletion_policy == Some(DeletionPolicy::InOrder) && !has_finalizer {
            return Some("Ready is True, and a deletion would not be in order".to_owned());
        }
        return told.story.releases[release].iter().find_map(|body| policy_differs(objects, this, body));
    }
    let is_told = this.status.conditions.iter().any(|condition| condition.type_ == "Stalled");
    // What is asked for by its number waits for nobody.
    let depends_on = this.object.spec.depends_on.iter().filter(|_| this.object.spec.rollback_to.is_none());
    let is_waiting = depends_on.into_iter().any(|needed| {
        let needed = Key::new("BundleDeployment", &needed.name);
        objects.get(&needed).is_none_or(|needed| {
            let ready = needed.value["status"]["conditions"].as_array().into_iter().flatten();
            !ready.clone().any(|one| one["type"] == "Ready" && one["status"] == "True")
        })
    });
    (!is_ready && !is_told && !is_waiting && !this.object.spec.suspend).then(|| NEITHER.to_owned())
}

/// How an object is not as `body` declares it, if the status does not say so.
fn differs(objects: &Objects, this: &Deployment, body: &Value) -> Option<String> {
    let (key, _) = named(body);
    if is_told(&this.status, &key) {
        return None;
    }
    let what = format!("{} {:?}", key.kind, key.name);
    let Some(live) = objects.get(&key).filter(|live| !live.is_terminating) else {
        return Some(format!("{what} is not there"));
    };
    let is_own = owner(live) == Some(&this.uid) || is_shared_by(live, &this.uid);
    // One that outlives its owner is used as it is.
    if !is_own && key.kind != "Namespace" {
        return Some(format!("{what} is not its own"));
    }
    if key.kind == CRD {
        return lacks_version(body, live).map(|version| format!("{what} lacks version {version}"));
    }
    let contested = this.status.inventory.iter().flat_map(|inventory| &inventory.contested);
    let contested: Vec<_> = contested.filter(|field| field.kind == key.kind && field.name == key.name).collect();
    let compared = compare(body, &live.value);
    let is_declared = |path: &&Vec<String>| path.first().is_some_and(|key| key == "f:data" || key == "f:spec");
    let mut wrong = compared.removed.iter().chain(&compared.modified).filter(is_declared);
    let is_theirs = |path: &[String], manager: &str| {
        live.managers.iter().any(|(theirs, owned)| theirs.name == manager && owned.set.contains(path))
    };
    let is_left = |path: &[String]| {
        contested.iter().any(|field| path.starts_with(&field.path) && is_theirs(path, &field.manager))
    };
    let wrong = wrong.find(|path| !is_left(path))?;
    Some(format!("{} of {what} is not as declared", wrong.join(".")))
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
    let (quoted, path) = (format!("{:?}", key.name), format!("/{}:", key.name));
    let told = status.conditions.iter().filter(|condition| matches!(condition.type_.as_str(), "Ready" | "Contested"));
    told.into_iter().any(|condition| condition.message.contains(&quoted) || condition.message.contains(&path))
}

fn policy_differs(objects: &Objects, this: &Deployment, body: &Value) -> Option<String> {
    let (key, _) = named(body);
    let live = objects.get(&key).filter(|live| owner(live) == Some(&this.uid))?;
    let goes = match this.object.spec.deletion_policy.unwrap_or_default() {
        DeletionPolicy::Delete | DeletionPolicy::InOrder => true,
        DeletionPolicy::Orphan => false,
        DeletionPolicy::KeepCRDs => key.kind != CRD,
    };
    let has_owner = owners(live).any(|owner| owner["controller"] == true);
    (goes != has_owner)
        .then(|| format!("Ready is True, and the deletion policy of {} {:?} is not carried out", key.kind, key.name))
}

/// What a status says, in short.
fn words(status: &BundleDeploymentStatus) -> String {
    let all = status
        .conditions
        .iter()
        .filter(|condition| matches!(condition.type_.as_str(), "Installed" | "Ready" | "Stalled"));
    let said = all.map(|one| format!("{}={:?} ({}: {})", one.type_, one.status, one.reason, one.message));
    said.collect::<Vec<_>>().join(", ")
}
