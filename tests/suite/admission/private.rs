//! A control plane of its own, where the webhook may be ended, and where its certificates live for seconds.

use anyhow::Result;
use kube::Client;
use rukpak_tests::plane::install::InstallOptions;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{ControllerOptions, Plane, Process, Registry, RegistryOptions, WebhookOptions, tools};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Two thirds of it and a certificate is renewed; the last third is how long everything may stand still on a busy machine.
pub const LIFETIME_SECONDS: u64 = 40;
/// The configuration that the webhook fills.
pub const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";

/// What runs there.
pub struct Private {
    pub plane: Plane,
    pub registry: Registry,
    pub webhook: Process,
    pub controller: Process,
    /// What `/healthz` and `/readyz` said while no configuration led to the webhook.
    pub before_install: [(u16, String); 2],
    _folder: tempfile::TempDir,
}

static PRIVATE: OnceCell<Mutex<Private>> = OnceCell::const_new();

/// The plane, for one test at a time.
pub async fn private() -> MutexGuard<'static, Private> {
    let private = PRIVATE.get_or_try_init(|| async { start().await.map(Mutex::new) }).await;
    match private {
        Ok(private) => private.lock().await,
        Err(error) => panic!("the plane could not be started: {error:#}"),
    }
}

async fn start() -> Result<Private> {
    let folder = tools::temp_folder("private")?;
    let plane = Plane::start().await?;
    plane.install(&InstallOptions { without_webhooks: true, ..InstallOptions::default() }).await?;
    let options = WebhookOptions {
        arguments: vec![format!("--certificate-lifetime={LIFETIME_SECONDS}s")],
        ..WebhookOptions::default()
    };
    let webhook = plane.start_webhook(options).await?;
    let before_install = [alive(&webhook).await?, probe(&webhook, "readyz").await?];
    plane.install(&InstallOptions::default()).await?;
    let registry = Registry::start(RegistryOptions::default()).await?;
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, registry.ca_pem())?;
    let arguments = vec![format!("--source-ca-file={}", ca_file.display())];
    let controller = plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await?;
    webhook.wait_ready().await?;
    controller.wait_ready().await?;
    Ok(Private { plane, registry, webhook, controller, before_install, _folder: folder })
}

/// `/healthz` as soon as the process answers.
async fn alive(webhook: &Process) -> Result<(u16, String)> {
    let end = tokio::time::Instant::now() + verbs::PATIENCE;
    loop {
        match probe(webhook, "healthz").await {
            Err(_) if tokio::time::Instant::now() < end => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            answered => return answered,
        }
    }
}

/// Status and text of a health probe.
pub async fn probe(process: &Process, path: &str) -> Result<(u16, String)> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(format!("{}/{path}", process.health_url)).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

impl Private {
    /// The administrator.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }
}

/// Names the webhook configuration.
pub fn configuration() -> Target {
    Target::cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", CONFIGURATION)
}

/// Names the Secret with the certificate.
pub fn secret() -> Target {
    Target::namespaced("v1", "Secret", "rukpak-system", "rukpak-webhook-certificate")
}

/// `caBundle` in base64; empty where there is none.
pub fn ca_bundle(configuration: &kube::api::DynamicObject) -> &str {
    configuration.data["webhooks"][0]["clientConfig"].get("caBundle").and_then(Value::as_str).unwrap_or_default()
}
