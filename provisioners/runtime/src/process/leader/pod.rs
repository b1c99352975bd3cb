//! The label by which a Service finds the Pod that leads: its only endpoint, though all replicas are ready.

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use kube::{Api, Client, ResourceExt};
use rukpak_crds::names::{FIELD_MANAGER, LEADER};
use serde_json::json;

use super::POD_NAME;
use crate::{api, warn_first};

/// The usual value of the label.
pub const TRUE: &str = "true";

/// For as long as this process leads: its Pod bears the label [`LEADER`] with `value`, and no other Pod of the namespace does. A
/// process that runs in no Pod, or has lost the Lease without noticing, does no harm: who leads puts it right.
pub async fn label(client: Client, namespace: String, value: String) -> &'static str {
    let Some(own) = std::env::var(POD_NAME).ok().filter(|name| !name.is_empty()) else { return "" };
    let pods = Pods { api: Api::namespaced(client, &namespace), own, value };
    let mut is_first = true;
    for pause in DefaultBackoff::default() {
        match pods.keep().await {
            Ok(()) => {
                tracing::info!(namespace, pod = pods.own, "there is no Pod of this name: none is labelled {LEADER}");
                return "";
            }
            Err(error) => {
                let pod = &pods.own;
                warn_first!(is_first, namespace, pod, %error, "the label {LEADER} was not written; trying again");
                is_first = false;
                tokio::time::sleep(pause).await;
            }
        }
    }
    "the label of the Pod that leads"
}

struct Pods {
    api: Api<PartialObjectMeta<Pod>>,
    /// Name of the Pod of this process.
    own: String,
    /// Of the label.
    value: String,
}

impl Pods {
    /// Goes on until a write fails; returns if there is no such Pod.
    async fn keep(&self) -> Result<(), api::Error> {
        let labelled = watcher::Config::default().labels(&format!("{LEADER}={}", self.value));
        let mut events = pin!(watcher::watcher(self.api.clone(), labelled).default_backoff());
        let mut is_labelled = false;
        while let Some(event) = events.next().await {
            let is_own = |pod: &PartialObjectMeta<Pod>| pod.name_any() == self.own;
            let is_missing = match event {
                Ok(Event::Init) => {
                    is_labelled = false;
                    false
                }
                Ok(Event::InitApply(pod) | Event::Apply(pod)) if is_own(&pod) => {
                    is_labelled = true;
                    false
                }
                Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                    self.write(&pod.name_any(), None).await?;
                    false
                }
                Ok(Event::InitDone) => !is_labelled,
                Ok(Event::Delete(pod)) => is_own(&pod),
                Err(error) => {
                    tracing::debug!(%error, "watch over the Pods labelled {LEADER} interrupted; resuming");
                    false
                }
            };
            if is_missing && !self.write(&self.own, Some(&self.value)).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sets or removes the label; false if there is no such Pod.
    async fn write(&self, pod: &str, value: Option<&str>) -> Result<bool, api::Error> {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LEADER: value } } }));
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api.patch_metadata(pod, &parameters, &patch).await.map_err(api::Error::from) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
