//! `spec.dependsOn`: one deployment waits for others, without asking again and again.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::{deployment, image, until};
use serde_json::{Value, json};

use crate::deployments::tired::tire;
use crate::engine::case::Case;

/// Creates the deployment with these dependencies; waits for nothing.
async fn create_after(case: &Case<'_>, names: &[&str]) {
    let reference = case.push("v1", &release(case, "1")).await;
    let mut object = deployment(&case.name, image(&reference));
    object["spec"]["dependsOn"] = names.iter().map(|name| json!({"name": name})).collect();
    verbs::create(&case.client, &object).await.expect("the API server agrees");
}

/// One ConfigMap of the deployment's own name.
fn release(case: &Case<'_>, version: &str) -> [Value; 1] {
    [case.config_map(&case.name, json!({"x": version}))]
}

async fn waits_for<'a>(case: &Case<'_>, text: &'a str) -> Expected<'a> {
    let expected = Expected::is_true("Reconciling", "DependencyNotReady").saying(text);
    until(&case.client, &case.name, expected).await;
    expected
}

#[tokio::test]
async fn a_deployment_waits_until_what_it_depends_on_is_ready() {
    let first = Case::new("provider").await;
    let second = first.sibling();
    // Unhealthy until its Pods run, which nobody does here: with no replicas it is well.
    first.create(&[first.workload("w", 1)]).await;
    create_after(&second, &[&first.name]).await;
    let expected = waits_for(&second, &first.name).await;
    assert!(second.get(&second.config_map_target(&second.name)).await.is_none());
    let tired = tire(&second.client, &second.name, expected).await;
    first.change("v2", &[first.workload("w", 0)]).await;
    first.ready().await;
    second.installed().await;
    tired.was_woken();
    let ready = second.ready().await;
    assert!(!Expected::is_true("Reconciling", "DependencyNotReady").met_by(&ready));
}

#[tokio::test]
async fn a_dependency_that_does_not_exist_is_named_and_waited_for() {
    let second = Case::new("missing-dependency").await;
    let first = second.sibling();
    create_after(&second, &[&first.name]).await;
    let expected = waits_for(&second, "does not exist").await;
    waits_for(&second, &first.name).await;
    let tired = tire(&second.client, &second.name, expected).await;
    first.install(&release(&first, "1")).await;
    second.installed().await;
    tired.was_woken();
}

#[tokio::test]
async fn a_cycle_is_named_and_ends_when_one_lets_go() {
    let first = Case::new("cycle").await;
    let (second, third) = (first.sibling(), first.sibling());
    create_after(&first, &[&second.name]).await;
    create_after(&second, &[&third.name]).await;
    create_after(&third, &[&first.name]).await;
    for case in [&first, &second, &third] {
        let told = until(&case.client, &case.name, Expected::is_true("Stalled", "DependencyCycle")).await;
        let message = verbs::condition(&told, "Stalled").unwrap()["message"].as_str().unwrap().to_owned();
        for name in [&first.name, &second.name, &third.name] {
            assert!(message.contains(name.as_str()), "{message}");
        }
        assert!(case.get(&case.config_map_target(&case.name)).await.is_none());
    }
    third.edit("user", &third.target(), json!({"spec": {"dependsOn": null}})).await;
    for case in [&third, &second, &first] {
        let ready = case.ready().await;
        assert!(verbs::condition(&ready, "Stalled").is_none_or(|stalled| stalled["status"] == "False"));
    }
}

#[tokio::test]
async fn a_deployment_that_depends_on_itself_is_a_cycle() {
    let case = Case::new("itself").await;
    create_after(&case, &[&case.name]).await;
    until(&case.client, &case.name, Expected::is_true("Stalled", "DependencyCycle").saying(&case.name)).await;
}

/// An upgrade waits; what is installed is guarded meanwhile, and stays when a dependency goes.
#[tokio::test]
async fn what_is_installed_is_repaired_while_an_upgrade_waits_for_a_dependency() {
    let first = Case::new("guarded-dependency").await;
    let second = first.sibling();
    first.install(&release(&first, "1")).await;
    first.ready().await;
    create_after(&second, &[&first.name]).await;
    second.ready().await;
    first.delete(&first.target()).await;
    first.until_gone(&first.target()).await;
    second.change("v2", &release(&second, "2")).await;
    waits_for(&second, "does not exist").await;
    let target = second.config_map_target(&second.name);
    second.edit("intruder", &target, json!({"data": {"x": "drift"}})).await;
    second.until_value(&target, "/data/x", &json!("1")).await;
    second.delete(&target).await;
    second.until_owned(&target).await;
    let status = second.get(&second.target()).await.unwrap();
    let installed = verbs::condition(&status, "Installed").unwrap();
    assert_eq!(installed["status"], "True", "{:#}", status.data["status"]);
    first.install(&release(&first, "1")).await;
    second.until_value(&target, "/data/x", &json!("2")).await;
}

/// A dependency that falls ill later undoes nothing.
#[tokio::test]
async fn a_dependency_that_falls_ill_later_undoes_nothing() {
    let first = Case::new("ill-dependency").await;
    let second = first.sibling();
    first.install(&[first.workload("w", 0)]).await;
    first.ready().await;
    create_after(&second, &[&first.name]).await;
    second.ready().await;
    first.change("v2", &[first.workload("w", 1)]).await;
    let ill = |object: &DynamicObject| Expected::is_false("Healthy", "Unhealthy").met_by(object);
    first.until(&first.target(), "illness", |object| object.is_some_and(ill)).await;
    let target = second.config_map_target(&second.name);
    assert!(second.get(&target).await.is_some());
    second.edit("intruder", &target, json!({"data": {"x": "drift"}})).await;
    second.until_value(&target, "/data/x", &json!("1")).await;
}

/// What was installed before waits for nobody: what it depends on may be ill because of what is to be undone.
#[tokio::test]
async fn rolls_back_although_dependency_is_ill() {
    let first = Case::new("ill-at-rollback").await;
    let second = first.sibling();
    first.install(&[first.workload("w", 0)]).await;
    first.ready().await;
    create_after(&second, &[&first.name]).await;
    second.ready().await;
    second.pivot("v2", &release(&second, "2")).await;
    first.change("v2", &[first.workload("w", 1)]).await;
    until(&first.client, &first.name, Expected::is_false("Healthy", "Unhealthy")).await;
    second.edit("user", &second.target(), json!({"spec": {"rollbackTo": 1}})).await;
    second.until_value(&second.config_map_target(&second.name), "/data/x", &json!("1")).await;
    second.installed().await;
}
