//! Changes of BundleDeployments, and the watch of what comes of them.

use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use rukpak_crds::{Bundle, BundleDeployment};
use serde_json::Value;

use super::{Cluster, Error, FIELD_MANAGER, is_refusal};

impl Cluster {
    /// Makes a BundleDeployment. One that is there already is a refusal with 409.
    pub async fn create(&self, deployment: &BundleDeployment) -> Result<BundleDeployment, Error> {
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.deployments().create(&parameters, deployment).await.map_err(|error| self.fault(error))
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
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.deployments().patch(name, &parameters, &Patch::Merge(patch)).await.map_err(|error| self.fault(error))
    }

    /// Asks for the deletion of a BundleDeployment, which is there until its objects are gone.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), Error> {
        let deleted = self.deployments().delete(name, params).await;
        deleted.map(drop).map_err(|error| self.fault(error))
    }

    /// The BundleDeployments that have these labels, by name.
    pub async fn all_deployments(&self, labels: Option<&str>) -> Result<Vec<BundleDeployment>, Error> {
        let listed = self.deployments().list(&selected(labels)).await.map_err(|error| self.fault(error))?;
        Ok(listed.items)
    }

    /// The Bundles that carry the labels of a BundleDeployment, by name.
    pub async fn bundles_of(&self, deployment: &str) -> Result<Vec<Bundle>, Error> {
        let labels = owner_labels(deployment);
        let listed = self.bundles().list(&selected(Some(&labels))).await.map_err(|error| self.fault(error))?;
        Ok(listed.items)
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

pub(super) fn selected(labels: Option<&str>) -> ListParams {
    ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() }
}
