//! What cannot be taken over is refused, with a reason and a way out, and nothing is changed.

use rukpak_tests::olmv0::programs;
use rukpak_tests::verbs::Target;
use serde_json::{Value, json};

use super::case::{Case, Given};
use super::world::World;

async fn refused(case: &Case<'_>, arguments: &[&str], text: &str) {
    let did = case.migrate(&[&["--apply"], arguments].concat()).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    assert!(did.err.contains(text), "{text}: {did:?}");
    assert!(case.find(&case.target()).await.is_none(), "{text}: a BundleDeployment was made");
    let maps = Target::namespaced("v1", "ConfigMap", case.space(), &format!("rukpak-takeover-{}", case.name));
    assert!(case.find(&maps).await.is_none(), "{text}: something was written");
}

#[tokio::test]
async fn what_olm_is_not_done_with_is_refused() {
    let world = World::shared().await;
    let case = Case::new(world, "refused", Given::default()).await;
    let operator = &case.operator;
    let (subscription, csv, plan) = (operator.subscription_target(), operator.csv_target(), operator.plan_target());
    case.say(&subscription, json!({"installedCSV": null})).await;
    refused(&case, &[], "has installed nothing: its installedCSV is empty").await;
    case.say(&subscription, json!({"installedCSV": "nothing.v1"})).await;
    refused(&case, &[], "\"nothing.v1\", which the subscription has installed, is not there").await;
    case.say(&subscription, json!({"installedCSV": operator.csv})).await;
    case.say(&csv, json!({"phase": "Installing", "message": "installing: waiting"})).await;
    refused(&case, &[], "is \"Installing\" and not Succeeded: installing: waiting").await;
    case.say(&csv, json!({"phase": "Succeeded"})).await;
    case.say(&plan, json!({"phase": "Installing"})).await;
    refused(&case, &[], "is in flight (Installing)").await;
    case.say(&plan, json!({"phase": "Complete"})).await;

    case.merge_into(&subscription, &json!({"spec": {"config": {"hostNetwork": true, "fast": 1}}})).await;
    refused(&case, &[], "has settings without counterpart: spec.config.fast, spec.config.hostNetwork").await;
    case.merge_into(&subscription, &json!({"spec": {"config": null}})).await;

    let group = operator.group_target();
    case.say(&group, json!({"namespaces": ["elsewhere"]})).await;
    refused(&case, &[], "OLM is not done with it").await;
    case.say(&group, json!({"namespaces": [""]})).await;
    case.merge_into(&group, &json!({"spec": {"serviceAccountName": "scoped"}})).await;
    refused(&case, &[], "with the rights of ServiceAccount \"scoped\"").await;
    case.merge_into(&group, &json!({"spec": {"serviceAccountName": null}})).await;
    let second = json!({"apiVersion": group.api_version, "kind": group.kind,
        "metadata": {"name": "second", "namespace": case.space()}, "spec": {}});
    case.create(&second).await;
    refused(&case, &[], "has 2 OperatorGroups").await;
    case.delete(&Target::of(&second).expect("it is an object")).await;

    refused(&case, &["--image", &case.images[1]], "is the bundle of").await;
    refused(&case, &["--to", "clusterextension"], "no bundle").await;
    let did = world.migrate(&["subscription/nothing", "-n", case.space()]).await;
    assert!(did.code == Some(1) && did.err.contains("not found in namespace"), "{did:?}");
    let did = case.migrate(&["--back"]).await;
    assert!(did.code == Some(1) && did.err.contains("nothing is known of a take-over"), "{did:?}");
    let did = world.migrate(&["platformoperator/nothing", "--to", "subscription"]).await;
    assert!(did.code == Some(1) && did.err.contains("installed for that very subscription"), "{did:?}");
    case.stays().await;
    case.migrated(&[]).await;
}

#[tokio::test]
async fn what_belongs_to_two_is_refused() {
    let world = World::shared().await;
    let case = Case::new(world, "shared", Given::default()).await;
    let definition = case.of_kind("CustomResourceDefinition").next().expect("it has one").0.name.clone();
    let other = |name: &str, which: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": case.space()},
            "spec": {"displayName": name, "customresourcedefinitions": {which: [{"name": definition}]}}})
    };
    let rival = other("rival.v1", "owned");
    case.create(&rival).await;
    refused(&case, &[], "is owned by clusterserviceversion \"rival.v1\" in namespace").await;
    case.delete(&Target::of(&rival).expect("it is an object")).await;

    // A neighbour that needs the operator is told of.
    case.create(&other("needy.v1", "required")).await;
    let needy = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "needy", "namespace": case.space()}, "spec": {"name": "needy", "source": "a", "sourceNamespace": "b"}});
    case.create(&needy).await;
    case.say(&Target::of(&needy).expect("it is an object"), json!({"installedCSV": "needy.v1"})).await;
    let did = case.migrated(&[]).await;
    assert!(did.err.contains("subscription \"needy\" needs CRD"), "{did:?}");

    // Somebody else's object is not taken.
    let account = case.of_kind("ServiceAccount").next().expect("it has one").0.clone();
    let marks: Vec<String> = case.get(&account).await.metadata.labels.unwrap_or_default().into_keys().collect();
    let none: Value = marks.into_iter().map(|key| (key, Value::Null)).collect::<serde_json::Map<_, _>>().into();
    case.merge_into(&account, &json!({"metadata": {"labels": none, "ownerReferences": null}})).await;
    refused(&case, &[], "cannot be taken over: OLM did not make it").await;
}

/// A world of its own: OLM's programs are there once in a cluster.
#[tokio::test]
async fn nothing_is_done_while_olm_runs() {
    let world = World::new().await;
    let case = Case::new(&world, "running", Given::default()).await;
    for program in programs("olm", 1) {
        case.create(&program).await;
    }
    refused(&case, &[], "OLM runs (deployment/olm-operator, deployment/catalog-operator in namespace \"olm\")").await;
    let did = case.migrated(&[]).await;
    assert!(
        did.err.contains("kubectl -n olm scale --replicas=0 deployment/olm-operator deployment/catalog-operator"),
        "{did:?}"
    );
    for program in programs("olm", 0) {
        let target = Target::of(&program).expect("it is an object");
        case.merge_into(&target, &json!({"spec": {"replicas": 0}})).await;
        case.until_object(&target, "no Pod", |object| object.data["status"]["replicas"].is_null()).await;
    }
    case.migrated(&["--apply"]).await;
    case.is_taken_over().await;
}
