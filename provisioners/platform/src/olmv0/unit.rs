//! A package in a namespace, which a Subscription installs: what its BundleDeployment is called and bears. Pure.

use std::sync::Arc;

use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::installation::deployment_name;
use rukpak_crds::olmv0::{NAMESPACE_LABEL, PACKAGE, Subscription};
use rukpak_plan::owner::controller;

/// A package in a namespace: what a BundleDeployment is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub namespace: String,
    pub package: String,
}

/// The namespace that a BundleDeployment is installed for by a Subscription, as it says.
pub(super) fn namespace(deployment: &BundleDeployment) -> Option<&str> {
    deployment.labels().get(NAMESPACE_LABEL).map(String::as_str)
}

impl Unit {
    /// What a BundleDeployment is for, if it is one of a Subscription.
    pub fn of(deployment: &BundleDeployment) -> Option<Self> {
        let package = deployment.annotations().get(PACKAGE)?.clone();
        let unit = Self { namespace: namespace(deployment)?.to_owned(), package };
        let is_controlled = controller(&deployment.metadata).is_some();
        (deployment.name_any() == unit.name() && !is_controlled).then_some(unit)
    }

    pub fn of_subscription(subscription: &Subscription) -> Self {
        Self { namespace: subscription.namespace().unwrap_or_default(), package: subscription.spec.name.clone() }
    }

    /// The name of the BundleDeployment.
    pub fn name(&self) -> String {
        deployment_name(&self.namespace, &self.package)
    }
}

/// The objects of a namespace.
pub(super) fn within<K>(store: &Store<K>, namespace: &str) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let mut all = store.state();
    all.retain(|object| object.meta().namespace.as_deref() == Some(namespace));
    all
}
