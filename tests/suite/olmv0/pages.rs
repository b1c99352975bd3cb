//! The pages docs/coming-from-olm.md and docs/olmv0.md, typed with the real programs.

use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::olmv0::programs;
use rukpak_tests::{CatalogImage, fixtures};
use serde_json::json;

use super::case::{Case, Given};
use super::facade::world::World as Facade;
use super::world::World;
use crate::tutorial::session::Session;

/// What a page has typed to install us: here that is done before.
const INSTALLING: &str = "target/manifests";

#[tokio::test]
async fn who_comes_from_olm_types_what_the_page_says_and_no_pod_restarts() {
    let world = World::new().await;
    let pumps = Case::named(&world, "pump-operator", "pumps", Given::default()).await;
    let wells = Case::named(&world, "well-operator", "wells", Given::default()).await;
    let before = [pumps.running().await, wells.running().await];
    let package_server = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "packageserver", "namespace": "olm", "finalizers": ["operators.coreos.com/csv-cleanup"]},
        "spec": {"displayName": "Package Server"}});
    let [operators, catalogs] = programs("olm", 1);
    for object in [operators, catalogs, package_server] {
        pumps.create(&object).await;
    }

    let session = Session::start(&world.plane, &world.controller, &[], &world.registry.ca_pem()).await;
    session.follow("docs/coming-from-olm.md", &[INSTALLING]).await;
    for case in [&pumps, &wells] {
        case.is_taken_over().await;
    }
    assert_eq!([pumps.running().await, wells.running().await], before, "no Pod is replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_subscriptions_types_what_the_page_says() {
    let world = Facade::shared().await;
    let published = fixtures::publish_pump(&world.registry, &["1.0.0"]).await;
    let (documents, _) = published.unwrap_or_else(|error| panic!("{error:#}"));
    let image = CatalogImage::of(documents).expect("an image");
    let catalog = image.push(&world.registry, "catalogs/hub", "latest").await.expect("the registry takes it");
    let names = [("quay.io/operatorhubio/catalog:latest", catalog.reference)];
    let _kubelet = Kubelet::play(world.admin().await, "pumps");
    let session = Session::start(&world.plane, &world.controller, &names, &world.registry.ca_pem()).await;
    // Of whose rights the page tells elsewhere.
    let rights =
        "kubectl create clusterrolebinding installer --clusterrole=cluster-admin --serviceaccount=pumps:installer";
    session.enter(rights).await;
    session.follow("docs/olmv0.md", &[INSTALLING]).await;
    session.enter("kubectl wait --for=delete --timeout=2m bundledeployment/pump-operator.pumps").await;
}
