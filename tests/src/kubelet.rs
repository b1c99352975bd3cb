//! Where a control plane has no nodes, somebody has to say that Pods run: their status, as kwok writes it.

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Plays the kubelet for one namespace until dropped: every Pod becomes Running and Ready at once, and nothing runs.
pub struct Kubelet(tokio::task::JoinHandle<()>);

impl Kubelet {
    /// Starts to play.
    pub fn play(client: Client, namespace: &str) -> Self {
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        Self(tokio::spawn(async move {
            let mut changes =
                std::pin::pin!(watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects());
            while let Some(change) = changes.next().await {
                let Ok(pod) = change else { continue };
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                if phase == Some("Running") || pod.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let patch = Patch::Strategic(running(&pod));
                if let Err(error) = pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
                    eprintln!("note: the status of Pod {} could not be written: {error}", pod.name_any());
                }
            }
        }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The status of a Pod whose containers all run. No node is named: the API server then deletes it without asking a kubelet.
fn running(pod: &Pod) -> Value {
    let since = json!(pod.metadata.creation_timestamp);
    let spec = pod.spec.clone().unwrap_or_default();
    let containers: Vec<Value> = spec
        .containers
        .iter()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": { "running": { "startedAt": since } },
            })
        })
        .collect();
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|type_| json!({ "type": type_, "status": "True", "lastTransitionTime": since }));
    json!({ "status": { "phase": "Running", "startTime": since, "conditions": conditions, "containerStatuses": containers } })
}
