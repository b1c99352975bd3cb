//! What the controller asks of the API server when nothing happens, by its audit log: nothing. And how much when something does.

use std::time::Duration;

use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::Target;
use rukpak_tests::world::{World, WorldOptions};
use serde_json::{Value, json};

use crate::engine::audit::{Request, at_rest, requests, since, writes};
use crate::engine::case::Case;
use crate::engine::costs;
use crate::engine::first::mixed;

/// So long nothing may be asked then.
const IDLE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_audit_log_shows_order_at_first_and_silence_after() {
    let world = World::start_with(WorldOptions { audit: true, ..WorldOptions::default() }).await.unwrap();
    let case = Case::in_world(&world, "quiet").await;
    let other = case.sibling();
    other.create(&[case.config_map("other", json!({"x": "1"}))]).await;
    other.ready().await;
    let objects = mixed(&case);
    // A workload that does not get healthy is looked at again.
    let _kubelet = Kubelet::play(world.admin().await, &format!("{}-in", case.name));
    case.install(&objects).await;
    order(&world, &objects);
    let settled = case.sibling();
    settled
        .create(&[
            case.config_map("a", json!({"x": "1"})),
            case.config_map("b", json!({"x": "1"})),
            case.workload("w", 0),
        ])
        .await;
    settled.ready().await;

    idle(&world).await;
    restart_of_what_is_settled(&world, &settled).await;
    restart_with_drift(&world, &settled, &other).await;
    new_bundle_of_the_same_content(&world, &settled).await;
    costs::of_usual_operations(&world).await;
}

/// Every phase begins when the one before it has been answered.
fn order(world: &World, objects: &[Value]) {
    let phases: [&[&str]; 9] = [
        &["namespaces"],
        &["customresourcedefinitions"],
        &["serviceaccounts", "roles", "rolebindings", "clusterroles", "networkpolicies"],
        &["configmaps", "secrets"],
        &["persistentvolumeclaims"],
        &["services"],
        &["deployments"],
        &["gadgets"],
        &["validatingwebhookconfigurations"],
    ];
    let all = requests(world);
    // The other deployment's ConfigMap was there before: it is not part of this.
    let applied: Vec<&Request> = all
        .iter()
        .filter(|request| matches!(request.code, 200 | 201) && matches!(request.verb.as_str(), "patch" | "create"))
        .filter(|request| request.name != "other")
        // Its own certificates.
        .filter(|request| !request.uri.contains("/namespaces/rukpak-system/"))
        .collect();
    let mut count = 0;
    let mut before: Option<(&str, &str)> = None;
    for phase in phases {
        let of_phase: Vec<&&Request> =
            applied.iter().filter(|request| phase.contains(&request.resource.as_str())).collect();
        assert!(!of_phase.is_empty(), "{phase:?}");
        count += of_phase.iter().map(|request| &request.uri).collect::<std::collections::BTreeSet<_>>().len();
        let first = of_phase.iter().map(|request| request.received.as_str()).min().expect("there is one");
        if let Some((earlier, last)) = before {
            assert!(last <= first, "{phase:?} began at {first}, before {earlier} was answered at {last}");
        }
        before =
            Some((phase[0], of_phase.iter().map(|request| request.answered.as_str()).max().expect("there is one")));
    }
    assert!(count >= objects.len(), "{count} of {}", objects.len());
}

async fn idle(world: &World) {
    // Whatever the Deployments still do, and we write of it, comes to rest.
    at_rest(world).await;
    let before = requests(world).len();
    tokio::time::sleep(IDLE).await; // the very thing that is asked for
    let asked = since(world, before);
    assert!(asked.is_empty(), "{asked:#?}");
}

async fn restart_of_what_is_settled(world: &World, case: &Case<'_>) {
    world.controller.terminate().await.expect("the controller obeys");
    let before = requests(world).len();
    world.controller.restart().await.expect("the controller obeys");
    world.controller.wait_ready().await.expect("the controller obeys");
    at_rest(world).await;
    let written = writes(world, before);
    assert!(written.is_empty(), "{written:#?}");
    // It does watch over it, and repairs with one write. The proof in the status, which has the time of that, follows.
    let proof = case.proof().await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    case.until_noted(&proof).await;
    at_rest(world).await;
    let written = writes(world, before);
    let names: Vec<&str> = written.iter().map(|request| request.name.as_str()).collect();
    assert_eq!(names, ["a", case.name.as_str()], "{written:#?}");
}

async fn restart_with_drift(world: &World, case: &Case<'_>, other: &Case<'_>) {
    world.controller.terminate().await.expect("the controller obeys");
    let before = requests(world).len();
    let untouched =
        case.get(&case.config_map_target("b")).await.expect("the API server agrees").metadata.resource_version;
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    let workload_version = case.get(&workload).await.expect("it is there").metadata.resource_version;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    world.controller.restart().await.expect("the controller obeys");
    world.controller.wait_ready().await.expect("the controller obeys");
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    case.ready().await;
    at_rest(world).await;
    assert_eq!(
        case.get(&case.config_map_target("b")).await.expect("the API server agrees").metadata.resource_version,
        untouched
    );
    assert_eq!(case.get(&workload).await.expect("it is there").metadata.resource_version, workload_version);
    // The record of a release has the name of its deployment, and a hash.
    let is_ours = |name: &str| ["a", "b", "w"].contains(&name) || name.starts_with(&case.name);
    let foreign: Vec<Request> = writes(world, before).into_iter().filter(|request| !is_ours(&request.name)).collect();
    assert!(foreign.is_empty(), "{} is another deployment: {foreign:#?}", other.name);
}

/// A label in the template makes a new Bundle; nothing of what is installed changes.
async fn new_bundle_of_the_same_content(world: &World, case: &Case<'_>) {
    let active = case.status().await["activeBundle"].clone();
    let before = requests(world).len();
    case.edit("user", &case.target(), json!({"spec": {"template": {"metadata": {"labels": {"new": "label"}}}}})).await;
    let is_new = |object: &kube::api::DynamicObject| object.data["status"]["activeBundle"] != active;
    case.until(&case.target(), "the new Bundle", |object| object.is_some_and(is_new)).await;
    case.until_gone(&Target::bundle(active.as_str().expect("it is text"))).await;
    let objects: Vec<Request> = writes(world, before)
        .into_iter()
        .filter(|request| !matches!(request.resource.as_str(), "bundles" | "bundledeployments"))
        .collect();
    assert!(objects.is_empty(), "{objects:#?}");
}
