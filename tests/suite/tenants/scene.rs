//! The control plane, the tenants and what is there.

use std::path::Path;
use std::process::{Command, Output};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use rukpak_tests::plane::install::InstallOptions;
use rukpak_tests::plane::yaml;
use rukpak_tests::process::{Process, WebhookOptions};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Plane, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A user with their groups. What RBAC lets them do is the same for all: everything with our kinds, so that only admission stands
/// against them.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub user: &'static str,
    pub group: &'static str,
    /// Who they are, for the table.
    pub says: &'static str,
}

/// A rule has accounts and sources.
pub const DEVELOPER: Subject = Subject { user: "joe", group: "shop-developers", says: "tenant with sources" };
/// A rule has packages.
pub const JANE: Subject = Subject { user: "jane", group: "package-users", says: "tenant with packages" };
/// No rule names them.
pub const UNNAMED: Subject = Subject { user: "eve", group: "unnamed", says: "tenant whom no rule names" };

pub const POLICY: &str = r#"
name: bench
rules:
- subjects: [{group: shop-developers}]
  names: ["shop-*"]
  serviceAccounts: [{namespace: shop, name: installer}]
  sources:
  - image: registry.example.com/shop/*
  - git: https://git.example.com/shop/**
- subjects: [{user: jane}]
  names: ["jane-*"]
  packages:
  - {name: pump-operator, channels: [stable], versions: ["1.*"], namespaces: [pumps]}
"#;

/// A control plane with all of our kinds, the webhook and the tenants.
pub struct Scene {
    pub plane: Plane,
    _webhook: Process,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();

impl Scene {
    pub async fn shared() -> &'static Self {
        SCENE.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let plane = Plane::start().await.expect("a control plane");
        plane.install(&InstallOptions::with_olm()).await.expect("the manifests can be applied");
        let arguments = vec!["--require=service-account".to_owned()];
        let webhook = plane.start_webhook(WebhookOptions { arguments, ..WebhookOptions::default() }).await;
        let webhook = webhook.expect("the webhook starts");
        webhook.wait_ready().await.expect("the webhook is ready");
        let scene = Self { plane, _webhook: webhook };
        scene.furnish().await;
        scene
    }

    pub async fn admin(&self) -> Client {
        self.plane.admin().await.expect("the admin kubeconfig is good")
    }

    pub async fn acting_as(&self, subject: Subject) -> Client {
        self.plane.impersonating(subject.user, &[subject.group]).await.expect("the admin kubeconfig is good")
    }

    /// Roles of the tenants, an account, and what administrators have made.
    async fn furnish(&self) {
        let client = self.admin().await;
        let rbac = "rbac.authorization.k8s.io";
        let role = |kind: &str, metadata: Value, rules: Value| json!({"apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
        let binding = |kind: &str, role: &str, metadata: Value, groups: &[&str]| {
            let subjects: Vec<Value> =
                groups.iter().map(|group| json!({"apiGroup": rbac, "kind": "Group", "name": group})).collect();
            json!({"apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": metadata, "subjects": subjects,
                   "roleRef": {"apiGroup": rbac, "kind": role, "name": metadata["name"]}})
        };
        let all = json!([{"apiGroups": ["core.rukpak.io", "platform.openshift.io", "olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]}]);
        let tenants = json!({"name": "tenants"});
        let installer = json!({"name": "installer", "namespace": "shop"});
        let may_impersonate = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["installer"], "verbs": ["impersonate"]}]);
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": installer}),
            role("ClusterRole", tenants.clone(), all),
            binding("ClusterRoleBinding", "ClusterRole", tenants, &[DEVELOPER.group, JANE.group, UNNAMED.group]),
            role("Role", installer.clone(), may_impersonate),
            binding("RoleBinding", "Role", installer, &[DEVELOPER.group]),
        ] {
            verbs::apply(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
        let end = tokio::time::Instant::now() + SOON;
        let entry = "/webhooks/2/name";
        let configuration = Target::cluster(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "rukpak-validating-webhook-configuration",
        );
        verbs::await_object(&client, &configuration, "the webhook's own entries", SOON, |object| {
            object.is_some_and(|object| object.data.pointer(entry).is_some())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
        for (kind, own) in super::bench::KINDS.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
            let Some(object) = kind.object(own) else { continue };
            // The entry takes a moment to be seen by the API server, and fails closed.
            while let Err(error) = verbs::apply(&client, &object).await {
                assert!(tokio::time::Instant::now() < end, "{error:#}");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    }

    /// Makes admission policies of an InstallPolicy, applies them, and waits until they count.
    pub async fn apply_policy(&self, text: &str) {
        let output = print_policy(text);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let client = self.admin().await;
        for object in yaml::objects(&String::from_utf8_lossy(&output.stdout)).expect("objects") {
            let value = serde_json::to_value(object).expect("JSON");
            verbs::apply(&client, &value).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }
}

/// Runs `rukpakctl policy` on a file with this text.
pub fn print_policy(text: &str) -> Output {
    let folder = tools::temp_folder("policy").expect("a folder");
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, text).expect("a file");
    run_policy(&file)
}

pub fn run_policy(file: &Path) -> Output {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    Command::new(program).arg("policy").arg(file).output().expect("it runs")
}

/// Asks whether a create would be admitted; nothing is created. The message of the refusal if not.
pub async fn try_create(client: &Client, resource: &ApiResource, object: &Value) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let object = serde_json::from_value(object.clone()).expect("an object");
    api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await.map(|_| ())
}
