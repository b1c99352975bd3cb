//! How objects are written for the first time: in phases, by one server-side apply each.

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use crate::engine::case::{Case, OURS, definition, definition_target, gadget};

/// Applies with `metadata.resourceVersion: "1"`, which Kubernetes does not document: the engine builds on the answer.
async fn create_or_conflict(case: &Case<'_>, object: &Value) -> Result<DynamicObject, u16> {
    let target = Target::of(object).expect("the object has a kind and a name");
    let mut body = object.clone();
    body["metadata"]["resourceVersion"] = json!("1");
    let api = target.api(&case.client).await.expect("the kind is served");
    match api.patch(&target.name, &PatchParams::apply("guard").force(), &Patch::Apply(&body)).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_first_write_creates_or_says_conflict() {
    let case = Case::new("first").await;
    let (crd, group) = definition("first");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": case.name}, "rules": []});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}-ns", case.name)}});
    let objects = [
        crd,
        role,
        namespace,
        case.config_map("a", json!({"x": "1"})),
        case.workload("w", 0),
        gadget(&group, &case.namespace, "g", 1),
    ];
    for object in &objects {
        if object["kind"] == "Gadget" {
            verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", rukpak_tests::world::SOON)
                .await
                .unwrap();
        }
        let created = create_or_conflict(&case, object).await;
        let version = created.map(|created| created.metadata.resource_version);
        assert!(version.is_ok(), "{} is not created: {version:?}", object["kind"]);
        let mut changed = object.clone();
        changed["metadata"]["labels"] = json!({"changed": "yes"});
        let again = create_or_conflict(&case, &changed).await;
        assert_eq!(again.err(), Some(409), "{} exists", object["kind"]);
        let stands = case.get(&Target::of(object).unwrap()).await.unwrap();
        assert!(!stands.metadata.labels.unwrap_or_default().contains_key("changed"), "nothing was written");
    }
    case.delete(&definition_target(&group)).await;
    case.delete(&Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", &case.name)).await;
}

#[tokio::test]
async fn an_update_names_the_object_it_means() {
    let case = Case::new("means").await;
    let body = |uid: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": case.namespace, "uid": uid}, "data": {"x": "1"}})
    };
    let api = case.config_map_target("a").api(&case.client).await.unwrap();
    let none = "00000000-0000-0000-0000-000000000000";
    for exists in [false, true] {
        if exists {
            case.foreign(&case.config_map("a", json!({"x": "0"}))).await;
        }
        let refused = api.patch("a", &PatchParams::apply("guard").force(), &Patch::Apply(body(none))).await;
        let Err(kube::Error::Api(status)) = refused else { panic!("exists: {exists}: {refused:?}") };
        // Where it exists, the UID counts as a field that must not change.
        assert_eq!(status.code, if exists { 422 } else { 409 }, "exists: {exists}: {status:?}");
        let causes: Vec<_> = status.details.iter().flat_map(|details| &details.causes).collect();
        assert!(!exists || causes.iter().any(|cause| cause.field == "metadata.uid"), "{status:?}");
    }
}

#[tokio::test]
async fn one_manager_owns_what_the_manifests_say_and_what_leaves_them_goes() {
    let case = Case::new("fields").await;
    let secret = |data: Value, plain: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": case.namespace}, "data": data, "stringData": plain})
    };
    let one = [
        case.config_map("a", json!({"x": "1", "y": "1"})),
        secret(json!({"k": "QQ=="}), json!({"plain": "text", "k": "B"})),
    ];
    case.install(&one).await;
    let map = case.get(&case.config_map_target("a")).await.unwrap();
    let entries = map.metadata.managed_fields.clone().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((entries[0].manager.as_deref(), entries[0].operation.as_deref()), (Some(OURS), Some("Apply")));
    let secret_target = case.in_namespace("v1", "Secret", "s");
    let stored = case.get(&secret_target).await.unwrap();
    assert_eq!(stored.data["data"], json!({"k": "Qg==", "plain": "dGV4dA=="}), "stringData wins and becomes data");

    case.edit("user", &case.config_map_target("a"), json!({"data": {"foreign": "stays"}})).await;
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"})), secret(json!({}), json!({"other": "t"}))]).await;
    let map = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(map.data["data"], json!({"x": "2", "foreign": "stays"}));
    let stored = case.get(&secret_target).await.unwrap();
    assert_eq!(stored.data["data"], json!({"other": "dA=="}));
}

#[tokio::test]
async fn status_and_server_set_metadata_are_not_applied() {
    let case = Case::new("server").await;
    let mut workload = case.workload("w", 0);
    workload["status"] = json!({"replicas": 7});
    workload["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111");
    workload["metadata"]["resourceVersion"] = json!("12");
    workload["metadata"]["creationTimestamp"] = json!(null);
    workload["metadata"]["managedFields"] = json!([]);
    case.install(&[workload]).await;
    let live = case.get(&case.in_namespace("apps/v1", "Deployment", "w")).await.unwrap();
    let ours = live.metadata.managed_fields.iter().flatten().find(|entry| entry.manager.as_deref() == Some(OURS));
    let set = &ours.unwrap().fields_v1.as_ref().unwrap().0;
    assert!(set.get("f:status").is_none(), "{set}");
    assert_ne!(live.metadata.uid.as_deref(), Some("11111111-1111-1111-1111-111111111111"));
}

#[tokio::test]
async fn a_mixed_bundle_is_whole() {
    let world = World::shared().await;
    let case = Case::in_world(world, "mixed").await;
    let objects = mixed(&case);
    case.install(&objects).await;
    let uid = case.uid().await;
    for object in &objects {
        let target = Target::of(object).unwrap();
        let live = case.get(&target).await.unwrap_or_else(|| panic!("{target} is missing"));
        assert!(crate::engine::case::is_owned(&live, &case.name, &uid), "{target}");
    }
    let inventory = case.status().await["inventory"].clone();
    assert_eq!(inventory["objects"], objects.len());
    case.delete(&case.target()).await;
    for object in &objects {
        case.until_gone(&Target::of(object).unwrap()).await;
    }
}

/// A bundle of twelve kinds, in an order that fails if it is applied as written.
pub fn mixed(case: &Case<'_>) -> Vec<Value> {
    let (crd, group) = definition(&case.name);
    let inner = format!("{}-in", case.name);
    let namespaced = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": format!("m-{}", kind.to_lowercase()), "namespace": inner}});
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let mut workload = case.workload("w", 1);
    workload["metadata"]["namespace"] = json!(inner);
    workload["spec"]["template"]["spec"]["serviceAccountName"] = json!("m-serviceaccount");
    let rbac = "rbac.authorization.k8s.io";
    vec![
        gadget(&group, &inner, "g", 1),
        workload,
        namespaced(
            "v1",
            "Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"}, ]}}),
        )
        .tap(|service| service["spec"]["ports"][0]["name"] = json!("web")),
        namespaced(
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        namespaced("v1", "Secret", json!({"stringData": {"a": "b"}})),
        namespaced("v1", "ConfigMap", json!({"data": {"a": "b"}})),
        namespaced(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "m-role"},
            "subjects": [{"kind": "ServiceAccount", "name": "m-serviceaccount", "namespace": inner}]}),
        ),
        namespaced(
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        namespaced("v1", "ServiceAccount", json!({})),
        namespaced("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}}})),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": case.name},
            "rules": [{"apiGroups": [group], "resources": ["gadgets"], "verbs": ["get", "list"]}]}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": case.name}, "webhooks": []}),
        crd,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}}),
    ]
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Tap for Value {}
