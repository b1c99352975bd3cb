//! The one door to the API server for the objects of bundles: which kinds it serves, every read of them and every write.

mod account;
mod kinds;
mod reader;
mod writer;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use rukpak_crds::{BundleDeployment, ServiceAccountReference};
use rukpak_plan::Identity;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use account::Account;
pub use kinds::Kinds;
pub use reader::Reader;
pub use rukpak_runtime::api::Error;
pub use writer::{Deleted, Propagation, Writer};

/// An object as the API server answered it.
pub struct Written {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The whole object, metadata left out.
    pub body: Value,
}

/// Makes readers and writers, which send a bounded number of requests at once together.
pub struct Cluster {
    door: Door,
    deployments: Api<BundleDeployment>,
}

impl Cluster {
    /// For `client`, with at most `in_flight` requests at once.
    pub fn new(client: Client, in_flight: usize) -> Self {
        let deployments = Api::all(client.clone());
        let door = Door { client, permits: Arc::new(Semaphore::new(in_flight)) };
        Self { door, deployments }
    }

    /// Which kinds are served, asked once and remembered.
    pub fn kinds(&self) -> Kinds {
        Kinds::new(self.door.client.clone())
    }

    /// Reads with the controller's own rights.
    pub fn reader(&self) -> Reader {
        Reader::new(self.door.clone())
    }

    /// Writes with the rights of `account`, or without one with the controller's own.
    pub fn writer(&self, account: Option<&ServiceAccountReference>) -> Writer {
        let account = account.map(|account| Account::new(&self.door.client, account));
        let client = account.as_ref().map_or_else(|| self.door.client.clone(), Account::client);
        Writer::new(Door { client, permits: self.door.permits.clone() }, account)
    }

    /// The metadata of a BundleDeployment as the API server has it now, not a watch.
    pub async fn deployment(&self, name: &str) -> Result<Option<ObjectMeta>, Error> {
        Ok(self.deployments.get_metadata_opt(name).await?.map(|found| found.metadata))
    }
}

/// A way to the API server, with the rights of its client.
#[derive(Clone)]
struct Door {
    pub client: Client,
    pub permits: Arc<Semaphore>,
}

impl Door {
    pub fn api(&self, identity: &Identity) -> Api<DynamicObject> {
        self.scoped(&identity.kind.resource, identity.namespace.as_deref())
    }

    /// The API of one kind, in one namespace or all.
    pub fn scoped(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    pub async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed; without a permit the request goes out all the same.
        self.permits.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests;
