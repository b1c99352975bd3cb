//! Pins that the status of a BundleDeployment remembers: what is signed is the image, and not what a status says of it.

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{self, image};
use serde_json::json;

use crate::trust::scene::{Case, PATIENCE, Scene, message};

async fn until(case: &Case, target: &Target, expected: Expected<'_>) -> DynamicObject {
    let found = verbs::await_condition(&case.client, target, expected, PATIENCE).await;
    found.unwrap_or_else(|error| panic!("{error:#}"))
}

/// The name of the deployment's Bundle, once it is installed.
async fn bundle_of(case: &Case) -> String {
    let target = Target::bundle_deployment(&case.name);
    let installed = until(case, &target, Expected::is_true("Installed", "InstallationSucceeded")).await;
    installed.data["status"]["activeBundle"].as_str().expect("a Bundle").to_owned()
}

#[tokio::test]
async fn the_signature_of_an_image_does_not_count_for_content_that_a_status_names_beside_it() {
    let scene = Scene::alone().await;
    // Content that is in the store, and nobody has signed.
    let other = Case::in_scene(scene, "unsigned").await;
    other.rule(json!({"action": "Accept"})).await;
    other.create().await;
    let unsigned = other.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let unsigned = unsigned.data["status"]["pin"]["contentDigest"].clone();

    let (case, _key) = Case::signed_in(scene, "forged").await;
    verbs::create(&case.client, &world::deployment(&case.name, image(&case.pushed.reference))).await.unwrap();
    let bundle = bundle_of(&case).await;

    // While the controller runs it writes the history anew, from a Bundle that is still there.
    scene.world.controller.terminate().await.expect("the controller obeys");
    let api = Target::bundle_deployment(&case.name).api(&case.client).await.unwrap();
    let mut history = api.get(&case.name).await.unwrap().data["status"]["history"].clone();
    history[0]["pin"]["contentDigest"] = unsigned;
    let forged = Patch::Merge(json!({"status": {"history": history}}));
    api.patch_status(&case.name, &PatchParams::default(), &forged).await.unwrap();
    verbs::delete(&case.client, &Target::bundle(&bundle)).await.unwrap();
    scene.world.controller.restart().await.expect("the controller starts");

    let target = Target::bundle(&bundle);
    let refused = until(&case, &target, Expected::is_false("Unpacked", "UnpackFailed")).await;
    assert!(message(&refused, "Unpacked").contains("now holds other content"), "{}", refused.data);
    assert!(refused.data["status"]["pin"].is_null(), "{}", refused.data);
}

#[tokio::test]
async fn a_bundle_that_comes_back_has_the_content_that_was_signed() {
    let (case, _key) = Case::signed("returns").await;
    verbs::create(&case.client, &world::deployment(&case.name, image(&case.pushed.reference))).await.unwrap();
    let bundle = bundle_of(&case).await;
    let target = Target::bundle(&bundle);
    let before = verbs::get(&case.client, &target).await.unwrap().expect("it is there");
    verbs::delete(&case.client, &target).await.unwrap();

    let is_new = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            object.metadata.uid != before.metadata.uid && object.data["status"]["phase"] == "Unpacked"
        })
    };
    let found = verbs::await_object(&case.client, &target, "unpacked again", PATIENCE, is_new).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there");
    assert_eq!(found.data["status"]["pin"], before.data["status"]["pin"]);
}
