//! What every pass over an object of OLM v0's API is handed.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;
use kube::{Client, Resource, ResourceExt};
pub(super) use rukpak_crds::olmv0::installation::FIELD_MANAGER;
use rukpak_crds::olmv0::{
    CatalogSource, ClusterServiceVersion, InstallPlan, OLMConfig, Operator, OperatorGroup, Subscription,
};
use rukpak_crds::{BundleDeployment, Plan};
use rukpak_runtime::failures::Failures;
use rukpak_runtime::status::WrittenVersions;

use super::bundles::Bundles;
use super::catalog_source::known::Catalogs;
use super::gate::Gate;
use super::membership::{Membership, membership};
use super::told::Told;
use super::unit::{namespace, within};
use super::wake::Wake;
use crate::dependencies::Dependencies;

pub(super) struct Context {
    pub client: Client,
    pub subscriptions: Store<Subscription>,
    pub plans: Store<InstallPlan>,
    pub versions: Store<ClusterServiceVersion>,
    pub sources: Store<CatalogSource>,
    pub groups: Store<OperatorGroup>,
    pub operators: Store<PartialObjectMeta<Operator>>,
    pub configs: Store<PartialObjectMeta<OLMConfig>>,
    pub namespaces: Store<Namespace>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// What BundleDeployments ask.
    pub questions: Store<Plan>,
    /// What CatalogSources have.
    pub catalogs: Catalogs,
    /// What is in the images of bundles.
    pub bundles: Bundles,
    /// What Operators were told.
    pub told: Told,
    /// Whether what a bundle depends on is installed.
    pub dependencies: Arc<Dependencies>,
    /// Whether catalogs have to name images by digest.
    pub requires_digests: bool,
    /// The namespace whose CatalogSources all Subscriptions may name.
    pub global: String,
    pub failures: Failures,
    /// Whether the kinds are ours to write.
    pub gate: Gate,
    /// Of what was written here and of BundleDeployments, whoever they are of.
    pub written: Arc<WrittenVersions>,
    pub wake: Wake,
}

impl Context {
    /// The OperatorGroups of a namespace, and what follows from them.
    pub fn membership(&self, namespace: &str) -> Membership {
        membership(&within(&self.groups, namespace), &self.namespaces.state())
    }

    /// The Subscription that has the package in the namespace: the oldest.
    pub fn subscription(&self, namespace: &str, package: &str) -> Option<Arc<Subscription>> {
        let of_package = |subscription: &Arc<Subscription>| {
            subscription.spec.name == package && subscription.meta().deletion_timestamp.is_none()
        };
        let mut all = within(&self.subscriptions, namespace);
        all.retain(of_package);
        let age = |subscription: &Arc<Subscription>| {
            (subscription.meta().creation_timestamp.as_ref().map(|time| time.0), subscription.name_any())
        };
        all.into_iter().min_by_key(age)
    }

    /// Asks for a pass over everything of a namespace.
    pub fn wake(&self, namespace: &str) {
        for subscription in within(&self.subscriptions, namespace) {
            self.wake.subscription(&subscription);
        }
        for deployment in self.deployments.state() {
            if self::namespace(&deployment) == Some(namespace) {
                self.wake.deployment(&deployment);
            }
        }
    }
}
