//! Bundles and Subscriptions of somebody who means harm: each is told of by its own objects, and reaches nobody else's.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::verbs::{self, Target, unique_name};
use serde_json::{Value, json};

use super::case::{ANY, Case, bundle, text};
use crate::platform::packages;

/// More than etcd takes in one object.
const VAST: usize = 2 << 20;
/// More than OLM keeps of a bundle, and less than that.
const LARGE: usize = 1200 << 10;

/// Text of so many bytes that does not become small when it is compressed.
fn noise(bytes: usize) -> String {
    let word = |index: u64| format!("{:016x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (1..).map(word).take(bytes / 16).collect()
}

/// Offers and subscribes to a bundle whose ClusterServiceVersion has a description of so many bytes.
async fn subscribes_to(case: &Case, description: usize) {
    let mut files = bundle(&case.package, "1.0.0", &ANY);
    let (_, csv) = files.iter_mut().find(|(path, _)| path.ends_with("csv.yaml")).expect("a bundle has one");
    let mut value: Value = serde_json::from_str(csv).expect("JSON");
    value["spec"]["description"] = json!(noise(description));
    *csv = value.to_string();
    let image = packages::push(&case.world.registry, &case.package, "1.0.0", files).await;
    let catalog = case.push_catalog(Documents::package(&case.package, &[("1.0.0", &image)])).await;
    case.applies(&[case.source(&catalog), case.group("group", &json!({})), case.subscription(&json!({}))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_no_object_can_hold_is_told_of_and_a_large_one_is_installed() {
    let large = Case::new("big-csv").await;
    let vast = Case::new("vast-csv").await;
    subscribes_to(&vast, VAST).await;
    subscribes_to(&large, LARGE).await;
    large.until_succeeded("1.0.0").await;
    let plan = vast.until_planned("1.0.0", "Installing").await;
    let plan = vast.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    let is_told =
        |plan: &DynamicObject| text(plan, "/status/message").contains("cannot write the ClusterServiceVersion");
    vast.until_object(&plan, "why it has no ClusterServiceVersion", is_told).await;
    assert!(vast.find(&vast.csv("1.0.0")).await.is_none());
}

/// Whoever writes OLM's labels on objects of theirs has nothing deleted by the end of an operator, and nothing kept.
#[tokio::test(flavor = "multi_thread")]
async fn forged_owner_labels_neither_delete_nor_keep_anything() {
    let case = Case::new("forged-owner").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let (component, name) = (format!("operators.coreos.com/{}.{}", case.package, case.space), unique_name("forged"));
    let labels = json!({"olm.managed": "true", "olm.owner": case.csv_name("1.0.0"), component: "",
        "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": case.space});
    let forged = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"name": name, "namespace": case.space, "labels": labels}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
               "metadata": {"name": name, "labels": labels}, "rules": []}),
    ];
    let mut uids = Vec::new();
    for object in &forged {
        uids.push(case.create(object).await.metadata.uid);
    }
    case.types(&format!("kubectl -n {} delete subscription {}", case.space, case.package)).await;
    case.types(&format!("kubectl -n {} delete csv {}", case.space, case.csv_name("1.0.0"))).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&case.settings()).await;
    for (object, uid) in forged.iter().zip(uids) {
        let target = Target::of(object).expect("it is an object");
        let left = case.get(&target).await.metadata;
        assert_eq!((left.uid, left.deletion_timestamp), (uid, None), "{target}");
        case.delete(&target).await;
    }
}

/// Settings reach Pods of the namespace, which mount Secrets of the namespace. No other one is named, and none is read by our programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_namespace_is_named_by_no_subscription() {
    let case = Case::new("forged-secret").await;
    let elsewhere = Case::new("secret-of").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": elsewhere.space},
        "stringData": {"password": "do-not-tell"}});
    case.create(&secret).await;
    let there = format!("{}/login", elsewhere.space);
    let config = json!({"config": {"envFrom": [{"secretRef": {"name": there}}]}});
    case.subscribes(&["1.0.0"], &config).await;
    let is_refused = |object: &DynamicObject| {
        let failed = verbs::condition(object, "InstallPlanFailed").cloned().unwrap_or_default();
        failed["message"].as_str().is_some_and(|message| message.contains(&there))
    };
    case.until_object(&case.subscribed(), "a refusal", is_refused).await;
    assert!(case.find(&case.named("Deployment", packages::DEPLOYMENT)).await.is_none());

    // One of its own may be named, and that of the same name elsewhere is another one.
    let config = json!({"config": {"envFrom": [{"secretRef": {"name": "login"}}]}});
    case.applies(&[case.subscription(&config)]).await;
    case.until_succeeded("1.0.0").await;
    let deployment = case.get(&case.named("Deployment", packages::DEPLOYMENT)).await;
    let containers = &deployment.data["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["envFrom"], json!([{"secretRef": {"name": "login"}}]));
    let told = [case.get(&case.subscribed()).await, case.get(&case.csv("1.0.0")).await, case.get(&case.target()).await];
    for object in told {
        assert!(!object.data.to_string().contains("do-not-tell"), "{:#}", object.data);
    }
}

/// A CatalogSource of the namespace is that of who owns the namespace, and so are its Secrets; those of a global one are not.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_catalog_are_named_in_its_own_namespace_only() {
    let case = Case::new("cs-secret").await;
    let image = case.catalog(&["1.0.0"]).await;
    let mut global = case.source(&image);
    global["spec"]["secrets"] = json!(["login"]);
    case.applies(&[global.clone(), case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    case.until_succeeded("1.0.0").await;
    let deployment = case.named("Deployment", packages::DEPLOYMENT);
    let secrets = |object: &DynamicObject| object.data["spec"]["template"]["spec"]["imagePullSecrets"].clone();
    assert_eq!(secrets(&case.get(&deployment).await), Value::Null);

    let mut own = global;
    own["metadata"]["namespace"] = json!(case.space);
    case.applies(&[own, case.subscription(&json!({"sourceNamespace": case.space}))]).await;
    let named = json!([{"name": "login"}]);
    case.until_object(&deployment, "the Secret is named", |object| secrets(object) == named).await;
    case.until_succeeded("1.0.0").await;

    // What runs outlives its catalog as it is.
    case.types(&format!("kubectl -n {} delete catalogsource {}", case.space, case.package)).await;
    case.until_said("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound").await;
    let patience = std::time::Duration::from_secs(2);
    let is_named = |object: Option<&DynamicObject>| object.is_some_and(|object| secrets(object) == named);
    case.holds_for(&deployment, "the Secret is named still", patience, is_named).await;
}
