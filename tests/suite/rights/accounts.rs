//! `spec.serviceAccount`: what a bundle brings is written with the rights of that account, and nobody uses those of others.

use std::process::Command;

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Denial, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, World, deployment, image, until};
use serde_json::{Value, json};

use super::{Access, Scene, Turn, bundle, may};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// With the rights of a ServiceAccount of its namespace.
impl Scene {
    fn world(&self) -> &'static World {
        self.turn.world
    }

    fn client(&self) -> &Client {
        &self.turn.client
    }

    /// The administrator, as somebody else.
    async fn acting_as(&self, user: &str, groups: &[&str]) -> Client {
        self.world().plane.impersonating(user, groups).await.expect("the admin kubeconfig is good")
    }

    fn account(&self, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": self.namespace}})
    }

    /// A deployment of these objects, by the account.
    async fn deployment(&self, objects: &[Value], account: &str) -> Value {
        let mut new = deployment(&self.name, image(&self.push("v1", objects).await));
        new["spec"]["serviceAccount"] = json!({"name": account, "namespace": self.namespace});
        new
    }

    async fn push(&self, tag: &str, objects: &[Value]) -> String {
        let image = bundle(objects);
        let pushed = self.world().registry.push(&format!("bundles/{}", self.name), tag, &image).await;
        pushed.expect("the registry takes it").reference
    }

    /// What `rukpakctl rights` prints for the deployment.
    fn printed(&self) -> Vec<Value> {
        let endpoint = format!("https://localhost:{}", self.world().controller.content_port);
        let output = Command::new(tools::workspace_binary("rukpakctl").expect("it is built"))
            .args(["rights", "-o", "json", "--endpoint", &endpoint])
            .args(["--kubeconfig".as_ref(), self.world().plane.kubeconfig_path().as_os_str()])
            .arg(format!("bundledeployment/{}", self.name))
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Lets `account` do this, in the namespace or everywhere.
    async fn grant(&self, account: &str, rules: &[Value], in_namespace: bool) {
        let prefix = if in_namespace { "" } else { "Cluster" };
        let mut metadata = json!({"name": format!("{}-{account}", self.name)});
        if in_namespace {
            metadata["namespace"] = json!(self.namespace);
        }
        let role = json!({"apiVersion": RBAC, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules});
        let binding = json!({
            "apiVersion": RBAC, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": format!("{prefix}Role"), "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}],
        });
        for object in [role, binding] {
            verbs::apply(self.client(), &object).await.expect("the administrator may");
        }
    }

    /// Naming an owner takes this where OwnerReferencesPermissionEnforcement is on, as it is here.
    fn finalizers(&self) -> Value {
        json!({"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments/finalizers"],
               "resourceNames": [self.name], "verbs": ["update"]})
    }

    /// Lets `account` install ConfigMaps.
    async fn grant_config_maps(&self, account: &str) {
        self.grant(account, &[on_config_maps(&ALL)], true).await;
        self.grant(account, &[self.finalizers()], false).await;
    }

    /// Installs a ConfigMap by `account`, which is made for that; returns the ConfigMap.
    async fn installed_by(&self, account: &str) -> Value {
        let map = self.config_map("a");
        verbs::create(self.client(), &self.account(account)).await.expect("the administrator may");
        self.grant_config_maps(account).await;
        let new = self.deployment(std::slice::from_ref(&map), account).await;
        verbs::create(self.client(), &new).await.expect("the administrator may");
        self.ready().await;
        map
    }

    async fn says(&self, status: &str, reason: &str, message: &str) -> DynamicObject {
        until(self.client(), &self.name, Expected { kind: "Ready", status, reason: Some(reason), message }).await
    }

    async fn lacks(&self, rights: &str) -> DynamicObject {
        let account = format!("ServiceAccount \"installer\" in namespace {:?}", self.namespace);
        let message = format!("{account} lacks rights: {rights}; grant them");
        self.says("False", "MissingRights", &message).await
    }

    async fn ready(&self) {
        self.says("True", "Succeeded", "").await;
    }

    async fn exists(&self, object: &Value) -> bool {
        let target = Target::of(object).expect("an object");
        verbs::get(self.client(), &target).await.expect("the administrator may").is_some()
    }
}

fn on_config_maps(verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs})
}

const ALL: [&str; 3] = ["create", "patch", "delete"];

/// The API server writes into a request for a certificate who made it.
fn signing_request(name: &str) -> Value {
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::default().serialize_request(&key).expect("a request").pem().expect("PEM");
    let request = k8s_openapi::ByteString(request.into_bytes());
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
           "spec": {"request": request, "signerName": "example.com/nobody", "usages": ["client auth"]}})
}

#[tokio::test]
async fn what_an_account_may_not_do_is_told_at_once_and_done_when_it_may() {
    let scene = Scene::set("account").await;
    let (a, b) = (scene.config_map("a"), scene.config_map("b"));
    let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "reader", "namespace": scene.namespace},
                      "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    scene.grant("installer", &[on_config_maps(&["create", "patch"])], true).await;
    let new = scene.deployment(&[a.clone(), b.clone(), role.clone()], "installer").await;
    verbs::create(scene.client(), &new).await.unwrap();
    let Scene { name, namespace, .. } = &scene;
    let rights = format!(
        "update bundledeployments/finalizers.core.rukpak.io {name:?}; delete configmaps \"a\", \"b\" in namespace {namespace:?}; \
         get pods in namespace {namespace:?}; create, delete, patch roles.{GROUP} \"reader\" in namespace {namespace:?}"
    );
    scene.lacks(&rights).await;
    assert!(!scene.exists(&a).await && !scene.exists(&role).await, "nothing is half applied");

    let on_pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let on_roles = json!({"apiGroups": [GROUP], "resources": ["roles"], "verbs": ALL});
    scene.grant("installer", &[on_config_maps(&ALL), on_pods.clone(), on_roles.clone()], true).await;
    scene.grant("installer", &[scene.finalizers()], false).await;
    scene.ready().await;
    assert!(scene.exists(&a).await && scene.exists(&role).await);

    // What leaves takes the right to delete it, before anything is changed.
    scene.grant("installer", &[on_config_maps(&["create", "patch"]), on_pods.clone(), on_roles.clone()], true).await;
    let c = scene.config_map("c");
    let pivot = json!({"spec": {"template": {"spec": {"source": image(&scene.push("v2", &[a.clone(), c.clone(), role]).await)}}}});
    verbs::merge(scene.client(), &Target::bundle_deployment(name), &pivot).await.unwrap();
    scene.lacks(&format!("delete configmaps \"a\", \"b\", \"c\" in namespace {namespace:?}")).await;
    assert!(scene.exists(&b).await && !scene.exists(&c).await);
    scene.grant("installer", &[on_config_maps(&ALL), on_pods, on_roles], true).await;
    scene.ready().await;
    assert!(!scene.exists(&b).await && scene.exists(&c).await);
}

/// What a migration takes is no part of the bundle: it is asked for when there is one.
#[tokio::test]
async fn objects_are_migrated_with_the_rights_of_the_account() {
    let scene = Scene::set("migrates").await;
    let group = format!("{}.rights.test", scene.name);
    let crd = |versions: &[(&str, bool)]| {
        let version = |(name, storage): &(&str, bool)| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{group}")}, "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": "Gadget", "plural": "gadgets"}, "versions": versions.iter().map(version).collect::<Vec<_>>()}})
    };
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    let on_crds =
        json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ALL});
    scene.grant("installer", &[on_crds.clone(), scene.finalizers()], false).await;
    let old = crd(&[("v1", true), ("v2", false)]);
    verbs::create(scene.client(), &scene.deployment(std::slice::from_ref(&old), "installer").await).await.unwrap();
    scene.ready().await;
    verbs::await_served(scene.client(), &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let gadget = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": "a", "namespace": scene.namespace}});
    verbs::create(scene.client(), &gadget).await.unwrap();

    let source = image(&scene.push("v2", &[crd(&[("v2", true)])]).await);
    let pivot = json!({"spec": {"template": {"spec": {"source": source}}}});
    verbs::merge(scene.client(), &Target::bundle_deployment(&scene.name), &pivot).await.unwrap();
    let Scene { name, namespace, .. } = &scene;
    let lacks = format!(
        "ServiceAccount \"installer\" in namespace {namespace:?} lacks rights to migrate the objects of gadgets.{group} that are \
         stored as v1 to v2: patch customresourcedefinitions/status.apiextensions.k8s.io \"gadgets.{group}\"; \
         patch gadgets.{group}; grant them until the upgrade is done (rukpakctl rights bundledeployment/{name} prints the roles)"
    );
    scene.says("False", "MissingRights", &lacks).await;
    let target = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("gadgets.{group}"));
    let live = verbs::get(scene.client(), &target).await.unwrap().expect("it is there");
    assert_eq!(live.data["spec"]["versions"][0]["storage"], true, "nothing was written");
    let on_gadgets = json!({"apiGroups": [group], "resources": ["gadgets"], "verbs": ["patch"]});
    let on_status = json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions/status"],
        "resourceNames": [format!("gadgets.{group}")], "verbs": ["patch"]});
    let printed = scene.printed();
    let rules: Vec<&Value> =
        printed.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten()).collect();
    assert!(rules.contains(&&on_gadgets) && rules.contains(&&on_status), "{rules:#?}");
    scene.grant("installer", &[on_crds, on_gadgets, on_status, scene.finalizers()], false).await;
    scene.ready().await;
    let live = verbs::get(scene.client(), &target).await.unwrap().expect("it is there");
    assert_eq!(live.data["status"]["storedVersions"], json!(["v2"]), "{name}");
}

#[tokio::test]
async fn the_api_server_sees_the_account_and_no_controller() {
    let scene = Scene::set("identity").await;
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    let requests =
        json!({"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ALL});
    scene.grant("installer", &[requests, scene.finalizers()], false).await;
    let request = signing_request(&scene.name);
    let new = scene.deployment(std::slice::from_ref(&request), "installer").await;
    verbs::create(scene.client(), &new).await.unwrap();
    scene.ready().await;
    let made = verbs::get(scene.client(), &Target::of(&request).unwrap()).await.unwrap().expect("it was applied");
    let namespace = &scene.namespace;
    assert_eq!(made.data["spec"]["username"], format!("system:serviceaccount:{namespace}:installer"));
    let groups =
        json!(["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"]);
    assert_eq!(made.data["spec"]["groups"], groups);
}

#[tokio::test]
async fn an_account_that_does_not_exist_is_waited_for() {
    let scene = Scene::set("absent").await;
    let map = scene.config_map("a");
    // Bindings outlive the account that they name: they are no leave to act for it.
    scene.grant_config_maps("installer").await;
    let new = scene.deployment(std::slice::from_ref(&map), "installer").await;
    verbs::create(scene.client(), &new).await.unwrap();
    let account = format!("ServiceAccount \"installer\" in namespace {:?} does not exist; create it", scene.namespace);
    scene.says("False", "ServiceAccountNotFound", &account).await;
    assert!(!scene.exists(&map).await);
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    scene.ready().await;
    assert!(scene.exists(&map).await);
}

#[tokio::test]
async fn another_account_is_looked_at_and_changes_no_object() {
    let scene = Scene::set("other").await;
    let map = scene.installed_by("other").await;
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    let target = Target::of(&map).unwrap();
    let before = verbs::get(scene.client(), &target).await.unwrap().expect("it is there");

    let by = |account: &str| json!({"spec": {"serviceAccount": {"name": account}}});
    let this = Target::bundle_deployment(&scene.name);
    verbs::merge(scene.client(), &this, &by("installer")).await.unwrap();
    scene.says("False", "MissingRights", "create, delete, patch configmaps \"a\" in namespace").await;
    scene.grant_config_maps("installer").await;
    scene.ready().await;
    let after = verbs::get(scene.client(), &target).await.unwrap().expect("it is there");
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
}

#[tokio::test]
async fn drift_is_repaired_with_the_rights_of_the_account() {
    let scene = Scene::set("drift").await;
    let map = scene.installed_by("installer").await;

    scene.grant("installer", &[on_config_maps(&["patch", "delete"])], true).await;
    let target = Target::of(&map).unwrap();
    let account = json!({"metadata": {"name": "installer", "namespace": scene.namespace}});
    denied_soon(&scene, &account, Access::to("create", "", "configmaps").within(&scene.namespace).named("a")).await;
    verbs::delete(scene.client(), &target).await.unwrap();
    scene.lacks(&format!("create configmaps \"a\" in namespace {:?}", scene.namespace)).await;
    scene.grant("installer", &[on_config_maps(&ALL)], true).await;
    scene.ready().await;
    assert!(scene.exists(&map).await);
}

/// Waits until the authoriser has noticed.
async fn denied_soon(scene: &Scene, account: &Value, access: Access<'_>) {
    let text = |field: &str| account["metadata"][field].as_str().unwrap_or_default().to_owned();
    let user = format!("system:serviceaccount:{}:{}", text("namespace"), text("name"));
    let client = scene.acting_as(&user, &[]).await;
    let end = tokio::time::Instant::now() + SOON;
    while may(&client, access).await {
        assert!(tokio::time::Instant::now() < end, "{access:?} is still allowed");
        tokio::time::sleep(super::INTERVAL).await;
    }
}

/// Garbage collection deletes, and needs nobody's rights but its own.
#[tokio::test]
async fn what_an_account_installed_goes_without_it() {
    let scene = Scene::set("gone").await;
    let map = scene.installed_by("installer").await;
    verbs::delete(scene.client(), &Target::of(&scene.account("installer")).unwrap()).await.unwrap();
    verbs::delete(scene.client(), &Target::bundle_deployment(&scene.name)).await.unwrap();
    verbs::await_deleted(scene.client(), &Target::of(&map).unwrap(), SOON).await.unwrap();
}

#[tokio::test]
async fn without_impersonate_no_account_is_used() {
    let scene = Scene::set("impersonate").await;
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    let role = Target::cluster(RBAC, "ClusterRole", "core-admin");
    let all = super::rules("ClusterRole", "core-admin");
    let mut rules = all.clone();
    rules.retain(|rule| rule["verbs"] != json!(["impersonate"]));
    let access = Access::to("impersonate", "", "serviceaccounts");
    scene.turn.set(&role, &rules, CONTROLLER_ACCOUNT, access, false).await;
    let new = scene.deployment(&[scene.config_map("a")], "installer").await;
    verbs::create(scene.client(), &new).await.unwrap();
    // Newer API servers name the right that they looked for last, which is one of two.
    scene.says("False", "ReconcileFailed", "\" cannot impersonate").await;
    scene.turn.set(&role, &all, CONTROLLER_ACCOUNT, access, true).await;
    scene.says("False", "MissingRights", "").await;
}

async fn refused(client: &Client, object: &Value) -> Denial {
    verbs::create_expecting_denial(client, object).await.expect("it is refused")
}

#[tokio::test]
async fn nobody_installs_with_the_rights_of_an_account_that_they_may_not_impersonate() {
    let scene = Scene::set("tenant").await;
    verbs::create(scene.client(), &scene.account("installer")).await.unwrap();
    let tenants = unique_name("tenants");
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": tenants},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "rukpak-edit"},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": tenants}],
    });
    verbs::create(scene.client(), &binding).await.unwrap();
    let may_impersonate = json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": "impersonate", "namespace": scene.namespace},
        "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["installer"], "verbs": ["impersonate"]}],
    });
    let bound = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "impersonate", "namespace": scene.namespace},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "impersonate"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "jane"}],
    });
    for object in [may_impersonate, bound] {
        verbs::create(scene.client(), &object).await.unwrap();
    }
    let (jane, joe) = (scene.acting_as("jane", &[&tenants]).await, scene.acting_as("joe", &[&tenants]).await);
    let own = scene.acting_as(&format!("system:serviceaccount:{}:installer", scene.namespace), &[&tenants]).await;
    soon_allowed(&jane, Access::to("impersonate", "", "serviceaccounts").within(&scene.namespace).named("installer"))
        .await;
    soon_allowed(&joe, Access::to("create", "core.rukpak.io", "bundledeployments")).await;

    let new = scene.deployment(&[scene.config_map("a")], "installer").await;
    let denial = refused(&joe, &new).await;
    assert_eq!(denial.code, 403, "{denial:?}");
    let text = format!(
        "bundledeployment.spec.serviceAccount: user \"joe\" may not decide what is installed with the rights of this ServiceAccount, \
         which takes verb impersonate on serviceaccounts \"installer\" in namespace {:?}",
        scene.namespace
    );
    assert!(denial.message.ends_with(&text), "{denial:?}");
    verbs::create(&jane, &new).await.unwrap();

    let target = Target::bundle_deployment(&scene.name);
    let other = json!({"spec": {"template": {"metadata": {"labels": {"changed": "by-joe"}}}}});
    let denial = verbs::merge_expecting_denial(&joe, &target, &other).await.unwrap();
    assert!(denial.message.ends_with(&text), "what is installed is decided by the template: {denial:?}");
    verbs::merge(&joe, &target, &json!({"metadata": {"labels": {"seen": "by-joe"}}})).await.unwrap();
    verbs::merge(&own, &target, &other).await.expect("the account itself may");

    let without = json!({"spec": {"serviceAccount": null}});
    let denial = verbs::merge_expecting_denial(&jane, &target, &without).await.unwrap();
    let text = "bundledeployment.spec.serviceAccount is missing: user \"jane\" may not install with the controller's rights, which takes \
                verb impersonate on serviceaccounts \"core-admin\" in namespace \"rukpak-system\"; name a ServiceAccount";
    assert!(denial.message.ends_with(text), "{denial:?}");
    verbs::merge(scene.client(), &target, &without).await.expect("the administrator may");
    let plain = deployment(&unique_name("plain"), image("registry.example.com/none:1"));
    verbs::create(&joe, &plain).await.expect("as RukPak allows it");
}

async fn soon_allowed(client: &Client, access: Access<'_>) {
    let end = tokio::time::Instant::now() + SOON;
    while !may(client, access).await {
        assert!(tokio::time::Instant::now() < end, "{access:?} is still denied");
        tokio::time::sleep(super::INTERVAL).await;
    }
}

#[tokio::test]
async fn an_account_has_a_name_and_a_namespace() {
    let turn = Turn::take().await;
    let api: Api<DynamicObject> = Target::bundle_deployment("x").api(&turn.client).await.unwrap();
    for account in [json!({"name": "a"}), json!({"namespace": "b"}), json!({"name": "a:b", "namespace": "c"})] {
        let mut new = deployment("nobody", image("registry.example.com/none:1"));
        new["spec"]["serviceAccount"] = account.clone();
        let new = serde_json::from_value(new).unwrap();
        let refusal = api.create(&PostParams::default(), &new).await.expect_err("the schema refuses it");
        assert!(refusal.to_string().contains("spec.serviceAccount"), "{account}: {refusal}");
    }
}
