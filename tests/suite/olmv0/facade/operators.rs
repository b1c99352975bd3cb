//! The kinds that only tell: Operator and OLMConfig.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::case::Case;
use crate::platform::packages;

const V1: &str = "operators.coreos.com/v1";

/// The components of an Operator.
fn components(operator: &DynamicObject) -> Vec<Value> {
    operator.data["status"]["components"]["refs"].as_array().cloned().unwrap_or_default()
}

fn has(operator: &DynamicObject, kind: &str, name: &str) -> bool {
    components(operator).iter().any(|one| one["kind"] == kind && one["name"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_what_belongs_to_a_package_and_goes_with_it() {
    let case = Case::new("operator").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let plan = case.until_planned("1.0.0", "Complete").await.metadata.name.unwrap_or_default();
    let target = Target::cluster(V1, "Operator", &format!("{}.{}", case.package, case.space));
    let (csv, definition) = (case.csv_name("1.0.0"), packages::definition(&case.package).name);
    let role = format!("{definition}-v1-edit");
    let expected = [
        ("Subscription", case.package.as_str()),
        ("ClusterServiceVersion", csv.as_str()),
        ("InstallPlan", plan.as_str()),
        ("CustomResourceDefinition", definition.as_str()),
        ("Deployment", packages::DEPLOYMENT),
        ("ServiceAccount", "pump-manager"),
        ("ClusterRole", role.as_str()),
        ("Role", csv.as_str()),
        ("RoleBinding", csv.as_str()),
        ("OperatorCondition", csv.as_str()),
    ];
    let is_whole = |object: &DynamicObject| {
        let says = |kind: &str, condition: &str| {
            let found = components(object).into_iter().find(|one| one["kind"] == kind).unwrap_or_default();
            let said = found["conditions"].as_array().cloned().unwrap_or_default();
            said.iter().any(|one| one["type"] == condition && one["status"] == "True")
        };
        expected.iter().all(|(kind, name)| has(object, kind, name))
            && says("ClusterServiceVersion", "Succeeded")
            && says("Deployment", "Available")
    };
    let operator = case.until_object(&target, "its components", is_whole).await;
    let label = format!("operators.coreos.com/{}.{}", case.package, case.space);
    let selector = json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    assert_eq!(operator.data["status"]["components"]["labelSelector"], selector);
    assert!(components(&operator).iter().all(|one| one["kind"] != "Secret" && one["kind"] != "ConfigMap"));

    // What is deleted or written over comes back.
    case.delete(&target).await;
    let is_new = |object: &DynamicObject| object.metadata.uid != operator.metadata.uid && is_whole(object);
    case.until_object(&target, "it is there again", is_new).await;
    let forged = json!({"status": {"components": {"labelSelector": {}, "refs": []}}});
    let (api, params) = (target.api(&case.client).await.expect("it is served"), kube::api::PatchParams::default());
    api.patch_status(&target.name, &params, &kube::api::Patch::Merge(forged)).await.expect("the administrator may");
    case.until_object(&target, "its components", is_whole).await;

    let space = &case.space;
    case.types(&format!("kubectl -n {space} delete subscription {}", case.package)).await;
    let is_left = |object: &DynamicObject| {
        has(object, "ClusterServiceVersion", &csv) && !has(object, "Subscription", &case.package)
    };
    case.until_object(&target, "without its Subscription", is_left).await;
    case.types(&format!("kubectl -n {space} delete csv {csv}")).await;
    case.until_gone(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_olm_config_says_that_nothing_is_copied_whatever_it_asks_for() {
    let case = Case::new("olm-config").await;
    let mut config = json!({"apiVersion": V1, "kind": "OLMConfig", "metadata": {"name": "cluster"},
        "spec": {"features": {"disableCopiedCSVs": false, "packageServerSyncInterval": "5m"}}});
    let target = Target::cluster(V1, "OLMConfig", "cluster");
    let is_told = |object: &DynamicObject| {
        let told = verbs::condition(object, "DisabledCopiedCSVs").cloned().unwrap_or_default();
        (&told["status"], &told["reason"]) == (&json!("True"), &json!("CopiedCSVsDisabled"))
            && told["observedGeneration"] == json!(object.metadata.generation)
    };
    case.applies(&[config.clone()]).await;
    case.until_object(&target, "the condition", is_told).await;

    config.as_object_mut().expect("an object").remove("spec");
    case.applies(&[config]).await;
    let is_empty = |object: &DynamicObject| object.data.get("spec").is_none() && is_told(object);
    case.until_object(&target, "the condition of the new generation", is_empty).await;
}
