//! A control plane with an audit log, and a webhook that others than the API server call as well.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use rukpak_tests::plane::install::WEBHOOK_ACCOUNT;
use rukpak_tests::plane::yaml;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::SOON;
use rukpak_tests::{ControllerOptions, InstallOptions, Plane, PlaneOptions, Process, WebhookOptions, tools};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub const BUNDLES: &str = "/validate-core-rukpak-io-v1alpha1-bundle";
pub const CONFIG_MAPS: &str = "/validate-core-v1-configmap";
pub const DEFINITIONS: &str = "/validate-crd";
const SERVICE: &str = "rukpak-webhook-service.rukpak-system.svc";
const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";

/// What runs there.
pub struct Scene {
    pub plane: Plane,
    pub webhook: Process,
    _controller: Process,
    /// What the API server trusts, in PEM.
    pub authorities: Vec<u8>,
    pub port: u16,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();
/// A flood of connections displaces those of others: that is what it is tested for, one test at a time.
static FLOOD: RwLock<()> = RwLock::const_new(());
/// Large reviews share the memory for them, and who waits for it too long is told that the webhook is busy: one test at a time.
static LARGE: Mutex<()> = Mutex::const_new(());

/// The scene while nobody floods it.
pub async fn calm() -> (&'static Scene, RwLockReadGuard<'static, ()>) {
    (Scene::shared().await, FLOOD.read().await)
}

/// The scene while nobody floods it, for whoever sends large reviews.
pub async fn large() -> (&'static Scene, (MutexGuard<'static, ()>, RwLockReadGuard<'static, ()>)) {
    let turn = LARGE.lock().await;
    let (scene, calm) = calm().await;
    (scene, (turn, calm))
}

/// The scene for whoever floods it.
pub async fn flood() -> (&'static Scene, RwLockWriteGuard<'static, ()>) {
    (Scene::shared().await, FLOOD.write().await)
}

impl Scene {
    async fn shared() -> &'static Self {
        SCENE.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let plane = Plane::start_with(PlaneOptions { audit: true, ..PlaneOptions::default() })
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
        let installed = plane.install(&InstallOptions::default()).await.unwrap_or_else(|error| panic!("{error:#}"));
        let webhook = plane.start_webhook(WebhookOptions::default()).await.unwrap_or_else(|error| panic!("{error:#}"));
        let controller = plane.start_controller(ControllerOptions::default()).await;
        let controller = controller.unwrap_or_else(|error| panic!("{error:#}"));
        webhook.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
        controller.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
        let target =
            Target::cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", CONFIGURATION);
        let client = plane.admin().await.expect("the plane's own kubeconfig");
        let configuration = verbs::get(&client, &target).await.expect("it can be read").expect("it exists");
        let bundle = configuration.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().expect("it has a caBundle");
        let authorities = BASE64_STANDARD.decode(bundle).expect("caBundle is base64");
        Self { plane, webhook, _controller: controller, authorities, port: installed.webhook_port }
    }

    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the plane's own kubeconfig")
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// A client that trusts what the API server trusts; it has connections of its own.
    pub fn http(&self) -> reqwest::Client {
        let authorities = reqwest::Certificate::from_pem_bundle(&self.authorities).expect("caBundle is PEM");
        let builder =
            reqwest::Client::builder().tls_certs_only(authorities).resolve(SERVICE, self.address()).no_proxy();
        builder.timeout(Duration::from_mins(3)).build().expect("the client is well-formed")
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{SERVICE}:{}{path}", self.port)
    }

    /// Posts a body, as any Pod could; the status and what is answered.
    pub async fn post(&self, http: &reqwest::Client, path: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let call = http.post(self.url(path)).header("content-type", "application/json").body(body);
        let answer = call.send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        (answer.status().as_u16(), answer.text().await.expect("it is text"))
    }

    /// The answer to a review.
    pub async fn ask(&self, path: &str, review: &Value) -> Value {
        let (status, text) = self.post(&self.http(), path, review.to_string()).await;
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).expect("it is JSON");
        answer["response"].clone()
    }

    /// The webhook still does its work, for the API server, at once; and its memory was never more than its manifest gives it.
    pub async fn assert_unharmed(&self) {
        let name = unique_name("after");
        let source = json!({"type": "image", "image": {"ref": "example.test/bundle:v1"}});
        let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
                            "spec": {"provisionerClassName": "nobody", "source": source}});
        let begin = std::time::Instant::now();
        verbs::create(&self.admin().await, &bundle).await.unwrap_or_else(|error| panic!("{error:#}"));
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        let (peak, limit) = (self.peak_bytes(), memory_limit());
        println!("the webhook has taken {} MiB of {}", peak >> 20, limit >> 20);
        assert!(peak < limit, "{peak} bytes were resident, the limit is {limit}");
    }

    /// The most that was ever resident of the webhook.
    pub fn peak_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.webhook.pid().expect("it runs"));
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("it is a number");
        kibibytes * 1024
    }

    /// A definition that a BundleDeployment could own, in the cluster, as it is there.
    pub async fn definition(&self, schema: &Value) -> Value {
        let group = format!("{}.example.test", unique_name("hostile"));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{group}"), "labels": {"core.rukpak.io/owner-kind": "BundleDeployment"}},
            "spec": {"group": group, "scope": "Namespaced",
                     "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        });
        let client = self.admin().await;
        verbs::create(&client, &definition).await.unwrap_or_else(|error| panic!("{error:#}"));
        verbs::await_served(&client, &format!("{group}/v1"), "Thing", SOON)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
        let target = Target::of(&definition).expect("it has a name");
        let live = verbs::get(&client, &target).await.expect("it can be read").expect("it exists");
        serde_json::to_value(live).expect("it is JSON")
    }

    /// What the webhook asked the API server for: verb, resource and URI.
    pub fn requests(&self) -> Vec<(String, String, String)> {
        let log = std::fs::read_to_string(self.plane.audit_log()).expect("the log can be read");
        let user = format!("system:serviceaccount:rukpak-system:{WEBHOOK_ACCOUNT}");
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = events.filter(|event| event["user"]["username"] == user.as_str());
        let text = |event: &Value, pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        own.map(|event| (text(&event, "/verb"), text(&event, "/objectRef/resource"), text(&event, "/requestURI")))
            .collect()
    }
}

/// The memory that the manifest gives the webhook, in bytes.
pub fn memory_limit() -> u64 {
    let file = tools::workspace_folder().join("manifests/install.yaml");
    let objects = yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}"));
    let deployment = objects.iter().find(|object| {
        object.metadata.name.as_deref() == Some("rukpak-webhooks") && object.data["spec"]["template"].is_object()
    });
    let limit = deployment.expect("it is installed").data["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"].clone();
    let mebibytes: u64 =
        limit.as_str().and_then(|limit| limit.strip_suffix("Mi")).expect("MiB").parse().expect("a number");
    mebibytes << 20
}

/// A question as the API server asks it.
pub fn review(kind: [&str; 3], operation: &str, old: &Value, new: &Value) -> Value {
    let [group, version, kind] = kind;
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": {"group": group, "version": version, "kind": kind},
        "name": "b", "operation": operation, "userInfo": {"username": "system:serviceaccount:default:somebody"},
        "object": new, "oldObject": old}})
}

/// A question about a definition.
pub fn of_definition(old: &Value, new: &Value) -> Value {
    review(["apiextensions.k8s.io", "v1", "CustomResourceDefinition"], "UPDATE", old, new)
}
