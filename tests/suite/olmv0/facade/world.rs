//! What the tests stand on: a plane with all programs, OLM v0's kinds as we define them, and a registry.

use kube::Client;
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::{
    ControllerOptions, InstallOptions, Plane, PlaneOptions, PlatformOptions, Process, Registry, RegistryOptions,
    WebhookOptions, verbs,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The namespace whose CatalogSources all Subscriptions may name.
pub const GLOBAL: &str = "olm";

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub registry: Registry,
    /// The administrator's hands.
    pub terminal: Terminal,
    /// `rukpak-platform`.
    pub manager: Process,
    pub controller: Process,
    _webhook: Process,
}

static SHARED: OnceCell<World> = OnceCell::const_new();

impl World {
    /// The world of tests that do not meet.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::new).await
    }

    async fn new() -> Self {
        Self::beside(&[]).await
    }

    /// One of its own, in which these objects are before our programs start.
    pub async fn beside(objects: &[Value]) -> Self {
        let plane = Plane::start_with(PlaneOptions::default()).await.expect("the plane starts");
        let installed = plane.install(&InstallOptions::with_olmv0()).await.expect("the manifests apply");
        let client = plane.admin().await.expect("the admin kubeconfig is good");
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GLOBAL}});
        verbs::create(&client, &space).await.expect("a namespace");
        for object in objects {
            verbs::create(&client, object).await.expect("the API server takes it");
        }
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let ca_file = plane.folder().join("sources-ca.pem");
        std::fs::write(&ca_file, registry.ca_pem()).expect("the CA file");
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}")));
        let webhook = plane.start_webhook(WebhookOptions::default()).await.expect("the webhook starts");
        let options = ControllerOptions { arguments: arguments.clone(), ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await.expect("the controller starts");
        arguments.extend(["--olmv0=on".to_owned(), "--catalog-poll-interval=1s".to_owned()]);
        arguments.push(format!("--packages-bind-address=127.0.0.1:{}", installed.packages_port));
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        for process in [&webhook, &controller, &manager] {
            process.wait_ready().await.expect("it is ready");
        }
        let terminal = Terminal::new(plane.kubeconfig_path()).expect("kubectl");
        Self { plane, registry, terminal, manager, controller, _webhook: webhook }
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }
}
