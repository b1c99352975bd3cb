//! What the manager may do, and tells, by the API server's audit log.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::case::Case;

pub const MANAGER: &str = "system:serviceaccount:rukpak-system:platform-operators-controller-manager";
/// All that it writes, whatever the tests of this suite have it do.
const WRITES: [&str; 18] = [
    "create clusterextensions",
    "create events",
    "create leases",
    "create plans",
    "create subjectaccessreviews",
    "create tokenreviews",
    "delete bundledeployments",
    "delete plans",
    "delete secrets",
    "patch bundledeployments",
    "patch clustercatalogs",
    "patch clustercatalogs/status",
    "patch clusterextensions",
    "patch clusterextensions/status",
    "patch clusterobjectsets",
    "patch clusterobjectsets/status",
    "patch plans/status",
    "patch secrets",
];

#[tokio::test]
async fn the_manager_is_refused_nothing_and_writes_no_object_of_a_bundle() {
    let case = Case::new("rights").await;
    case.install(&["1.0.0"], json!({})).await;
    case.delete(&case.extension()).await;
    case.until_gone(&case.target()).await;
    let log = std::fs::read_to_string(case.world.plane.audit_log()).expect("the log can be read");
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own: Vec<Value> = events.filter(|event| event["user"]["username"] == MANAGER).collect();
    let refused: Vec<&Value> =
        own.iter().filter(|event| event.pointer("/responseStatus/code") == Some(&json!(403))).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let text =
        |event: &Value, pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let written: BTreeSet<String> = own
        .iter()
        .filter(|event| !["get", "list", "watch"].contains(&text(event, "/verb").as_str()))
        .map(|event| {
            let (resource, of) = (text(event, "/objectRef/resource"), text(event, "/objectRef/subresource"));
            let slash = if of.is_empty() { "" } else { "/" };
            format!("{} {resource}{slash}{of}", text(event, "/verb"))
        })
        .collect();
    let others: Vec<&String> = written.iter().filter(|write| !WRITES.contains(&write.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(written.contains("patch bundledeployments"), "{written:?}");
}

#[tokio::test]
async fn events_tell_what_became_of_a_catalog_and_an_extension() {
    let case = Case::new("events").await;
    case.install(&["1.0.0"], json!({})).await;
    for (kind, message) in
        [("ClusterCatalog", "Serving desired content from resolved source"), ("ClusterExtension", "Installed bundle ")]
    {
        case.until_told((kind, &case.name), message).await;
    }
}
