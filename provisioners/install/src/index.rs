//! Who refers to whom among our own objects, and whose the objects are that a watch has seen, so that nobody has to look through all
//! of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use rukpak_crds::{Bundle, BundleDeployment, Plan, PlanApproval};
use rukpak_plain::ObjectKey;
use rukpak_plan::{Fingerprint, Identity, Kind, Owner};
use rukpak_runtime::lock::lock;
use tokio_util::sync::CancellationToken;

/// Kept by those who follow the watches, before anybody is told of a change.
#[derive(Default)]
pub struct Index {
    /// From Bundles to the UIDs of their controllers.
    bundles: Mutex<References>,
    /// From BundleDeployments to those that they depend on.
    deployments: Mutex<References>,
    /// From Plans to the UIDs of their controllers.
    plans: Mutex<References>,
    /// What was last seen that Plans were answered.
    answers: Mutex<HashMap<String, Option<PlanApproval>>>,
    bundles_listed: CancellationToken,
    deployments_listed: CancellationToken,
}

/// Objects by name, and what they refer to.
#[derive(Default)]
struct References {
    from: HashMap<String, BTreeSet<String>>,
    to: HashMap<String, BTreeSet<String>>,
}

impl Index {
    /// The Bundle is there, new or changed.
    pub fn bundle(&self, bundle: &Bundle) {
        let controllers = bundle.owner_references().iter().filter(|owner| owner.controller == Some(true));
        lock(&self.bundles).set(&bundle.name_any(), controllers.map(|owner| owner.uid.clone()).collect());
    }

    pub(crate) fn bundle_gone(&self, name: &str) {
        lock(&self.bundles).set(name, BTreeSet::new());
    }

    /// These are all Bundles.
    pub fn bundles(&self, all: &[impl AsRef<Bundle>]) {
        *lock(&self.bundles) = References::default();
        for bundle in all {
            self.bundle(bundle.as_ref());
        }
        self.bundles_listed.cancel();
    }

    /// The names of the Bundles that the object with this UID controls.
    pub fn bundles_of(&self, uid: &str) -> BTreeSet<String> {
        lock(&self.bundles).to.get(uid).cloned().unwrap_or_default()
    }

    /// The BundleDeployment is there, new or changed.
    pub fn deployment(&self, deployment: &BundleDeployment) {
        let needed = deployment.spec.depends_on.iter().map(|dependency| dependency.name.clone()).collect();
        lock(&self.deployments).set(&deployment.name_any(), needed);
    }

    /// The BundleDeployment is gone.
    pub(crate) fn deployment_gone(&self, name: &str) {
        lock(&self.deployments).set(name, BTreeSet::new());
    }

    /// These are all BundleDeployments.
    pub fn deployments(&self, all: &[impl AsRef<BundleDeployment>]) {
        *lock(&self.deployments) = References::default();
        for deployment in all {
            self.deployment(deployment.as_ref());
        }
        self.deployments_listed.cancel();
    }

    /// The Plan is there, new or changed. Returns whether it was answered otherwise than before.
    pub fn plan(&self, plan: &Plan) -> bool {
        let controllers = plan.owner_references().iter().filter(|owner| owner.controller == Some(true));
        lock(&self.plans).set(&plan.name_any(), controllers.map(|owner| owner.uid.clone()).collect());
        let before = lock(&self.answers).insert(plan.name_any(), plan.spec.approval);
        before.unwrap_or_default() != plan.spec.approval
    }

    pub(crate) fn plan_gone(&self, name: &str) {
        lock(&self.plans).set(name, BTreeSet::new());
        lock(&self.answers).remove(name);
    }

    /// These are all Plans. Returns those that were answered otherwise than before.
    pub fn plans<'a>(&self, all: &'a [Arc<Plan>]) -> Vec<&'a Arc<Plan>> {
        *lock(&self.plans) = References::default();
        let names: BTreeSet<String> = all.iter().map(|plan| plan.name_any()).collect();
        lock(&self.answers).retain(|name, _| names.contains(name));
        all.iter().filter(|plan| self.plan(plan)).collect()
    }

    /// The names of the Plans that the object with this UID controls.
    pub fn plans_of(&self, uid: &str) -> BTreeSet<String> {
        lock(&self.plans).to.get(uid).cloned().unwrap_or_default()
    }

    /// Returns when all Bundles and all BundleDeployments have been told once.
    pub async fn listed(&self) {
        self.bundles_listed.cancelled().await;
        self.deployments_listed.cancelled().await;
    }

    /// The names of the BundleDeployments that depend on `name`, those that depend on them, and so on; and whether each does so
    /// itself. `name` is among them if it is in a circle.
    pub(crate) fn dependants_of(&self, name: &str) -> HashMap<String, bool> {
        let references = lock(&self.deployments);
        let direct = |name: &str| references.to.get(name).into_iter().flatten();
        let mut found: HashMap<String, bool> = direct(name).map(|dependant| (dependant.clone(), true)).collect();
        let mut open: Vec<String> = found.keys().cloned().collect();
        while let Some(next) = open.pop() {
            for dependant in direct(&next) {
                if !found.contains_key(dependant) {
                    found.insert(dependant.clone(), false);
                    open.push(dependant.clone());
                }
            }
        }
        found
    }
}

impl References {
    fn set(&mut self, from: &str, to: BTreeSet<String>) {
        for old in self.from.remove(from).unwrap_or_default() {
            if let Some(names) = self.to.get_mut(&old) {
                names.remove(from);
                if names.is_empty() {
                    self.to.remove(&old);
                }
            }
        }
        for new in &to {
            self.to.entry(new.clone()).or_default().insert(from.to_owned());
        }
        if !to.is_empty() {
            self.from.insert(from.to_owned(), to);
        }
    }
}

/// An object as a watch saw it last.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Whose its ownership metadata says it is.
    pub owner: Arc<Owner>,
    /// What of it is compared.
    pub fingerprint: Fingerprint,
    /// Its kind, in the version that is watched.
    pub kind: Kind,
}

impl Observed {
    /// Where it is. `key` is what it was found by.
    pub fn identity(&self, key: &ObjectKey) -> Identity {
        Identity { kind: self.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

/// What a watch over one kind has seen: the objects by their keys, and the keys by owner. A key and an owner are in memory once, however
/// many objects name them.
#[derive(Default)]
pub(crate) struct ObservedObjects {
    objects: BTreeMap<Arc<ObjectKey>, Observed>,
    owned: HashMap<Arc<Owner>, BTreeSet<Arc<ObjectKey>>>,
}

impl ObservedObjects {
    /// The object as it was seen last.
    pub fn get(&self, key: &ObjectKey) -> Option<&Observed> {
        self.objects.get(key)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.objects.keys()
    }

    /// The objects of `owner`.
    pub fn of(&self, owner: &Owner) -> impl Iterator<Item = (&ObjectKey, &Observed)> {
        let keys = self.owned.get(owner).into_iter().flatten();
        keys.filter_map(|key| Some((&**key, self.objects.get(key)?)))
    }

    /// Takes up what was seen. Returns what was known of the object before.
    pub fn insert(&mut self, key: ObjectKey, mut observed: Observed) -> Option<Observed> {
        let known = self.objects.get_key_value(&key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| Arc::new(key));
        if let Some((owner, _)) = self.owned.get_key_value(&observed.owner) {
            observed.owner = owner.clone();
        }
        let owner = observed.owner.clone();
        let before = self.objects.insert(key.clone(), observed);
        if let Some(before) = before.as_ref().filter(|before| before.owner != owner) {
            self.disown(&before.owner, &key);
        }
        self.owned.entry(owner).or_default().insert(key);
        before
    }

    /// Forgets an object. Returns what was known of it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Observed> {
        let before = self.objects.remove(key)?;
        self.disown(&before.owner, key);
        Some(before)
    }

    fn disown(&mut self, owner: &Owner, key: &ObjectKey) {
        let Some(keys) = self.owned.get_mut(owner) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.owned.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_crds::names::FIELD_MANAGER;
    use serde_json::json;

    use super::*;

    fn bundle(name: &str, owners: &[(&str, bool)]) -> Arc<Bundle> {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, controller)| {
                json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": uid, "uid": uid,
                    "controller": controller})
            })
            .collect();
        let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"provisionerClassName": "c", "source": {"type": "upload", "upload": {}}}});
        Arc::new(serde_json::from_value(bundle).unwrap())
    }

    fn deployment(name: &str, needed: &[&str]) -> Arc<BundleDeployment> {
        let needed: Vec<_> = needed.iter().map(|name| json!({"name": name})).collect();
        let deployment = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": name}, "spec": {"provisionerClassName": "c", "dependsOn": needed, "template": {"spec": {
                "provisionerClassName": "c", "source": {"type": "upload", "upload": {}}}}}});
        Arc::new(serde_json::from_value(deployment).unwrap())
    }

    #[test]
    fn bundles_are_found_by_the_uid_of_their_controller() {
        let index = Index::default();
        index.bundles(&[
            bundle("a-1", &[("a", true)]),
            bundle("a-2", &[("a", true), ("x", false)]),
            bundle("alone", &[]),
        ]);
        assert_eq!(index.bundles_of("a"), BTreeSet::from(["a-1".to_owned(), "a-2".to_owned()]));
        assert!(index.bundles_of("x").is_empty(), "it owns, but does not control");
        index.bundle(&bundle("a-1", &[("b", true)]));
        index.bundle_gone("a-2");
        assert!(index.bundles_of("a").is_empty());
        assert_eq!(index.bundles_of("b").len(), 1);
        index.bundles(&[] as &[Arc<Bundle>]);
        assert!(index.bundles_of("b").is_empty(), "a new list is the whole truth");
    }

    #[test]
    fn who_depends_on_a_deployment_is_found_at_any_distance_and_in_a_circle() {
        let index = Index::default();
        index.deployments(&[
            deployment("b", &["a"]),
            deployment("c", &["b"]),
            deployment("d", &["c", "a"]),
            deployment("e", &[]),
        ]);
        let found = |name| index.dependants_of(name).into_iter().collect::<BTreeMap<_, _>>();
        let expected = [("b", true), ("c", false), ("d", true)].map(|(name, is_direct)| (name.to_owned(), is_direct));
        assert_eq!(found("a"), expected.into());
        index.deployment(&deployment("a", &["d"]));
        assert!(found("a").contains_key("a"), "a circle");
        index.deployment_gone("b");
        assert!(found("b").contains_key("c"), "who needs what is gone is still known");
        assert!(!found("a").contains_key("c"), "what led there is gone");
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: Some("ns".into()), name: name.into() }
    }

    fn observed(owner: &str) -> Observed {
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")));
        let owner = Arc::new(Owner { name: owner.into(), uid: owner.into() });
        let fingerprint = Fingerprint::of(&kube::core::ObjectMeta::default(), &owner, FIELD_MANAGER);
        Observed { owner, fingerprint, kind: Kind { resource, namespaced: true } }
    }

    fn names(seen: &ObservedObjects, owner: &str) -> Vec<String> {
        seen.of(&observed(owner).owner).map(|(key, _)| key.name.clone()).collect()
    }

    #[test]
    fn an_object_is_found_by_its_key_and_by_its_owner_of_now() {
        let mut seen = ObservedObjects::default();
        assert!(seen.insert(key("one"), observed("a")).is_none());
        assert!(seen.insert(key("two"), observed("a")).is_none());
        assert!(seen.insert(key("three"), observed("b")).is_none());
        assert_eq!(names(&seen, "a"), ["one", "two"]);
        // Another owner label: the object leaves the one and joins the other.
        assert_eq!(
            seen.insert(key("two"), observed("b")).map(|before| before.owner.name.clone()),
            Some("a".to_owned())
        );
        assert_eq!((names(&seen, "a"), names(&seen, "b")), (vec!["one".into()], vec!["three".into(), "two".into()]));
        assert_eq!(seen.get(&key("two")).map(|found| found.owner.name.as_str()), Some("b"));
        assert!(seen.remove(&key("one")).is_some());
        assert!(seen.remove(&key("one")).is_none());
        assert!(names(&seen, "a").is_empty());
        assert_eq!(seen.owned.len(), 1, "owners of nothing are forgotten");
    }

    #[test]
    fn owners_are_in_memory_once() {
        let mut seen = ObservedObjects::default();
        seen.insert(key("one"), observed("a"));
        seen.insert(key("two"), observed("a"));
        let owners: Vec<_> = seen.of(&observed("a").owner).map(|(_, observed)| observed.owner.clone()).collect();
        assert!(Arc::ptr_eq(&owners[0], &owners[1]));
    }
}
