//! Bound tokens, as a kubelet hands them out: each counts as long as its Pod is there, and is replaced in its file before it ends. The
//! programs read the file again.

use std::path::{Path, PathBuf};

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use rukpak_tests::plane::install::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, WEBHOOK_ACCOUNT, token_of_pod};
use rukpak_tests::plane::kubeconfig::{Credential, write_kubeconfig};
use rukpak_tests::process::PLATFORM_ACCOUNT;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, image, until};
use rukpak_tests::{
    ControllerOptions, InstallOptions, Plane, PlaneOptions, PlatformOptions, Process, Registry, RegistryOptions,
    WebhookOptions,
};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::bundle;

const ACCOUNTS: [&str; 3] = [CONTROLLER_ACCOUNT, PLATFORM_ACCOUNT, WEBHOOK_ACCOUNT];
/// Who may create BundleDeployments, and impersonate nobody.
const TENANT: &str = "jane";
/// Between two looks at what cannot be watched: the audit log, and whether a token counts.
const INTERVAL: Duration = Duration::from_millis(200);

/// A control plane with an audit log, whose programs get their tokens from files.
struct Scene {
    plane: Plane,
    client: Client,
    registry: Registry,
}

/// A token, and the Pod that it is bound to.
struct Bound {
    account: &'static str,
    pod: String,
    token: String,
}

impl Scene {
    async fn start() -> Self {
        let options = PlaneOptions { audit: true, ..PlaneOptions::default() };
        let plane = Plane::start_with(options).await.expect("the plane starts");
        plane.install(&InstallOptions::with_platform()).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        std::fs::write(plane.folder().join("sources-ca.pem"), registry.ca_pem()).expect("a file can be written");
        let client = plane.admin().await.expect("the admin kubeconfig is good");
        let rbac = "rbac.authorization.k8s.io";
        let rules = json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments"], "verbs": ["create"]}]);
        for object in [
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": TENANT}, "rules": rules}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": TENANT},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": TENANT},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": TENANT}]}),
        ] {
            verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
        Self { plane, client, registry }
    }

    fn token_file(&self, account: &str) -> PathBuf {
        self.plane.folder().join(format!("{account}.token"))
    }

    /// Puts a token of a new Pod into the file of the account, in one step.
    async fn hand_out(&self, account: &'static str) -> Bound {
        let name = unique_name(account);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
            "spec": {"serviceAccountName": account, "containers": [{"name": "main", "image": "example.com/none:1"}]}});
        let pod = verbs::create(&self.client, &pod).await.unwrap_or_else(|error| panic!("{error:#}"));
        let token = token_of_pod(&self.client, SYSTEM_NAMESPACE, account, &pod).await;
        let token = token.unwrap_or_else(|error| panic!("{error:#}"));
        let (file, new) = (self.token_file(account), self.token_file("new"));
        std::fs::write(&new, &token).and_then(|()| std::fs::rename(&new, &file)).expect("a file can be written");
        Bound { account, pod: name, token }
    }

    /// A kubeconfig that names the file of the account.
    fn kubeconfig(&self, account: &str) -> PathBuf {
        let path = self.plane.folder().join(format!("{account}-file.kubeconfig"));
        self.write_kubeconfig(&path, &Credential::TokenFile(&self.token_file(account)));
        path
    }

    fn write_kubeconfig(&self, path: &Path, credential: &Credential<'_>) {
        let ca_pem = std::fs::read_to_string(self.plane.certificate_authority_path()).expect("the API server's CA");
        write_kubeconfig(path, self.plane.server(), &ca_pem, credential, SYSTEM_NAMESPACE).expect("it is written");
    }

    async fn start_controller(&self, further: &[&str]) -> Process {
        let ca_file = self.plane.folder().join("sources-ca.pem");
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(further.iter().map(|flag| (*flag).to_owned()));
        let options = ControllerOptions {
            arguments,
            environment: vec![("POD_NAME".to_owned(), "controller".to_owned())],
            kubeconfig: Some(self.kubeconfig(CONTROLLER_ACCOUNT)),
            ..ControllerOptions::default()
        };
        ready(self.plane.start_controller(options).await.expect("the controller starts")).await
    }

    async fn start_others(&self) -> [Process; 2] {
        let options = PlatformOptions {
            arguments: vec!["--leader-elect".to_owned()],
            environment: vec![("POD_NAME".to_owned(), "platform".to_owned())],
            kubeconfig: Some(self.kubeconfig(PLATFORM_ACCOUNT)),
        };
        let platform = self.plane.start_platform(options).await.expect("the manager starts");
        let options =
            WebhookOptions { kubeconfig: Some(self.kubeconfig(WEBHOOK_ACCOUNT)), ..WebhookOptions::default() };
        let webhook = self.plane.start_webhook(options).await.expect("the webhook starts");
        [ready(platform).await, ready(webhook).await]
    }

    /// Whether the API server has granted a request with that token.
    fn has_presented(&self, bound: &Bound) -> bool {
        let log = std::fs::read_to_string(self.plane.audit_log()).expect("the log can be read");
        let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{}", bound.account);
        let mut events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.any(|event| {
            event["user"]["username"] == user.as_str()
                && event["user"]["extra"]["authentication.kubernetes.io/pod-name"] == json!([bound.pod])
                && event["responseStatus"]["code"].as_i64().is_some_and(|code| code < 300)
        })
    }

    /// Waits until each of these tokens has been presented. The webhook is asked all the while: else it would ask for nothing itself.
    async fn until_presented(&self, all: &[Bound]) {
        let end = Instant::now() + SOON;
        while let Some(bound) = all.iter().find(|bound| !self.has_presented(bound)) {
            assert!(Instant::now() < end, "{} does not present the token of its new Pod", bound.account);
            self.ask_webhook().await;
            sleep(INTERVAL).await;
        }
    }

    /// Has the webhook ask the API server what a user may. Its answer says that it was told.
    async fn ask_webhook(&self) {
        let mut new = deployment(&unique_name("asked"), image("registry.example.com/none:1"));
        new["spec"]["serviceAccount"] = json!({"name": "installer", "namespace": "default"});
        let tenant = self.plane.impersonating(TENANT, &["system:authenticated"]).await.expect("a client");
        let (resource, _) = verbs::discover(&self.client, "core.rukpak.io/v1alpha1", "BundleDeployment")
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
        let api: Api<DynamicObject> = Api::all_with(tenant, &resource);
        let new = serde_json::from_value(new).expect("an object");
        let answer = api.create(&PostParams { dry_run: true, ..PostParams::default() }, &new).await;
        let Err(kube::Error::Api(refusal)) = &answer else { panic!("it is not refused: {answer:?}") };
        let grant = "which takes verb impersonate on serviceaccounts \"installer\"";
        assert!(refusal.message.contains(grant), "{refusal:?}");
    }

    /// Deletes the Pod of a token, and waits until the API server refuses that.
    async fn revoke(&self, bound: &Bound) {
        let path = self.plane.folder().join(format!("{}-revoked.kubeconfig", bound.pod));
        self.write_kubeconfig(&path, &Credential::Token(&bound.token));
        let client = self.plane.client(&path).await.expect("a client");
        client.apiserver_version().await.expect("the token counts as long as its Pod is there");
        let pod = Target::namespaced("v1", "Pod", SYSTEM_NAMESPACE, &bound.pod);
        verbs::delete(&self.client, &pod).await.unwrap_or_else(|error| panic!("{error:#}"));
        let end = Instant::now() + SOON;
        loop {
            match client.apiserver_version().await {
                Err(kube::Error::Api(status)) if status.code == 401 => return,
                other => assert!(Instant::now() < end, "the token of {} still counts: {other:?}", bound.pod),
            }
            sleep(INTERVAL).await;
        }
    }

    /// Has the bundle of this name be of some version, in a BundleDeployment that is there or not.
    async fn ask_for(&self, name: &str, version: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"version": version}});
        let pushed = self.registry.push(&format!("bundles/{name}"), version, &bundle(&[object])).await;
        let object = deployment(name, image(&pushed.expect("the registry takes it").reference));
        verbs::apply(&self.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until that version is installed; returns the BundleDeployment.
    async fn until_installed(&self, name: &str, version: &str) -> DynamicObject {
        let settings = Target::namespaced("v1", "ConfigMap", "default", name);
        let is_there = |object: &DynamicObject| object.data["data"]["version"] == version;
        let found = verbs::await_object(&self.client, &settings, version, SOON, |object| object.is_some_and(is_there));
        found.await.unwrap_or_else(|error| panic!("{error:#}"));
        until(&self.client, name, Expected::is_true("Installed", "InstallationSucceeded")).await
    }
}

async fn ready(process: Process) -> Process {
    process.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    process
}

/// The order of a kubelet: the new token is there before the old one ends.
#[tokio::test]
async fn programs_go_on_with_the_token_that_replaces_theirs() {
    let scene = Scene::start().await;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for account in ACCOUNTS {
        old.push(scene.hand_out(account).await);
    }
    // A Lease is renewed every two seconds, so that a token is seen soon.
    let _programs = (scene.start_others().await, scene.start_controller(&["--leader-elect"]).await);
    let name = unique_name("rotated");
    scene.ask_for(&name, "v1").await;
    scene.until_installed(&name, "v1").await;
    scene.until_presented(&old).await;

    for account in ACCOUNTS {
        new.push(scene.hand_out(account).await);
    }
    scene.until_presented(&new).await;
    for bound in &old {
        scene.revoke(bound).await;
    }

    scene.ask_for(&name, "v2").await;
    scene.until_installed(&name, "v2").await;
    scene.ask_webhook().await;
    let operator = json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": name}, "spec": {"package": {"name": "nowhere"}}});
    verbs::create(&scene.client, &operator).await.unwrap_or_else(|error| panic!("{error:#}"));
    let target = Target::of(&operator).expect("it has a name");
    let is_reported = |object: &DynamicObject| verbs::condition(object, "Installed").is_some();
    let found = verbs::await_object(&scene.client, &target, "a status", SOON, |object| object.is_some_and(is_reported));
    found.await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// The old token ends first: all requests are refused until the new one is read, and nothing comes of that.
#[tokio::test]
#[ignore = "takes two minutes: for `make soak`"]
async fn installs_once_a_token_counts_again() {
    let scene = Scene::start().await;
    let first = scene.hand_out(CONTROLLER_ACCOUNT).await;
    for account in [PLATFORM_ACCOUNT, WEBHOOK_ACCOUNT] {
        scene.hand_out(account).await;
    }
    let _others = scene.start_others().await;
    // Who cannot renew a Lease ends, and its Pod starts it again.
    let controller = scene.start_controller(&[]).await;
    let name = unique_name("refused");
    scene.ask_for(&name, "v1").await;
    scene.until_installed(&name, "v1").await;

    scene.revoke(&first).await;
    let logged = controller.log().len();
    scene.ask_for(&name, "v2").await;
    controller.until_logged(logged, "Unauthorized").await.unwrap_or_else(|error| panic!("{error:#}"));
    let second = scene.hand_out(CONTROLLER_ACCOUNT).await;
    let found = scene.until_installed(&name, "v2").await;
    assert!(scene.has_presented(&second));
    let history = found.data["status"]["history"].as_array().expect("it has one");
    let is_good = |revision: &Value| ["Installed", "Healthy"].iter().any(|result| revision["result"] == *result);
    assert!(history.len() == 2 && history.iter().all(is_good), "{history:#?}");
}
