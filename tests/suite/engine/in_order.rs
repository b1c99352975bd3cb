//! `deletionPolicy: InOrder`: a deployment that is deleted takes its objects along in the reverse order of applying.

use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment, image, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::deletion_policy::install_with;
use crate::engine::worlds;

const FINALIZER: &str = "core.rukpak.io/deletion-in-order";

async fn until_deleting(case: &Case<'_>, text: &str) {
    let says = |object: &DynamicObject| {
        verbs::condition(object, "Deleting").is_some_and(|found| found["message"].to_string().contains(text))
    };
    case.until(&case.target(), text, |object| object.is_some_and(says)).await;
}

fn is_untouched(object: Option<&DynamicObject>) -> bool {
    object.is_some_and(|object| object.metadata.deletion_timestamp.is_none())
}

fn has_finalizer(object: &DynamicObject) -> bool {
    object.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// A finalizer is the operator's: without it nobody takes it off.
#[tokio::test]
async fn an_operator_stays_until_its_resources_are_gone_when_the_deployment_is_deleted() {
    let alone = worlds::alone().await;
    let case = alone.case("in-order").await;
    let (crd, group) = definition("in-order");
    let object = gadget(&group, &case.namespace, "held", 1);
    let (held, operator) = (Target::of(&object).unwrap(), case.in_namespace("apps/v1", "Deployment", "operator"));
    let a = case.config_map_target("a");
    install_with(&case, "InOrder", &[crd, object, case.workload("operator", 0), case.config_map("a", json!({}))]).await;
    assert!(has_finalizer(&case.ready().await));
    case.edit("operator", &held, json!({"metadata": {"finalizers": ["engine.test/held"]}})).await;

    case.delete(&case.target()).await;

    until_deleting(&case, "waits for its finalizers: engine.test/held").await;
    alone.stop().await;
    alone.start().await;
    for target in [&operator, &a, &definition_target(&group)] {
        assert!(is_untouched(case.get(target).await.as_ref()), "{target}");
    }

    case.edit("operator", &held, json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&case.target()).await;
    for target in [&operator, &a, &definition_target(&group)] {
        assert!(!is_untouched(case.get(target).await.as_ref()), "{target}");
    }
}

/// Who waits for `Ready`, and deletes it then, relies on the finalizer.
#[tokio::test]
async fn a_suspended_deployment_is_not_ready_before_it_can_be_deleted_in_order() {
    let alone = worlds::alone().await;
    let case = alone.case("in-order-suspended").await;
    let target = case.target();
    let edit = |spec: Value| case.edit("user", &target, json!({ "spec": spec }));
    case.install(&[case.config_map("a", json!({}))]).await;
    edit(json!({"suspend": true})).await;
    until(&case.client, &case.name, Expected::is_true("Suspended", "Suspended")).await;

    alone.stop().await;
    edit(json!({"deletionPolicy": "InOrder"})).await;
    alone.start().await;
    let expected = Expected::is_false("Ready", "Suspended").saying("spec.deletionPolicy");
    until(&case.client, &case.name, expected).await;

    edit(json!({"suspend": false})).await;
    assert!(has_finalizer(&case.ready().await));
}

/// The provider would be gone before those who need it.
#[tokio::test]
async fn a_deployment_waits_until_those_that_depend_on_it_are_gone() {
    let first = Case::new("in-order-provider").await;
    let second = first.sibling();
    install_with(&first, "InOrder", &[first.config_map("provider", json!({}))]).await;
    let provider = first.config_map_target("provider");
    let reference = second.push("v1", &[second.config_map("user", json!({}))]).await;
    let mut object = deployment(&second.name, image(&reference));
    object["spec"]["dependsOn"] = json!([{"name": first.name}]);
    verbs::create(&second.client, &object).await.expect("the API server agrees");
    second.installed().await;

    first.delete(&first.target()).await;
    until_deleting(&first, &format!("that depend on it are gone: {}", second.name)).await;
    assert!(is_untouched(first.get(&provider).await.as_ref()));

    second.delete(&second.target()).await;
    first.until_gone(&first.target()).await;
    first.until_gone(&provider).await;
}

/// What has to be finalized is not left without those who do that. And there is a way out.
#[tokio::test]
async fn an_operator_stays_as_long_as_others_have_instances_of_its_kinds() {
    let case = Case::new("in-order-instances").await;
    let (crd, group) = definition("in-order");
    let operator = case.in_namespace("apps/v1", "Deployment", "operator");
    install_with(&case, "InOrder", &[crd, case.workload("operator", 0)]).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let users = gadget(&group, &case.namespace, "users", 1);
    case.foreign(&users).await;

    case.delete(&case.target()).await;
    until_deleting(&case, "it has instances").await;
    assert!(is_untouched(case.get(&operator).await.as_ref()));

    case.edit("user", &case.target(), json!({"spec": {"deletionPolicy": "Delete"}})).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&operator).await;
}

#[tokio::test]
async fn the_finalizer_is_there_as_long_as_the_policy_asks_for_it_and_orphans_nothing_that_is_kept() {
    let case = Case::new("in-order-orphan").await;
    let a = case.config_map_target("a");
    case.install(&[case.config_map("a", json!({}))]).await;
    let policy = |name: Value| json!({"spec": {"deletionPolicy": name}});
    for (name, is_there) in [(json!("InOrder"), true), (Value::Null, false), (json!("InOrder"), true)] {
        case.edit("user", &case.target(), policy(name)).await;
        let wanted = |object: &DynamicObject| has_finalizer(object) == is_there;
        case.until(&case.target(), "its finalizer", |object| object.is_some_and(wanted)).await;
        case.ready().await;
    }
    let uid = case.uid().await;
    let api = case.target().api(&case.client).await.unwrap();
    let params =
        DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..DeleteParams::default() };
    api.delete(&case.name, &params).await.unwrap();
    case.until_gone(&case.target()).await;
    let left = case.get(&a).await.expect("it was to stay");
    assert!(left.metadata.deletion_timestamp.is_none() && !is_owned(&left, &case.name, &uid));
}
