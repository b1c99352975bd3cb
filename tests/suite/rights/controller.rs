//! ClusterRole `core-admin`, verb by verb.

use rukpak_tests::plane::install::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment, image, until};
use serde_json::{Value, json};

use super::{Access, PATIENCE, Scene, Turn, bundle, may, rules, without};

const RBAC: &str = "rbac.authorization.k8s.io";
const OWN: &str = "core.rukpak.io";

/// What the four rules of the role are.
const EVERYTHING: usize = 0;
const ROLES: usize = 1;
const FINALIZERS: usize = 3;

fn role() -> Target {
    Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "core-admin")
}

fn all_rules() -> Vec<Value> {
    rules("ClusterRole", "core-admin")
}

/// The role without a verb on everything, but for our own kinds: so that the refusal can be told in the status.
fn everything_without(verb: &str) -> Vec<Value> {
    let mut rules = all_rules();
    rules[EVERYTHING] = without(&rules[EVERYTHING], verb);
    rules.push(json!({"apiGroups": [OWN], "resources": ["*"], "verbs": [verb]}));
    rules
}

/// The role without one verb on one kind of roles.
fn roles_without(verb: &str, resource: &str) -> Vec<Value> {
    let mut rules = all_rules();
    let rule = rules.remove(ROLES);
    let strings = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for kept_verb in strings(&rule["verbs"]) {
        for kept in
            strings(&rule["resources"]).into_iter().filter(|kept| (kept.as_str(), &*kept_verb) != (resource, verb))
        {
            rules.push(json!({"apiGroups": [RBAC], "resources": [kept], "verbs": [kept_verb]}));
        }
    }
    rules
}

/// With the rights of the controller.
impl Scene {
    async fn restrict(&self, rules: &[Value], access: Access<'_>) {
        self.turn.set(&role(), rules, CONTROLLER_ACCOUNT, access, false).await;
    }

    /// The role of the manifests again.
    async fn restore(&self, access: Access<'_>) {
        self.turn.set(&role(), &all_rules(), CONTROLLER_ACCOUNT, access, true).await;
        // A new template is tried now, not when the wait after the failure is over.
        let nudge = json!({"spec": {"template": {"metadata": {"labels": {"tried": "again"}}}}});
        let target = Target::bundle_deployment(&self.name);
        verbs::merge(&self.turn.client, &target, &nudge).await.expect("the administrator may");
    }

    async fn create(&self, objects: &[Value]) {
        let reference = self.turn.world.push(&self.name, &bundle(objects)).await;
        verbs::create(&self.turn.client, &deployment(&self.name, image(&reference))).await.expect("created");
    }

    async fn is_false(&self, condition: &str, message: &str) {
        let expected = Expected { kind: condition, status: "False", reason: None, message };
        until(&self.turn.client, &self.name, expected).await;
    }

    async fn installed(&self) {
        until(&self.turn.client, &self.name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    }

    fn object(&self, api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace}})
    }

    /// Refused without the right, with a condition that says so; installed with it.
    async fn needs(&self, rules: &[Value], access: Access<'_>, objects: &[Value], (condition, message): (&str, &str)) {
        self.restrict(rules, access).await;
        self.create(objects).await;
        self.is_false(condition, message).await;
        self.restore(access).await;
        self.installed().await;
    }
}

/// A rule that `core-admin` does not hold: it updates nothing.
fn beyond() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"]}])
}

#[test]
fn these_are_the_rules_and_each_has_a_test_here() {
    let expected = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [RBAC], "resources": ["clusterroles", "roles"], "verbs": ["bind", "escalate"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        {"apiGroups": [OWN], "resources": ["bundledeployments/finalizers"], "verbs": ["update"]},
    ]);
    assert_eq!(Value::Array(all_rules()), expected);
}

#[tokio::test]
async fn without_get_nothing_is_pulled() {
    let scene = Scene::set("get").await;
    let (world, client) = (scene.turn.world, &scene.turn.client);
    // What anybody may pull is pulled without a look at the ServiceAccount once that named no pull secret.
    let logins = json!({"auths": {(world.registry.host()): {"username": "somebody", "password": "secret"}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": scene.name, "namespace": SYSTEM_NAMESPACE},
        "stringData": {".dockerconfigjson": logins.to_string()}});
    verbs::create(client, &secret).await.expect("the administrator may");
    let mut source = image(&world.push(&scene.name, &bundle(&[scene.config_map("a")])).await);
    source["image"]["pullSecret"] = json!(scene.name);

    let access = Access::to("get", "", "secrets").within(SYSTEM_NAMESPACE);
    scene.restrict(&everything_without("get"), access).await;
    verbs::create(client, &deployment(&scene.name, source)).await.expect("created");
    scene.is_false("HasValidBundle", "cannot get resource \"secrets\"").await;
    scene.restore(access).await;
    scene.installed().await;
}

#[tokio::test]
async fn without_list_nothing_is_pruned() {
    needs_to_prune("list", "cannot list resource \"configmaps\"").await;
}

#[tokio::test]
async fn without_watch_drift_is_not_seen() {
    let scene = Scene::set("watch").await;
    // A kind that no other test has made the controller watch.
    let limits = scene.object("v1", "LimitRange", "limits");
    let access = Access::to("watch", "", "limitranges");
    scene.restrict(&everything_without("watch"), access).await;
    scene.create(std::slice::from_ref(&limits)).await;
    scene.installed().await;
    let target = Target::of(&limits).unwrap();
    verbs::delete(&scene.turn.client, &target).await.unwrap();
    let moment = std::time::Duration::from_secs(2);
    verbs::holds_for(&scene.turn.client, &target, "absence", moment, |object| object.is_none()).await.unwrap();
    scene.turn.set(&role(), &all_rules(), CONTROLLER_ACCOUNT, access, true).await;
    verbs::await_object(&scene.turn.client, &target, "its return", SOON, |object| object.is_some()).await.unwrap();
}

#[tokio::test]
async fn without_create_nothing_new_is_applied() {
    let scene = Scene::set("create").await;
    let refusal = ("Installed", "configmaps \"a\" is forbidden: ");
    let access = Access::to("create", "", "configmaps");
    scene.needs(&everything_without("create"), access, &[scene.config_map("a")], refusal).await;
}

#[tokio::test]
async fn without_patch_nothing_is_applied() {
    let scene = Scene::set("patch").await;
    let refusal = ("Installed", "cannot patch resource \"configmaps\"");
    let access = Access::to("patch", "", "configmaps");
    scene.needs(&everything_without("patch"), access, &[scene.config_map("a")], refusal).await;
}

#[tokio::test]
async fn without_delete_nothing_is_pruned() {
    needs_to_prune("delete", "cannot delete resource \"configmaps\"").await;
}

/// What leaves the bundle leaves the cluster, once the verb is there.
async fn needs_to_prune(verb: &str, refusal: &str) {
    let scene = Scene::set(verb).await;
    let client = &scene.turn.client;
    let (stays, leaves) = (scene.config_map("stays"), scene.config_map("leaves"));
    scene.create(&[stays.clone(), leaves.clone()]).await;
    scene.installed().await;

    let access = Access::to(verb, "", "configmaps");
    scene.restrict(&everything_without(verb), access).await;
    let pushed = scene.turn.world.registry.push(&scene.name, "v2", &bundle(&[stays])).await.expect("pushed");
    let pivot = json!({"spec": {"template": {"spec": {"source": image(&pushed.reference)}}}});
    verbs::merge(client, &Target::bundle_deployment(&scene.name), &pivot).await.expect("the administrator may");
    scene.is_false("Ready", refusal).await;
    let leaving = Target::of(&leaves).expect("an object");
    assert!(verbs::get(client, &leaving).await.expect("the administrator may").is_some());

    scene.restore(access).await;
    verbs::await_deleted(client, &leaving, PATIENCE).await.unwrap_or_else(|error| panic!("{error:#}"));
    scene.installed().await;
}

const ESCALATION: &str = "attempting to grant RBAC permissions not currently held";

#[tokio::test]
async fn without_escalate_no_cluster_role_beyond_our_own_is_applied() {
    let scene = Scene::set("escalate-cluster").await;
    let mut object = scene.object("rbac.authorization.k8s.io/v1", "ClusterRole", &scene.name);
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    object["rules"] = beyond();
    let access = Access::to("escalate", RBAC, "clusterroles");
    scene.needs(&roles_without("escalate", "clusterroles"), access, &[object], ("Installed", ESCALATION)).await;
}

#[tokio::test]
async fn without_escalate_no_role_beyond_our_own_is_applied() {
    let scene = Scene::set("escalate").await;
    let mut object = scene.object("rbac.authorization.k8s.io/v1", "Role", "beyond");
    object["rules"] = beyond();
    let access = Access::to("escalate", RBAC, "roles");
    scene.needs(&roles_without("escalate", "roles"), access, &[object], ("Installed", ESCALATION)).await;
}

/// A binding to the account `default` of the namespace.
fn binding(scene: &Scene, kind: &str, role_kind: &str, role: &str) -> Value {
    let mut object = scene.object("rbac.authorization.k8s.io/v1", kind, &scene.name);
    if kind == "ClusterRoleBinding" {
        object["metadata"].as_object_mut().expect("metadata").remove("namespace");
    }
    object["roleRef"] = json!({"apiGroup": RBAC, "kind": role_kind, "name": role});
    object["subjects"] = json!([{"kind": "ServiceAccount", "name": "default", "namespace": scene.namespace}]);
    object
}

#[tokio::test]
async fn without_bind_no_cluster_role_beyond_our_own_is_bound() {
    let scene = Scene::set("bind-cluster").await;
    let object = binding(&scene, "ClusterRoleBinding", "ClusterRole", "system:controller:endpoint-controller");
    let access = Access::to("bind", RBAC, "clusterroles");
    scene.needs(&roles_without("bind", "clusterroles"), access, &[object], ("Installed", ESCALATION)).await;
}

#[tokio::test]
async fn without_bind_no_role_beyond_our_own_is_bound() {
    let scene = Scene::set("bind").await;
    let mut beyond_ours = scene.object("rbac.authorization.k8s.io/v1", "Role", "beyond");
    beyond_ours["rules"] = beyond();
    verbs::create(&scene.turn.client, &beyond_ours).await.unwrap();
    let object = binding(&scene, "RoleBinding", "Role", "beyond");
    let access = Access::to("bind", RBAC, "roles");
    scene.needs(&roles_without("bind", "roles"), access, &[object], ("Installed", ESCALATION)).await;
}

#[tokio::test]
async fn without_finalizers_nothing_may_name_its_owner() {
    let scene = Scene::set("finalizers").await;
    let mut rules = all_rules();
    rules.remove(FINALIZERS);
    let access = Access::to("update", OWN, "bundledeployments/finalizers");
    let refusal = ("Ready", "cannot set blockOwnerDeletion");
    scene.needs(&rules, access, &[scene.config_map("a")], refusal).await;
}

#[tokio::test]
async fn the_controller_may_do_no_more() {
    let turn = Turn::take().await;
    let client = turn.world.plane.as_account(CONTROLLER_ACCOUNT).await.unwrap();
    for access in [
        Access::to("*", "*", "*"),
        Access::to("update", "", "configmaps"),
        Access::to("update", "coordination.k8s.io", "leases").within(SYSTEM_NAMESPACE).named("core.rukpak.io"),
        Access::to("deletecollection", "", "secrets"),
        Access::to("impersonate", "", "users"),
        Access::to("update", OWN, "bundles/finalizers"),
        Access::to("approve", "certificates.k8s.io", "signers"),
        Access::to("use", "policy", "podsecuritypolicies"),
    ] {
        assert!(!may(&client, access).await, "{access:?}");
    }
    assert!(may(&client, Access::to("patch", "", "secrets")).await, "the questions are asked as the right account");
}
