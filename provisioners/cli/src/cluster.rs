//! The API server that a kubeconfig names.

mod any;
mod changes;
mod deployments;
mod endpoints;
mod events;
mod kinds;
mod kubeconfig;
mod objects;
mod trial;

use std::error::Error as StdError;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{ListParams, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, Status};
use kube::{Api, Client, Config, Resource};
use rukpak_runtime::process::bounded_client;
use serde::de::DeserializeOwned;

pub use self::any::Dependents;
pub use self::changes::owner_labels;
pub use self::deployments::AwaitedBundle;
pub use self::events::{Change, EventLine};
use self::kubeconfig::ClusterConfig;
use crate::args::ClusterArgs;

/// The field manager of what is applied. Its name is upstream's.
const FIELD_MANAGER: &str = "rukpakctl";

/// A cluster, and who we are to it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) config: Config,
    client: Client,
    /// The API server and who named it, for people.
    name: String,
}

/// Why a cluster does not do what it should. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not known which cluster to ask.
    #[error("{0}")]
    Kubeconfig(String),
    /// It answered with a refusal, in words that need no more.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// It did not answer.
    #[error("{cluster} could not be asked; --kubeconfig and --context choose another cluster")]
    Unavailable {
        /// The API server and who named it.
        cluster: String,
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server of an aggregated API does not answer.
    #[error(
        "the API {0} does not answer, and objects that it has might be overlooked: kubectl get apiservices shows why"
    )]
    Silent(String),
    /// Somebody else wrote it meanwhile, time and again.
    #[error("bundledeployment {0:?} keeps being changed by others; run the command again")]
    Busy(String),
    /// There is none of that name. In the words of the API server.
    #[error("bundledeployments.core.rukpak.io {0:?} not found")]
    NoDeployment(String),
    /// No Bundle will come for a BundleDeployment as it is.
    #[error("bundledeployment {name:?} makes no Bundle: {message}")]
    Stalled {
        name: String,
        /// Its condition of this type.
        message: String,
    },
    /// The Bundle of a BundleDeployment did not come in time.
    #[error("no Bundle came for bundledeployment {name:?} within {} s: {why}", .patience.as_secs())]
    NoBundle {
        name: String,
        /// How long it was waited for.
        patience: Duration,
        /// What is known of the reason.
        why: String,
    },
}

impl Error {
    /// Whether the cluster said no, and will say it again.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(status) => is_refusal(status.code),
            Self::Stalled { .. } | Self::NoDeployment(_) => true,
            _ => false,
        }
    }
}

/// Whether a status code means no, rather than who are you, or not now.
pub(crate) fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 403 | 408 | 429)
}

/// What came of asking a cluster.
fn fault(cluster: &str, error: kube::Error) -> Error {
    let unavailable = |source| Error::Unavailable { cluster: cluster.to_owned(), source };
    match error {
        kube::Error::Api(status) => Error::Refused(status),
        // Its text is that of its source.
        kube::Error::Service(source) => unavailable(source),
        other => unavailable(Box::new(other)),
    }
}

/// How an object is created in our name.
fn creating() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// How a patch is merged in our name.
fn merging() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is sent.
    pub async fn connect(flags: &ClusterArgs) -> Result<Self, Error> {
        let ClusterConfig { config, name } = kubeconfig::find(flags).await.map_err(Error::Kubeconfig)?;
        let client = bounded_client(config.clone()).map_err(|error| fault(&name, error))?;
        Ok(Self { config, client, name })
    }

    fn fault(&self, error: kube::Error) -> Error {
        fault(&self.name, error)
    }

    /// Reads an object, which must be there. A cluster without its kind refuses with 404 as well.
    pub async fn get<K>(&self, name: &str) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        Api::<K>::all(self.client.clone()).get(name).await.map_err(|error| self.fault(error))
    }

    /// Lists the objects that have these labels, by name. A cluster without the kind refuses with 404.
    pub async fn list<K>(&self, labels: Option<&str>) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let selected = ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() };
        let listed = Api::<K>::all(self.client.clone()).list(&selected).await.map_err(|error| self.fault(error))?;
        let mut objects = listed.items;
        objects.sort_by_key(kube::ResourceExt::name_any);
        Ok(objects)
    }

    /// A ControllerRevision, which records a release.
    pub async fn record(&self, namespace: &str, name: &str) -> Result<Option<ControllerRevision>, Error> {
        let records: Api<ControllerRevision> = Api::namespaced(self.client.clone(), namespace);
        records.get_opt(name).await.map_err(|error| self.fault(error))
    }

    /// Whether there is a Namespace of that name.
    pub async fn has_namespace(&self, name: &str) -> Result<bool, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        Ok(namespaces.get_metadata_opt(name).await.map_err(|error| self.fault(error))?.is_some())
    }

    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        secrets.get(name).await.map_err(|error| self.fault(error))
    }

    /// The Pods of a namespace.
    pub fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_the_question_is_a_no() {
        let no = [400, 404, 409, 413, 422];
        let unknown = [200, 401, 403, 408, 429, 500, 503];
        assert!(no.into_iter().all(is_refusal));
        assert!(!unknown.into_iter().any(is_refusal));
    }
}
