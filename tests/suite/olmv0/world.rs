//! What the tests stand on: a plane with our programs, OLM v0's kinds and a CatalogSource, and a registry.

use std::path::{Path, PathBuf};

use kube::Client;
use rukpak_tests::openshift::{self, CatalogSource};
use rukpak_tests::{
    ControllerOptions, InstallOptions, Plane, PlaneOptions, PlatformOptions, Process, Registry, RegistryOptions, olmv0,
    tools,
};
use tokio::sync::OnceCell;

/// Namespace and name of the CatalogSource.
pub const CATALOG: (&str, &str) = ("olm", "community");

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub registry: Registry,
    pub source: CatalogSource,
    _manager: Process,
    _controller: Process,
}

/// What the program did.
#[derive(Debug)]
pub struct Did {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

static SHARED: OnceCell<World> = OnceCell::const_new();

impl World {
    /// The world of tests that do not meet.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::new).await
    }

    /// One of its own.
    pub async fn new() -> Self {
        let plane = Plane::start_with(PlaneOptions::default()).await.expect("the plane starts");
        let mut manifests = InstallOptions { without_webhooks: true, ..InstallOptions::with_olm() };
        manifests.files.extend(openshift::definitions());
        manifests.files.push(olmv0::definitions());
        plane.install(&manifests).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let ca_file = plane.folder().join("sources-ca.pem");
        std::fs::write(&ca_file, registry.ca_pem()).expect("the CA file");
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}")));
        let options = ControllerOptions { arguments: arguments.clone(), ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await.expect("the controller starts");
        arguments.push(format!("--catalog-source={}/{}", CATALOG.0, CATALOG.1));
        let catalogs = format!("localhost:{}", tools::free_port().expect("a port"));
        arguments.push(format!("--catalogs-bind-address={catalogs}"));
        arguments.push(format!("--catalogs-external-address={catalogs}"));
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        controller.wait_ready().await.expect("the controller is ready");
        manager.wait_ready().await.expect("the manager is ready");
        let source = CatalogSource::new(CATALOG);
        source.connect(&plane.admin().await.expect("the admin kubeconfig is good")).await;
        Self { plane, registry, source, _manager: manager, _controller: controller }
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }

    fn ca_file(&self) -> PathBuf {
        self.plane.folder().join("sources-ca.pem")
    }

    /// Runs `rukpakctl migrate` with the administrator's kubeconfig.
    pub async fn migrate(&self, arguments: &[&str]) -> Did {
        self.migrate_by(self.plane.kubeconfig_path(), arguments).await
    }

    /// Runs `rukpakctl migrate` with a kubeconfig.
    pub async fn migrate_by(&self, kubeconfig: &Path, arguments: &[&str]) -> Did {
        let program = tools::workspace_binary("rukpakctl").expect("it is built");
        let mut command = tokio::process::Command::new(program);
        command.arg("migrate").args(arguments).arg("--ca-file").arg(self.ca_file()).env("KUBECONFIG", kubeconfig);
        command.kill_on_drop(true);
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE"] {
            command.env_remove(proxy);
        }
        let output = command.output().await.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Did { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}
