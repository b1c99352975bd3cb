//! An operator says by its OperatorCondition that it must not be upgraded, and a person says otherwise.

use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, text};
use crate::platform::packages;

const REFUSAL: &str = "the operator is not upgradeable: a migration runs";

fn condition(case: &Case, version: &str) -> Target {
    Target::namespaced("operators.coreos.com/v2", "OperatorCondition", &case.space, &case.csv_name(version))
}

/// What is said of `Upgradeable` in a list of the object.
fn upgradeable(list: &str, status: &str) -> Value {
    let said = json!({"type": "Upgradeable", "status": status, "reason": "Migrating", "message": "a migration runs",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"spec": {list: [said]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_not_upgradeable_stays_until_somebody_overrides_it() {
    let case = Case::new("condition").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let first = condition(&case, "1.0.0");
    let spec = json!({"serviceAccounts": ["pump-manager"], "deployments": [packages::DEPLOYMENT]});
    assert_eq!(case.get(&first).await.data["spec"], spec);
    let deployment = case.get(&case.named("Deployment", packages::DEPLOYMENT)).await;
    let variables = &deployment.data["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*variables, json!([{"name": "OPERATOR_CONDITION_NAME", "value": case.csv_name("1.0.0")}]));

    // As the operator itself.
    let account = format!("system:serviceaccount:{}:pump-manager", case.space);
    let operator = case.world.plane.impersonating(&account, &[]).await.expect("the admin kubeconfig is good");
    verbs::merge(&operator, &first, &upgradeable("conditions", "False")).await.expect("the operator may");
    case.publishes(&["1.0.0", "1.1.0"]).await;
    let pending = case.until_phase("1.1.0", "Pending", "OperatorConditionNotUpgradeable").await;
    let message = text(&pending, "/status/message");
    assert!(message.starts_with("operator is not upgradeable: ") && message.contains(REFUSAL), "{message}");
    case.until_phase("1.0.0", "Replacing", "BeingReplaced").await;
    let held = Expected {
        kind: "Ready",
        status: "Unknown",
        reason: Some("OperatorConditionNotUpgradeable"),
        message: REFUSAL,
    };
    let held = case.until(held).await;
    assert_eq!(verbs::condition(&held, "Installed").map(|installed| &installed["status"]), Some(&json!("True")));
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");

    case.merge_into(&first, &upgradeable("overrides", "True")).await;
    case.until_succeeded("1.1.0").await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.1.0");
    assert_eq!(case.get(&condition(&case, "1.1.0")).await.data["spec"], spec, "the new version has said nothing yet");
    case.until_gone(&first).await;
}
