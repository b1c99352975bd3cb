//! What goes with what: the operator with its ClusterServiceVersion, and with nothing else.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use rukpak_tests::verbs::Target;
use rukpak_tests::world::SOON;
use serde_json::json;

use super::case::{Case, text};
use crate::platform::packages;

async fn installed(prefix: &str) -> Case {
    let case = Case::new(prefix).await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    case.until_planned("1.0.0", "Complete").await;
    case
}

async fn deletes(case: &Case, kind: &str, name: &str) {
    case.types(&format!("kubectl -n {} delete {kind} {name}", case.space)).await;
}

/// Has the API server refuse an operation on kinds of OLM, or on Deployments, in the namespace, until what is returned is deleted.
async fn refuses(case: &Case, operation: &str, resources: &[&str]) -> Target {
    // Nobody answers there. Leases tell when the API server has learnt of it.
    let probe = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "probe", "namespace": case.space}});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": case.space}, "webhooks": [{"name": "refuses.olmv0.test", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": case.space}},
            "rules": [{"apiGroups": ["operators.coreos.com", "apps"], "apiVersions": ["*"], "operations": [operation], "resources": resources},
                {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["leases"]}]}]});
    case.applies(std::slice::from_ref(&configuration)).await;

    let api = Target::of(&probe).expect("it has a name").api(&case.client).await.expect("the kind is served");
    let probe: DynamicObject = serde_json::from_value(probe).expect("it is an object");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let is_refused = async { while api.create(&dry_run, &probe).await.is_ok() {} };
    tokio::time::timeout(SOON, is_refused).await.expect("the API server learns of the webhook");
    Target::of(&configuration).expect("it has a name")
}

/// Everything is gone but for the definition.
async fn is_uninstalled(case: &Case) {
    case.until_gone(&case.target()).await;
    for target in [case.settings(), case.named("Deployment", packages::DEPLOYMENT)] {
        case.until_gone(&target).await;
    }
    assert!(case.find(&packages::definition(&case.package)).await.is_some(), "CustomResourceDefinitions stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_outlives_its_subscription_and_goes_with_its_version() {
    let case = installed("del-sub").await;
    deletes(&case, "subscription", &case.package).await;
    let is_whole = |object: Option<&DynamicObject>| object.is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    let patience = Duration::from_secs(2);
    case.holds_for(&case.csv("1.0.0"), "the ClusterServiceVersion", patience, is_whole).await;
    assert!(case.find(&case.target()).await.is_some() && case.find(&case.settings()).await.is_some());

    // Another one takes over what is there.
    let mut other = case.subscription(&json!({}));
    other["metadata"]["name"] = json!("another");
    case.applies(&[other]).await;
    let is_known = |object: &DynamicObject| text(object, "/status/installedCSV") == case.csv_name("1.0.0");
    case.until_object(&case.named("Subscription", "another"), "installedCSV", is_known).await;
    deletes(&case, "subscription", "another").await;
    deletes(&case, "csv", &case.csv_name("1.0.0")).await;
    is_uninstalled(&case).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_deleted_comes_back_with_a_subscription_and_stays_away_without() {
    let case = installed("del-crd").await;
    let definition = packages::definition(&case.package);
    let before = case.get(&definition).await.metadata.uid;
    case.delete(&definition).await;
    let is_new = |object: &DynamicObject| object.metadata.uid != before;
    case.until_object(&definition, "another one", is_new).await;
    let is_answered = |object: &DynamicObject| {
        let asked =
            object.metadata.annotations.as_ref().and_then(|all| all.get("core.rukpak.io/reconcile-requested-at"));
        asked.is_some_and(|asked| text(object, "/status/lastHandledReconcileAt") == asked)
    };
    case.until_object(&case.target(), "an answer to the request", is_answered).await;
    case.until_succeeded("1.0.0").await;

    deletes(&case, "subscription", &case.package).await;
    case.delete(&definition).await;
    case.until_gone(&definition).await;
    let lost = case.until_phase("1.0.0", "Pending", "RequirementsNotMet").await;
    let message = text(&lost, "/status/message");
    assert!(message.starts_with("requirements no longer met: "), "{message}");
    let required = &lost.data["status"]["requirementStatus"];
    let is_missed = |one: &serde_json::Value| one["name"] == definition.name && one["status"] == "NotPresent";
    assert!(required.as_array().is_some_and(|all| all.iter().any(is_missed)), "{required:#}");
    let patience = Duration::from_secs(2);
    case.holds_for(&definition, "it stays deleted", patience, |object| object.is_none()).await;
    assert!(case.find(&case.settings()).await.is_some(), "the rest of the operator stays");

    case.applies(&[case.subscription(&json!({}))]).await;
    case.until_succeeded("1.0.0").await;
    assert!(case.find(&definition).await.is_some(), "it is wanted again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_comes_back_only_with_another_install_plan() {
    let case = installed("del-csv").await;
    let plan = case.until_planned("1.0.0", "Complete").await.metadata.name.unwrap_or_default();
    deletes(&case, "csv", &case.csv_name("1.0.0")).await;
    is_uninstalled(&case).await;
    let is_pending = |object: &DynamicObject| text(object, "/status/state") == "UpgradePending";
    case.until_object(&case.subscribed(), "UpgradePending", is_pending).await;
    let patience = Duration::from_secs(2);
    case.holds_for(&case.target(), "no BundleDeployment", patience, |object| object.is_none()).await;
    deletes(&case, "installplan", &plan).await;
    case.until_succeeded("1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_waits_leaves_nothing() {
    let case = Case::new("del-wait").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": "Manual"})).await;
    case.until_planned("1.0.0", "RequiresApproval").await;
    deletes(&case, "subscription", &case.package).await;
    case.until_gone(&case.target()).await;
    assert!(case.find(&packages::definition(&case.package)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_ends_with_all_that_is_in_it() {
    let case = installed("del-space").await;
    case.types(&format!("kubectl delete namespace {} --timeout=120s", case.space)).await;
    case.until_gone(&case.target()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_installed_again_while_its_namespace_ends() {
    let case = installed("del-last").await;
    let plan = case.until_planned("1.0.0", "Complete").await.metadata.name.unwrap_or_default();
    // A namespace ends kind by kind, in any order: here these are the last.
    let refused = refuses(&case, "DELETE", &["subscriptions", "operatorgroups"]).await;
    case.types(&format!("kubectl delete namespace {} --wait=false", case.space)).await;
    case.until_gone(&case.csv("1.0.0")).await;
    case.until_gone(&case.named("InstallPlan", &plan)).await;
    case.until_gone(&case.target()).await;
    let patience = Duration::from_secs(2);
    case.holds_for(&case.target(), "no BundleDeployment", patience, |object| object.is_none()).await;

    case.delete(&refused).await;
    case.until_gone(&case.subscribed()).await;
    case.holds_for(&case.target(), "no BundleDeployment", patience, |object| object.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_without_a_version_ends_with_its_namespace() {
    let case = Case::new("del-begun").await;
    let refused = refuses(&case, "CREATE", &["clusterserviceversions"]).await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_object(&case.settings(), "an object of the bundle", |_| true).await;
    assert!(case.find(&case.csv("1.0.0")).await.is_none());
    deletes(&case, "subscription", &case.package).await;
    let patience = Duration::from_secs(2);
    case.holds_for(&case.target(), "what is begun goes on", patience, |object| object.is_some()).await;

    case.types(&format!("kubectl delete namespace {} --timeout=120s", case.space)).await;
    case.until_gone(&case.target()).await;
    case.delete(&refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_and_fails_can_be_deleted_without_its_subscription() {
    let case = Case::new("del-manual").await;
    let refused = refuses(&case, "CREATE", &["clusterserviceversions", "deployments"]).await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": "Manual"})).await;
    let plan = case.until_planned("1.0.0", "RequiresApproval").await.metadata.name.unwrap_or_default();
    let approved = r#"{"spec":{"approved":true}}"#;
    case.types(&format!("kubectl -n {} patch installplan {plan} --type=merge -p '{approved}'", case.space)).await;
    case.until_object(&case.settings(), "an object of the bundle", |_| true).await;
    deletes(&case, "subscription", &case.package).await;
    case.until_gone(&case.named("InstallPlan", &plan)).await;

    // The Deployment is refused still.
    let fewer = r#"[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["deployments"]}]"#;
    case.types(&format!("kubectl patch {} {} --type=json -p '{fewer}'", refused.kind, refused.name)).await;
    case.until_phase("1.0.0", "Failed", "InstallComponentFailed").await;
    deletes(&case, "csv", &case.csv_name("1.0.0")).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&case.settings()).await;
    case.delete(&refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_deleted_before_it_is_healthy_takes_the_version_before_it_along() {
    let mut case = installed("del-both").await;
    case.kubelet = None;
    case.publishes(&["1.0.0", "1.1.0"]).await;
    case.until_phase("1.1.0", "Installing", "InstallWaiting").await;
    case.until_phase("1.0.0", "Replacing", "BeingReplaced").await;
    deletes(&case, "csv", &case.csv_name("1.1.0")).await;
    case.until_gone(&case.csv("1.0.0")).await;
    is_uninstalled(&case).await;
}
