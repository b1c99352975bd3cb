//! The webhooks for ConfigMaps, BundleDeployments and what others need, which register themselves.
//!
//! Their entries in the webhook configuration are not in the manifests. That for ConfigMaps fails closed in the namespace of its own Pod,
//! which cannot start before the cluster has put the ConfigMap `kube-root-ca.crt` there. That for BundleDeployments depends on a flag of
//! the webhook, and that for what others need on `matchConditions`. So they are written by a process that is ready, beside the entry for
//! Bundles, from which it has the way to the webhook: Service, port and `caBundle`.
//!
//! Two ConfigMaps are published by the cluster into every namespace and must never wait for a webhook ([`entry::PUBLISHED`]).
//! They have no labels, so that only `matchConditions` can leave them out.
//!
//! Every replica does this. Writes carry the resourceVersion they were decided on, and one that has to write again and
//! again waits longer each time, so that two versions of this program in one cluster do not keep the API server busy.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_runtime::error::Chain;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

pub mod entry;

use crate::FIELD_MANAGER;
use crate::health::Readiness;
use entry::Asked;

/// First wait after a write; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest wait after a write. What held for this long is settled.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Keeps the entries as they should be.
pub struct Registrar {
    configurations: Api<DynamicObject>,
    configuration: String,
    asked: Asked,
    readiness: Arc<Readiness>,
    seen: Option<DynamicObject>,
    /// No write before this moment.
    not_before: Instant,
    pause: Duration,
}

impl Registrar {
    /// For what is `asked`; the entries are kept in the webhook configuration of that name.
    pub fn new(client: Client, configuration: String, asked: Asked, readiness: Arc<Readiness>) -> Self {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        let resource = ApiResource::from_gvk_with_plural(&kind, "validatingwebhookconfigurations");
        Self {
            configurations: Api::all_with(client, &resource),
            configuration,
            asked,
            readiness,
            seen: None,
            not_before: Instant::now(),
            pause: PAUSE_MIN,
        }
    }

    /// Runs endlessly.
    pub async fn run(mut self) {
        let mut changes = self.readiness.changes();
        let seen = watcher::watch_object(self.configurations.clone(), &self.configuration).default_backoff();
        let mut seen = std::pin::pin!(seen);
        loop {
            let is_due = self.is_due();
            if is_due && Instant::now() >= self.not_before {
                self.step().await;
            }
            tokio::select! {
                () = changes.next() => {}
                () = sleep_until(self.not_before), if is_due => {}
                Some(object) = seen.next() => match object {
                    Ok(object) => self.seen = object,
                    // The watch comes back by itself.
                    Err(error) => tracing::warn!(error = %Chain(&error), "cannot watch the webhook configuration"),
                },
            }
        }
    }

    /// Whether this process may register, and the entry is not what it should be.
    fn is_due(&self) -> bool {
        let Some(seen) = self.seen.as_ref().filter(|_| self.readiness.is_ready(SystemTime::now())) else {
            return false;
        };
        let webhooks = webhooks(seen);
        let wanted = entry::wanted(webhooks, &self.asked);
        !wanted.is_empty() && !entry::are_there(webhooks, &wanted)
    }

    async fn step(&mut self) {
        let Some(seen) = self.seen.clone() else { return };
        if self.not_before.elapsed() > PAUSE_MAX {
            self.pause = PAUSE_MIN;
        }
        match self.register(&seen).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {
                tracing::debug!("write conflict; reading the object again");
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot register the webhooks beside that for Bundles");
            }
        }
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Writes the whole list with our entries in it, over exactly what was seen.
    async fn register(&mut self, seen: &DynamicObject) -> Result<(), kube::Error> {
        let webhooks = webhooks(seen);
        let wanted = entry::wanted(webhooks, &self.asked);
        if entry::are_there(webhooks, &wanted) {
            return Ok(());
        }
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = entry::patch(webhooks, &wanted, seen.metadata.resource_version.as_deref());
        let written = self.configurations.patch(&self.configuration, &parameters, &Patch::Merge(patch)).await?;
        tracing::info!(namespace = self.asked.namespace, "registered the webhooks beside that for Bundles");
        self.seen = Some(written);
        Ok(())
    }
}

fn webhooks(configuration: &DynamicObject) -> &[Value] {
    configuration.data["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default()
}
