//! From a Subscription to a PlatformOperator, with the same objects.

use std::time::Duration;

use rukpak_tests::verbs::{Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, Given};
use super::world::World;

/// How long the garbage collector is watched.
const COLLECTOR: Duration = Duration::from_secs(5);

/// The whole way, with a later upgrade.
#[tokio::test]
async fn a_subscription_becomes_a_platform_operator_and_no_pod_restarts() {
    let world = World::shared().await;
    let case = Case::new(world, "plain", Given::default()).await;
    let kind = format!("{}.example.rukpak.io/v1", case.name);
    let pump = json!({"apiVersion": kind, "kind": "Pump", "metadata": {"name": "p", "namespace": case.space()}, "spec": {"litres": 3}});
    let pump = (Target::of(&pump).expect("it is an object"), case.create(&pump).await.metadata.uid);
    let before = case.running().await;

    let did = case.migrated(&["-ojson"]).await;
    let made: Value = serde_json::from_str(&did.out).expect("JSON");
    let spec = json!({"package": {"name": case.name, "channel": "stable", "catalog": "olm/community"}, "upgradePolicy": "Manual"});
    assert_eq!((&made["kind"], &made["spec"]), (&json!("PlatformOperator"), &spec));
    let manager = format!("deployment.apps/{}-manager", case.name);
    let told = [
        "take over: ",
        manager.as_str(),
        "delete what is OLM's: ",
        "subscription.operators.coreos.com/",
        "keeps what OLM put into its Pods",
        "variable OPERATOR_CONDITION_NAME",
        "nothing is changed",
    ];
    assert!(told.iter().all(|text| did.err.contains(text)), "{}", did.err);
    assert!(!did.err.contains("are replaced"), "{}", did.err);
    assert!(case.find(&case.target()).await.is_none(), "nothing is changed");

    let did = case.migrated(&["--apply"]).await;
    assert!(did.out.ends_with(&format!("bundledeployment.core.rukpak.io/{} handed over\n", case.name)), "{did:?}");
    case.is_taken_over().await;
    case.until_at(&case.platform(), Expected::is_true("Installed", "InstallSuccessful")).await;
    case.until_at(&case.platform(), Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    assert_eq!(case.get(&pump.0).await.metadata.uid, pump.1);
    let manager = case.of_kind("Deployment").next().expect("it has one").0.clone();
    let uid = case.get(&manager).await.metadata.uid;
    case.holds_for(&manager, "the Deployment", COLLECTOR, |object| {
        object.is_some_and(|object| object.metadata.uid == uid && object.metadata.deletion_timestamp.is_none())
    })
    .await;
    case.is_taken_over().await;

    // It follows upgrades, and what OLM wrote and the next version leaves out goes.
    let newer = Expected::is_true("UpgradeAvailable", "ManualPolicy").saying("Version 1.1.0");
    case.until_at(&case.platform(), newer).await;
    case.merge_into(&case.platform(), &json!({"spec": {"upgradePolicy": "Automatic"}})).await;
    let upgraded = |object: &kube::api::DynamicObject| {
        object.data["status"]["source"]["version"] == "1.1.0" && Expected::is_true("Ready", "Succeeded").met_by(object)
    };
    case.until_object(&case.platform(), "version 1.1.0", upgraded).await;
    case.is_taken_over().await;
    let refused = case.migrate(&["--back", "--apply"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("it cannot go back from another version"), "{refused:?}");
    let again = case.migrate(&["--apply"]).await;
    assert!(again.code == Some(1) && again.err.contains("was taken over already"), "{again:?}");
}

/// Webhooks of all three types, Roles, ConfigMaps and a Service; an operator that watches all namespaces, with settings.
#[tokio::test]
async fn webhooks_settings_and_the_certificate_stay_as_they_are() {
    let world = World::shared().await;
    let config = json!({"env": [{"name": "LEVEL", "value": "warn"}, {"name": "MORE", "value": "x"}],
        "resources": {"requests": {"cpu": "10m"}}, "selector": {"matchLabels": {}}});
    let given = Given { fixture: "registry/mill", config, approval: "Automatic", ..Given::default() };
    let case = Case::new(world, "hooked", given).await;
    let secret = Target::namespaced("v1", "Secret", case.space(), "mill-manager-service-cert");
    let (before, certificate) = (case.running().await, case.get(&secret).await.data["data"].clone());
    // What OLM follows must not come before it is looked at.
    let did = case.migrated(&["--apply", "--to", "bundledeployment"]).await;
    assert!(did.err.contains("spec.config.selector has no effect"), "{did:?}");
    assert!(!did.err.contains("are replaced"), "{did:?}");
    case.is_taken_over().await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    let after = case.get(&secret).await.data["data"].clone();
    for key in ["tls.crt", "tls.key", "olmCAKey"] {
        assert_eq!(after[key], certificate[key], "{key}");
    }
    let definition = case.of_kind("CustomResourceDefinition").next().expect("it has one").0.clone();
    let trusted = case.get(&definition).await.data.pointer("/spec/conversion/webhook/clientConfig/caBundle").cloned();
    assert_eq!(trusted, Some(certificate["olmCAKey"].clone()), "the API server trusts who signed it");
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let ours = case.owned("admissionregistration.k8s.io/v1", kind).await;
        assert_eq!(ours.len(), 1, "{kind}");
        assert_eq!(ours[0].data["webhooks"][0]["clientConfig"]["caBundle"], certificate["olmCAKey"]);
        for (target, _) in case.of_kind(kind) {
            assert!(case.find(target).await.is_none(), "{target} is there still");
        }
    }
    let deployment = case.get(&case.target()).await;
    let settings = json!({"env": [{"name": "LEVEL", "value": "warn"}, {"name": "MORE", "value": "x"}],
        "resources": {"requests": {"cpu": "10m"}}});
    assert_eq!(deployment.data["spec"]["config"]["deploymentConfig"], settings);
    assert_eq!(deployment.data["spec"]["config"]["apiRoles"], true);

    // The next version drops a ConfigMap and changes a variable, and no field of OLM's is in its way.
    let patch = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": case.images[1]}}}},
        "config": {"deploymentConfig": null}}});
    case.merge_into(&case.target(), &patch).await;
    let manager = Target::namespaced("apps/v1", "Deployment", case.space(), "mill-manager");
    let is_new = |object: &kube::api::DynamicObject| {
        let container = &object.data["spec"]["template"]["spec"]["containers"][0];
        let variables = container["env"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = variables.iter().filter_map(|one| one["name"].as_str()).collect();
        names.contains(&"BRAKE") && !names.contains(&"MORE") && container["resources"]["requests"].is_null()
    };
    case.until_object(&manager, "the next version, without the old settings", is_new).await;
    case.until_gone(&Target::namespaced("v1", "ConfigMap", case.space(), "mill-old-name")).await;
}

/// Where the catalog alone knows the image, and the operator watches its own namespace.
#[tokio::test]
async fn the_catalog_names_the_image_and_the_group_what_is_watched() {
    let world = World::shared().await;
    let given = Given { targets: vec!["OWN".to_owned()], has_lookup: false, ..Given::default() };
    let case = Case::new(world, "own", given).await;
    let before = case.running().await;
    case.migrated(&["--apply", "--to", "bundledeployment"]).await;
    case.is_taken_over().await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    let config = case.get(&case.target()).await.data["spec"]["config"].clone();
    assert_eq!((&config["watchNamespace"], &config["installNamespace"]), (&json!(case.space()), &json!(case.space())));
}

/// What would replace Pods is told before.
#[tokio::test]
async fn pods_that_would_be_replaced_are_named() {
    let world = World::shared().await;
    let case = Case::new(world, "edited", Given::default()).await;
    let manager = case.of_kind("Deployment").next().expect("it has one").0.clone();
    let containers = json!([{"name": "manager", "image": "example.rukpak.io/pump:hotfix"}]);
    case.merge_into(&manager, &json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    let did = case.migrated(&[]).await;
    assert!(did.err.contains("are replaced, for its template changes: spec.template.spec.containers"), "{did:?}");
}
