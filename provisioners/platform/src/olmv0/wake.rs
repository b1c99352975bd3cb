//! Passes that are asked for, and over what.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::{CatalogSource, OLMConfig, OperatorGroup, Subscription};
use rukpak_runtime::lock::lock;
use tokio::sync::mpsc::UnboundedSender;

use super::membership::is_in_conflict;
use super::neighbours::has_roles;
use super::unit::{Unit, namespace, within};

/// What is looked at of an OLMConfig, whatever its spec says.
pub(super) type Config = PartialObjectMeta<OLMConfig>;

/// Asks for passes.
#[derive(Clone)]
pub(crate) struct Wake {
    pub(super) known: Store<Subscription>,
    pub(super) subscriptions: UnboundedSender<ObjectRef<Subscription>>,
    pub(super) deployments: UnboundedSender<ObjectRef<BundleDeployment>>,
    pub(super) sources: UnboundedSender<ObjectRef<CatalogSource>>,
    pub(super) groups: UnboundedSender<ObjectRef<OperatorGroup>>,
    pub(super) configs: UnboundedSender<ObjectRef<Config>>,
    /// Names of the BundleDeployments that had the roles for users when they were last seen.
    pub(super) roles: Arc<Mutex<HashSet<String>>>,
}

// Receivers are dropped only when the process ends, or where nobody asked for this API.
impl Wake {
    /// A BundleDeployment, and the Subscriptions of the namespace that it is for; or the one that it is in the way of.
    pub fn changed(&self, deployment: &BundleDeployment) {
        let Some(namespace) = namespace(deployment) else {
            let name = deployment.name_any();
            let subscriptions = self.known.state();
            for subscription in
                subscriptions.iter().filter(|subscription| Unit::of_subscription(subscription).name() == name)
            {
                self.subscription(subscription);
            }
            return;
        };
        self.deployment(deployment);
        for subscription in within(&self.known, namespace) {
            self.subscription(&subscription);
        }
        let name = deployment.name_any();
        let has = has_roles(deployment);
        let had = if has { !lock(&self.roles).insert(name) } else { lock(&self.roles).remove(&name) };
        // Those roles are of the cluster, and one installation has them: another one may from now on.
        let concerned: fn(&Subscription) -> bool = if had && !has { |_| true } else { is_in_conflict };
        self.beside(deployment, concerned);
    }

    /// A BundleDeployment that is gone, and those that are `left`: the package may be installed elsewhere, and others may have what it
    /// alone had, also where no Subscription has them.
    pub fn gone(&self, deployment: &BundleDeployment, left: &[Arc<BundleDeployment>]) {
        self.changed(deployment);
        lock(&self.roles).remove(&deployment.name_any());
        self.beside(deployment, |_| true);
        if let Some(unit) = Unit::of(deployment) {
            let is_same = |other: &&Arc<BundleDeployment>| Unit::of(other).is_some_and(|it| it.package == unit.package);
            left.iter().filter(is_same).for_each(|other| self.deployment(other));
            return;
        }

        // One that was handed back to OLM does not say any more of which package it was.
        for waiting in self.known.state().iter().filter(|waiting| is_in_conflict(waiting)) {
            self.subscription(waiting);
        }
    }

    /// All BundleDeployments, and all Subscriptions: what they wait for may have gone while nobody watched.
    pub fn listed(&self, deployments: &[Arc<BundleDeployment>]) {
        let ours = deployments.iter().filter(|deployment| namespace(deployment).is_some() && has_roles(deployment));
        *lock(&self.roles) = ours.map(|deployment| deployment.name_any()).collect();
        for deployment in deployments.iter().filter(|deployment| namespace(deployment).is_some()) {
            self.deployment(deployment);
        }
        for subscription in self.known.state() {
            self.subscription(&subscription);
        }
    }

    /// The package in other namespaces, where it is `concerned`.
    fn beside(&self, deployment: &BundleDeployment, concerned: fn(&Subscription) -> bool) {
        let Some(unit) = Unit::of(deployment) else { return };
        let mut others = self.known.state();
        others.retain(|other| {
            other.spec.name == unit.package && other.meta().namespace.as_ref() != Some(&unit.namespace)
        });
        for other in others.into_iter().filter(|other| concerned(other)) {
            self.subscription(&other);
            let _ = self.deployments.send(ObjectRef::new(&Unit::of_subscription(&other).name()));
        }
    }

    /// A pass over a Subscription, by namespace and name.
    pub fn dependent(&self, namespace: &str, name: &str) {
        let _ = self.subscriptions.send(ObjectRef::new(name).within(namespace));
    }

    pub(super) fn subscription(&self, subscription: &Subscription) {
        let _ = self.subscriptions.send(ObjectRef::from_obj(subscription));
    }

    pub(super) fn deployment(&self, deployment: &BundleDeployment) {
        let _ = self.deployments.send(ObjectRef::from_obj(deployment));
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use rukpak_crds::olmv0::{NAMESPACE_LABEL, PACKAGE};
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::super::membership::CONFLICT;
    use super::*;

    type Woken = (UnboundedReceiver<ObjectRef<Subscription>>, UnboundedReceiver<ObjectRef<BundleDeployment>>);

    /// In a cluster with a Subscription of the package `p` in each of these namespaces.
    fn wake(namespaces: &[&str]) -> (Wake, Woken) {
        let (known, mut writer) = reflector::store();
        for namespace in namespaces {
            let subscription = json!({"metadata": {"name": "s", "namespace": namespace},
                "spec": {"name": "p", "source": "c", "sourceNamespace": "olm"}});
            writer.apply_watcher_event(&Event::Apply(serde_json::from_value(subscription).unwrap()));
        }
        let (subscriptions, of_subscriptions) = unbounded_channel();
        let (deployments, of_deployments) = unbounded_channel();
        let (sources, groups, configs) = (unbounded_channel().0, unbounded_channel().0, unbounded_channel().0);
        let wake = Wake { known, subscriptions, deployments, sources, groups, configs, roles: Arc::default() };
        (wake, (of_subscriptions, of_deployments))
    }

    /// That of the package `p` in a namespace.
    fn deployment(namespace: &str, config: &Value) -> Arc<BundleDeployment> {
        let unit = Unit { namespace: namespace.to_owned(), package: "p".to_owned() };
        let metadata =
            json!({"name": unit.name(), "labels": {NAMESPACE_LABEL: namespace}, "annotations": {PACKAGE: "p"}});
        let spec = json!({"provisionerClassName": "c", "config": config,
            "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    /// The namespaces whose Subscriptions are looked at, and how many BundleDeployments are.
    fn told((subscriptions, deployments): &mut Woken) -> (Vec<String>, usize) {
        let mut of: Vec<String> = std::iter::from_fn(|| subscriptions.try_recv().ok()?.namespace).collect();
        of.sort();
        (of, std::iter::from_fn(|| deployments.try_recv().ok()).count())
    }

    #[test]
    fn whoever_waits_for_an_end_that_nobody_saw_looks_again() {
        let (wake, mut woken) = wake(&["a", "b"]);
        wake.listed(&[deployment("a", &json!({}))]);
        assert_eq!(told(&mut woken), (vec!["a".to_owned(), "b".to_owned()], 1));
    }

    #[test]
    fn whoever_was_in_conflict_is_enqueued_when_the_other_is_gone() {
        let (wake, mut woken) = wake(&["b"]);
        let alone = deployment("c", &json!({}));
        wake.gone(&deployment("a", &json!({})), &[alone]);
        let (subscriptions, deployments) = told(&mut woken);
        assert_eq!((subscriptions, deployments), (vec!["b".to_owned()], 3), "its own, that of b, and the one without");

        let mut handed_back = (*deployment("a", &json!({}))).clone();
        (handed_back.metadata.labels, handed_back.metadata.annotations) = (None, None);
        wake.gone(&handed_back, &[]);
        assert_eq!(told(&mut woken), (vec![], 0), "b waits for nobody");

        let (known, mut writer) = reflector::store();
        let told_so = json!([{"type": "ResolutionFailed", "status": "True", "reason": CONFLICT}]);
        let waiting = json!({"metadata": {"name": "s", "namespace": "b"},
            "spec": {"name": "p", "source": "c", "sourceNamespace": "olm"},
            "status": {"lastUpdated": "2026-01-01T00:00:00Z", "conditions": told_so}});
        writer.apply_watcher_event(&Event::Apply(serde_json::from_value(waiting).unwrap()));
        Wake { known, ..wake }.gone(&handed_back, &[]);
        assert_eq!(told(&mut woken), (vec!["b".to_owned()], 0), "now it does");
    }

    #[test]
    fn others_may_have_the_roles_for_users_as_soon_as_whoever_had_them_gives_them_up() {
        let (wake, mut woken) = wake(&["a", "b"]);
        let (with, without) =
            (deployment("a", &json!({"apiRoles": true})), deployment("a", &json!({"apiRoles": false})));
        let mut changed = |deployment: &BundleDeployment| {
            wake.changed(deployment);
            told(&mut woken).0
        };
        assert_eq!([changed(&without), changed(&with), changed(&with)].concat(), ["a", "a", "a"]);
        assert_eq!(changed(&without), ["a", "b"]);
        assert_eq!(changed(&without), ["a"], "once");
    }
}
