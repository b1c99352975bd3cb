//! The reads and writes of the certificate manager.
//!
//! Rights: list, watch, create and patch of the one Secret; list, watch and patch of the one
//! ValidatingWebhookConfiguration.

use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rukpak_certificates::authority::{self, issue};
use rukpak_certificates::{Data, identity};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use super::Settings;
use crate::{FIELD_MANAGER, WEBHOOKS};

const SECRET_TYPE: &str = "kubernetes.io/tls";
/// An apply with this resourceVersion creates, or conflicts where the object exists.
const NOT_THERE: &str = "1";

/// The two objects in the cluster.
pub(super) struct Cluster {
    pub(super) secrets: Api<Secret>,
    pub(super) configurations: Api<ValidatingWebhookConfiguration>,
    secret: String,
    configuration: String,
}

/// A step that could not be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot make a certificate")]
    Issue(#[source] authority::Error),
    #[error("cannot write the Secret {name}")]
    Secret {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot write caBundle of {name}")]
    Publish {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Someone else changed the object since it was seen.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Secret { source, .. } => matches!(source.as_ref(), kube::Error::Api(status) if status.code == 409),
            Self::Issue(_) | Self::Publish { .. } => false,
        }
    }
}

impl Cluster {
    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            configurations: Api::all(client),
            secret: settings.secret.clone(),
            configuration: settings.configuration.clone(),
        }
    }

    /// Makes a certificate and writes it over what was seen.
    pub(super) async fn issue(
        &self,
        seen: Option<&Secret>,
        settings: &Settings,
        beside: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<Secret, Error> {
        let issued = issue(&settings.names, settings.lifetime, now).map_err(Error::Issue)?;
        self.write_secret(seen, Data::new(issued, beside, now)).await
    }

    /// Writes the Secret's content over what was seen; a conflict if it is no longer that.
    ///
    /// An apply, also for the first write: creating by apply can be granted for one name, creating by POST cannot.
    pub(super) async fn write_secret(&self, seen: Option<&Secret>, data: Data) -> Result<Secret, Error> {
        let version = seen.and_then(|secret| secret.metadata.resource_version.as_deref()).unwrap_or(NOT_THERE);
        // The type of an existing Secret cannot be changed.
        let type_ = seen.and_then(|secret| secret.type_.as_deref()).unwrap_or(SECRET_TYPE);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.secret,
                "resourceVersion": version,
                "labels": {"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/component": "webhooks"},
            },
            "type": type_,
            "data": data.entries(),
        });
        self.secrets
            .patch(&self.secret, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(secret))
            .await
            .map_err(|source| Error::Secret { name: self.secret.clone(), source: Box::new(source) })
    }

    /// Writes `caBundle` of our webhooks that the configuration has, and nothing else of it.
    pub(super) async fn publish(
        &self,
        seen: &ValidatingWebhookConfiguration,
        bundle: &[u8],
    ) -> Result<ValidatingWebhookConfiguration, Error> {
        let bundle = ByteString(bundle.to_vec());
        let webhooks: Vec<_> =
            ours(seen).map(|name| json!({"name": name, "clientConfig": {"caBundle": bundle}})).collect();
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.configurations
            .patch(&self.configuration, &parameters, &Patch::Strategic(json!({"webhooks": webhooks})))
            .await
            .map_err(|source| Error::Publish { name: self.configuration.clone(), source: Box::new(source) })
    }
}

/// The authorities that the API server trusts today.
pub(super) fn trusted(configuration: Option<&ValidatingWebhookConfiguration>) -> Vec<CertificateDer<'static>> {
    let bundle = configuration.and_then(|configuration| bundles(configuration).into_iter().next());
    identity::certificates(bundle.unwrap_or_default()).unwrap_or_default()
}

/// `caBundle` of each of our webhooks in the configuration; empty where it has none.
pub(super) fn bundles(configuration: &ValidatingWebhookConfiguration) -> Vec<&[u8]> {
    let webhooks = configuration.webhooks.iter().flatten();
    webhooks
        .filter(|webhook| WEBHOOKS.contains(&webhook.name.as_str()))
        .map(|webhook| webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice()).unwrap_or_default())
        .collect()
}

fn ours(configuration: &ValidatingWebhookConfiguration) -> impl Iterator<Item = &str> {
    configuration.webhooks.iter().flatten().map(|webhook| webhook.name.as_str()).filter(|name| WEBHOOKS.contains(name))
}
