//! The one door to the API server for the objects of bundles: which kinds it serves, and every write to them.

mod kinds;
mod writer;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use rukpak_crds::BundleDeployment;

pub use kinds::Kinds;
pub use rukpak_runtime::api::{Error, answered};
pub use writer::{Writer, Written};

/// Kinds and writer together.
pub struct Cluster {
    /// Which kinds are served.
    pub kinds: Kinds,
    /// Every write to an object of a bundle.
    pub writer: Writer,
    deployments: Api<BundleDeployment>,
}

impl Cluster {
    /// For `client`, with at most `in_flight` requests at once.
    pub fn new(client: Client, in_flight: usize) -> Self {
        let deployments = Api::all(client.clone());
        Self { kinds: Kinds::new(client.clone()), writer: Writer::new(client, in_flight), deployments }
    }

    /// The metadata of a BundleDeployment as the API server has it now, not a watch.
    pub async fn deployment(&self, name: &str) -> Result<Option<ObjectMeta>, Error> {
        Ok(answered(self.deployments.get_metadata_opt(name)).await?.map(|found| found.metadata))
    }
}
