//! What the suites share: the plane with the install manifests, both processes under their own ServiceAccounts, registries
//! and git servers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::plane::install::CONTROLLER_ACCOUNT;
use crate::verbs::{self, Expected, Target};
use crate::{
    ControllerOptions, FaultyServer, GitServer, GitServerOptions, ImageBuilder, InstallOptions, Meter, Plane,
    PlaneOptions, Process, Registry, RegistryOptions, SshServer, TestCa, WebhookOptions, tools,
};

/// Longest wait for something that should be there in seconds: the machine may be slow, the suite runs in parallel.
pub const SOON: Duration = Duration::from_mins(3);
/// User of the private servers.
pub const USER: &str = "robot";
/// Password of the private servers.
pub const PASSWORD: &str = "s3cret";

/// Everything that runs.
pub struct World {
    /// The control plane, with `manifests/install.yaml` applied.
    pub plane: Plane,
    /// A registry that anybody may read.
    pub registry: Registry,
    /// A registry for [`USER`] alone.
    pub private_registry: Registry,
    /// A git server that anybody may read.
    pub git: GitServer,
    /// A git server for [`USER`] alone.
    pub private_git: GitServer,
    /// A git server over ssh.
    pub ssh: SshServer,
    /// Between the API server and the controller, with [`WorldOptions::proxied`].
    pub proxy: Option<FaultyServer>,
    /// Between the API server and the controller, with [`WorldOptions::metered`].
    pub meter: Option<Meter>,
    /// `rukpak-controller` as ServiceAccount `core-admin`.
    pub controller: Process,
    /// `rukpak-webhook` as ServiceAccount `rukpak-webhooks-admin`.
    pub webhook: Process,
    _folder: tempfile::TempDir,
}

/// What a world should have beyond the usual.
#[derive(Debug, Clone, Default)]
pub struct WorldOptions {
    /// Further flags of the controller.
    pub arguments: Vec<String>,
    /// Keep an audit log, see [`Plane::audit_log`].
    pub audit: bool,
    /// Have the controller reach the API server through [`World::proxy`].
    pub proxied: bool,
    /// Have the controller reach the API server through [`World::meter`], and not through a proxy.
    pub metered: bool,
    /// What to install in place of the usual. All at once: the API server looks only now and then for kinds that owners may be of.
    pub install: InstallOptions,
}

static WORLD: OnceCell<World> = OnceCell::const_new();

impl World {
    /// The world that all tests of one binary share.
    ///
    /// # Panics
    /// Where it cannot be started: no test can do without it.
    pub async fn shared() -> &'static World {
        match WORLD.get_or_try_init(|| World::start(Vec::new())).await {
            Ok(world) => world,
            Err(error) => panic!("the world could not be started: {error:#}"),
        }
    }

    /// A world of one's own, whose controller gets further flags.
    pub async fn start(arguments: Vec<String>) -> Result<World> {
        Self::start_with(WorldOptions { arguments, ..WorldOptions::default() }).await
    }

    /// A world of one's own.
    pub async fn start_with(options: WorldOptions) -> Result<World> {
        let WorldOptions { arguments, audit, proxied, metered, install } = options;
        let folder = tools::temp_folder("world")?;
        let plane = Plane::start_with(PlaneOptions { audit, ..PlaneOptions::default() }).await?;
        plane.install(&install).await?;
        let registry = Registry::start(RegistryOptions::default()).await?;
        let private_registry = Registry::start(RegistryOptions::private(USER, PASSWORD)).await?;
        let git = GitServer::start()?;
        let private_git =
            GitServer::start_with(GitServerOptions { credentials: Some((USER.to_owned(), PASSWORD.to_owned())) })?;
        let ssh = SshServer::start().await?;
        let ca_file: PathBuf = folder.path().join("ca.pem");
        let ca = [registry.ca_pem(), private_registry.ca_pem(), git.ca_pem(), private_git.ca_pem()].concat();
        std::fs::write(&ca_file, ca).context("write the CA file")?;
        let mut flags = vec![format!("--source-ca-file={}", ca_file.display())];
        flags.extend(arguments);
        // For a look inside: LOG_LEVEL=debug make test
        flags.extend(std::env::var("LOG_LEVEL").map(|level| format!("--log-level={level}")));
        let webhook = plane.start_webhook(WebhookOptions::default()).await?;
        let proxy = if proxied { Some(proxy(&plane)?) } else { None };
        let meter = if metered { Some(meter(&plane)?) } else { None };
        let through = match (&proxy, &meter) {
            (_, Some(meter)) => Some((meter.url(), meter.ca_pem())),
            (Some(proxy), None) => Some((proxy.url(), proxy.ca_pem())),
            (None, None) => None,
        };
        let kubeconfig = match through {
            Some((url, ca_pem)) => Some(plane.kubeconfig_through(CONTROLLER_ACCOUNT, &url, ca_pem).await?),
            None => None,
        };
        let options = ControllerOptions { arguments: flags, kubeconfig, ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await?;
        webhook.wait_ready().await?;
        controller.wait_ready().await?;
        Ok(World {
            plane,
            registry,
            private_registry,
            git,
            private_git,
            ssh,
            proxy,
            meter,
            controller,
            webhook,
            _folder: folder,
        })
    }

    /// A client with all rights: the test's own hands.
    ///
    /// # Panics
    /// Where the plane's own kubeconfig is no good.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }

    /// Pushes an image as `bundles/<name>:v1` and returns its reference by tag.
    ///
    /// # Panics
    /// Where the registry refuses it.
    pub async fn push(&self, name: &str, image: &ImageBuilder) -> String {
        let pushed = self.registry.push(&format!("bundles/{name}"), "v1", image).await.expect("the registry takes it");
        pushed.reference
    }
}

/// A server in front of the API server.
fn proxy(plane: &Plane) -> Result<FaultyServer> {
    let ca_pem = std::fs::read_to_string(plane.certificate_authority_path()).context("read the API server's CA")?;
    FaultyServer::before(&TestCa::new("proxy-ca")?, plane.server(), &ca_pem)
}

/// A meter in front of the API server.
fn meter(plane: &Plane) -> Result<Meter> {
    let ca_pem = std::fs::read_to_string(plane.certificate_authority_path()).context("read the API server's CA")?;
    Meter::before(&TestCa::new("meter-ca")?, plane.server(), &ca_pem)
}

/// A Bundle of the plain provisioner.
#[expect(clippy::needless_pass_by_value, reason = "callers make the source in place")]
pub fn bundle(name: &str, source: Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
           "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source}})
}

/// A BundleDeployment of the plain provisioner.
#[expect(clippy::needless_pass_by_value, reason = "callers make the source in place")]
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
///
/// # Panics
/// With the object, its events and the logs, where it does not within [`SOON`].
pub async fn until(client: &Client, name: &str, expected: Expected<'_>) -> DynamicObject {
    match verbs::await_condition(client, &Target::bundle_deployment(name), expected, SOON).await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}"),
    }
}

/// Waits until the Bundle says so.
///
/// # Panics
/// With the object, its events and the logs, where it does not within [`SOON`].
pub async fn until_bundle(client: &Client, name: &str, expected: Expected<'_>) -> DynamicObject {
    match verbs::await_condition(client, &Target::bundle(name), expected, SOON).await {
        Ok(object) => object,
        Err(error) => panic!("{error:#}"),
    }
}
