//! One package in several namespaces: side by side where their OperatorGroups' targets do not meet, and refused where they do.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::case::{Case, text};
use crate::platform::packages;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A Subscription to the package of another case.
fn subscription_to(first: &Case, second: &Case) -> Value {
    let mut subscription = first.subscription(&json!({}));
    subscription["metadata"]["namespace"] = json!(second.space);
    subscription
}

/// An OperatorGroup for its own namespace.
fn own(case: &Case) -> Value {
    case.group("group", &json!({"targetNamespaces": [case.space]}))
}

/// Waits until a version of the first case's package is Succeeded in the namespace of the second.
async fn until_succeeded(first: &Case, second: &Case, version: &str) {
    let csv = second.named("ClusterServiceVersion", &first.csv_name(version));
    let is_so = |object: &DynamicObject| text(object, "/status/phase") == "Succeeded";
    second.until_object(&csv, "Succeeded", is_so).await;
}

/// The namespaces of the accounts that ClusterRoles of the package are bound to for an installation.
async fn bound(first: &Case, case: &Case) -> Vec<Value> {
    let label = format!("operators.coreos.com/{}.{}", first.package, case.space);
    let bindings = verbs::list(&case.client, RBAC, "ClusterRoleBinding", &label).await.expect("the API server agrees");
    bindings.iter().map(|binding| binding.data["subjects"][0]["namespace"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_package_runs_in_two_namespaces_and_each_of_them_goes_alone() {
    let (first, second) = (Case::new("two-one").await, Case::new("two-other").await);
    let image = first.catalog(&["1.0.0"]).await;
    first.applies(&[first.source(&image), own(&first), first.subscription(&json!({}))]).await;
    first.until_succeeded("1.0.0").await;
    let definition = packages::definition(&first.package);
    let before = first.get(&definition).await;
    second.applies(&[own(&second), subscription_to(&first, &second)]).await;
    until_succeeded(&first, &second, "1.0.0").await;
    for case in [&first, &second] {
        assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
        assert_eq!(bound(&first, case).await, [json!(case.space)]);
    }

    first.publishes(&["1.0.0", "1.1.0"]).await;
    first.until_succeeded("1.1.0").await;
    until_succeeded(&first, &second, "1.1.0").await;

    // The roles for users are those of the first, until it goes.
    let role = Target::cluster(RBAC, "ClusterRole", &format!("{}-v1-edit", definition.name));
    let has = |object: &DynamicObject, owner: &str| {
        let labels = object.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("core.rukpak.io/owner-name")).is_some_and(|name| name == owner)
    };
    assert!(has(&first.get(&role).await, &first.target().name));
    first.types(&format!("kubectl -n {} delete csv {}", first.space, first.csv_name("1.1.0"))).await;
    first.until_gone(&first.target()).await;
    let heir = format!("{}.{}", first.package, second.space);
    second.until_object(&role, "the roles of the other", |object| has(object, &heir)).await;
    until_succeeded(&first, &second, "1.1.0").await;
    assert_eq!(second.get(&definition).await.metadata.uid, before.metadata.uid);
    assert_eq!(second.get(&second.settings()).await.data["data"]["version"], "1.1.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_package_is_refused_where_targets_meet_until_they_do_no_more() {
    let (first, second) = (Case::new("meet-one").await, Case::new("meet-other").await);
    first.subscribes(&["1.0.0"], &json!({})).await;
    let before = first.until_succeeded("1.0.0").await;
    second.applies(&[own(&second), subscription_to(&first, &second)]).await;
    let target = second.named("Subscription", &first.package);
    let why = |object: &DynamicObject| verbs::condition(object, "ResolutionFailed").cloned().unwrap_or_default();
    let is_refused = |object: &DynamicObject| why(object)["reason"] == "InterOperatorGroupOwnerConflict";
    let refused = second.until_object(&target, "a refusal", is_refused).await;
    let message = why(&refused)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("intersecting operatorgroups provide the same apis"), "{message}");
    assert!(message.contains(&first.space), "{message}");
    assert!(second.find(&second.settings()).await.is_none(), "nothing is installed");

    // The first watches its own namespace alone.
    first.applies(&[own(&first)]).await;
    until_succeeded(&first, &second, "1.0.0").await;
    let after = first.until_succeeded("1.0.0").await;
    assert_eq!(after.metadata.uid, before.metadata.uid);

    // It may not have the other one's back.
    let both = first.group("group", &json!({"targetNamespaces": [first.space, second.space]}));
    first.applies(&[both]).await;
    first.until_phase("1.0.0", "Failed", "InterOperatorGroupOwnerConflict").await;
    until_succeeded(&first, &second, "1.0.0").await;
    first.applies(&[own(&first)]).await;
    first.until_succeeded("1.0.0").await;
}
