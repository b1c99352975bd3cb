//! Where these tests run: a cluster that asks for a policy (`--require=content-policy`), and a rule for each test's own
//! repositories.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::registry::{Cosign, Pushed, TarEntry};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, World, image};
use rukpak_tests::{FaultyServer, ImageBuilder, Layer, TestCa, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Longest wait: what is not signed is looked at again after 5 s, then after 10 s.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub struct Scene {
    pub world: World,
    pub ca: TestCa,
    _folder: tempfile::TempDir,
}

/// One image of a test, in a repository of its own, and a Bundle of it to be.
pub struct Case {
    pub scene: &'static Scene,
    pub client: Client,
    pub name: String,
    pub pushed: Pushed,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();
static ALONE: OnceCell<Scene> = OnceCell::const_new();

impl Scene {
    pub async fn shared() -> &'static Self {
        SCENE.get_or_try_init(Self::start).await.unwrap_or_else(|error| panic!("the scene cannot be set: {error:#}"))
    }

    /// For the one test that stops the controller.
    pub async fn alone() -> &'static Self {
        ALONE.get_or_try_init(Self::start).await.unwrap_or_else(|error| panic!("the scene cannot be set: {error:#}"))
    }

    async fn start() -> anyhow::Result<Self> {
        let (ca, folder) = (TestCa::new("faulty-ca")?, tools::temp_folder("trust")?);
        let file = folder.path().join("faulty.pem");
        std::fs::write(&file, ca.pem())?;
        let flags = vec![format!("--source-ca-file={}", file.display()), "--require=content-policy".to_owned()];
        Ok(Self { world: World::start(flags).await?, ca, _folder: folder })
    }

    /// A server in front of the registry.
    pub fn faulty_registry(&self) -> FaultyServer {
        let registry = &self.world.registry;
        FaultyServer::before(&self.ca, &registry.url(), &registry.ca_pem()).expect("a loopback port is free")
    }
}

/// A rule that requires a signature by one of these.
pub fn require(signers: &[(&str, &Cosign)]) -> Value {
    let signer = |(name, key): &(&str, &Cosign)| json!({"name": name, "publicKey": {"data": key.public_key()}});
    json!({"action": "Require", "signers": signers.iter().map(signer).collect::<Vec<_>>()})
}

/// The manifest of a ConfigMap called `name`.
pub fn good(name: &str) -> ImageBuilder {
    let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n");
    ImageBuilder::new([Layer::new([TarEntry::file("manifests/object.yaml", manifest)])])
}

impl Case {
    /// An image that nobody has signed yet.
    pub async fn new(prefix: &str) -> Self {
        Self::in_scene(Scene::shared().await, prefix).await
    }

    pub async fn in_scene(scene: &'static Scene, prefix: &str) -> Self {
        let name = unique_name(prefix);
        let pushed = scene.world.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
        Self { scene, client: scene.world.admin().await, name, pushed }
    }

    /// Has the controller know this rule for the repository of the image.
    pub async fn rule(&self, rule: Value) {
        self.rule_for(self.pushed.repository(), rule).await;
    }

    /// As [`Case::rule`], for any scope.
    pub async fn rule_for(&self, scope: &str, mut rule: Value) {
        (rule["name"], rule["scopes"]) = (json!("ours"), json!([scope]));
        let policy = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy",
                            "metadata": {"name": self.name}, "spec": {"rules": [rule]}});
        self.apply(&policy).await;
    }

    pub async fn apply(&self, object: &Value) {
        verbs::apply(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Signs the image with a new key, and has the policy ask for it.
    pub async fn signed(prefix: &str) -> (Self, Cosign) {
        Self::signed_in(Scene::shared().await, prefix).await
    }

    pub async fn signed_in(scene: &'static Scene, prefix: &str) -> (Self, Cosign) {
        let (case, key) = (Self::in_scene(scene, prefix).await, Cosign::new().expect("a key can be made"));
        case.scene.world.registry.sign(&case.pushed, &key).await.expect("the registry takes it");
        case.rule(require(&[("release", &key)])).await;
        (case, key)
    }

    /// Creates the Bundle of the image.
    pub async fn create(&self) {
        self.create_of(image(&self.pushed.reference)).await;
    }

    /// Creates the Bundle of any source.
    pub async fn create_of(&self, source: Value) {
        let created = verbs::create(&self.client, &world::bundle(&self.name, source)).await;
        created.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits for a condition of the Bundle.
    pub async fn until(&self, expected: Expected<'_>) -> DynamicObject {
        let found = verbs::await_condition(&self.client, &Target::bundle(&self.name), expected, PATIENCE).await;
        found.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Where the store has the content of the Bundle.
    pub fn content_file(&self) -> PathBuf {
        let storage = self.scene.world.controller.storage.join("v1");
        let text = std::fs::read(storage.join("refs/bundles").join(&self.name)).expect("the store has a ref of it");
        let reference: Value = serde_json::from_slice(&text).expect("a ref is JSON");
        let digest = reference["content"].as_str().expect("a ref names content").trim_start_matches("sha256:");
        storage.join("content/sha256").join(&digest[..2]).join(&digest[2..])
    }

    /// Waits for a file, which cannot be watched without another library.
    pub async fn until_there(&self, file: &Path) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !file.is_file() {
            assert!(tokio::time::Instant::now() < end, "still waiting for {}", file.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Changes the Bundle so that it is looked at again, and nothing else.
    pub async fn touch(&self) {
        let patch = json!({"metadata": {"annotations": {"touched": unique_name("at")}}});
        let touched = verbs::merge(&self.client, &Target::bundle(&self.name), &patch).await;
        touched.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until the condition `Verified` is neither true nor false, for this reason.
    pub async fn unknown(&self, reason: &str) -> DynamicObject {
        let is_so = |object: Option<&DynamicObject>| {
            object
                .and_then(|object| verbs::condition(object, "Verified"))
                .is_some_and(|condition| condition["status"] == "Unknown" && condition["reason"] == reason)
        };
        let target = Target::bundle(&self.name);
        let found = verbs::await_object(&self.client, &target, reason, PATIENCE, is_so).await;
        found.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there")
    }

    /// Waits until the Bundle is unpacked, and its signature is verified.
    pub async fn verified(&self) -> DynamicObject {
        let bundle = self.until(Expected::is_true("Verified", "SignatureVerified")).await;
        self.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
        bundle
    }

    /// Waits for an Event about the Bundle.
    pub async fn event(&self, reason: &str, message: &str) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let events = verbs::list(&self.client, "v1", "Event", "").await.unwrap_or_else(|error| panic!("{error:#}"));
            let own = events.iter().filter(|event| event.data["involvedObject"]["name"] == self.name.as_str());
            let own: Vec<_> = own.map(|event| &event.data).collect();
            if own.iter().any(|event| event["reason"] == reason && event["message"] == message) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "no Event {reason} {message}: {own:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await; // its name is not known, so it cannot be watched
        }
    }

    /// Waits until the Bundle is refused for want of a signature, with `text` in the message; nothing of it is in the store.
    pub async fn refused(&self, text: &str) -> String {
        self.refused_as("SignatureMissing", text).await
    }

    /// As [`Case::refused`], for another reason.
    pub async fn refused_as(&self, reason: &str, text: &str) -> String {
        let bundle = self.until(Expected::is_false("Verified", reason).saying(text)).await;
        let said = message(&bundle, "Verified");
        assert_eq!(message(&bundle, "Unpacked"), format!("source bundle content: {said}"));
        let status = &bundle.data["status"];
        assert_eq!(status["phase"], "Failing", "{status}");
        for field in ["resolvedSource", "contentURL", "pin"] {
            assert!(status[field].is_null(), "it was not let in and has {field}: {status}");
        }
        let reference = self.scene.world.controller.storage.join("v1/refs/bundles").join(&self.name);
        assert!(!reference.exists(), "it was not let in, and the store has a ref of it");
        said
    }
}

/// The message of a condition, which must be there.
pub fn message(object: &DynamicObject, kind: &str) -> String {
    let condition = verbs::condition(object, kind).unwrap_or_else(|| panic!("no condition {kind}: {}", object.data));
    condition["message"].as_str().expect("a message is text").to_owned()
}
