//! How many requests the usual operations take: guards that depend on no machine.

use std::collections::BTreeMap;

use rukpak_tests::world::World;
use serde_json::json;

use crate::engine::audit::{Request, at_rest, requests, since};
use crate::engine::case::Case;

/// Objects of the bundle.
const OBJECTS: usize = 10;

pub async fn of_usual_operations(world: &World) {
    let case = Case::in_world(world, "costs").await;
    at_rest(world).await;
    let objects = |x: &str| {
        let value = |index: usize| if index == 0 { x.to_owned() } else { "same".to_owned() };
        (0..OBJECTS).map(|index| case.config_map(&format!("c{index}"), json!({"x": value(index)}))).collect::<Vec<_>>()
    };
    let before = requests(world).len();
    case.install(&objects("1")).await;
    at_rest(world).await;
    let install = since(world, before);
    let install = without_progress(install);
    // A Bundle and its status, what is begun and what came of it, the record of the release, and an Event.
    assert!(install.len() <= OBJECTS + 6, "{:#?}", table(&install));

    let before = requests(world).len();
    case.pivot("v2", &objects("2")).await;
    at_rest(world).await;
    let upgrade = without_progress(since(world, before));
    // One object has changed: the others are not sent. Two are the records of the release and of the one before.
    assert!(upgrade.len() <= 1 + 9, "{:#?}", table(&upgrade));
    // The watch knows what is there, and nothing leaves.
    assert!(lists_of_config_maps(&upgrade).is_empty(), "{:#?}", table(&upgrade));

    let before = requests(world).len();
    case.pivot("v3", &objects("2")[1..]).await;
    at_rest(world).await;
    let upgrade = without_progress(since(world, before));
    let deletions = upgrade.iter().filter(|one| one.verb == "delete" && one.resource == "bundles").count();
    assert_eq!(deletions, 1, "{:#?}", table(&upgrade));
    // What leaves is listed, from the API server's cache: from etcd it would read every ConfigMap of the cluster.
    let lists = lists_of_config_maps(&upgrade);
    let is_cached = |one: &&Request| one.uri.contains("resourceVersionMatch=NotOlderThan") && one.code == 200;
    assert!(lists.len() == 1 && lists.iter().all(is_cached), "{lists:#?}");

    let before = requests(world).len();
    let (object, proof) = (case.config_map_target("c1"), case.proof().await);
    case.edit("intruder", &object, json!({"data": {"x": "drift"}})).await;
    case.until_value(&object, "/data/x", &json!("same")).await;
    case.until_noted(&proof).await;
    at_rest(world).await;
    let repair = since(world, before);
    // Read, written, told, and some seconds later noted in the status.
    assert!(repair.len() <= 4, "{:#?}", table(&repair));
}

fn lists_of_config_maps(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|one| (one.verb.as_str(), one.resource.as_str()) == ("list", "configmaps")).collect()
}

/// Without the statuses that say that a Bundle is being unpacked, one of it and one of its deployment, each written only where that
/// takes a while: how long it takes is the machine's. There is one status of the Bundle else, and two of the deployment. Nor with the look
/// for Helm's releases, which is for a deployment that has a status before its first installation.
fn without_progress(mut requests: Vec<Request>) -> Vec<Request> {
    for (resource, least) in [("bundles", 1), ("bundledeployments", 2)] {
        let is_status = |one: &Request| one.resource == resource && one.uri.contains("/status");
        let statuses = requests.iter().filter(|one| is_status(one)).count();
        if statuses == least + 1
            && let Some(first) = requests.iter().position(is_status)
        {
            requests.remove(first);
            let is_look = |one: &Request| (one.verb.as_str(), one.resource.as_str()) == ("list", "secrets");
            let look = requests.iter().position(is_look).filter(|_| resource == "bundledeployments");
            if let Some(look) = look {
                requests.remove(look);
            }
        }
    }
    requests
}

/// Requests by verb and resource.
fn table(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut table = BTreeMap::new();
    for request in requests {
        let path = request.uri.split('?').next().unwrap_or_default();
        let sub = if path.ends_with("/status") { "/status" } else { "" };
        let dry = if request.uri.contains("dryRun") { " (dry run)" } else { "" };
        *table.entry(format!("{} {}{sub}{dry} {}", request.verb, request.resource, request.code)).or_default() += 1;
    }
    table
}
