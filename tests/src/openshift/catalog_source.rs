//! A CatalogSource and the server behind it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::catalog::{CatalogServer, Documents, nothing};
use crate::verbs::{self, Target};
use crate::world::SOON;

/// A CatalogSource, there or to be, whose status is written here as OLM would, and the server that it leads to.
///
/// Several tests may share one: each serves a *part* of its catalog, by a name of its own.
pub struct CatalogSource {
    namespace: String,
    name: String,
    /// The server, which runs from the start.
    pub server: CatalogServer,
    parts: Mutex<BTreeMap<String, Documents>>,
    /// How often `connectionState` was written.
    revision: AtomicU64,
}

/// All of them panic where something cannot be had, with what the API server says.
#[expect(clippy::missing_panics_doc, reason = "said once for all")]
impl CatalogSource {
    /// One that does not exist yet, by namespace and name. There is [`nothing`] in its catalog.
    pub fn new((namespace, name): (&str, &str)) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            server: CatalogServer::start(nothing()).unwrap_or_else(|error| panic!("{error:#}")),
            parts: Mutex::default(),
            revision: AtomicU64::default(),
        }
    }

    /// `namespace/name`, as flags and PlatformOperators name it.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Names the object.
    pub fn target(&self) -> Target {
        Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", &self.namespace, &self.name)
    }

    /// Makes the object, and its namespace, without a status.
    pub async fn create(&self, client: &Client) {
        let target = self.target();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        let source = json!({
            "apiVersion": target.api_version, "kind": target.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"sourceType": "grpc", "image": "registry.example.com/index:v4.12"},
        });
        for object in [namespace, source] {
            verbs::apply(client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// Makes the object and says that it is ready.
    pub async fn connect(&self, client: &Client) {
        self.create(client).await;
        self.say(client, "READY").await;
    }

    /// Says that the connection to the server is in `state`, anew.
    pub async fn say(&self, client: &Client, state: &str) {
        let address = self.server.address();
        self.connection(client, &json!({"address": address, "lastObservedState": state})).await;
    }

    /// Waits until a method of the server was called, such as `GetPackage`.
    pub async fn until_asked(&self, method: &str) {
        let asked = async {
            while self.server.count(method) == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await; // a server cannot be watched
            }
        };
        tokio::time::timeout(SOON, asked).await.unwrap_or_else(|_| panic!("{}: {method} is never called", self.path()));
    }

    /// Writes `connectionState`, at another time than before.
    pub async fn connection(&self, client: &Client, connection: &Value) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed);
        let mut connection = connection.clone();
        let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", revision / 3600, revision / 60 % 60, revision % 60);
        connection["lastConnect"] = json!(time);
        let patch = json!({"status": {"connectionState": connection}});
        let api = self.target().api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
        let patched = api.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.unwrap_or_else(|error| panic!("{}: {error}", self.path()));
    }

    /// Serves `documents` as one part of the catalog, in place of what that was, without a word about it.
    pub fn put(&self, part: &str, documents: Documents) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.insert(part.to_owned(), documents);
        let all = parts.values().cloned().fold(nothing(), Documents::and);
        self.server.replace(all).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Serves `documents` as one part of the catalog, and says so, as OLM does of a new image.
    pub async fn publish(&self, client: &Client, part: &str, documents: Documents) {
        self.put(part, documents);
        self.say(client, "READY").await;
    }
}
