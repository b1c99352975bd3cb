//! Where the tests of Bundles run, and what they do there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::registry::TarEntry;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{self, World};
use rukpak_tests::{
    ControllerOptions, FaultyServer, GitServer, ImageBuilder, InstallOptions, Layer, Plane, PlaneOptions, Process,
    Registry, RegistryOptions, TestCa, tools,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest wait: a Bundle that is wrong is tried again after 5 s, then after 10 s.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The world of most tests, and an authority for servers that misbehave.
pub struct Scene {
    pub world: World,
    pub ca: TestCa,
    _folder: tempfile::TempDir,
}

/// A plane with an audit log and without webhooks; its controller has small limits, and may be restarted.
pub struct Bare {
    pub plane: Plane,
    pub registry: Registry,
    pub git: GitServer,
    pub controller: Process,
    pub ca: TestCa,
    _folder: tempfile::TempDir,
}

/// What a test does with Bundles and sees of the store.
pub struct Hands {
    pub client: Client,
    storage: PathBuf,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();
static BARE: OnceCell<Bare> = OnceCell::const_new();

/// The limits of [`Bare`].
const SMALL: [&str; 12] = [
    "--limit=download-bytes=2000000",
    "--limit=tree-bytes=3000000",
    "--limit=ratio=50",
    "--limit=entries=20",
    "--limit=path-bytes=100",
    "--limit=depth=6",
    "--limit=manifest-bytes=50000",
    "--limit=objects=10",
    "--limit=yaml-nodes=500",
    "--limit=git-bytes=400000",
    "--limit=git-seconds=4",
    "--limit=pull-seconds=4",
];

impl Scene {
    pub async fn shared() -> &'static Self {
        SCENE.get_or_try_init(Self::start).await.unwrap_or_else(|error| panic!("the scene cannot be set: {error:#}"))
    }

    async fn start() -> anyhow::Result<Self> {
        let (ca, folder, mut flags) = authority()?;
        if std::env::var_os("LOG_LEVEL").is_none() {
            flags.push("--log-level=debug".to_owned()); // what is secret must not be in any line
        }
        Ok(Self { world: World::start(flags).await?, ca, _folder: folder })
    }

    pub async fn hands(&self) -> Hands {
        Hands { client: self.world.admin().await, storage: self.world.controller.storage.clone() }
    }

    /// A server in front of the open registry.
    pub fn faulty_registry(&self) -> FaultyServer {
        faulty(&self.ca, &self.world.registry.url(), &self.world.registry.ca_pem())
    }

    /// A server in front of the open git server.
    pub fn faulty_git(&self) -> FaultyServer {
        faulty(&self.ca, &self.world.git.base_url(), &self.world.git.ca_pem())
    }
}

impl Bare {
    pub async fn shared() -> &'static Self {
        BARE.get_or_try_init(Self::start).await.unwrap_or_else(|error| panic!("the plane cannot be set: {error:#}"))
    }

    async fn start() -> anyhow::Result<Self> {
        let plane = Plane::start_with(PlaneOptions { audit: true, ..PlaneOptions::default() }).await?;
        plane.install(&InstallOptions { without_webhooks: true, ..InstallOptions::default() }).await?;
        let registry = Registry::start(RegistryOptions::default()).await?;
        let git = GitServer::start()?;
        let (ca, folder, mut arguments) = authority()?;
        let ca_file = folder.path().join("servers.pem");
        std::fs::write(&ca_file, registry.ca_pem() + &git.ca_pem())?;
        arguments.push(format!("--source-ca-file={}", ca_file.display()));
        arguments.extend(SMALL.map(str::to_owned));
        let controller =
            plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await?;
        controller.wait_ready().await?;
        Ok(Self { plane, registry, git, controller, ca, _folder: folder })
    }

    pub async fn hands(&self) -> Hands {
        let client = self.plane.admin().await.expect("the admin kubeconfig is good");
        Hands { client, storage: self.controller.storage.clone() }
    }

    /// A server in front of the registry.
    pub fn faulty_registry(&self) -> FaultyServer {
        faulty(&self.ca, &self.registry.url(), &self.registry.ca_pem())
    }

    /// A server in front of the git server.
    pub fn faulty_git(&self) -> FaultyServer {
        faulty(&self.ca, &self.git.base_url(), &self.git.ca_pem())
    }
}

fn authority() -> anyhow::Result<(TestCa, tempfile::TempDir, Vec<String>)> {
    let (ca, folder) = (TestCa::new("faulty-ca")?, tools::temp_folder("bundles")?);
    let file = folder.path().join("faulty.pem");
    std::fs::write(&file, ca.pem())?;
    let flags = vec![format!("--source-ca-file={}", file.display())];
    Ok((ca, folder, flags))
}

fn faulty(ca: &TestCa, base: &str, ca_pem: &str) -> FaultyServer {
    FaultyServer::before(ca, base, ca_pem).expect("a loopback port is free")
}

impl Hands {
    /// Creates a Bundle of the plain provisioner.
    pub async fn bundle(&self, name: &str, source: Value) {
        verbs::create(&self.client, &world::bundle(name, source)).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Creates any object.
    pub async fn create(&self, object: &Value) {
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The Bundle as it is now.
    pub async fn get(&self, name: &str) -> DynamicObject {
        let found = verbs::get(&self.client, &Target::bundle(name)).await;
        found.unwrap_or_else(|error| panic!("{error:#}")).unwrap_or_else(|| panic!("Bundle {name} is gone"))
    }

    /// Changes something that does not matter, so that the Bundle is looked at.
    pub async fn touch(&self, name: &str) {
        let patch = json!({"metadata": {"annotations": {"touched": tools::unique_name("at")}}});
        let touched = verbs::merge(&self.client, &Target::bundle(name), &patch).await;
        touched.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until the Bundle is unpacked.
    pub async fn unpacked(&self, name: &str) -> DynamicObject {
        let object = self.condition(name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
        assert_eq!(object.data["status"]["phase"], "Unpacked");
        assert!(self.reference(name).is_some(), "{name} is unpacked and has no ref in the store");
        object
    }

    /// Waits until the Bundle has failed with `text` in its message, checks that it holds nothing, and returns the message.
    pub async fn failing(&self, name: &str, text: &str) -> String {
        self.refused(name, text, "UnpackFailed", "Failing").await
    }

    /// As [`Hands::failing`], for an image that is waited for.
    pub async fn pending(&self, name: &str, text: &str) -> String {
        self.refused(name, text, "UnpackPending", "Pending").await
    }

    async fn refused(&self, name: &str, text: &str, reason: &str, phase: &str) -> String {
        let object = self.condition(name, Expected::is_false("Unpacked", reason).saying(text)).await;
        let status = &object.data["status"];
        assert_eq!(status["phase"], phase, "{name}");
        for field in ["resolvedSource", "contentURL", "pin"] {
            assert!(status[field].is_null(), "{name} was never unpacked and has {field}: {status}");
        }
        assert_eq!(self.reference(name), None, "{name} was never unpacked and has a ref in the store");
        let message = message(&object, "Unpacked");
        let ready = self::message(&object, "Ready");
        // The whole text of a missing image is upstream's; only there has Ready more.
        let more = ready.strip_prefix(&message).unwrap_or_else(|| panic!("{name}: {message}: {ready}"));
        assert!(more.is_empty() || message.starts_with("Back-off pulling image "), "{name}: {message}: {ready}");
        message
    }

    /// Waits for a condition of the Bundle.
    pub async fn condition(&self, name: &str, expected: Expected<'_>) -> DynamicObject {
        let found = verbs::await_condition(&self.client, &Target::bundle(name), expected, PATIENCE).await;
        found.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits until the store names content for the Bundle, and has it.
    pub async fn stored(&self, name: &str) {
        let there = || self.reference(name).is_some() && self.content_file(name).is_some_and(|file| file.is_file());
        self.on_disk(&format!("content of {name}"), there).await;
    }

    /// Waits for something on disk, which cannot be watched without another library.
    pub async fn on_disk(&self, what: &str, there: impl Fn() -> bool) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !there() {
            assert!(tokio::time::Instant::now() < end, "still waiting for {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the store keeps under the Bundle's name: content and source.
    pub fn reference(&self, name: &str) -> Option<Value> {
        let text = std::fs::read(self.reference_file(name)).ok()?;
        Some(serde_json::from_slice(&text).expect("a ref is JSON"))
    }

    pub fn reference_file(&self, name: &str) -> PathBuf {
        self.storage.join("v1/refs/bundles").join(name)
    }

    /// Where the Bundle's content lies by its ref.
    pub fn content_file(&self, name: &str) -> Option<PathBuf> {
        let reference = self.reference(name)?;
        let digest = reference["content"].as_str()?.strip_prefix("sha256:")?.to_owned();
        Some(self.storage.join("v1/content/sha256").join(&digest[..2]).join(&digest[2..]))
    }

    /// The files of the Bundle's content.
    pub fn content(&self, name: &str) -> BTreeMap<String, String> {
        let file = self.content_file(name).unwrap_or_else(|| panic!("no ref of {name} in the store"));
        files_of(&file)
    }

    /// Waits until no content in the store has `needle`: a manifest is read in what was sealed, which is collected afterwards.
    pub async fn collected(&self, needle: &str) {
        self.on_disk(&format!("the end of all that has {needle}"), || !self.holds(needle)).await;
    }

    /// Whether any content in the store has `needle` in one of its files.
    pub fn holds(&self, needle: &str) -> bool {
        let folders =
            std::fs::read_dir(self.storage.join("v1/content/sha256")).expect("the store has a content folder");
        let folders = folders.map(|folder| folder.expect("the folder can be read").path());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).expect("the folder can be read"));
        files.map(|file| file.expect("the folder can be read").path()).any(|file| {
            // It may be collected meanwhile.
            file.exists() && files_of(&file).values().any(|text| text.contains(needle))
        })
    }
}

fn files_of(path: &Path) -> BTreeMap<String, String> {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(path) else { return BTreeMap::new() };
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("content is a tar") {
        let mut entry = entry.expect("content is a tar");
        let path = String::from_utf8(entry.path_bytes().into_owned()).expect("paths are text");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("content is whole");
        if entry.header().entry_type().is_file() {
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    files
}

/// The message of a condition, which must be there.
pub fn message(object: &DynamicObject, kind: &str) -> String {
    let condition = verbs::condition(object, kind).unwrap_or_else(|| panic!("no condition {kind}: {}", object.data));
    condition["message"].as_str().expect("a message is text").to_owned()
}

/// A source of type git.
pub fn git(repository: &str, reference: &Value) -> Value {
    json!({"type": "git", "git": {"repository": repository, "ref": reference}})
}

/// A manifest of a ConfigMap called `name`.
pub fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  key: value\n")
}

/// A good bundle whose one object is called `name`.
pub fn good(name: &str) -> ImageBuilder {
    ImageBuilder::new([good_layer(name)])
}

/// The layer of [`good`].
pub fn good_layer(name: &str) -> Layer {
    Layer::new([TarEntry::file("manifests/object.yaml", manifest(name))])
}
