//! What an installation would do to the objects in the cluster, and what that means: rights, images, versions of CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::plan::{ChangedImage, ChangedVersion, GrownRight, Listing, PlanStatus, PlannedObject};
use rukpak_plain::{ObjectKey, containers};
use serde_json::Value;

use crate::hook::Event;
use crate::kind::is_crd;
use crate::owner::{Owner, Ownership};
use crate::prune::{self, Guard};
use crate::rights::{RBAC, growth};
use crate::{Identity, Plan, Step};

/// What is done to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is not there, and is created.
    Create,
    /// It is run as a hook at these events: made anew, whatever is there.
    Run(BTreeSet<Event>),
    /// It is there, and is changed.
    Change,
    /// It is there, and is changed, or deleted and made anew where a field cannot be changed.
    Replace,
    /// It is there, was not installed by the deployment, and becomes its own.
    TakeOver {
        /// Only this very object.
        uid: String,
    },
    /// It is there and somebody else's, and is used with its other owners.
    Share {
        /// Only this very object.
        uid: String,
    },
    /// It left the bundle, and stays in the cluster.
    Orphan {
        /// Only this very object.
        uid: String,
    },
    /// It left the bundle, and stays with the other BundleDeployments that have it.
    Leave {
        /// Only this very object.
        uid: String,
    },
    /// Objects of this kind cannot be listed: those that left the bundle are deleted as soon as they can be.
    DeleteUnlisted,
    /// It left the bundle, and is deleted.
    Delete {
        /// Only this very object.
        uid: String,
        /// What must not hang on it: then it is orphaned.
        unless: &'static str,
    },
}

/// What an installation would do.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// What is done to which object. Those that stay as they are are left out.
    pub actions: BTreeMap<ObjectKey, Action>,
    /// Rights that are granted in addition.
    pub rights: Vec<GrownRight>,
    /// Images that are others.
    pub images: Vec<ChangedImage>,
    /// Versions of CRDs that come or go.
    pub versions: Vec<ChangedVersion>,
}

impl Changes {
    /// Compares `new` with the `installed` release, if that is known, and with what of the release is there.
    pub fn between(installed: Option<&Plan>, new: &Plan, is_there: impl Fn(&ObjectKey) -> bool) -> Self {
        let before = |key: &ObjectKey| installed.and_then(|plan| plan.steps.get(key));
        let declared = new.steps.values().filter_map(|step| match before(&step.key) {
            Some(before) if before.is_same(step) => None,
            None if !is_there(&step.key) => Some((step.key.clone(), Action::Create)),
            _ if step.is_paused => None,
            _ if step.is_forced => Some((step.key.clone(), Action::Replace)),
            _ => Some((step.key.clone(), Action::Change)),
        });
        let mut actions: BTreeMap<ObjectKey, Action> = declared.collect();
        for hook in &new.hooks {
            let action = actions.entry(hook.step.key.clone()).or_insert_with(|| Action::Run(BTreeSet::new()));
            if let Action::Run(events) = action {
                events.insert(hook.event);
            }
        }
        Self {
            actions,
            rights: grown(installed, new),
            images: changed_images(installed, new),
            versions: changed_versions(installed, new),
        }
    }

    /// Notes that an object of `owner` is there that is not in the release any more.
    pub fn note_leaving(&mut self, owner: &Owner, key: ObjectKey, metadata: &ObjectMeta) {
        let action = leave(owner, &key, metadata);
        self.actions.insert(key, action);
    }

    /// Returns the objects that would be created, as far as it is known: they may be there and be somebody else's.
    pub fn created(&self) -> impl Iterator<Item = &ObjectKey> {
        self.actions.iter().filter(|(_, action)| **action == Action::Create).map(|(key, _)| key)
    }

    /// Notes that an object is there that would be created, and whose it is.
    pub fn note_found(&mut self, key: ObjectKey, ownership: &Ownership, metadata: &ObjectMeta) {
        let uid = metadata.uid.clone().unwrap_or_default();
        let action = match ownership {
            // It is created once that is gone.
            Ownership::Terminating | Ownership::LeftBehind { .. } => Action::Create,
            Ownership::Ours => Action::Change,
            Ownership::Foreign(_) => Action::Share { uid },
            Ownership::HelmRelease | Ownership::Extension | Ownership::AdoptionAllowed | Ownership::Inherited => {
                Action::TakeOver { uid }
            }
        };
        self.actions.insert(key, action);
    }

    /// Notes that what of this kind leaves the bundle is not known.
    pub fn note_unlisted(&mut self, group: &str, kind: &str) {
        let (group, kind, name) = (group.to_owned(), kind.to_owned(), ANY.to_owned());
        self.actions.insert(ObjectKey { group, kind, namespace: None, name }, Action::DeleteUnlisted);
    }

    /// Returns the text that stands for what is done to the objects.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (key, action) in &self.actions {
            let _ = writeln!(text, "{key}: {action:?}");
        }
        text
    }

    /// Returns what a Plan says of it, but for its phase. `what`: what is installed, in words.
    pub fn status(self, what: &str) -> PlanStatus {
        let of = |wanted: fn(&Action) -> bool| {
            Listing::of(
                self.actions.iter().filter(|(_, action)| wanted(action)).map(|(key, action)| object(key, action)),
            )
        };
        let status = PlanStatus {
            created: of(|action| matches!(action, Action::Create | Action::Run(_))),
            changed: of(|action| {
                matches!(action, Action::Change | Action::Replace | Action::TakeOver { .. } | Action::Share { .. })
            }),
            orphaned: of(|action| matches!(action, Action::Orphan { .. } | Action::Leave { .. })),
            deleted: of(|action| matches!(action, Action::Delete { .. } | Action::DeleteUnlisted)),
            ..PlanStatus::default()
        };
        let escalations = self.rights.iter().filter(|right| right.escalation).count();
        let mut status = PlanStatus {
            rights: Listing::of(self.rights),
            images: Listing::of(self.images),
            versions: Listing::of(self.versions),
            ..status
        };
        status.summary = summary(what, &status, escalations);
        status
    }
}

/// What the status says of a plan, in one sentence.
fn summary(what: &str, status: &PlanStatus, escalations: usize) -> String {
    let count = |count: i64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let objects = [
        ("creates", &status.created),
        ("changes", &status.changed),
        ("orphans", &status.orphaned),
        ("deletes", &status.deleted),
    ];
    let objects = objects.iter().filter(|(_, list)| list.count > 0);
    let mut parts: Vec<String> =
        objects.map(|(verb, list)| format!("{verb} {}", count(list.count, "object", "objects"))).collect();
    if status.rights.count > 0 {
        let escalation = if escalations > 0 { ", with escalation" } else { "" };
        parts.push(format!("grants {}{escalation}", count(status.rights.count, "right more", "rights more")));
    }
    if status.images.count > 0 {
        parts.push(format!("changes {}", count(status.images.count, "image", "images")));
    }
    if status.versions.count > 0 {
        let definitions = count(status.versions.count, "CRD", "CRDs");
        parts.push(format!("adds or removes versions of {definitions}"));
    }
    if parts.is_empty() {
        parts.push("changes no object".to_owned());
    }
    format!("{what}: {}", parts.join(", "))
}

/// Stands for the names of objects that are not known.
const ANY: &str = "*";

fn leave(owner: &Owner, key: &ObjectKey, metadata: &ObjectMeta) -> Action {
    let uid = metadata.uid.clone().unwrap_or_default();
    if owner.is_shared(metadata) {
        return Action::Leave { uid };
    }
    let unless = |guard| match guard {
        Guard::None | Guard::Data => "",
        Guard::Instances => "it has instances",
        Guard::Contents => "something is in it",
    };
    match prune::decide(&key.group, &key.kind, metadata) {
        prune::Decision::Delete => Action::Delete { uid, unless: "" },
        prune::Decision::DeleteUnless(guard) => Action::Delete { uid, unless: unless(guard) },
        prune::Decision::Release => Action::Orphan { uid },
    }
}

fn object(key: &ObjectKey, action: &Action) -> PlannedObject {
    let note = match action {
        Action::Run(events) => {
            let events: Vec<String> = events.iter().map(ToString::to_string).collect();
            format!("run as a hook: {}", events.join(", "))
        }
        Action::Replace => "deleted and made anew where a field cannot be changed".to_owned(),
        Action::TakeOver { .. } => "taken over: this BundleDeployment did not install it".to_owned(),
        Action::Share { .. } => "somebody else's: it is shared where the bundle allows that".to_owned(),
        Action::Leave { .. } => "left to the other BundleDeployments that have it".to_owned(),
        Action::DeleteUnlisted => {
            "this kind cannot be listed: what left the bundle is deleted once it can be".to_owned()
        }
        Action::Delete { unless, .. } if !unless.is_empty() => format!("unless {unless}: then it is orphaned"),
        _ => String::new(),
    };
    PlannedObject {
        group: key.group.clone(),
        kind: key.kind.clone(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        note,
    }
}

fn grown(installed: Option<&Plan>, new: &Plan) -> Vec<GrownRight> {
    let roles = |plan: &Plan| -> Vec<(Identity, Value)> {
        let all = plan.steps.values().chain(plan.hooks.iter().map(|hook| &hook.step));
        let steps = all.filter(|step| step.key.group == RBAC);
        steps.map(|step| (step.identity.clone(), step.body())).collect()
    };
    let (old, new) = (installed.map(roles).unwrap_or_default(), roles(new));
    growth(pairs(&old), pairs(&new))
}

fn pairs(objects: &[(Identity, Value)]) -> impl Iterator<Item = (&Identity, &Value)> {
    objects.iter().map(|(identity, body)| (identity, body))
}

/// Containers of the objects that differ, whose images are others.
fn changed_images(installed: Option<&Plan>, new: &Plan) -> Vec<ChangedImage> {
    let mut changed = Vec::new();
    for (step, before) in changed_steps(installed, new) {
        let before = before.map(|before| images(&before.body())).unwrap_or_default();
        for (container, to) in images(&step.body()) {
            let from = before.get(&container).cloned().unwrap_or_default();
            if from != to {
                changed.push(ChangedImage { object: step.key.to_string(), container, from, to });
            }
        }
    }
    changed
}

fn changed_versions(installed: Option<&Plan>, new: &Plan) -> Vec<ChangedVersion> {
    let mut changed = Vec::new();
    for (step, before) in changed_steps(installed, new).filter(|(step, _)| is_crd(&step.key)) {
        let before = before.map(|before| versions(&before.body())).unwrap_or_default();
        let after = versions(&step.body());
        let only =
            |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
        let (added, removed) = (only(&after, &before), only(&before, &after));
        if !added.is_empty() || !removed.is_empty() {
            changed.push(ChangedVersion { definition: step.key.name.clone(), added, removed });
        }
    }
    changed
}

fn changed_steps<'a>(installed: Option<&'a Plan>, new: &'a Plan) -> impl Iterator<Item = (&'a Step, Option<&'a Step>)> {
    let steps = new.steps.values().map(move |step| (step, installed.and_then(|plan| plan.steps.get(&step.key))));
    steps.filter(|(step, before)| before.is_none_or(|before| !before.is_same(step)))
}

/// Images by the names of their containers.
fn images(body: &Value) -> BTreeMap<String, String> {
    let named = containers(body).into_iter();
    named.filter_map(|item| Some((item["name"].as_str()?.to_owned(), item["image"].as_str()?.to_owned()))).collect()
}

fn versions(crd: &Value) -> BTreeSet<String> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
}
