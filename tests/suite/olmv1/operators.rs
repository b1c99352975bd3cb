//! PlatformOperators whose packages come from ClusterCatalogs.

use kube::api::DynamicObject;
use rukpak_tests::openshift::{operator, platform_operator};
use rukpak_tests::registry::Cosign;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{Documents, tools};
use serde_json::{Value, json};

use super::case::{Case, catalog, serving, text};
use super::world::World;

/// The catalog that a PlatformOperator says its package came from.
async fn until_from(case: &Case<'_>, target: &Target, catalog: &str) -> DynamicObject {
    let is_from = |object: &DynamicObject| text(object, "/status/source/catalog") == catalog;
    case.until_object(target, &format!("a bundle of {catalog}"), is_from).await
}

#[tokio::test]
async fn a_package_comes_from_a_cluster_catalog_and_follows_its_new_content() {
    let world = World::sound().await;
    let case = Case::within(&world, "operator").await;
    case.offer(&["1.0.0"]).await;
    let spec = json!({"package": {"name": case.name}, "upgradePolicy": "Automatic"});
    case.create(&operator(&case.name, spec)).await;
    let target = platform_operator(&case.name);
    case.until_at(&target, Expected::is_true("Ready", "Succeeded")).await;
    until_from(&case, &target, &format!("ClusterCatalog/{}", case.name)).await;
    let (newer, _) = case.chain(&["1.0.0", "1.1.0"]).await;
    case.renew("v2", newer).await;
    let is_newer = |object: &DynamicObject| text(object, "/status/source/version") == "1.1.0";
    case.until_object(&target, "the next version", is_newer).await;
}

#[tokio::test]
async fn a_platform_operator_says_who_signed_the_catalog_of_its_package() {
    let world = World::sound().await;
    let case = Case::within(&world, "vouched").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let key = Cosign::new().unwrap();
    let image = case.push_guarded(documents, &key).await;
    world.registry.sign(&image, &key).await.unwrap();
    case.create_catalog(&case.name, &json!({"ref": image.reference}), &json!({})).await;
    case.create(&operator(&case.name, json!({"package": {"name": case.name}}))).await;
    let words = format!("catalog ClusterCatalog/{}: {} is signed by release, as rule", case.name, image.digest);
    let target = platform_operator(&case.name);
    case.until_at(&target, Expected::is_true("Verified", "SignatureVerified").saying(&words)).await;
    case.until_at(&target, Expected::is_true("Ready", "Succeeded")).await;
    // It goes with the first content that no policy is for.
    case.delete(&Target::cluster("core.rukpak.io/v1alpha1", "ContentPolicy", &case.name)).await;
    case.renew("v2", case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    let is_left = |object: &DynamicObject| verbs::condition(object, "Verified").is_none();
    case.until_object(&target, "nothing of a policy", is_left).await;
}

/// Of catalogs that both have the package, and what helps.
#[tokio::test]
async fn the_highest_priority_wins_and_a_tie_is_refused() {
    let documents = |version: &str| Documents::package("tied", &[(version, "registry.example/tied:v1")]);
    let folder = tools::temp_folder("flagged").expect("a folder");
    std::fs::write(folder.path().join("catalog.json"), documents("1.0.0").json_lines()).expect("a file");
    let world = World::with(&[&format!("--catalog=flagged=dir:{}", folder.path().display())]).await;
    let case = Case::within(&world, "tied").await;
    case.serve(documents("2.0.0")).await;
    let (own, tied) = (format!("ClusterCatalog/{}", case.name), platform_operator("tied"));
    case.create(&operator("tied", json!({"package": {"name": "tied"}}))).await;
    let words = format!("is in several catalogs of the same priority, 0: flagged, {own}; name one of them");
    case.until_at(&tied, Expected::is_false("Installed", "SourceFailed").saying(&words)).await;
    let prefer = async |priority: i32| {
        case.merge_into(&catalog(&case.name), &json!({"spec": {"priority": priority}})).await;
    };
    let again = async |package: Value| {
        case.delete(&tied).await;
        case.until_gone(&tied).await;
        case.until_gone(&Target::bundle_deployment("tied")).await;
        case.create(&operator("tied", json!({"package": package}))).await;
    };
    prefer(1).await;
    until_from(&case, &tied, &own).await;
    again(json!({"name": "tied", "catalog": "flagged"})).await;
    until_from(&case, &tied, "flagged").await;
    again(json!({"name": "tied", "catalog": case.name})).await;
    until_from(&case, &tied, &own).await;

    // One that has nothing to show stops the search, unless one that goes before it has the package.
    let sick = format!("{}-sick", case.name);
    let nowhere = json!({"ref": "localhost:1/none:v1"});
    case.create_catalog(&sick, &nowhere, &json!({"priority": 1})).await;
    again(json!({"name": "tied"})).await;
    let words = format!("ClusterCatalog {sick}: catalog {sick:?} is not being served");
    case.until_at(&tied, Expected::is_false("Installed", "SourceFailed").saying(&words)).await;
    case.merge_into(&catalog(&sick), &json!({"spec": {"priority": -1}})).await;
    until_from(&case, &tied, &own).await;
    case.until_at(&catalog(&case.name), serving()).await;
}
