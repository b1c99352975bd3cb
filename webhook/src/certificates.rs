//! From where the API server takes the authorities that it trusts: `caBundle` of our entries in the webhook configuration.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rukpak_runtime::serving::TrustBundle;
use serde_json::json;

use crate::health::Readiness;
use crate::{FIELD_MANAGER, WEBHOOKS};

/// The webhook configuration. It takes the rights to list, watch and patch this one object.
pub(crate) struct CaBundles {
    configurations: Api<ValidatingWebhookConfiguration>,
    name: String,
    readiness: Arc<Readiness>,
}

impl CaBundles {
    /// Takes the entries of the configuration of this name.
    pub(crate) fn new(client: Client, name: String, readiness: Arc<Readiness>) -> Self {
        Self { configurations: Api::all(client), name, readiness }
    }
}

impl TrustBundle for CaBundles {
    type Object = ValidatingWebhookConfiguration;

    fn api(&self) -> Api<ValidatingWebhookConfiguration> {
        self.configurations.clone()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parts<'o>(&self, configuration: Option<&'o ValidatingWebhookConfiguration>) -> Vec<&'o [u8]> {
        let bundles = ours(configuration).map(|webhook| webhook.client_config.ca_bundle.as_ref());
        bundles.map(|bundle| bundle.map_or(&[][..], |bundle| &bundle.0)).collect()
    }

    /// Writes our entries' `caBundle`, by their names, and nothing else of the configuration.
    async fn publish(
        &self,
        seen: Option<&ValidatingWebhookConfiguration>,
        authorities: Vec<u8>,
    ) -> Result<ValidatingWebhookConfiguration, kube::Error> {
        let bundle = ByteString(authorities);
        let entry = |webhook: &ValidatingWebhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}});
        let patch = json!({"webhooks": ours(seen).map(entry).collect::<Vec<_>>()});
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.configurations.patch(&self.name, &parameters, &Patch::Strategic(patch)).await
    }

    fn report_trust(&self, trust: Result<(), &'static str>) {
        self.readiness.trust(trust.map_err(|why| format!("{} {why}", self.name)));
    }
}

/// Returns the entries that lead here.
fn ours(configuration: Option<&ValidatingWebhookConfiguration>) -> impl Iterator<Item = &ValidatingWebhook> {
    let webhooks = configuration.and_then(|configuration| configuration.webhooks.as_ref()).into_iter().flatten();
    webhooks.filter(|webhook| WEBHOOKS.contains(&webhook.name.as_str()))
}
