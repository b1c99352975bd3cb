//! Roles by which whoever works in a namespace may use what an operator brings.

use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use serde_json::json;

use super::case::Case;
use super::rights::grants;
use crate::platform::packages;

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Names a role for the users of the package's kind.
fn role(case: &Case, suffix: &str) -> Target {
    let name = format!("{}-v1-{suffix}", packages::definition(&case.package).name);
    Target::cluster(RBAC, "ClusterRole", &name)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_edits_a_namespace_may_use_an_operator_there_unless_its_roles_are_left_out() {
    let case = Case::new("roles").await;
    let user = unique_name("editor");
    let binding = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": user, "namespace": case.space},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}]});
    case.create(&binding).await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let rule =
        |verb: &str| json!({"apiGroups": [packages::group(&case.package)], "resources": ["pumps"], "verbs": [verb]});
    let rules = json!([rule("create"), rule("get")]);
    verbs::await_rules(&case.client, &user, Some(&case.space), &rules).await.expect("they come by aggregation");

    case.applies(&[case.subscription(&json!({"config": {"apiRoles": false}}))]).await;
    for suffix in ["admin", "edit", "view", "crdview"] {
        case.until_gone(&role(&case, suffix)).await;
    }
    case.until_succeeded("1.0.0").await;
}

/// It installs as it did before there were such roles, and makes nobody stronger than itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_may_not_use_the_apis_installs_without_roles_and_names_what_they_take() {
    let case = Case::new("roles-bound").await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": case.space}});
    case.create(&account).await;
    let ours = ["", "apps", GROUP, "apiextensions.k8s.io", "operators.coreos.com", "core.rukpak.io"];
    let group = packages::group(&case.package);
    let rules = json!([
        {"apiGroups": ours, "resources": ["*"], "verbs": ["get", "create", "update", "patch", "delete"]},
        {"apiGroups": [group], "resources": ["pumps"], "verbs": ["get"]},
    ]);
    grants(&case, "installer", &rules).await;
    let image = case.catalog(&["1.0.0"]).await;
    let operators = case.group("group", &json!({"serviceAccountName": "installer"}));
    case.applies(&[case.source(&image), operators, case.subscription(&json!({}))]).await;
    case.until_succeeded("1.0.0").await;
    assert!(case.find(&role(&case, "admin")).await.is_none(), "the account may not use the APIs");

    case.applies(&[case.subscription(&json!({"config": {"apiRoles": true}}))]).await;
    let missing = Expected { kind: "Ready", status: "False", reason: Some("MissingRights"), message: &group };
    case.until(missing).await;
    assert!(case.find(&role(&case, "admin")).await.is_none(), "nobody gets more than the account has");
    grants(&case, "installer", &json!([{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}])).await;
    let is_made = |object: &kube::api::DynamicObject| object.data["rules"][0]["verbs"] == json!(["*"]);
    case.until_object(&role(&case, "admin"), "the role", is_made).await;
}
