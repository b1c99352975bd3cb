//! What reads and writes share: a client, and how many requests are under way.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use rukpak_plan::Identity;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A way to the API server, with the rights of its client.
#[derive(Clone)]
pub(super) struct Door {
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
