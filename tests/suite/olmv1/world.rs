//! What the tests stand on: a plane with our programs under their ServiceAccounts, and a registry.

use std::path::PathBuf;

use kube::Client;
use rukpak_tests::{
    ControllerOptions, InstallOptions, Plane, PlaneOptions, PlatformOptions, Process, Registry, RegistryOptions, tools,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Everything that runs.
pub struct World {
    pub plane: Plane,
    pub registry: Registry,
    pub manager: Process,
    /// Where catalogs are served.
    pub catalogs: String,
    pub controller: Process,
}

static SHARED: OnceCell<World> = OnceCell::const_new();
static SOUND: OnceCell<Mutex<World>> = OnceCell::const_new();

impl World {
    /// The world of tests that do not meet.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::new).await
    }

    /// For one test after the other, which leave no catalog that cannot be read: a package is looked up in all catalogs, and not before
    /// each is served.
    pub async fn sound() -> MutexGuard<'static, Self> {
        SOUND.get_or_init(async || Mutex::new(Self::new().await)).await.lock().await
    }

    /// One of its own.
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// One whose manager has further flags.
    pub async fn with(further: &[&str]) -> Self {
        let manifests = InstallOptions { without_webhooks: true, ..InstallOptions::with_olm() };
        let flags = [&["--catalog-source=none"], further].concat();
        Self::start(&manifests, &flags).await
    }

    /// One with these manifests, whose manager has these flags.
    pub async fn start(manifests: &InstallOptions, flags: &[&str]) -> Self {
        let options = PlaneOptions { audit: true, ..PlaneOptions::default() };
        let plane = Plane::start_with(options).await.expect("the plane starts");
        plane.install(manifests).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let ca_file = ca_file(&plane);
        std::fs::write(&ca_file, registry.ca_pem()).expect("the CA file");
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}")));
        let options = ControllerOptions { arguments: arguments.clone(), ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await.expect("the controller starts");
        let catalogs = format!("localhost:{}", tools::free_port().expect("a port"));
        arguments
            .extend([format!("--catalogs-bind-address={catalogs}"), format!("--catalogs-external-address={catalogs}")]);
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let environment = vec![("POD_NAME".to_owned(), "first".to_owned())];
        let options = PlatformOptions { arguments, environment, ..PlatformOptions::default() };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        controller.wait_ready().await.expect("the controller is ready");
        manager.wait_ready().await.expect("the manager is ready");
        Self { plane, registry, manager, catalogs, controller }
    }

    /// Another manager beside the first; returns where it serves catalogs as well.
    pub async fn second(&self, further: &[&str]) -> (Process, String) {
        let catalogs = format!("localhost:{}", tools::free_port().expect("a port"));
        let mut arguments = vec![
            format!("--source-ca-file={}", ca_file(&self.plane).display()),
            "--catalog-source=none".to_owned(),
            format!("--catalogs-bind-address={catalogs}"),
        ];
        arguments.extend(further.iter().map(|flag| (*flag).to_owned()));
        let environment = vec![("POD_NAME".to_owned(), "second".to_owned())];
        let options = PlatformOptions { arguments, environment, ..PlatformOptions::default() };
        (self.plane.start_platform(options).await.expect("the second manager starts"), catalogs)
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }
}

/// The file with the authorities of registries.
pub fn ca_file(plane: &Plane) -> PathBuf {
    plane.folder().join("sources-ca.pem")
}
