//! The admission webhook of rukpak: a Bundle's spec never changes and its source is whole, ConfigMaps that Bundles use stay as
//! they are, a new version of a CRD breaks no object, nobody installs with the rights of others, and nobody deletes what others need.
//!
//! [`router::router`] answers the API server; [`rules`] decide and do no I/O; [`reads`] finds out what they need to know;
//! [`certificates`] has the API server trust the serving certificate; [`registration`] tells the API server about the webhook that must
//! not be asked before it is ready; [`run::run`] puts them together.

pub mod call;
mod certificates;
mod denials;
pub mod gates;
mod handlers;
pub mod health;
pub mod metrics;
pub mod options;
pub mod reads;
pub mod registration;
pub mod review;
pub mod router;
pub mod rules;
pub mod run;

/// Where the API server posts Bundles.
pub const BUNDLE_PATH: &str = "/validate-core-rukpak-io-v1alpha1-bundle";
/// Where the API server posts ConfigMaps of the system namespace.
pub const CONFIG_MAP_PATH: &str = "/validate-core-v1-configmap";
/// Where the API server posts CRDs that a bundle brought.
pub const CRD_PATH: &str = "/validate-crd";
/// Where the API server posts BundleDeployments.
pub const DEPLOYMENT_PATH: &str = "/validate-core-rukpak-io-v1alpha1-bundledeployment";
/// Where the API server posts what others need, before it is deleted.
pub const NEEDED_PATH: &str = "/validate-needed";
/// The Service in front of the webhook.
pub const SERVICE: &str = "rukpak-webhook-service";
/// The Secret in the system namespace that holds the certificate that the webhook makes.
pub const CERTIFICATE_SECRET: &str = "rukpak-webhook-certificate";
/// The object that tells the API server about the webhook, unless a flag names another.
pub const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";
/// The entry of [`CONFIGURATION`] for Bundles; in the manifests.
pub const BUNDLE_WEBHOOK: &str = "vbundles.core.rukpak.io";
/// The entry for CRDs; in the manifests.
pub const DEFINITION_WEBHOOK: &str = "webhook.crdvalidator.io";
/// The entry for ConfigMaps; [`registration`] writes it.
pub const CONFIG_MAP_WEBHOOK: &str = "vconfigmaps.core.rukpak.io";
/// The entry for BundleDeployments; [`registration`] writes it.
pub const DEPLOYMENT_WEBHOOK: &str = "vbundledeployments.core.rukpak.io";
/// The entry for what others need; [`registration`] writes it.
pub const NEEDED_WEBHOOK: &str = "vneeded.core.rukpak.io";
/// The entries of [`CONFIGURATION`] that lead here.
pub const WEBHOOKS: [&str; 5] =
    [BUNDLE_WEBHOOK, DEFINITION_WEBHOOK, CONFIG_MAP_WEBHOOK, DEPLOYMENT_WEBHOOK, NEEDED_WEBHOOK];
/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "rukpak-webhook";
