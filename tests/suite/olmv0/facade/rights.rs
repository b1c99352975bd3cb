//! Whose rights install: those of the account that the OperatorGroup names. A tenant who may write Subscriptions gains nothing beyond it.

use kube::Client;
use rukpak_tests::verbs::{self, Target, unique_name};
use serde_json::{Value, json};

use super::case::{Case, text};
use super::world::GLOBAL;
use crate::platform::packages;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Binds these ClusterRoles to a new user in the namespace, who may then do what `awaited` says.
async fn bound(case: &Case, roles: &[&str], awaited: &Value) -> (String, Client) {
    let user = unique_name("tenant");
    for role in roles {
        case.create(&binding(case, &user, role)).await;
    }
    verbs::await_rules(&case.client, &user, Some(&case.space), awaited).await.expect("the rights come");
    let client = case.world.plane.impersonating(&user, &[]).await.expect("the admin kubeconfig is good");
    (user, client)
}

/// Binds a ClusterRole to a user in the namespace.
fn binding(case: &Case, user: &str, role: &str) -> Value {
    json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": format!("{user}-{role}"), "namespace": case.space},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}]})
}

/// A tenant with `admin` and `subscription-editor-role` in the namespace, and nothing else.
async fn tenant(case: &Case) -> Client {
    let rules = json!([{"apiGroups": ["operators.coreos.com"], "resources": ["subscriptions"], "verbs": ["create"]}]);
    bound(case, &["admin", "subscription-editor-role"], &rules).await.1
}

async fn refuses(client: &Client, object: &Value) {
    let error = verbs::create(client, object).await.expect_err("it is refused");
    assert!(format!("{error:#}").contains("forbidden"), "{error:#}");
}

/// Binds a ClusterRole with these rules to the account, everywhere.
pub async fn grants(case: &Case, account: &str, rules: &Value) {
    let metadata = json!({"name": unique_name("installer")});
    let role = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": case.space}]});
    case.create(&role).await;
    case.create(&binding).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_of_a_tenant_does_what_the_account_may_and_no_more() {
    let case = Case::new("sa-bound").await;
    let image = case.catalog(&["1.0.0"]).await;
    case.applies(&[case.source(&image), case.group("group", &json!({"serviceAccountName": "installer"}))]).await;
    let tenant = tenant(&case).await;
    verbs::create(&tenant, &case.subscription(&json!({}))).await.expect("the tenant may");

    // The account is not there.
    let said = |plan: &kube::api::DynamicObject, what: &str| text(plan, "/status/message").contains(what);
    let plan = case.until_planned("1.0.0", "Installing").await;
    let target = case.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    case.until_object(&target, "the account is missing", |plan| said(plan, "installer")).await;
    assert_eq!(text(&case.get(&target).await, "/status/attenuatedServiceAccountRef/name"), "installer");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": case.space}});
    case.create(&account).await;
    // And may do nothing.
    case.until_object(&target, "rights are missing", |plan| said(plan, "customresourcedefinitions")).await;
    case.until_phase("1.0.0", "Pending", "RequirementsNotMet").await;
    assert!(case.find(&packages::definition(&case.package)).await.is_none());
    assert!(case.find(&case.settings()).await.is_none());

    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    grants(&case, "installer", &everything).await;
    case.until_planned("1.0.0", "Complete").await;
    case.until_succeeded("1.0.0").await;
    let deployment = case.get(&case.target()).await;
    let account = json!({"name": "installer", "namespace": case.space});
    assert_eq!(deployment.data["spec"]["serviceAccount"], account);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_decides_neither_the_account_nor_the_catalog_nor_approves() {
    let case = Case::new("sa-tenant").await;
    let image = case.catalog(&["1.0.0"]).await;
    let group = case.group("group", &json!({"serviceAccountName": "installer"}));
    case.applies(&[case.source(&image), group]).await;
    let tenant = tenant(&case).await;
    refuses(&tenant, &case.group("mine", &json!({}))).await;
    let mut source = case.source(&image);
    source["metadata"]["namespace"] = json!(case.space);
    refuses(&tenant, &source).await;
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-forged", "namespace": case.space},
        "spec": {"clusterServiceVersionNames": ["x"], "approval": "Automatic", "approved": true}});
    refuses(&tenant, &plan).await;
    let deployment = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": case.name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec":
            {"provisionerClassName": "core-rukpak-io-registry", "source": {"type": "image", "image": {"ref": "x"}}}}}});
    refuses(&tenant, &deployment).await;

    // What it asks of a catalog of another namespace is found nowhere.
    let elsewhere = Case::new("sa-else").await;
    let mut hidden = elsewhere.source(&image);
    hidden["metadata"]["namespace"] = json!(elsewhere.space);
    case.create(&hidden).await;
    let reach =
        json!({"source": elsewhere.package, "sourceNamespace": elsewhere.space, "installPlanApproval": "Manual"});
    verbs::create(&tenant, &case.subscription(&reach)).await.expect("the tenant may");
    let refused = case.until_said("ResolutionFailed", "ConstraintsNotSatisfiable").await;
    let message = verbs::condition(&refused, "ResolutionFailed").cloned().unwrap_or_default();
    let text = format!("no operators found from catalog {} in namespace {}", elsewhere.package, elsewhere.space);
    assert!(message["message"].as_str().is_some_and(|message| message.contains(&text)), "{message}");
    assert!(case.find(&case.target()).await.is_none());

    // A plan that waits is approved by others.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": case.space}});
    case.create(&account).await;
    grants(&case, "installer", &json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])).await;
    let own = json!({"source": case.package, "sourceNamespace": GLOBAL});
    verbs::merge(&tenant, &case.subscribed(), &json!({ "spec": own })).await.expect("the tenant may");
    case.until_object(&case.target(), "a BundleDeployment", |_| true).await;
    let asks =
        verbs::merge_expecting_denial(&tenant, &case.target(), &json!({"spec": {"approval": "Automatic"}})).await;
    assert!(asks.expect("it is refused").message.contains("forbidden"));
    let plan = case.until_planned("1.0.0", "RequiresApproval").await;
    let plan = case.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    let yes = verbs::merge_expecting_denial(&tenant, &plan, &json!({"spec": {"approved": true}})).await;
    assert!(yes.expect("it is refused").message.contains("forbidden"));
    let account = Target::namespaced("operators.coreos.com/v1", "OperatorGroup", &case.space, "group");
    let freed = verbs::merge_expecting_denial(&tenant, &account, &json!({"spec": {"serviceAccountName": ""}})).await;
    assert!(freed.expect("it is refused").message.contains("forbidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_view_a_namespace_reads_all_kinds_and_writes_none() {
    let case = Case::new("sa-view").await;
    let kinds = ["catalogsources", "clusterserviceversions", "installplans", "operatorgroups", "subscriptions"];
    let rules = json!([{"apiGroups": ["operators.coreos.com"], "resources": kinds, "verbs": ["get", "list", "watch"]}]);
    let (_, viewer) = bound(&case, &["view"], &rules).await;
    refuses(&viewer, &case.subscription(&json!({}))).await;
}

/// What is not theirs, nobody gives to themselves.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_admin_of_a_namespace_and_no_more_neither_subscribes_nor_lets_themselves() {
    let case = Case::new("sa-admin").await;
    let rules = json!([{"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create"]}]);
    let (user, admin) = bound(&case, &["admin"], &rules).await;
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-forged", "namespace": case.space},
        "spec": {"clusterServiceVersionNames": ["x"], "approval": "Manual", "approved": true}});
    for object in [case.subscription(&json!({})), case.group("mine", &json!({})), plan] {
        refuses(&admin, &object).await;
    }
    for role in ["subscription-editor-role", "installplan-approver-role", "operatorgroup-editor-role"] {
        refuses(&admin, &binding(&case, &user, role)).await;
    }
}
