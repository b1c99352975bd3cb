//! Drift is repaired, without fights.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::{Case, OURS, is_owned};

/// Objects with and without a generation, and a value to spoil in each.
fn objects(case: &Case<'_>) -> Vec<(Value, &'static str, Value)> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": case.name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": case.namespace},
        "stringData": {"k": "A"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": case.namespace},
        "spec": {"selector": {"app": "w"}, "ports": [{"port": 80, "name": "web"}]}});
    vec![
        (case.config_map("a", json!({"k": "1"})), "/data", json!({"data": {"k": "2"}})),
        (secret, "/data", json!({"data": {"k": "Wg=="}})),
        (role, "/rules", json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})),
        (service, "/spec/selector", json!({"spec": {"selector": {"app": "other"}}})),
        (
            case.workload("w", 0),
            "/spec/template/spec/containers/0/image",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil.example.com/x"}]}}}}),
        ),
    ]
}

#[tokio::test]
async fn whatever_is_edited_deleted_or_stripped_of_its_marks_comes_back() {
    let case = Case::new("drift").await;
    let objects = objects(&case);
    let manifests: Vec<Value> = objects.iter().map(|(object, ..)| object.clone()).collect();
    case.install(&manifests).await;
    let uid = case.uid().await;
    for (manifest, pointer, spoiled) in &objects {
        let target = Target::of(manifest).unwrap();
        let good = case.get(&target).await.unwrap();
        let value = good.data.pointer(pointer).unwrap().clone();
        case.edit("intruder", &target, spoiled.clone()).await;
        case.until_value(&target, pointer, &value).await;

        let strip = json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}});
        case.edit("intruder", &target, strip).await;
        case.until_owned(&target).await;
        case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-name": "other"}}})).await;
        case.until_owned(&target).await;
        case.edit("intruder", &target, json!({"metadata": {"ownerReferences": null}})).await;
        let back = case.until_owned(&target).await;
        assert_eq!(back.metadata.uid, good.metadata.uid, "{target} was mended, not made anew");

        case.delete(&target).await;
        let anew = |object: Option<&kube::api::DynamicObject>| {
            object.is_some_and(|object| object.metadata.uid != good.metadata.uid && is_owned(object, &case.name, &uid))
        };
        case.until(&target, "a new one", anew).await;
        case.until_value(&target, pointer, &value).await;
    }
    case.installed().await;
}

#[tokio::test]
async fn a_removed_field_comes_back_and_foreign_additions_stay() {
    let case = Case::new("additions").await;
    case.install(&[case.config_map("a", json!({"x": "1", "y": "1"})), case.workload("w", 0)]).await;
    let map = case.config_map_target("a");
    case.edit("intruder", &map, json!({"data": {"x": null}})).await;
    case.until_value(&map, "/data/x", &json!("1")).await;

    let additions =
        json!({"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "hi"}}, "data": {"extra": "1"}});
    case.edit("user", &map, additions).await;
    case.stays(&map, Duration::from_secs(2)).await;
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    case.edit("user", &workload, json!({"spec": {"minReadySeconds": 3}})).await;
    case.edit_sub(
        "status",
        "user",
        &workload,
        json!({"status": {"conditions": [
        {"type": "Foreign", "status": "True", "reason": "R", "message": "m"}]}}),
    )
    .await;
    // Proof that the events are through: an edit after them was repaired.
    case.edit("intruder", &map, json!({"data": {"y": "2"}})).await;
    let map = case.until_value(&map, "/data/y", &json!("1")).await;
    assert_eq!(map.data["data"]["extra"], "1");
    assert_eq!(map.metadata.labels.unwrap()["team"], "blue");
    let live = case.get(&workload).await.unwrap();
    assert_eq!(live.data["spec"]["minReadySeconds"], 3);
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"})), case.workload("w", 0)]).await;
    let map = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(map.data["data"], json!({"x": "2", "extra": "1"}), "a pivot leaves them as well");
    assert_eq!(case.get(&workload).await.unwrap().data["spec"]["minReadySeconds"], 3);
}

#[tokio::test]
async fn a_deleted_namespace_comes_back_with_what_was_in_it() {
    let case = Case::new("nsgone").await;
    let inner = format!("{}-in", case.name);
    let mut map = case.config_map("a", json!({"x": "1"}));
    map["metadata"]["namespace"] = json!(inner);
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}});
    case.install(&[space.clone(), map.clone()]).await;
    let (space, map) = (Target::of(&space).unwrap(), Target::of(&map).unwrap());
    let old = case.get(&space).await.unwrap().metadata.uid;
    case.delete(&space).await;
    case.until(&space, "a new one", |object| object.is_some_and(|object| object.metadata.uid != old)).await;
    case.until_owned(&map).await;
    case.installed().await;
}

#[tokio::test]
async fn a_deleted_definition_comes_back_with_its_object() {
    let case = Case::new("crdgone").await;
    let (crd, group) = crate::engine::case::definition("crdgone");
    let object = crate::engine::case::gadget(&group, &case.namespace, "g", 1);
    case.install(&[crd, object.clone()]).await;
    let (crd, object) = (crate::engine::case::definition_target(&group), Target::of(&object).unwrap());
    let old = case.get(&crd).await.unwrap().metadata.uid;
    case.delete(&crd).await;
    case.until(&crd, "a new one", |object| object.is_some_and(|object| object.metadata.uid != old)).await;
    verbs::await_served(&case.client, &object.api_version, "Gadget", rukpak_tests::world::SOON).await.unwrap();
    case.until_owned(&object).await;
    case.installed().await;
}

fn owns_replicas(object: &DynamicObject) -> bool {
    let entries = object.metadata.managed_fields.iter().flatten();
    let mut ours = entries.filter(|entry| entry.manager.as_deref() == Some(OURS));
    ours.any(|entry| entry.fields_v1.as_ref().is_some_and(|set| set.0.pointer("/f:spec/f:replicas").is_some()))
}

#[tokio::test]
async fn scaling_is_respected_until_the_manifest_says_otherwise() {
    let case = Case::new("scale").await;
    case.install(&[case.workload("w", 1), case.config_map("a", json!({"x": "1"}))]).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    case.edit_sub("scale", "autoscaler", &target, json!({"spec": {"replicas": 3}})).await;
    case.until(&target, "replicas that are given up", |object| object.is_some_and(|object| !owns_replicas(object)))
        .await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "2"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["replicas"], 3);
    let told = case.told("DriftRepaired").await;
    assert!(
        told.count == 1 && told.message.contains("ConfigMap \"a\""),
        "what stays scaled was not repaired: {told:?}"
    );
    // An edit of another field is repaired and leaves the scale.
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}});
    case.edit("intruder", &target, image).await;
    let pointer = "/spec/template/spec/containers/0/image";
    let repaired = case.until_value(&target, pointer, &json!("example.com/none:1")).await;
    assert_eq!(repaired.data["spec"]["replicas"], 3);
    case.pivot("v2", &[case.workload("w", 1), case.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["replicas"], 3, "the manifest says what it said");
    case.pivot("v3", &[case.workload("w", 2)]).await;
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["replicas"], 2, "the manifest says something new");
    // An edit of the very field is drift like any other.
    case.edit("intruder", &target, json!({"spec": {"replicas": 5}})).await;
    case.until_value(&target, "/spec/replicas", &json!(2)).await;
}

#[tokio::test]
async fn aggregated_rules_and_injected_bundles_stay() {
    let case = Case::new("injected").await;
    let aggregated = format!("{}-all", case.name);
    let marker = json!({(case.name.as_str()): "true"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": aggregated},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": marker}]}, "rules": []});
    let part = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{}-part", case.name), "labels": marker},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": case.name}, "webhooks": [{"name": "a.engine.test", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Ignore", "namespaceSelector": {"matchLabels": {"no": "where"}},
            "clientConfig": {"caBundle": "Cg==", "service": {"name": "x", "namespace": case.namespace, "path": "/"}},
            "rules": [{"apiGroups": ["engine.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]}]});
    case.install(&[role.clone(), part, hook.clone()]).await;
    let (role, hook_target) = (Target::of(&role).unwrap(), Target::of(&hook).unwrap());
    let has_rules = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["rules"].as_array().is_some_and(|rules| !rules.is_empty()))
    };
    case.until(&role, "aggregated rules", has_rules).await;
    // As cert-manager's injector: a JSON patch of the one field, by another manager.
    let patch: kube::api::Patch<()> = Patch::Json(
        serde_json::from_value(json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "QUJD"}]))
            .unwrap(),
    );
    let parameters = PatchParams { field_manager: Some("cainjector".to_owned()), ..PatchParams::default() };
    hook_target.api(&case.client).await.unwrap().patch(&hook_target.name, &parameters, &patch).await.unwrap();
    // The new generation costs an apply, which may move a timestamp.
    let injected = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["webhooks"][0]["clientConfig"]["caBundle"] == "QUJD")
    };
    verbs::holds_for(&case.client, &hook_target, "the injected bundle", Duration::from_secs(2), injected)
        .await
        .unwrap();
    case.edit("intruder", &hook_target, json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}})).await;
    let mended = case.until_owned(&hook_target).await;
    assert_eq!(mended.data["webhooks"][0]["clientConfig"]["caBundle"], "QUJD");
    case.stays(&role, Duration::from_secs(1)).await;
    assert!(has_rules(case.get(&role).await.as_ref()));
}

#[tokio::test]
async fn a_field_that_one_manager_keeps_retaking_is_left_to_it() {
    let case = Case::new("contest").await;
    case.install(&[case.config_map("a", json!({"x": "1", "y": "1"}))]).await;
    let target = case.config_map_target("a");
    // Taken once, and retaken three times.
    for round in 0..3 {
        case.edit("stubborn", &target, json!({"data": {"x": format!("theirs {round}")}})).await;
        case.until_value(&target, "/data/x", &json!("1")).await;
    }
    case.edit("stubborn", &target, json!({"data": {"x": "theirs"}})).await;
    let expected =
        Expected { kind: "Contested", status: "True", reason: Some("FieldsLeftToOthers"), message: ".data.x" };
    let object = until(&case.client, &case.name, expected).await;
    let message = verbs::condition(&object, "Contested").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\"stubborn\", which keeps changing it"), "{message}");
    let events = case.events("FieldsLeftToOthers").await;
    assert_eq!(events.len(), 1, "said once: {events:#?}");
    assert_eq!((events[0].type_.as_deref(), events[0].message.as_ref()), (Some("Warning"), Some(&message)));
    let live = case.get(&target).await.unwrap();
    assert_eq!(live.data["data"], json!({"x": "theirs", "y": "1"}));
    // Everything else of the object is guarded as before.
    case.edit("stubborn", &target, json!({"data": {"y": "2"}})).await;
    let live = case.until_value(&target, "/data/y", &json!("1")).await;
    assert_eq!(live.data["data"]["x"], "theirs");
    let ours =
        live.metadata.managed_fields.iter().flatten().find(|entry| entry.manager.as_deref() == Some(OURS)).unwrap();
    assert!(ours.fields_v1.as_ref().unwrap().0.pointer("/f:data/f:x").is_none());
    assert_eq!(case.events("FieldsLeftToOthers").await.len(), 1, "nothing new, no Event");
}

/// Applies the object as it is, but for its `data`, in the name of the controller: a stale one of ours, or somebody by hand. Its set of
/// fields stays the same.
async fn apply_as_ours(case: &Case<'_>, target: &Target, data: Value) {
    let live = case.get(target).await.expect("it is there");
    // The time of an entry in managedFields has whole seconds.
    let entries = live.metadata.managed_fields.clone().unwrap_or_default();
    let applied =
        entries.iter().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max().expect("it was applied");
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs();
    while i64::try_from(now()).expect("it fits") <= applied.as_second() {
        tokio::time::sleep(Duration::from_millis(50)).await; // a clock cannot be watched
    }
    let mut body = json!(live);
    let metadata = body["metadata"].as_object_mut().expect("it is an object");
    metadata.retain(|key, _| ["name", "namespace", "labels", "annotations", "ownerReferences"].contains(&key.as_str()));
    body["data"] = data;
    let parameters = PatchParams::apply(OURS).force();
    let api = target.api(&case.client).await.expect("the kind is served");
    api.patch(&target.name, &parameters, &Patch::Apply(&body)).await.expect("the API server agrees");
}

#[tokio::test]
async fn values_that_were_applied_in_our_own_name_are_repaired() {
    let case = Case::new("namesake").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;
    let target = case.config_map_target("a");
    apply_as_ours(&case, &target, json!({"x": "2"})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
}

#[tokio::test]
async fn values_that_were_applied_in_our_own_name_while_we_were_away_are_repaired() {
    let alone = crate::engine::worlds::alone().await;
    let case = alone.case("namesake-away").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    case.ready().await;
    alone.stop().await;
    let (a, b) = (case.config_map_target("a"), case.config_map_target("b"));
    apply_as_ours(&case, &a, json!({"x": "2"})).await;
    let other = case.get(&b).await.unwrap().metadata.resource_version;
    alone.start().await;
    case.until_value(&a, "/data/x", &json!("1")).await;
    case.ready().await;
    assert_eq!(case.get(&b).await.unwrap().metadata.resource_version, other, "nothing else was written");
}
