//! What OpenShift's documentation has administrators type to add, update and delete operators, with `kubectl` in the place of `oc`.

use rukpak_tests::Documents;
use serde_json::{Value, json};

use super::case::{ANY, Case, bundle};
use super::packages::until_served;
use super::world::GLOBAL;
use crate::platform::packages::{self, channel, entry, package};

/// A catalog with a channel `stable`, which ends at 1.0.0, and a channel `fast`, which goes on to 1.1.0.
async fn with_two_channels(case: &Case) -> String {
    let name = &case.package;
    let mut documents = Documents::default().with(package(name, "stable"));
    for version in ["1.0.0", "1.1.0"] {
        let image = packages::push(&case.world.registry, name, version, bundle(name, version, &ANY)).await;
        documents = documents.with(entry(name, version, &image, Some(packages::ALL), &[]));
    }
    let (old, new) = (case.csv_name("1.0.0"), case.csv_name("1.1.0"));
    let documents = documents.with(channel(name, "stable", json!([{"name": old}]))).with(channel(
        name,
        "fast",
        json!([{"name": old}, {"name": new, "replaces": old}]),
    ));
    case.push_catalog(documents).await
}

/// Types a command, and expects these words in what it prints.
async fn shows(case: &Case, command: &str, words: &[&str]) {
    let printed = case.types(command).await.join("\n");
    for word in words {
        assert!(printed.contains(word), "{word:?} is not printed by {command}:\n{printed}");
    }
}

/// Types manifests as a file, as the procedures have it.
fn applied(manifest: &Value) -> String {
    format!("kubectl apply -f - <<'END'\n{manifest}\nEND")
}

/// "Approving a pending Operator update": the plan that the Subscription refers to.
async fn approves(case: &Case) {
    let (space, name) = (case.space.as_str(), case.package.as_str());
    case.types(&format!(
        "plan=$(kubectl -n {space} get subscription {name} -o jsonpath='{{.status.installPlanRef.name}}')
kubectl -n {space} get installplan $plan
kubectl -n {space} patch installplan $plan --type merge --patch '{{\"spec\":{{\"approved\":true}}}}'"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_added_updated_and_deleted_as_the_documentation_has_it() {
    let case = Case::new("typed").await;
    until_served(&case).await;
    let (space, name) = (case.space.as_str(), case.package.as_str());
    let image = with_two_channels(&case).await;
    case.types(&applied(&case.source(&image))).await;
    case.types(&format!(
        "kubectl -n {GLOBAL} wait --timeout=2m --for=jsonpath='{{.status.connectionState.lastObservedState}}'=READY catalogsource/{name}"
    ))
    .await;

    // "Installing from OperatorHub using the CLI", of a specific version.
    shows(&case, &format!("kubectl get packagemanifests -n {GLOBAL}"), &[name]).await;
    let described = ["Default Channel:", "stable", "fast", "Install Modes:"];
    shows(&case, &format!("kubectl describe packagemanifests {name} -n {GLOBAL}"), &described).await;
    case.types(&applied(&case.group("group", &json!({"targetNamespaces": [space]})))).await;
    let starting = case.csv_name("1.0.0");
    let spec = json!({"channel": "stable", "installPlanApproval": "Manual", "startingCSV": starting});
    case.types(&applied(&case.subscription(&spec))).await;
    case.until_planned("1.0.0", "RequiresApproval").await;
    approves(&case).await;
    case.until_succeeded("1.0.0").await;

    // "Viewing Operator subscription status by using the CLI".
    shows(&case, &format!("kubectl get subs -n {space}"), &["PACKAGE", "SOURCE", "CHANNEL", name]).await;
    let said = ["CatalogSourcesUnhealthy", "AllCatalogSourcesHealthy", "all available catalogsources are healthy"];
    shows(&case, &format!("kubectl describe sub {name} -n {space}"), &said).await;
    shows(&case, &format!("kubectl describe catalogsource {name} -n {GLOBAL}"), &["READY"]).await;

    // "Changing the update channel for an Operator".
    case.types(&format!(
        "kubectl -n {space} patch subscription {name} --type=merge -p '{{\"spec\":{{\"channel\":\"fast\"}}}}'"
    ))
    .await;
    case.until_planned("1.1.0", "RequiresApproval").await;
    approves(&case).await;
    case.until_succeeded("1.1.0").await;
    case.until_gone(&case.csv("1.0.0")).await;
    is_deleted_and_refreshed(&case).await;
}

/// "Deleting Operators from a cluster using the CLI", and "Refreshing failing subscriptions": the same, and the Subscription again.
async fn is_deleted_and_refreshed(case: &Case) {
    let (space, name) = (case.space.as_str(), case.package.as_str());
    let delete = format!(
        "csv=$(kubectl get subscription.operators.coreos.com {name} -n {space} -o yaml | grep currentCSV | awk '{{print $2}}')
kubectl delete subscription.operators.coreos.com {name} -n {space}
kubectl delete clusterserviceversion $csv -n {space}"
    );
    shows(case, &delete, &["deleted"]).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&case.named("Deployment", packages::DEPLOYMENT)).await;
    let left = "kubectl get job,configmap -n NAMESPACE -o name --ignore-not-found | grep -v kube-root-ca || true";
    let left = case.types(&left.replace("NAMESPACE", GLOBAL)).await;
    assert!(left.is_empty(), "{left:?}");
    assert!(case.find(&packages::definition(name)).await.is_some(), "CustomResourceDefinitions stay");

    case.types(&applied(&case.subscription(&json!({"channel": "fast", "installPlanApproval": "Automatic"})))).await;
    case.until_succeeded("1.1.0").await;
}
