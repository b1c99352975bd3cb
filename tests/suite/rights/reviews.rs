//! What the webhook reads and writes to answer a review, verb by verb.

use kube::Client;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, WEBHOOK_ACCOUNT};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{deployment, image};
use serde_json::{Value, json};

use super::webhook::{RBAC, cluster_rule, lacks, rule};
use super::{Access, INTERVAL, PATIENCE, Turn, may};

#[tokio::test]
async fn it_gets_the_config_maps_of_bundles() {
    let turn = Turn::take().await;
    let name = unique_name("rights");
    let source = json!({"type": "configMaps", "configMaps": [{"configMap": {"name": name}, "path": "manifests"}]});
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
                        "spec": {"provisionerClassName": "nobody", "source": source}});
    let access = Access::to("get", "", "configmaps").within(SYSTEM_NAMESPACE);
    lacks(&turn, &rule("rukpak-webhooks", 0), access, async {
        let denial = verbs::create_expecting_denial(&turn.client, &bundle).await.unwrap();
        assert_eq!(denial.code, 500, "{denial:?}");
        let text = format!("cannot get configmap \"{name}\": configmaps \"{name}\" is forbidden: ");
        assert!(denial.message.contains(&text), "{denial:?}");
    })
    .await;
    verbs::create(&turn.client, &bundle).await.unwrap();
}

fn version(required: &Value) -> Value {
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": required});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!([{"name": "v1", "served": true, "storage": true, "schema": schema}])
}

/// A CRD of a BundleDeployment, in the cluster.
async fn crd(client: &Client) -> Target {
    let group = format!("{}.example.test", unique_name("rights"));
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "somebody"});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}"), "labels": labels},
        "spec": {"group": group, "names": {"plural": "things", "kind": "Thing"}, "scope": "Namespaced",
                 "versions": version(&json!(["size"]))},
    });
    verbs::create(client, &crd).await.unwrap_or_else(|error| panic!("{error:#}"));
    Target::of(&crd).expect("it has a name")
}

#[tokio::test]
async fn it_gets_crds() {
    let turn = Turn::take().await;
    let target = crd(&turn.client).await;
    let change = json!({"spec": {"versions": version(&Value::Null)}});
    let access = Access::to("get", "apiextensions.k8s.io", "customresourcedefinitions");
    lacks(&turn, &cluster_rule(1), access, async {
        let denial = verbs::merge_expecting_denial(&turn.client, &target, &change).await.unwrap();
        assert_eq!(denial.code, 500, "{denial:?}");
        assert!(denial.message.contains("cannot get customresourcedefinition"), "{denial:?}");
    })
    .await;
    verbs::merge(&turn.client, &target, &change).await.unwrap();
}

#[tokio::test]
async fn it_asks_what_users_may() {
    let turn = Turn::take().await;
    let name = unique_name("rights");
    let mut new = deployment(&name, image("registry.example.com/none:1"));
    new["spec"]["serviceAccount"] = json!({"name": "installer", "namespace": "default"});
    let access = Access::to("create", "authorization.k8s.io", "subjectaccessreviews");
    lacks(&turn, &cluster_rule(3), access, async {
        let denial = verbs::create_expecting_denial(&turn.client, &new).await.unwrap();
        assert_eq!(denial.code, 500, "{denial:?}");
        assert!(denial.message.contains("may do: subjectaccessreviews"), "{denial:?}");
    })
    .await;
    verbs::create(&turn.client, &new).await.unwrap();
    verbs::delete(&turn.client, &Target::bundle_deployment(&name)).await.unwrap();
}

#[tokio::test]
async fn it_lists_bundles() {
    let turn = Turn::take().await;
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": unique_name("rights"), "namespace": SYSTEM_NAMESPACE}});
    lacks(&turn, &cluster_rule(0), Access::to("list", "core.rukpak.io", "bundles"), async {
        let denial = verbs::create_expecting_denial(&turn.client, &config_map).await.unwrap();
        assert_eq!(denial.code, 500, "{denial:?}");
        assert!(denial.message.contains("cannot list bundles: bundles.core.rukpak.io is forbidden: "), "{denial:?}");
    })
    .await;
    verbs::create(&turn.client, &config_map).await.unwrap();
}

/// The controller keeps the rules: list of each kind that a CRD of a BundleDeployment defines, as long as it does.
#[tokio::test]
async fn it_lists_what_crds_of_deployments_define() {
    let turn = Turn::take().await;
    let client = turn.world.plane.as_account(WEBHOOK_ACCOUNT).await.unwrap();
    let target = crd(&turn.client).await;
    let group = target.name.strip_prefix("things.").unwrap();
    let until = async |allowed: bool| {
        let end = tokio::time::Instant::now() + PATIENCE;
        while may(&client, Access::to("list", group, "things")).await != allowed {
            assert!(tokio::time::Instant::now() < end, "{group}: it is still {}", !allowed);
            tokio::time::sleep(INTERVAL).await;
        }
    };
    until(true).await;
    for access in [
        Access::to("get", group, "things"),
        Access::to("watch", group, "things"),
        Access::to("list", group, "others"),
        Access::to("list", "", "secrets"),
        Access::to("list", "", "configmaps"),
        Access::to("list", "", "pods"),
    ] {
        assert!(!may(&client, access).await, "{access:?}");
    }
    let role = Target::cluster(RBAC, "ClusterRole", "rukpak-webhook-objects");
    verbs::merge(&turn.client, &role, &json!({"rules": []})).await.unwrap();
    until(true).await;
    let free = json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}});
    verbs::merge(&turn.client, &target, &free).await.unwrap();
    until(false).await;
}

#[tokio::test]
async fn it_gets_the_owners_of_crds() {
    let turn = Turn::take().await;
    let target = crd(&turn.client).await;
    let change = json!({"spec": {"versions": version(&Value::Null)}});
    let access = Access::to("get", "core.rukpak.io", "bundledeployments");
    lacks(&turn, &cluster_rule(2), access, async {
        let denial = verbs::merge_expecting_denial(&turn.client, &target, &change).await.unwrap();
        assert_eq!(denial.code, 500, "{denial:?}");
        let text =
            "cannot get bundledeployment \"somebody\": bundledeployments.core.rukpak.io \"somebody\" is forbidden: ";
        assert!(denial.message.contains(text), "{denial:?}");
    })
    .await;
    verbs::merge(&turn.client, &target, &change).await.unwrap();
}

#[tokio::test]
async fn it_creates_events() {
    let turn = Turn::take().await;
    let target = Target::bundle(&unique_name("rights"));
    let source = image("registry.example.com/none:1");
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": target.name},
                        "spec": {"provisionerClassName": "nobody", "source": source}});
    verbs::create(&turn.client, &bundle).await.unwrap();
    let change = json!({"spec": {"source": {"image": {"ref": "registry.example.com/other:1"}}}});
    lacks(&turn, &cluster_rule(5), Access::to("create", "events.k8s.io", "events"), async {
        let said = turn.world.webhook.log().len();
        let denial = verbs::merge_expecting_denial(&turn.client, &target, &change).await.unwrap();
        assert_eq!(denial.code, 403, "the answer is the same: {denial:?}");
        turn.world.webhook.until_logged(said, "cannot write an Event").await.unwrap();
    })
    .await;
}
