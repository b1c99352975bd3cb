//! What the tests stand on: planes with our programs under their ServiceAccounts, each with a registry, OpenShift's catalog and
//! catalogs that flags name.

use std::path::{Path, PathBuf};

use kube::Client;
pub use rukpak_tests::catalog::nothing;
pub use rukpak_tests::openshift::CatalogSource as Source;
use rukpak_tests::openshift::{self, DEFAULT_CATALOG};
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::{
    CatalogImage, CatalogdServer, ControllerOptions, Documents, Gate, InstallOptions, Plane, PlaneOptions,
    PlatformOptions, Process, Registry, RegistryOptions, TestCa, tools,
};
use tokio::sync::{MutexGuard, OnceCell};

/// CatalogSources of single tests, each in a namespace of its own: (`<name>/catalog`).
const PRIVATE: [&str; 6] = ["not-ready", "created-later", "cut", "server-down", "addressless", "unanswered"];
/// What the release is called, in place of a fallback.
pub const RELEASE: &str = "4.12.7-rukpak";

/// Everything that runs.
pub struct Platform {
    pub plane: Plane,
    pub registry: Registry,
    pub manager: Process,
    /// Between the manager and the API server.
    pub gate: Gate,
    /// `openshift-marketplace/redhat-operators`.
    pub main: Source,
    /// The catalog `folder`, named by a flag.
    pub folder: tempfile::TempDir,
    /// The catalog `web`, named by a flag.
    pub web: CatalogdServer,
    open: OnceCell<()>,
    _controller: Process,
}

static SHARED: OnceCell<Platform> = OnceCell::const_new();
static ALONE: OnceCell<tokio::sync::Mutex<Platform>> = OnceCell::const_new();

impl Platform {
    /// The world of tests that do not meet: many catalogs, OpenShift's definitions, everything ready.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::with_main("", catalogs)).await
    }

    /// A world for one test after the other: OpenShift's catalog alone, and what is global in a cluster. It begins without
    /// OpenShift's and OLM's definitions.
    pub async fn alone() -> MutexGuard<'static, Self> {
        let new = || async { tokio::sync::Mutex::new(Self::bare().await) };
        ALONE.get_or_init(new).await.lock().await
    }

    /// A world for one test, which is no OpenShift until that makes it one.
    pub async fn bare() -> Self {
        Self::new(&[], "", async |_, _, _| vec![default_catalog_source()]).await
    }

    /// One with OpenShift's definitions and a default catalog that is ready. `catalogs` gives the manager's flags, and `ca_pem`
    /// is trusted besides.
    pub async fn with_main(
        ca_pem: &str,
        catalogs: impl AsyncFnOnce(&Registry, &CatalogdServer, &Path) -> Vec<String>,
    ) -> Self {
        let world = Self::new(&openshift::definitions(), ca_pem, catalogs).await;
        world.main.connect(&world.admin().await).await;
        world
    }

    async fn new(
        definitions: &[PathBuf],
        ca_pem: &str,
        catalogs: impl AsyncFnOnce(&Registry, &CatalogdServer, &Path) -> Vec<String>,
    ) -> Self {
        let plane =
            Plane::start_with(PlaneOptions { audit: true, ..PlaneOptions::default() }).await.expect("the plane starts");
        let mut manifests = InstallOptions { without_webhooks: true, ..InstallOptions::with_platform() };
        manifests.files.extend_from_slice(definitions);
        plane.install(&manifests).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let web = CatalogdServer::start().expect("catalogd");
        let folder = tools::temp_folder("catalog").expect("a folder");
        let ca_file = plane.folder().join("sources-ca.pem");
        std::fs::write(&ca_file, [&registry.ca_pem(), &web.ca_pem(), ca_pem].concat()).expect("the CA file");
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(log_level());
        let options = ControllerOptions { arguments: arguments.clone(), ..ControllerOptions::default() };
        let controller = plane.start_controller(options).await.expect("the controller starts");
        arguments.extend(catalogs(&registry, &web, folder.path()).await);
        let environment = vec![("RELEASE_VERSION".to_owned(), RELEASE.to_owned())];
        let (gate, kubeconfig) = gate(&plane).await;
        let options = PlatformOptions { environment, arguments, kubeconfig: Some(kubeconfig) };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        controller.wait_ready().await.expect("the controller is ready");
        manager.wait_ready().await.expect("the manager is ready");
        let (main, open) = (Source::new(DEFAULT_CATALOG), OnceCell::new());
        Self { plane, registry, manager, gate, main, folder, web, open, _controller: controller }
    }

    /// A client with all rights: the test's own hands.
    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }

    /// Makes `catalog` the catalog `folder`.
    pub fn put_folder(&self, catalog: &Documents) {
        put_folder(self.folder.path(), catalog);
    }

    /// Makes `catalog` the catalog `image`.
    pub async fn put_image(&self, catalog: Documents) {
        put_image(&self.registry, catalog).await;
    }

    /// Makes the cluster an OpenShift, if it is none yet: its kinds and OLM's, the ClusterOperator as the cluster-version
    /// operator makes it, and the CatalogSource.
    pub async fn open(&self) {
        let open = async || {
            let (files, accounts) = (openshift::definitions().into(), Vec::new());
            let options = InstallOptions { files, accounts, without_webhooks: true, without_pods: false };
            self.plane.install(&options).await.expect("the definitions apply");
            openshift::open(&self.admin().await, &self.main).await;
        };
        self.open.get_or_init(open).await;
    }
}

/// A gate before the API server, and the manager's way through it.
async fn gate(plane: &Plane) -> (Gate, PathBuf) {
    let ca_pem = std::fs::read_to_string(plane.certificate_authority_path()).expect("the API server's CA");
    let ca = TestCa::new("gate-ca").expect("a CA");
    let gate = Gate::before(&ca, plane.server(), &ca_pem).expect("the gate starts");
    let kubeconfig = plane.kubeconfig_through(PLATFORM_ACCOUNT, &gate.url(), gate.ca_pem()).await;
    (gate, kubeconfig.expect("a kubeconfig"))
}

/// The CatalogSource of a single test, which does not exist yet.
pub fn private_source(namespace: &str) -> Source {
    assert!(PRIVATE.contains(&namespace), "name it in PRIVATE: the manager learns it by a flag");
    Source::new((namespace, "catalog"))
}

/// A catalog of each kind, asked before the CatalogSources, and the CatalogSources of single tests behind.
async fn catalogs(registry: &Registry, web: &CatalogdServer, folder: &Path) -> Vec<String> {
    web.put("all", nothing()).expect("a catalog");
    put_folder(folder, &nothing());
    let image = put_image(registry, nothing()).await;
    let mut arguments = vec![
        format!("--catalog=folder=dir:{}", folder.display()),
        format!("--catalog=image=image:{image}"),
        format!("--catalog=web={}", web.url("all")),
        "--catalog-poll-interval=1s".to_owned(),
        default_catalog_source(),
    ];
    arguments.extend(PRIVATE.map(|name| format!("--catalog-source={name}/catalog")));
    arguments
}

/// The flag that OpenShift's manifests have.
pub fn default_catalog_source() -> String {
    format!("--catalog-source={}/{}", DEFAULT_CATALOG.0, DEFAULT_CATALOG.1)
}

fn put_folder(folder: &Path, catalog: &Documents) {
    // Beside it and then renamed: never half a file.
    let path = folder.join(".new");
    std::fs::write(&path, catalog.json_lines()).expect("written");
    std::fs::rename(path, folder.join("catalog.json")).expect("renamed");
}

async fn put_image(registry: &Registry, catalog: Documents) -> String {
    let image = CatalogImage::of(catalog).expect("an image");
    image.push(registry, "catalogs/image", "v1").await.expect("the registry takes it").reference
}

/// For a look inside: `LOG_LEVEL=debug make test`.
fn log_level() -> Option<String> {
    std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}"))
}
