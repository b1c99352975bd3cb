//! Who signs the certificates of this cluster's clients. Watches the ConfigMap in which the API server says so.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_runtime::error::Chain;
use rukpak_runtime::serving::Tls;
use rukpak_runtime::watch::is_forbidden;

const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";

/// Has client certificates accepted that the API server accepts, endlessly.
pub async fn follow(client: Client, tls: Arc<Tls>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let mut events = pin!(watcher::watch_object(api, NAME).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(found) => {
                let pem = found.and_then(|found| found.data?.remove(KEY)).unwrap_or_default();
                if let Err(error) = tls.trust(pem.as_bytes()) {
                    tracing::warn!(error = %Chain(&error), "{NAMESPACE}/{NAME}: client certificates are not accepted");
                }
                tls.looked_for();
            }
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(%error, "cannot read ConfigMap {NAMESPACE}/{NAME}: client certificates are not accepted");
                tls.looked_for();
            }
            Err(error) => tracing::debug!(%error, "watch over {NAMESPACE}/{NAME} interrupted; resuming"),
        }
    }
}
