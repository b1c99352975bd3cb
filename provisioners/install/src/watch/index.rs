//! Who refers to whom among our own objects, so that nobody has to look through all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use rukpak_crds::{Bundle, BundleDeployment, Plan, PlanApproval};
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

    /// The Bundle is gone.
    pub fn bundle_gone(&self, name: &str) {
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
    pub fn deployment_gone(&self, name: &str) {
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

    /// The Plan is gone.
    pub fn plan_gone(&self, name: &str) {
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
    pub fn dependants_of(&self, name: &str) -> HashMap<String, bool> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let found = |name| index.dependants_of(name).into_iter().collect::<std::collections::BTreeMap<_, _>>();
        let expected = [("b", true), ("c", false), ("d", true)].map(|(name, is_direct)| (name.to_owned(), is_direct));
        assert_eq!(found("a"), expected.into());
        index.deployment(&deployment("a", &["d"]));
        assert!(found("a").contains_key("a"), "a circle");
        index.deployment_gone("b");
        assert!(found("b").contains_key("c"), "who needs what is gone is still known");
        assert!(!found("a").contains_key("c"), "what led there is gone");
    }
}
