//! The webhooks for ConfigMaps and BundleDeployments, which register themselves.
//!
//! Their entries in the webhook configuration are not in the manifests. That for ConfigMaps fails closed in the namespace of its own Pod,
//! which cannot start before the cluster has put the ConfigMap `kube-root-ca.crt` there; that for BundleDeployments has a condition that
//! older API servers refuse in a manifest. So they are written by a process that is ready, beside the entry for Bundles, from which
//! it has the way to the webhook: Service, port and `caBundle`.
//!
//! Two ConfigMaps are published by the cluster into every namespace and must never wait for a webhook ([`entry::PUBLISHED`]).
//! They have no labels, so that only `matchConditions` can leave them out (Kubernetes 1.28 and later). The API server is
//! asked with a dry run whether it keeps such a condition. Where it drops it, the entry fails open instead.
//!
//! Every replica does this. Writes carry the resourceVersion they were decided on, and one that has to write again and
//! again waits longer each time, so that two versions of this program in one cluster do not keep the API server busy.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_runtime::error::Chain;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub mod entry;

use crate::FIELD_MANAGER;
use crate::health::Readiness;
use entry::{Asked, Conditions, NAME_LABEL};

/// First wait after a write; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest wait after a write. What held for this long is settled.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Keeps the entries as they should be.
pub struct Registrar {
    configurations: Api<DynamicObject>,
    namespaces: Api<Namespace>,
    configuration: String,
    asked: Asked,
    readiness: Arc<Readiness>,
    seen: Option<DynamicObject>,
    /// Whether the API server keeps conditions; `None` until it was asked.
    conditions: Option<Conditions>,
    /// No write before this moment.
    not_before: Instant,
    pause: Duration,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot find out whether the API server knows matchConditions")]
    Ask(#[source] Box<kube::Error>),
    #[error("cannot write the webhooks to their configuration")]
    Write(#[source] Box<kube::Error>),
}

impl Error {
    fn is_conflict(&self) -> bool {
        let (Self::Ask(source) | Self::Write(source)) = self;
        matches!(source.as_ref(), kube::Error::Api(status) if status.code == 409)
    }
}

impl Registrar {
    /// For what is `asked`; the entries are kept in the webhook configuration of that name.
    pub fn new(client: Client, configuration: String, asked: Asked, readiness: Arc<Readiness>) -> Self {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        let resource = ApiResource::from_gvk_with_plural(&kind, "validatingwebhookconfigurations");
        Self {
            configurations: Api::all_with(client.clone(), &resource),
            namespaces: Api::all(client),
            configuration,
            asked,
            readiness,
            seen: None,
            conditions: None,
            not_before: Instant::now(),
            pause: PAUSE_MIN,
        }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.readiness.changes();
        let seen = watcher::watch_object(self.configurations.clone(), &self.configuration).default_backoff();
        let mut seen = std::pin::pin!(seen);
        loop {
            let is_due = self.is_due();
            if is_due && Instant::now() >= self.not_before {
                self.step().await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
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
        let wanted = entry::wanted(webhooks, &self.asked, self.conditions.unwrap_or(Conditions::Kept));
        !wanted.is_empty() && (self.conditions.is_none() || !entry::are_there(webhooks, &wanted))
    }

    async fn step(&mut self) {
        let Some(seen) = self.seen.clone() else { return };
        if self.not_before.elapsed() > PAUSE_MAX {
            self.pause = PAUSE_MIN;
        }
        match self.register(&seen).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() => tracing::debug!("write conflict; reading the object again"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot register the webhooks for ConfigMaps and BundleDeployments");
            }
        }
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    async fn register(&mut self, seen: &DynamicObject) -> Result<(), Error> {
        let conditions = match self.conditions {
            Some(conditions) => conditions,
            None => self.ask(seen).await?,
        };
        self.conditions = Some(conditions);
        let webhooks = webhooks(seen);
        let wanted = entry::wanted(webhooks, &self.asked, conditions);
        if entry::are_there(webhooks, &wanted) {
            return Ok(());
        }
        self.check_namespace().await;
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.write(seen, &wanted, &parameters).await.map_err(|error| Error::Write(Box::new(error)))?;
        tracing::info!(
            namespace = self.asked.namespace,
            ?conditions,
            "registered the webhooks for ConfigMaps and BundleDeployments"
        );
        self.seen = Some(written);
        Ok(())
    }

    /// Whether the API server keeps a condition: a dry run tells.
    async fn ask(&self, seen: &DynamicObject) -> Result<Conditions, Error> {
        let wanted = entry::wanted(webhooks(seen), &self.asked, Conditions::Kept);
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let kept = self.write(seen, &wanted, &parameters).await.map_err(|error| Error::Ask(Box::new(error)))?;
        Ok(if entry::are_there(webhooks(&kept), &wanted) { Conditions::Kept } else { Conditions::Dropped })
    }

    /// The whole list with our entry in it, over exactly what was seen.
    async fn write(
        &self,
        seen: &DynamicObject,
        wanted: &[Value],
        parameters: &PatchParams,
    ) -> Result<DynamicObject, kube::Error> {
        let patch = entry::patch(webhooks(seen), wanted, seen.metadata.resource_version.as_deref());
        self.configurations.patch(&self.configuration, parameters, &Patch::Merge(patch)).await
    }

    /// A selector that matches nothing says nothing: so the log does.
    async fn check_namespace(&self) {
        let found = self.namespaces.get(&self.asked.namespace).await;
        match found.map(|found| found.metadata.labels.unwrap_or_default()) {
            Ok(labels) if labels.get(NAME_LABEL) == Some(&self.asked.namespace) => {}
            Ok(_) => tracing::warn!(
                namespace = self.asked.namespace,
                label = NAME_LABEL,
                "the system namespace lacks the label with its name, which Kubernetes before 1.21 does not set: \
                 its ConfigMaps are not checked until it is labelled"
            ),
            Err(error) => tracing::warn!(
                %error,
                "cannot see whether the system namespace has the label with its name"
            ),
        }
    }
}

fn webhooks(configuration: &DynamicObject) -> &[Value] {
    configuration.data["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default()
}
