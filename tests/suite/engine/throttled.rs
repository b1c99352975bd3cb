//! An API server that is too busy for the controller answers 429 (API Priority and Fairness): what it refused is asked for again, and nothing
//! is lost or done twice.

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, WorldOptions};
use serde_json::{Value, json};

use crate::engine::audit::{Request, at_rest, requests, writes};
use crate::engine::case::{Case, is_owned};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Name of the level and of the schema that leads there.
const LEVEL: &str = "narrow";
/// Objects of the first version.
const OBJECTS: usize = 200;
/// Objects that the second version has still.
const LEFT: usize = 150;

/// Leaves the controller about three requests at a time, of the sixteen that it makes, and has all others refused.
async fn narrow(client: &Client) {
    let versions = ["v1", "v1beta3"].map(|version| format!("{GROUP}/{version}"));
    let is_new = verbs::discover(client, &versions[0], "FlowSchema").await.is_ok();
    let api_version = if is_new { &versions[0] } else { &versions[1] };
    let level = json!({"apiVersion": api_version, "kind": "PriorityLevelConfiguration", "metadata": {"name": LEVEL},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "lendablePercent": 0,
            "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}});
    let controller = json!({"kind": "ServiceAccount",
        "serviceAccount": {"namespace": "rukpak-system", "name": "core-admin"}});
    let everything =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let schema = json!({"apiVersion": api_version, "kind": "FlowSchema", "metadata": {"name": LEVEL},
        "spec": {"priorityLevelConfiguration": {"name": LEVEL}, "matchingPrecedence": 10,
            "rules": [{"subjects": [controller], "resourceRules": [everything]}]}});
    for object in [&level, &schema] {
        verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    // The API server says so when it goes by the schema.
    let known = Expected { kind: "Dangling", status: "False", reason: None, message: "" };
    let target = Target::of(&schema).expect("it has a name");
    verbs::await_condition(client, &target, known, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// Requests of the controller that the API server has refused for lack of room, by its own count.
async fn refused(client: &Client) -> f64 {
    let request = axum::http::Request::get("/metrics").body(Vec::new()).expect("a request");
    let metrics = client.request_text(request).await.expect("the API server shows its metrics");
    let schema = format!("flow_schema=\"{LEVEL}\"");
    let of_level =
        |line: &&str| line.starts_with("apiserver_flowcontrol_rejected_requests_total{") && line.contains(&schema);
    let counts = metrics.lines().filter(of_level).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum()
}

/// What was done to ConfigMaps since there were `before` requests: names of those written and of those deleted, sorted.
fn done(world: &World, before: usize) -> [Vec<String>; 2] {
    let mut done = [Vec::new(), Vec::new()];
    let is_done = |one: &Request| one.resource == "configmaps" && one.code < 300 && !one.uri.contains("dryRun");
    for write in writes(world, before).into_iter().filter(is_done) {
        done[usize::from(write.verb == "delete")].push(write.name);
    }
    for names in &mut done {
        names.sort();
    }
    done
}

/// The names of ConfigMaps of the deployment in its namespace, sorted, all of which have this version.
async fn present(case: &Case<'_>, version: &str) -> Vec<String> {
    let uid = case.uid().await;
    let labels = format!("core.rukpak.io/owner-name={}", case.name);
    let objects = verbs::list(&case.client, "v1", "ConfigMap", &labels).await.expect("a list");
    let name = |object: &DynamicObject| {
        assert!(is_owned(object, &case.name, &uid), "{object:?}");
        assert_eq!(object.data["data"], json!({"version": version}), "{:?}", object.metadata.name);
        object.metadata.name.clone().expect("a name")
    };
    let mut names: Vec<String> = objects.iter().map(name).collect();
    names.sort();
    names
}

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn loses_nothing_when_the_api_server_refuses_requests() {
    let options = WorldOptions { audit: true, ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("no world: {error:#}"));
    let case = Case::in_world(&world, "throttled").await;
    narrow(&case.client).await;

    let first = case.config_maps(OBJECTS, "v1");
    let begin = requests(&world).len();
    case.install(&first).await;
    at_rest(&world).await;
    let of_installation = refused(&case.client).await;
    assert!(of_installation > 0.0, "it had room for everything");
    assert!(requests(&world)[begin..].iter().any(|one| one.code == 429), "the refusals are the controller's");
    assert_eq!(present(&case, "v1").await, names(&first));
    assert_eq!(done(&world, begin), [names(&first), Vec::new()], "each once");

    let bundle = case.status().await["activeBundle"].as_str().expect("it has one").to_owned();
    let second = case.config_maps(LEFT, "v2");
    let begin = requests(&world).len();
    case.pivot("v2", &second).await;
    for leaving in &first[LEFT..] {
        case.until_gone(&Target::of(leaving).expect("it has a name")).await;
    }
    at_rest(&world).await;
    assert!(refused(&case.client).await > of_installation, "it had room for everything");
    assert_eq!(present(&case, "v2").await, names(&second));
    assert_eq!(done(&world, begin), [names(&second), names(&first[LEFT..])], "each once");
    case.until_gone(&Target::bundle(&bundle)).await;
    let bundles = verbs::list(&case.client, "core.rukpak.io/v1alpha1", "Bundle", "").await.expect("a list");
    assert_eq!(bundles.len(), 1, "{bundles:#?}");
    let history = case.status().await["history"].clone();
    assert_eq!(history.as_array().map(Vec::len), Some(2), "{history:#}");
}
