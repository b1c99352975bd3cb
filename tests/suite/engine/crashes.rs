//! Promises 2 and 3: killed at any moment, nothing is forgotten and nothing is left halfway.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::worlds::alone;

const MANY: usize = 300;
const LONG: Duration = Duration::from_mins(3);

/// Waits until `count` of the deployment's ConfigMaps are there with `version`, by a watch.
async fn until_count(case: &Case<'_>, version: &str, count: usize) {
    let api: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
    let config = watcher::Config::default().labels(&format!("core.rukpak.io/owner-name={}", case.name));
    let mut seen = BTreeSet::new();
    let mut objects = pin!(watcher::watcher(api, config).default_backoff().applied_objects());
    let counting = async {
        while seen.len() < count {
            let Some(Ok(object)) = objects.next().await else { continue };
            if object.data.iter().flatten().any(|(key, value)| key == "version" && value == version) {
                seen.insert(object.metadata.name);
            }
        }
    };
    tokio::time::timeout(LONG, counting).await.unwrap_or_else(|_| panic!("no {count} ConfigMaps after {LONG:?}"));
}

/// Every kind of which there is an object is in the inventory.
async fn inventory_is_ahead(case: &Case<'_>) {
    let selector = format!("core.rukpak.io/owner-name={}", case.name);
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(case.client.clone(), &case.namespace);
    let there = !api
        .list(&kube::api::ListParams::default().labels(&selector))
        .await
        .expect("the API server agrees")
        .items
        .is_empty();
    let kinds = case.status().await["inventory"]["kinds"].clone();
    let knows = |kind: &str| kinds.as_array().into_iter().flatten().any(|known| known["kind"] == kind);
    assert!(!there || knows("ConfigMap"), "{kinds}");
    let definitions = "apiextensions.k8s.io/v1";
    let there = !verbs::list(&case.client, definitions, "CustomResourceDefinition", &selector)
        .await
        .expect("the API server agrees")
        .is_empty();
    assert!(!there || knows("CustomResourceDefinition") && knows("Gadget"), "{kinds}");
}

async fn kill_and_restart(case: &Case<'_>) {
    case.world.controller.kill().await.expect("the controller obeys");
    inventory_is_ahead(case).await;
    case.world.controller.restart().await.expect("the controller obeys");
}

async fn installed(case: &Case<'_>, version: &str, count: usize) {
    case.world.controller.wait_ready().await.expect("the controller obeys");
    case.installed().await;
    until_count(case, version, count).await;
    let is_whole = |object: &DynamicObject| object.data.pointer("/status/inventory/pending").is_none();
    case.until(&case.target(), "the end of the installation", |object| object.is_some_and(is_whole)).await;
}

#[tokio::test]
async fn killed_again_and_again_it_forgets_nothing() {
    let alone = alone().await;
    let case = alone.case("killed").await;
    let (crd, group) = definition("killed");
    let version = |version: &str, count: usize| {
        let mut objects = case.config_maps(count, version);
        objects.push(crd.clone());
        objects.push(gadget(&group, &case.namespace, "g", 1));
        objects
    };
    first_install(&case, &version("1", MANY)).await;
    assert_eq!(case.status().await["inventory"]["objects"], MANY + 2);

    // A pivot that leaves a third out, killed on the way.
    case.change("v2", &version("2", MANY * 2 / 3)).await;
    for count in [1, 120, 199] {
        until_count(&case, "2", count).await;
        kill_and_restart(&case).await;
    }
    case.until_value(&case.target(), "/status/inventory/objects", &json!(MANY * 2 / 3 + 2)).await;
    for gone in [MANY * 2 / 3, MANY - 1] {
        assert!(case.get(&case.config_map_target(&format!("many-{gone:04}"))).await.is_none(), "{gone} is forgotten");
    }
    let selector = format!("core.rukpak.io/owner-name={}", case.name);
    let left = verbs::list(&case.client, "v1", "ConfigMap", &selector).await.unwrap();
    assert_eq!(left.len(), MANY * 2 / 3);

    // A pivot that fails, killed on the way: the old version comes back whole.
    let active = case.status().await["activeBundle"].clone();
    let mut broken = case.config_maps(MANY, "3");
    let (other, other_group) = definition("killed");
    broken.push(other);
    broken.push(gadget(&other_group, &case.namespace, "bad", 0));
    case.change("v3", &broken).await;
    until_count(&case, "3", 100).await;
    kill_and_restart(&case).await;
    case.refused("UpgradeFailed", "spec.size").await;
    until_count(&case, "2", MANY * 2 / 3).await;
    let left = verbs::list(&case.client, "v1", "ConfigMap", &selector).await.unwrap();
    assert_eq!(left.len(), MANY * 2 / 3);
    case.until_gone(&definition_target(&other_group)).await;
    assert!(case.get(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await.is_some());
    assert_eq!(case.status().await["activeBundle"], active);

    gone_without_a_trace(&case, &selector).await;
    case.until_gone(&definition_target(&group)).await;
}

async fn first_install(case: &Case<'_>, objects: &[Value]) {
    case.create(objects).await;
    case.until(&case.target(), "the inventory", |object| {
        object.is_some_and(|object| object.data.pointer("/status/inventory/kinds").is_some())
    })
    .await;
    kill_and_restart(case).await;
    for count in [20, 150, 280] {
        until_count(case, "1", count).await;
        kill_and_restart(case).await;
    }
    installed(case, "1", MANY).await;
}

async fn gone_without_a_trace(case: &Case<'_>, selector: &str) {
    case.delete(&case.target()).await;
    for index in [0, 77, 199] {
        case.until_gone(&case.config_map_target(&format!("many-{index:04}"))).await;
    }
    for kind in ["ConfigMap", "Secret", "ServiceAccount"] {
        for object in verbs::list(&case.client, "v1", kind, selector).await.expect("the API server agrees") {
            case.until_gone(&case.in_namespace(
                "v1",
                kind,
                object.metadata.name.as_deref().expect("the API server agrees"),
            ))
            .await;
        }
    }
}

#[tokio::test]
async fn an_api_server_that_restarts_is_waited_for() {
    let alone = alone().await;
    let (world, case) = (alone.world, alone.case("restart").await);
    case.create(&case.config_maps(MANY, "1")).await;
    until_count(&case, "1", 50).await;
    world.plane.restart_apiserver().await.unwrap();
    installed(&case, "1", MANY).await;

    case.change("v2", &case.config_maps(MANY, "2")).await;
    until_count(&case, "2", 50).await;
    world.plane.restart_apiserver().await.unwrap();
    until_count(&case, "2", MANY).await;
    case.installed().await;
    // The watches are up again as well.
    let target = case.config_map_target("many-0007");
    case.edit("intruder", &target, json!({"data": {"version": "drift"}})).await;
    case.until_value(&target, "/data/version", &json!("2")).await;
}
