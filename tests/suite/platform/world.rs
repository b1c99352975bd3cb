//! What the tests stand on: a plane with our programs under their ServiceAccounts, a registry, and CatalogSources whose status
//! is written here, as OLM would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use kube::Client;
use kube::api::{Patch, PatchParams};
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{
    CatalogImage, CatalogServer, CatalogdServer, ControllerOptions, Documents, InstallOptions, Plane, PlaneOptions,
    PlatformOptions, Process, Registry, RegistryOptions, tools,
};
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, OnceCell};

/// The CatalogSource that OpenShift's manager knows, and no other.
const DEFAULT: (&str, &str) = ("openshift-marketplace", "redhat-operators");
/// CatalogSources of single tests, each in a namespace of its own: (`<name>/catalog`).
const PRIVATE: [&str; 5] = ["not-ready", "created-later", "cut", "server-down", "addressless"];
/// What the release is called, in place of a fallback.
pub const RELEASE: &str = "4.12.7-rukpak";

/// Everything that runs.
pub struct Platform {
    pub plane: Plane,
    pub registry: Registry,
    pub manager: Process,
    /// `openshift-marketplace/redhat-operators`.
    pub main: Source,
    /// The catalog `folder`, named by a flag.
    pub folder: tempfile::TempDir,
    /// The catalog `web`, named by a flag.
    pub web: CatalogdServer,
    open: OnceCell<()>,
    _controller: Process,
}

/// A CatalogSource and the server behind it.
pub struct Source {
    namespace: String,
    name: String,
    pub server: CatalogServer,
    /// What each test has put in.
    parts: Mutex<BTreeMap<String, Documents>>,
    revision: AtomicU64,
}

static SHARED: OnceCell<Platform> = OnceCell::const_new();
static ALONE: OnceCell<tokio::sync::Mutex<Platform>> = OnceCell::const_new();

/// A catalog in which there is nothing to find.
pub fn nothing() -> Documents {
    Documents::package("unused", &[("1.0.0", "localhost:1/unused:v1")])
}

impl Platform {
    /// The world of tests that do not meet: many catalogs, OpenShift's definitions, everything ready.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::with_main("", catalogs)).await
    }

    /// A world for one test after the other: OpenShift's catalog alone, and what is global in a cluster. It begins without
    /// OpenShift's and OLM's definitions.
    pub async fn alone() -> MutexGuard<'static, Self> {
        let new = || async { tokio::sync::Mutex::new(Self::new(&[], "", async |_, _, _| Vec::new()).await) };
        ALONE.get_or_init(new).await.lock().await
    }

    /// One with OpenShift's definitions and a default catalog that is ready. `catalogs` gives the manager's flags, and `ca_pem`
    /// is trusted besides.
    pub async fn with_main(
        ca_pem: &str,
        catalogs: impl AsyncFnOnce(&Registry, &CatalogdServer, &Path) -> Vec<String>,
    ) -> Self {
        let world = Self::new(&definitions(), ca_pem, catalogs).await;
        let client = world.admin().await;
        world.main.create(&client).await;
        world.main.say(&client, "READY").await;
        world
    }

    async fn new(
        definitions: &[PathBuf],
        ca_pem: &str,
        catalogs: impl AsyncFnOnce(&Registry, &CatalogdServer, &Path) -> Vec<String>,
    ) -> Self {
        let plane = Plane::start_with(PlaneOptions { audit: true }).await.expect("the plane starts");
        let mut files = vec![tools::workspace_folder().join("manifests/install-platform.yaml")];
        files.extend_from_slice(definitions);
        let accounts = vec![CONTROLLER_ACCOUNT.to_owned(), PLATFORM_ACCOUNT.to_owned()];
        let options = InstallOptions { files, without_webhooks: true, accounts, ..InstallOptions::default() };
        plane.install(&options).await.expect("the manifests apply");
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
        let options = PlatformOptions { environment, arguments, ..PlatformOptions::default() };
        let manager = plane.start_platform(options).await.expect("the manager starts");
        controller.wait_ready().await.expect("the controller is ready");
        manager.wait_ready().await.expect("the manager is ready");
        let (main, open) = (Source::new(DEFAULT), OnceCell::new());
        Self { plane, registry, manager, main, folder, web, open, _controller: controller }
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

    /// Whether the cluster has become an OpenShift.
    pub fn is_open(&self) -> bool {
        self.open.initialized()
    }

    /// Makes the cluster an OpenShift, if it is none yet: its kinds and OLM's, the ClusterOperator as the cluster-version
    /// operator makes it, and the CatalogSource.
    pub async fn open(&self) {
        let open = async || {
            let (files, accounts) = (definitions().into(), Vec::new());
            let options = InstallOptions { files, accounts, without_webhooks: true, without_pods: false };
            self.plane.install(&options).await.expect("the definitions apply");
            let client = self.admin().await;
            let aggregated = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
                                    "metadata": {"name": "platform-operators-aggregated"}, "spec": {}});
            verbs::create(&client, &aggregated).await.expect("created");
            self.main.create(&client).await;
            self.main.say(&client, "READY").await;
        };
        self.open.get_or_init(open).await;
    }
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
        format!("--catalog-source={}/{}", DEFAULT.0, DEFAULT.1),
    ];
    arguments.extend(PRIVATE.map(|name| format!("--catalog-source={name}/catalog")));
    arguments
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

fn definitions() -> [PathBuf; 2] {
    let folder = tools::crate_folder().join("fixtures/openshift");
    ["catalogsources.yaml", "clusteroperators.yaml"].map(|file| folder.join(file))
}

/// For a look inside: `LOG_LEVEL=debug make test`.
fn log_level() -> Option<String> {
    std::env::var("LOG_LEVEL").ok().map(|level| format!("--log-level={level}"))
}

impl Source {
    /// One that does not exist yet.
    pub fn new((namespace, name): (&str, &str)) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            server: CatalogServer::start(nothing()).expect("the catalog server starts"),
            parts: Mutex::default(),
            revision: AtomicU64::default(),
        }
    }

    /// The one of a single test.
    pub fn private(namespace: &str) -> Self {
        assert!(PRIVATE.contains(&namespace), "name it in PRIVATE: the manager learns it by a flag");
        Self::new((namespace, "catalog"))
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn target(&self) -> Target {
        Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", &self.namespace, &self.name)
    }

    /// Makes the object, without a status.
    pub async fn create(&self, client: &Client) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"sourceType": "grpc", "image": "registry.example.com/index:v4.12"},
        });
        for object in [namespace, source] {
            verbs::apply(client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// Says that the connection is in `state`, anew.
    pub async fn say(&self, client: &Client, state: &str) {
        let address = self.server.address();
        self.connection(client, &json!({"address": address, "lastObservedState": state})).await;
    }

    /// Writes `connectionState`, at another time than before.
    pub async fn connection(&self, client: &Client, connection: &Value) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed);
        let mut connection = connection.clone();
        let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", revision / 3600, revision / 60 % 60, revision % 60);
        connection["lastConnect"] = json!(time);
        let patch = json!({"status": {"connectionState": connection}});
        let api = self.target().api(client).await.expect("CatalogSources are served");
        let patched = api.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.unwrap_or_else(|error| panic!("{}: {error}", self.path()));
    }

    /// Serves `documents` as the part of one test, without a word about it.
    pub fn put(&self, part: &str, documents: Documents) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.insert(part.to_owned(), documents);
        let all = parts.values().cloned().fold(nothing(), Documents::and);
        self.server.replace(all).expect("a catalog");
    }

    /// Serves `documents` as the part of one test, and says so, as OLM does of a new image.
    pub async fn publish(&self, client: &Client, part: &str, documents: Documents) {
        self.put(part, documents);
        self.say(client, "READY").await;
    }
}
