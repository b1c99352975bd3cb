//! Changes of BundleDeployments, answers to Plans, and the watch of what comes of them.

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use rukpak_crds::{BundleDeployment, Plan, PlanApproval};
use serde_json::{Value, json};

use super::{Cluster, Error, creating, is_refusal, merging};

impl Cluster {
    /// Makes a BundleDeployment. One that is there already is a refusal with 409.
    pub async fn create(&self, deployment: &BundleDeployment) -> Result<BundleDeployment, Error> {
        self.deployments().create(&creating(), deployment).await.map_err(|error| self.fault(error))
    }

    /// Makes a BundleDeployment in the name of the manager that is to apply it from then on. What others have written before is a
    /// refusal with 409.
    pub async fn create_as(&self, manager: &str, deployment: &BundleDeployment) -> Result<BundleDeployment, Error> {
        let (name, parameters) = (deployment.name_any(), PatchParams::apply(manager));
        let applied = self.deployments().patch(&name, &parameters, &Patch::Apply(deployment)).await;
        applied.map_err(|error| self.fault(error))
    }

    /// Merges a patch into a BundleDeployment. One with a `metadata.resourceVersion` that is not the present one is a refusal
    /// with 409.
    pub async fn merge(&self, name: &str, patch: &Value) -> Result<BundleDeployment, Error> {
        self.deployments().patch(name, &merging(), &Patch::Merge(patch)).await.map_err(|error| self.fault(error))
    }

    /// Asks for the deletion of a BundleDeployment, which is there until its objects are gone.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), Error> {
        let deleted = self.deployments().delete(name, params).await;
        deleted.map(drop).map_err(|error| self.fault(error))
    }

    /// Makes `owner` the controller of a BundleDeployment in place of the one there is, in one write, provided nothing else has changed it
    /// since it was read.
    pub async fn hand_over(&self, deployment: &BundleDeployment, owner: Option<OwnerReference>) -> Result<(), Error> {
        let others = deployment.owner_references().iter().filter(|other| other.controller != Some(true)).cloned();
        let owners: Vec<OwnerReference> = others.chain(owner).collect();
        let patch = json!({"metadata": {
            "uid": deployment.uid(), "resourceVersion": deployment.resource_version(), "ownerReferences": owners,
        }});
        self.merge(&deployment.name_any(), &patch).await.map(drop)
    }

    /// Answers this very Plan, and no other that has taken its name since.
    pub async fn answer_plan(&self, plan: &Plan, approval: PlanApproval) -> Result<Plan, Error> {
        let plans: Api<Plan> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"uid": plan.uid()}, "spec": {"approval": approval}});
        plans.patch(&plan.name_any(), &merging(), &Patch::Merge(patch)).await.map_err(|error| self.fault(error))
    }

    /// A BundleDeployment as it is now and whenever it changes; `None` while there is none. After an error the watch begins
    /// again by itself, but for [`Error::Refused`], which will be refused again.
    pub fn watch_deployment(&self, name: &str) -> impl Stream<Item = Result<Option<BundleDeployment>, Error>> + use<> {
        let cluster = self.clone();
        let changes = watcher::watch_object(self.deployments(), name).default_backoff();
        changes.map(move |change| change.map_err(|error| cluster.watch_fault(error)))
    }

    fn watch_fault(&self, error: watcher::Error) -> Error {
        let unavailable = |source| Error::Unavailable { cluster: self.name.clone(), source };
        match error {
            // Who may not watch will not be let.
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                if is_refusal(status.code) || matches!(status.code, 401 | 403) =>
            {
                Error::Refused(status)
            }
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match self.fault(error) {
                Error::Refused(status) => unavailable(Box::new(kube::Error::Api(status))),
                other => other,
            },
            other => unavailable(Box::new(other)),
        }
    }
}

/// The labels that a BundleDeployment puts on everything that it makes.
pub fn owner_labels(deployment: &str) -> String {
    format!("{OWNER_KIND}={OWNER_KIND_VALUE},{OWNER_NAME}={deployment}")
}
