//! The API server, with whatever kubeconfig says: `$KUBECONFIG`, else `~/.kube/config`, else that of the Pod this runs in.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::InferConfigError;
use kube::core::Status;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use rukpak_crds::{Bundle, BundleDeployment, BundleSpec, PlatformOperator, condition};

/// The field manager of what is applied. Its name is upstream's.
const FIELD_MANAGER: &str = "rukpakctl";

/// A cluster, and who we are to it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) config: Config,
    client: Client,
}

/// Why a cluster does not do what it should. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no kubeconfig that is any good.
    #[error("there is no usable kubeconfig")]
    Config(#[source] Box<InferConfigError>),
    /// It answered with a refusal, in words that need no more.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// It did not answer.
    #[error("the API server could not be asked")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
    /// The Bundle of a BundleDeployment did not come in time.
    #[error("no Bundle came for bundledeployment {name:?} within {} s: {why}", .patience.as_secs())]
    NoBundle {
        /// The BundleDeployment.
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
        matches!(self, Self::Refused(status) if is_refusal(status.code))
    }
}

/// Whether a status code means no, rather than who are you, or not now.
pub(crate) fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 403 | 408 | 429)
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            // Its text is that of its source.
            kube::Error::Service(source) => Self::Unavailable(source),
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is sent.
    pub async fn connect() -> Result<Self, Error> {
        let config = Config::infer().await.map_err(|error| Error::Config(Box::new(error)))?;
        Ok(Self { client: Client::try_from(config.clone())?, config })
    }

    /// A Bundle.
    pub async fn bundle(&self, name: &str) -> Result<Bundle, Error> {
        Ok(Api::<Bundle>::all(self.client.clone()).get(name).await?)
    }

    /// A Secret.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, Error> {
        Ok(Api::<Secret>::namespaced(self.client.clone(), namespace).get(name).await?)
    }

    /// Where a Service leads. The older kind: it names Pods and ports, and every cluster serves it.
    pub async fn endpoints(&self, namespace: &str, service: &str) -> Result<Endpoints, Error> {
        Ok(Api::<Endpoints>::namespaced(self.client.clone(), namespace).get(service).await?)
    }

    /// The Pods of a namespace.
    pub fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// All PlatformOperators. A cluster without the kind refuses with 404.
    pub async fn platform_operators(&self) -> Result<Vec<PlatformOperator>, Error> {
        let all: Api<PlatformOperator> = Api::all(self.client.clone());
        Ok(all.list(&ListParams::default()).await?.items)
    }

    /// Makes the BundleDeployment so. What others wrote beside our fields stays.
    pub async fn apply(&self, deployment: &BundleDeployment) -> Result<(), Error> {
        let deployments: Api<BundleDeployment> = Api::all(self.client.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        deployments.patch(&deployment.name_any(), &parameters, &Patch::Apply(deployment)).await?;
        Ok(())
    }

    /// Waits for the Bundle that a BundleDeployment makes of a template with these labels; returns its name.
    pub async fn generated(
        &self,
        deployment: &str,
        labels: &BTreeMap<String, String>,
        spec: &BundleSpec,
        patience: Duration,
    ) -> Result<String, Error> {
        match tokio::time::timeout(patience, self.watch(deployment, labels, spec)).await {
            Ok(found) => found,
            Err(_) => Err(self.no_bundle(deployment, patience).await),
        }
    }

    async fn watch(
        &self,
        deployment: &str,
        labels: &BTreeMap<String, String>,
        spec: &BundleSpec,
    ) -> Result<String, Error> {
        let owner = [format!("{OWNER_KIND}={OWNER_KIND_VALUE}"), format!("{OWNER_NAME}={deployment}")];
        let own = labels.iter().map(|(key, value)| format!("{key}={value}"));
        let selector = owner.into_iter().chain(own).collect::<Vec<_>>().join(",");
        let bundles: Api<Bundle> = Api::all(self.client.clone());
        let changes = watcher(bundles, watcher::Config::default().labels(&selector)).default_backoff();
        let mut changes = pin!(changes.applied_objects());
        loop {
            match changes.next().await {
                // One of another class was made by an earlier run.
                Some(Ok(bundle)) if &bundle.spec == spec && bundle.metadata.deletion_timestamp.is_none() => {
                    return Ok(bundle.name_any());
                }
                Some(Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)))
                    if matches!(error, kube::Error::Api(_)) =>
                {
                    return Err(error.into());
                }
                Some(_) => {}
                None => return Err(Error::Unavailable("the watch over Bundles ended".into())),
            }
        }
    }

    async fn no_bundle(&self, name: &str, patience: Duration) -> Error {
        let deployments: Api<BundleDeployment> = Api::all(self.client.clone());
        let said = deployments.get(name).await.ok().and_then(|deployment| {
            let status = deployment.status?;
            let valid = status.conditions.iter().find(|one| one.type_ == condition::HAS_VALID_BUNDLE)?;
            Some(valid.message.clone()).filter(|message| !message.is_empty())
        });
        let why = said.unwrap_or_else(|| "its status says nothing; is there a provisioner of its class?".to_owned());
        Error::NoBundle { name: name.to_owned(), patience, why }
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
