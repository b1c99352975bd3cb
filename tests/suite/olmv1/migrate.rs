//! `rukpakctl migrate`: what is installed changes hands, and stays. A world of its own, as all of its catalogs are asked.

use std::collections::BTreeMap;

use rukpak_tests::openshift::{operator, platform_operator};
use rukpak_tests::verbs::{Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, rolled_out};
use super::commands::{Did, rukpakctl};
use super::world::World;

/// UIDs of what the bundle has in the cluster.
async fn uids(case: &Case<'_>, settings: &Target) -> BTreeMap<String, Option<String>> {
    let mut uids = BTreeMap::new();
    for target in [case.definition(), settings.clone(), Target::bundle_deployment(&case.name)] {
        uids.insert(target.to_string(), case.get(&target).await.metadata.uid);
    }
    for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
        let version = if kind == "ServiceAccount" { "v1" } else { "rbac.authorization.k8s.io/v1" };
        for object in case.owned(version, kind).await {
            uids.insert(format!("{kind} {:?}", object.metadata.name), object.metadata.uid);
        }
    }
    assert!(uids.len() > 4, "{uids:?}");
    uids
}

async fn migrate(world: &World, arguments: &[&str]) -> Did {
    rukpakctl(world, &[&["migrate"], arguments].concat()).await
}

#[tokio::test]
async fn a_platform_operator_becomes_an_extension_and_back_with_the_same_objects() {
    let world = World::sound().await;
    let case = Case::within(&world, "moved").await;
    case.offer(&["1.0.0", "1.1.0"]).await;
    let (name, platform) = (&case.name, platform_operator(&case.name));
    case.create(&operator(name, json!({"package": {"name": name, "version": "1.0.0"}}))).await;
    case.until_at(&platform, Expected::is_true("Ready", "Succeeded")).await;
    let space = format!("{name}-system");
    let settings = Target::namespaced("v1", "ConfigMap", &space, "settings");
    let before = uids(&case, &settings).await;

    let object = format!("platformoperator/{name}");
    let did = migrate(&world, &[&object, "-ojson"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    let made: Value = serde_json::from_str(&did.out).expect("JSON");
    let spec = json!({"namespace": space, "config": {"configType": "Inline", "inline": {"apiRoles": true}},
                      "source": {"sourceType": "Catalog", "catalog": {"packageName": name, "version": "1.0.0"}}});
    assert_eq!((&made["kind"], &made["spec"]), (&json!("ClusterExtension"), &spec));
    assert!(did.err.contains(&format!("delete platformoperator.platform.openshift.io/{name}")), "{did:?}");
    assert!(case.find(&case.extension()).await.is_none(), "nothing is changed");

    let did = migrate(&world, &[&object, "--apply"]).await;
    let done = format!(
        "clusterextension.olm.operatorframework.io/{name} created\nbundledeployment.core.rukpak.io/{name} handed over\n\
         platformoperator.platform.openshift.io/{name} deleted\n"
    );
    assert_eq!((did.code, did.out.as_str()), (Some(0), done.as_str()), "{did:?}");
    case.until_gone(&platform).await;
    case.until_at(&case.extension(), rolled_out()).await;
    assert_eq!(uids(&case, &settings).await, before);
    // It follows upgrades as if it had installed it.
    case.ask(json!({"version": "1.x"})).await;
    case.until_version("1.1.0").await;
    let after = uids(&case, &settings).await;
    // Names of roles hold the version.
    let is_same = |(name, uid): (&String, &Option<String>)| name.contains("Role") || after.get(name) == Some(uid);
    assert!(before.iter().all(is_same), "{before:#?} {after:#?}");

    let did = migrate(&world, &[&format!("clusterextension/{name}"), "--to", "platformoperator", "--apply"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    case.until_gone(&case.extension()).await;
    let object = case.until_at(&platform, Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(object.data["spec"]["package"], json!({"name": name, "version": "1.1.0"}));
    assert_eq!(uids(&case, &settings).await, after);
    case.delete(&platform).await;
    case.until_gone(&settings).await;
}

#[tokio::test]
async fn a_bundle_deployment_becomes_an_extension_and_back() {
    let world = World::sound().await;
    let case = Case::within(&world, "alone").await;
    let images = case.offer(&["1.0.0"]).await;
    let (name, space) = (&case.name, format!("{}-system", case.name));
    let deployment = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-registry", "source": {"type": "image", "image": {"ref": images[0]}}}}},
    });
    case.create(&deployment).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    let settings = Target::namespaced("v1", "ConfigMap", &space, "settings");
    let before = uids(&case, &settings).await;
    let did = migrate(&world, &[&format!("bundledeployment/{name}"), "--apply"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    case.until_at(&case.extension(), rolled_out()).await;
    assert_eq!(uids(&case, &settings).await, before);
    let refused = migrate(&world, &[&format!("bundledeployment/{name}"), "--apply"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("belongs to ClusterExtension"), "{refused:?}");

    let did = migrate(&world, &[&format!("clusterextension/{name}"), "--to", "bundledeployment", "--apply"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    case.until_gone(&case.extension()).await;
    assert_eq!(uids(&case, &settings).await, before);
    let object = case.until(Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(object.metadata.owner_references, None);
}

#[tokio::test]
async fn what_the_extension_would_not_have_is_not_migrated() {
    let world = World::sound().await;
    let case = Case::within(&world, "other").await;
    let images = case.offer(&["1.0.0"]).await;
    let name = &case.name;
    let deployment = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-registry", "source": {"type": "image", "image": {"ref": images[0]}}}}},
    });
    case.create(&deployment).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    let (reference, _) = case.push_catalog("v1", case.chain(&["1.0.0"]).await.0).await;
    case.create_catalog(&format!("{name}-twin"), &json!({"ref": reference}), &json!({})).await;
    case.until_at(&super::case::catalog(&format!("{name}-twin")), super::case::serving()).await;
    let did = migrate(&world, &[&format!("bundledeployment/{name}"), "--apply"]).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    assert!(did.err.contains("in multiple catalogs with the same priority"), "{did:?}");
    assert!(case.find(&case.extension()).await.is_none());
    let missing = migrate(&world, &["platformoperator/none"]).await;
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (Some(1), "error: platformoperators.platform.openshift.io \"none\" not found\n")
    );
}
