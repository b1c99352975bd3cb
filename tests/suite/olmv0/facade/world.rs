//! What the tests stand on: a plane with all programs, OLM v0's kinds as we define them, and a registry.

use std::path::PathBuf;

use kube::Client;
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{
    ControllerOptions, Gate, InstallOptions, Plane, PlaneOptions, PlatformOptions, Process, Registry, RegistryOptions,
    TestCa, WebhookOptions,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The namespace whose CatalogSources all Subscriptions may name.
pub const GLOBAL: &str = "olm";
/// Flags of the manager by which it follows OLM v0's kinds.
const FOLLOWING: [&str; 2] = ["--olmv0=on", "--catalog-poll-interval=1s"];

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub registry: Registry,
    /// The administrator's hands.
    pub terminal: Terminal,
    /// `rukpak-platform`.
    pub manager: Process,
    pub controller: Process,
    /// Where the manager serves catalogs: `127.0.0.1:port`.
    pub registry_address: String,
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
        std::fs::write(ca_file(&plane), registry.ca_pem()).expect("the CA file");
        let mut arguments = flags(&plane);
        let webhook = plane.start_webhook(WebhookOptions::default()).await.expect("the webhook starts");
        let options = ControllerOptions { arguments: arguments.clone(), ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await.expect("the controller starts");
        arguments.extend(FOLLOWING.map(str::to_owned));
        arguments.push(format!("--packages-bind-address=127.0.0.1:{}", installed.packages_port));
        let registry_address = format!("127.0.0.1:{}", tools::free_port().expect("a port"));
        arguments.push(format!("--registry-bind-address={registry_address}"));
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        for process in [&webhook, &controller, &manager] {
            process.wait_ready().await.expect("it is ready");
        }
        let terminal = Terminal::new(plane.kubeconfig_path()).expect("kubectl");
        Self { plane, registry, terminal, manager, controller, registry_address, _webhook: webhook }
    }

    /// One of its own, whose manager reaches the API server through a gate. Nobody asks it for PackageManifests: an API that comes and goes
    /// with the manager would have garbage collection begin again each time.
    pub async fn gated() -> (Self, Gate) {
        let mut world = Self::new().await;
        world.manager.end();
        let client = world.admin().await;
        let service = Target::cluster("apiregistration.k8s.io/v1", "APIService", "v1.packages.operators.coreos.com");
        verbs::delete(&client, &service).await.expect("the API server agrees");
        let authority = std::fs::read_to_string(world.plane.certificate_authority_path());
        let ca = TestCa::new("gate-ca").expect("a CA");
        let gate = Gate::before(&ca, world.plane.server(), &authority.expect("the API server's CA"));
        let gate = gate.expect("the gate starts");
        let kubeconfig = world.plane.kubeconfig_through(PLATFORM_ACCOUNT, &gate.url(), gate.ca_pem()).await;
        let mut arguments = flags(&world.plane);
        arguments.extend(FOLLOWING.map(str::to_owned));
        let environment = vec![("POD_NAME".to_owned(), "gated".to_owned())];
        let options = PlatformOptions { arguments, environment, kubeconfig: Some(kubeconfig.expect("a kubeconfig")) };
        world.manager = world.plane.start_platform(options).await.expect("the manager starts");
        world.manager.wait_ready().await.expect("it is ready");
        (world, gate)
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }
}

/// The file with the authority of the registry.
fn ca_file(plane: &Plane) -> PathBuf {
    plane.folder().join("sources-ca.pem")
}

/// Flags of controller and manager.
fn flags(plane: &Plane) -> Vec<String> {
    let mut flags = vec![format!("--source-ca-file={}", ca_file(plane).display())];
    flags.extend(std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}")));
    flags
}
