//! What operator-controller's end-to-end tests ask for besides: a mirror, a very large definition, one namespace, what users change.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::Target;
use serde_json::json;

use super::case::{Case, installed};
use super::world::World;
use crate::platform::packages::{ALL, DEPLOYMENT, bundle, with_deployment};

/// The host that nobody serves.
const MIRRORED: &str = "registry.example";
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

#[tokio::test]
async fn a_bundle_is_pulled_from_the_mirror_of_its_registry() {
    let world = World::new().await;
    let file = world.plane.folder().join("registries.conf");
    let mirror = world.registry.host();
    let text = format!("[[registry]]\nprefix = \"{MIRRORED}\"\n[[registry.mirror]]\nlocation = \"{mirror}\"\n");
    std::fs::write(&file, text).expect("a file");
    world.controller.set_further_flags(&[&format!("--registries-conf={}", file.display())]).expect("it can be set");
    world.controller.restart().await.expect("it starts again");
    world.controller.wait_ready().await.expect("it is ready");

    let case = Case::within(&world, "mirrored").await;
    let image = case.push("1.0.0", bundle(&case.name, "1.0.0", ALL)).await.replace(mirror, MIRRORED);
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
    case.extend(json!({}), json!({})).await;
    let object = case.until_version("1.0.0").await;
    assert!(installed().saying(&image).met_by(&object), "the mirror is nowhere named: {:#}", object.data);
}

#[tokio::test]
async fn a_bundle_with_a_very_large_definition_is_installed() {
    let case = Case::new("large").await;
    let description = (0..130_000).map(|number: u32| number.to_string()).collect::<Vec<_>>().join(" ");
    let mut files = bundle(&case.name, "1.0.0", ALL);
    for (_, text) in files.iter_mut().filter(|(path, _)| path.ends_with("pumps.yaml")) {
        let (short, schema) =
            ("{\"type\":\"object\"", json!({"description": description, "type": "object"}).to_string());
        *text = text.replace(short, schema.trim_end_matches('}'));
    }
    let image = case.push("1.0.0", files).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
    case.extend(json!({}), json!({})).await;
    case.until_version("1.0.0").await;
    let definition = case.get(&case.definition()).await;
    let schema = &definition.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["description"], json!(description));
}

#[tokio::test]
async fn an_operator_of_one_namespace_watches_the_one_that_it_is_told() {
    let case = Case::new("single").await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    let watched = format!("{}-watched", case.name);
    case.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": watched}})).await;
    let files = with_deployment(bundle(&case.name, "1.0.0", "SingleNamespace"));
    let image = case.push("1.0.0", files).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
    let config = json!({"config": {"configType": "Inline", "inline": {"watchNamespace": watched}}});
    case.extend(json!({}), config).await;
    case.until_version("1.0.0").await;
    let made = case.get(&Target::namespaced("apps/v1", "Deployment", &case.space(), DEPLOYMENT)).await;
    assert_eq!(made.data["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"], json!(watched));
}

/// `kubectl rollout restart`, labels and annotations.
#[tokio::test]
async fn what_users_add_to_an_operator_stays() {
    let case = Case::new("restarted").await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    let image = case.push("1.0.0", with_deployment(bundle(&case.name, "1.0.0", ALL))).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
    case.extend(json!({}), json!({})).await;
    case.until_version("1.0.0").await;

    let deployment = Target::namespaced("apps/v1", "Deployment", &case.space(), DEPLOYMENT);
    let restart = json!({"metadata": {"annotations": {RESTARTED: "2026-11-27T12:00:00Z"}}});
    let metadata = json!({"labels": {"team": "blue"}, "annotations": {"note": "hi"}});
    case.merge_into(&deployment, &json!({"metadata": metadata, "spec": {"template": restart}})).await;
    // Proof that the controller has looked since: what goes comes back.
    case.delete(&case.settings()).await;
    let is_back = |object: &DynamicObject| object.data["data"]["version"] == "1.0.0";
    case.until_object(&case.settings(), "it comes back", is_back).await;

    let live = case.get(&deployment).await;
    let annotations = &live.data["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations[RESTARTED], "2026-11-27T12:00:00Z");
    assert_eq!(live.metadata.labels.unwrap_or_default()["team"], "blue");
    assert_eq!(live.metadata.annotations.unwrap_or_default()["note"], "hi");
}
