//! What a Bundle's status says, and when: for people, for kubectl wait, for kstatus.

use kube::api::DynamicObject;
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::image;

use crate::bundles::hands::{PATIENCE, Scene, good, message};

/// What an unpacked Bundle says where there is no ContentPolicy.
const UNPACKED: [&str; 3] = ["Unpacked=True/UnpackSuccessful", "Ready=True/Succeeded", "Verified=Unknown/NotRequired"];

/// The conditions as `Type=Status/Reason`, after a check of what all have in common.
fn shown(object: &DynamicObject) -> Vec<String> {
    let status = &object.data["status"];
    let generation = object.metadata.generation.expect("the API server wrote it");
    assert_eq!(status["observedGeneration"], generation, "{status}");
    let conditions = status["conditions"].as_array().expect("the API server wrote it");
    let one = |condition: &serde_json::Value| {
        assert_eq!(condition["observedGeneration"], generation, "{condition}");
        assert!(condition["lastTransitionTime"].is_string(), "{condition}");
        let text = |field: &str| condition[field].as_str().expect("the API server wrote it").to_owned();
        assert!(!text("message").is_empty(), "{condition}");
        format!("{}={}/{}", text("type"), text("status"), text("reason"))
    };
    conditions.iter().map(one).collect()
}

#[tokio::test]
async fn an_unpacked_bundle_is_ready() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("ready");
    hands.bundle(&name, image(&scene.world.push(&name, &good(&name)).await)).await;
    let bundle = hands.condition(&name, Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(shown(&bundle), UNPACKED);
    assert_eq!(bundle.data["status"]["phase"], "Unpacked");
}

#[tokio::test]
async fn work_is_said_while_it_is_done() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let server = scene.faulty_registry();
    let name = unique_name("working");
    scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
    server.add(Rule::on("/blobs/", Fault::Slow(16, std::time::Duration::from_millis(200))));
    // Whoever watches before the Bundle is there sees all that is said of it, however soon it is over.
    let (target, watched) = (Target::bundle(&name), tokio::sync::Notify::new());
    let is_working = |object: Option<&DynamicObject>| {
        watched.notify_one();
        object.is_some_and(|object| Expected::is_false("Unpacked", "Unpacking").met_by(object))
    };
    let seen = verbs::await_object(&hands.client, &target, "Unpacking", PATIENCE, is_working);
    let (seen, ()) = tokio::join!(seen, async {
        watched.notified().await;
        hands.bundle(&name, image(&format!("{}/{name}:v1", server.host()))).await;
    });
    let bundle = seen.unwrap_or_else(|error| panic!("{error:#}")).expect("it was there");
    assert_eq!(shown(&bundle), ["Unpacked=False/Unpacking", "Ready=False/Progressing", "Reconciling=True/Progressing"]);
    assert_eq!(bundle.data["status"]["phase"], "Unpacking");
    assert_eq!(message(&bundle, "Unpacked"), "Fetching and unpacking the image Bundle");
    // Slow is not wrong.
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn what_is_waited_for_is_reconciling() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("waiting");
    hands.bundle(&name, image(&format!("{}/{name}:v1", scene.world.registry.host()))).await;
    hands.pending(&name, "Back-off pulling image").await;
    let bundle = hands.get(&name).await;
    let expected =
        ["Unpacked=False/UnpackPending", "Ready=False/UnpackPending", "Reconciling=True/ProgressingWithRetry"];
    assert_eq!(shown(&bundle), expected);
    for condition in ["Ready", "Reconciling"] {
        let text = message(&bundle, condition);
        assert!(text.contains("the registry answered 404 Not Found: manifest unknown"), "{text}");
    }
    // The attempts that follow say the same: nothing is written, and nothing flickers.
    let same = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.resource_version == bundle.metadata.resource_version)
    };
    let period = std::time::Duration::from_secs(5);
    verbs::holds_for(&hands.client, &Target::bundle(&name), "silence", period, same).await.unwrap();
    scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
    let bundle = hands.unpacked(&name).await;
    assert_eq!(shown(&bundle), UNPACKED);
}

#[tokio::test]
async fn what_somebody_must_mend_is_stalled() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("stalled");
    let reference = scene.world.push(&name, &rukpak_tests::fixtures::empty_image()).await;
    hands.bundle(&name, image(&reference)).await;
    hands.failing(&name, "file does not exist").await;
    let bundle = hands.get(&name).await;
    let expected = [
        "Unpacked=False/UnpackFailed",
        "Ready=False/UnpackFailed",
        "Verified=Unknown/NotRequired",
        "Stalled=True/UnpackFailed",
    ];
    assert_eq!(shown(&bundle), expected);
    let before = verbs::condition(&bundle, "Unpacked").unwrap()["lastTransitionTime"].clone();
    assert_eq!(scene.world.push(&name, &good(&name)).await, reference);
    let bundle = hands.unpacked(&name).await;
    assert_eq!(shown(&bundle), UNPACKED);
    assert_ne!(verbs::condition(&bundle, "Unpacked").unwrap()["lastTransitionTime"], before);
}

/// `kubectl wait` watches from the resource version that it read; so does the harness.
#[tokio::test]
async fn conditions_can_be_waited_for() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("wait");
    let reference = scene.world.push(&name, &good(&name)).await;
    let target = Target::bundle(&name);
    hands.bundle(&name, image(&reference)).await;
    for condition in ["Ready", "Unpacked"] {
        let expected = Expected { kind: condition, status: "True", reason: None, message: "" };
        verbs::await_condition(&hands.client, &target, expected, PATIENCE).await.unwrap();
    }
}
