//! The one door to the API server for the objects of bundles: which kinds it serves, every read of them and every write.

mod account;
mod kinds;
mod writer;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams, ObjectList};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Api, Client};
use rukpak_crds::{BundleDeployment, ServiceAccountReference};
use rukpak_plan::Identity;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use account::Account;
pub use kinds::Kinds;
pub use rukpak_runtime::api::Error;
pub use writer::{Deleted, Propagation, Writer};

/// An object as the API server answered it.
pub struct Written {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The whole object, metadata left out.
    pub body: Value,
}

impl Written {
    /// The object as one JSON value, for the health rules. Only the parts of the metadata that they read.
    pub fn whole(&self, identity: &Identity) -> Value {
        let mut metadata = json!({
            "generation": self.metadata.generation,
            "deletionTimestamp": self.metadata.deletion_timestamp,
            "creationTimestamp": self.metadata.creation_timestamp,
        });
        if let Value::Object(metadata) = &mut metadata {
            metadata.retain(|_, value| !value.is_null());
        }
        self.typed(identity, metadata)
    }

    /// The same of a CRD, as the rules of CRDs want it.
    pub fn as_crd(&self, identity: &Identity) -> Value {
        self.typed(identity, json!({"name": identity.name}))
    }

    fn typed(&self, identity: &Identity, metadata: Value) -> Value {
        let mut object = self.body.clone();
        if let Value::Object(map) = &mut object {
            map.insert("apiVersion".to_owned(), json!(identity.kind.resource.api_version));
            map.insert("kind".to_owned(), json!(identity.kind.resource.kind));
            map.insert("metadata".to_owned(), metadata);
        }
        object
    }
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
        Reader { door: self.door.clone() }
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

/// Sends every read of objects that bundles have, with the controller's own rights, whoever they are written for. Reads and writes
/// together are a bounded number of requests at once.
pub struct Reader {
    door: Door,
}

impl Reader {
    /// The object's metadata; `None` if it is not there.
    pub async fn metadata(&self, identity: &Identity) -> Result<Option<ObjectMeta>, Error> {
        let _permit = self.door.permit().await;
        let found: Option<PartialObjectMeta<DynamicObject>> =
            self.door.api(identity).get_metadata_opt(&identity.name).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// The whole object; `None` if it is not there.
    pub async fn get(&self, identity: &Identity) -> Result<Option<Written>, Error> {
        let _permit = self.door.permit().await;
        let found = self.door.api(identity).get_opt(&identity.name).await?;
        Ok(found.map(|object| Written { metadata: object.metadata, body: object.data }))
    }

    /// One page of the objects of a kind, in one namespace or all.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, namespace).list(page).await.map_err(Error::from)
    }

    /// One page of their metadata.
    pub async fn list_metadata(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, namespace).list_metadata(page).await.map_err(Error::from)
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
