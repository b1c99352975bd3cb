//! What the tests share: the plane with the install manifests, both processes under their own ServiceAccounts, registries
//! and git servers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{
    ControllerOptions, GitServer, GitServerOptions, ImageBuilder, InstallOptions, Plane, Process, Registry,
    RegistryOptions, SshServer, WebhookOptions, tools,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest wait for something that should be there in seconds: the machine may be slow, the suite runs in parallel.
pub const SOON: Duration = Duration::from_secs(30);
/// User and password of the private servers.
pub const USER: &str = "robot";
pub const PASSWORD: &str = "s3cret";

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub registry: Registry,
    pub private_registry: Registry,
    pub git: GitServer,
    pub private_git: GitServer,
    pub ssh: SshServer,
    pub controller: Process,
    pub webhook: Process,
    _folder: tempfile::TempDir,
}

static WORLD: OnceCell<World> = OnceCell::const_new();

impl World {
    /// The world that all tests of this binary share.
    pub async fn shared() -> &'static World {
        match WORLD.get_or_try_init(|| World::start(Vec::new())).await {
            Ok(world) => world,
            Err(error) => panic!("the world could not be started: {error:#}"),
        }
    }

    /// A world of one's own, whose controller gets further flags.
    pub async fn start(arguments: Vec<String>) -> Result<World> {
        let folder = tools::temp_folder("world")?;
        let plane = Plane::start().await?;
        plane.install(&InstallOptions::default()).await?;
        let registry = Registry::start(RegistryOptions::default()).await?;
        let private_registry = Registry::start(RegistryOptions::private(USER, PASSWORD)).await?;
        let git = GitServer::start()?;
        let private_git = GitServer::start_with(GitServerOptions {
            credentials: Some((USER.to_owned(), PASSWORD.to_owned())),
            ..GitServerOptions::default()
        })?;
        let ssh = SshServer::start().await?;
        let ca_file: PathBuf = folder.path().join("ca.pem");
        let ca = [registry.ca_pem(), private_registry.ca_pem(), git.ca_pem(), private_git.ca_pem()].concat();
        std::fs::write(&ca_file, ca).context("write the CA file")?;
        let mut flags = vec![format!("--source-ca-file={}", ca_file.display())];
        flags.extend(arguments);
        // For a look inside: LOG_LEVEL=debug make test
        flags.extend(std::env::var("LOG_LEVEL").map(|level| format!("--log-level={level}")));
        let webhook = plane.start_webhook(WebhookOptions::default()).await?;
        let controller =
            plane.start_controller(ControllerOptions { arguments: flags, ..ControllerOptions::default() }).await?;
        webhook.wait_ready().await?;
        controller.wait_ready().await?;
        Ok(World { plane, registry, private_registry, git, private_git, ssh, controller, webhook, _folder: folder })
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }

    /// Pushes an image under a new name and returns its reference by tag.
    pub async fn push(&self, name: &str, image: &ImageBuilder) -> String {
        let pushed = self.registry.push(&format!("bundles/{name}"), "v1", image).await.expect("the registry takes it");
        pushed.reference
    }
}

/// A Bundle of the plain provisioner.
pub fn bundle(name: &str, source: Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
           "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source}})
}

/// A BundleDeployment of the plain provisioner.
pub fn deployment(name: &str, source: Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
           "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {
               "metadata": {"labels": {"app": name}},
               "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source}}}})
}

/// An image source.
pub fn image(reference: &str) -> Value {
    json!({"type": "image", "image": {"ref": reference}})
}

/// Waits until the BundleDeployment says so.
pub async fn until(client: &Client, name: &str, expected: Expected<'_>) -> DynamicObject {
    match verbs::await_condition(client, &Target::bundle_deployment(name), expected, SOON).await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}"),
    }
}

/// Waits until the Bundle says so.
pub async fn until_bundle(client: &Client, name: &str, expected: Expected<'_>) -> DynamicObject {
    match verbs::await_condition(client, &Target::bundle(name), expected, SOON).await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}"),
    }
}
