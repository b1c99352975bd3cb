//! Passes that are asked for, and over what.

use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::{CatalogSource, OLMConfig, OperatorGroup, Subscription};
use tokio::sync::mpsc::UnboundedSender;

use super::membership::is_in_conflict;
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
        self.beside(deployment, is_in_conflict);
    }

    /// A BundleDeployment that is gone: the package may be installed elsewhere, and others may have what it alone had.
    pub fn gone(&self, deployment: &BundleDeployment) {
        self.changed(deployment);
        self.beside(deployment, |_| true);
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
