//! Kinds that are missing, that come later, and that the bundle defines itself.

use rukpak_tests::fixtures;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment, until};

use super::case::{Case, active, installed, message};
use super::tired::tire;

#[tokio::test]
async fn every_missing_kind_is_listed() {
    let case = Case::new("p30").await;
    let source = case.push_image("v1", &fixtures::renamed_image("plain/missing-crds", &case.name).unwrap()).await;
    case.deploy(source).await;
    let failed = case.until(Expected::is_false("Installed", "InstallFailed")).await;
    let text = message(&failed, "Installed");
    assert!(text.starts_with("required resource not found: "), "{text}");
    for kind in ["Turbine", "Valve"] {
        let line = format!("no matches for kind {kind:?} in version \"{}.example.rukpak.io/v1\"", case.name);
        assert!(text.contains(&line), "{text}");
    }
    assert_eq!(active(&failed), None);
    let healthy = Expected::is_false("Healthy", "InstallationStatusFalse").saying("Installed condition is false");
    assert!(healthy.met_by(&failed), "{:#}", failed.data);
    assert!(Expected::is_true("HasValidBundle", "UnpackSuccessful").met_by(&failed), "{:#}", failed.data);
    assert!(Expected::is_true("Reconciling", "ProgressingWithRetry").met_by(&failed), "{:#}", failed.data);
    // Nothing of a bundle that cannot be whole is applied.
    let namespace = Target::cluster("v1", "Namespace", &format!("rukpak-example-{}-missing", case.name));
    assert!(verbs::get(&case.client, &namespace).await.unwrap().is_none());
}

/// Where the kind is served, a plain bundle may hold one.
#[tokio::test]
async fn a_registry_bundle_of_the_plain_class_is_told_so() {
    let case = Case::new("misread").await;
    let version = serde_json::json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "a.v1.0.0", "namespace": case.name}, "spec": {"displayName": "A"},
    });
    let source = case.push("v1", &[version]).await;
    case.deploy(source).await;
    let missing = Expected::is_false("Installed", "InstallFailed").saying("no matches for kind");
    let text = message(&case.until(missing).await, "Installed");
    let hint = "this is a registry+v1 bundle: set provisionerClassName core-rukpak-io-registry in spec.template.spec";
    assert!(text.contains(hint), "{text}");
}

#[tokio::test]
async fn a_dependent_deployment_heals_when_its_kind_is_served() {
    let case = Case::new("p33").await;
    let dependent = fixtures::renamed_image("plain/dependent", &case.name).unwrap();
    let source = case.push_image("dependent", &dependent).await;
    case.deploy(source).await;
    let missing = Expected::is_false("Installed", "InstallFailed").saying("required resource not found");
    case.until(missing).await;
    // From here on it is the definition that must wake it.
    let tired = tire(&case.client, &case.name, missing).await;

    let provides = fixtures::renamed_image("plain/provides", &case.name).unwrap();
    let source = case.push_image("provides", &provides).await;
    let providing = format!("{}-provider", case.name);
    let api_version = format!("{}.example.rukpak.io/v1", case.name);
    case.create(&deployment(&providing, source)).await;
    verbs::await_served(&case.client, &api_version, "Pump", SOON).await.unwrap();
    case.until(installed()).await;
    tired.was_woken();
    until(&case.client, &providing, installed()).await;
    let pump = Target::namespaced(
        &api_version,
        "Pump",
        &format!("rukpak-example-{}-dependent", case.name),
        &format!("rukpak-example-{}", case.name),
    );
    case.get(&pump).await;
}

/// Upstream fails such bundles for ever; here definitions come first.
#[tokio::test]
async fn a_definition_and_an_object_of_it_in_one_bundle() {
    let case = Case::new("p34").await;
    let source = case.push_image("v1", &fixtures::renamed_image("plain/crds-and-crs", &case.name).unwrap()).await;
    case.deploy(source).await;
    // Never a failure on the way: kinds that the bundle brings are not missing.
    let seen = verbs::await_object(&case.client, &case.target(), "an Installed condition", SOON, |now| {
        now.is_some_and(|now| verbs::condition(now, "Installed").is_some())
    })
    .await
    .unwrap();
    assert!(seen.is_some_and(|seen| installed().met_by(&seen)), "the first word is success");
    let lamp = Target::namespaced(
        &format!("{}.example.rukpak.io/v1", case.name),
        "Lamp",
        &format!("rukpak-example-{}-lamps", case.name),
        &format!("rukpak-example-{}", case.name),
    );
    case.get(&lamp).await;
}
