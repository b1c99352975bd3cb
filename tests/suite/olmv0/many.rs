//! A thousand operators in a hundred namespaces, by Subscriptions and by ClusterExtensions: what each of both costs. Prints a table.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use rukpak_tests::{CatalogImage, Documents, Process, Registry, verbs};
use serde_json::{Value, json};

use super::facade::case::text;
use super::facade::world::{GLOBAL, World};
use crate::olmv1;
use crate::platform::packages::{self, Files, channel, entry, package};

const OPERATORS: u16 = 1000;
const SPACES: u16 = 100;
const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
const OLM: &str = "olm.operatorframework.io/v1";
/// So much is sent at once.
const PARALLEL: usize = 32;
const PATIENCE: Duration = Duration::from_mins(15);

fn name(operator: u16) -> String {
    format!("operator-{operator}")
}

fn space(operator: u16) -> String {
    format!("space-{}", operator % SPACES)
}

/// A bundle without definitions, whose objects fit beside those of others.
fn bundle(name: &str) -> Files {
    let mut files = packages::bundle(name, "1.0.0", packages::ALL);
    files.retain(|(path, _)| !path.ends_with("pumps.yaml"));
    for (path, text) in &mut files {
        let mut value: Value = serde_json::from_str(text).expect("JSON");
        if path.ends_with("csv.yaml") {
            value["spec"]["customresourcedefinitions"] = json!({});
            value["spec"]["install"]["spec"]["clusterPermissions"][0]["serviceAccountName"] = json!(name);
        }
        if path.ends_with("settings.yaml") {
            value["metadata"]["name"] = json!(name);
        }
        *text = value.to_string();
    }
    files
}

/// Pushes all bundles and the catalog that has them; returns its image.
async fn offer(registry: &Registry) -> String {
    let images: Vec<(u16, String)> = stream::iter(0..OPERATORS)
        .map(|operator| async move {
            let name = name(operator);
            (operator, packages::push(registry, &name, "1.0.0", bundle(&name)).await)
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    let documents = images.iter().fold(Documents::default(), |documents, (operator, image)| {
        let name = name(*operator);
        let head = json!([{"name": format!("{name}.v1.0.0")}]);
        let bundle = entry(&name, "1.0.0", image, Some(packages::ALL), &[]);
        documents.with(package(&name, "stable")).with(channel(&name, "stable", head)).with(bundle)
    });
    let image = CatalogImage::of(documents).expect("a catalog");
    image.push(registry, "catalogs/many", "v1").await.expect("the registry takes it").reference
}

async fn create_all(client: &Client, objects: Vec<Value>) {
    let created = stream::iter(objects).map(|object| async move { verbs::create(client, &object).await });
    created.buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await.expect("the administrator may");
}

fn spaces() -> Vec<Value> {
    let object =
        |space| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("space-{space}")}});
    (0..SPACES).map(object).collect()
}

/// Waits until so many objects of a kind are done.
async fn until_done(client: &Client, (version, kind): (&str, &str), is_done: impl Fn(&DynamicObject) -> bool) {
    let (resource, _) = verbs::discover(client, version, kind).await.expect("it is served");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut seen = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
    let mut done = BTreeSet::new();
    let all = async {
        while done.len() < usize::from(OPERATORS) {
            let object = seen.next().await.expect("a watch does not end").expect("the API server agrees");
            if is_done(&object) {
                done.insert((object.namespace(), object.name_any()));
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, all).await;
    assert!(ended.is_ok(), "{} of {OPERATORS} {kind} are done", done.len());
}

/// All requests that the API server has answered.
async fn requests(client: &Client) -> f64 {
    let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
    let text = client.request_text(request).await.expect("the administrator may");
    let counts = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Has `make` done, and tells what it took.
async fn measure(what: &str, client: &Client, programs: [&Process; 2], make: impl Future<Output = ()>) {
    let (before, begun) = (requests(client).await, Instant::now());
    make.await;
    let (took, each) = (begun.elapsed(), (requests(client).await - before) / f64::from(OPERATORS));
    let [manager, controller] = programs.map(|program| program.peak_resident_bytes().expect("it runs") >> 20);
    println!(
        "{OPERATORS} {what}: {took:.1?}, {each:.1} requests each, peak of the manager {manager} MiB, of the controller {controller} MiB"
    );
}

async fn by_subscriptions() {
    let world = World::beside(&[]).await;
    let client = world.admin().await;
    let image = offer(&world.registry).await;
    create_all(&client, spaces()).await;
    let group = |space| {
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "spec": {},
               "metadata": {"name": "group", "namespace": format!("space-{space}")}})
    };
    create_all(&client, (0..SPACES).map(group).collect()).await;
    let source = json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource", "metadata": {"name": "many", "namespace": GLOBAL},
                        "spec": {"sourceType": "grpc", "image": image}});
    verbs::create(&client, &source).await.expect("a CatalogSource");
    let subscription = |operator| {
        json!({"apiVersion": V1ALPHA1, "kind": "Subscription",
               "metadata": {"name": name(operator), "namespace": space(operator)},
               "spec": {"name": name(operator), "source": "many", "sourceNamespace": GLOBAL}})
    };
    measure("Subscriptions", &client, [&world.manager, &world.controller], async {
        create_all(&client, (0..OPERATORS).map(subscription).collect()).await;
        let is_done = |object: &DynamicObject| text(object, "/status/phase") == "Succeeded";
        until_done(&client, (V1ALPHA1, "ClusterServiceVersion"), is_done).await;
    })
    .await;
}

async fn by_extensions() {
    let world = olmv1::world::World::new().await;
    let client = world.plane.admin().await.expect("the admin kubeconfig is good");
    let image = offer(&world.registry).await;
    create_all(&client, spaces()).await;
    let catalog = json!({"apiVersion": OLM, "kind": "ClusterCatalog", "metadata": {"name": "many"},
                         "spec": {"source": {"type": "Image", "image": {"ref": image}}}});
    verbs::create(&client, &catalog).await.expect("a ClusterCatalog");
    let extension = |operator| {
        json!({"apiVersion": OLM, "kind": "ClusterExtension", "metadata": {"name": name(operator)},
               "spec": {"namespace": space(operator),
                        "source": {"sourceType": "Catalog", "catalog": {"packageName": name(operator)}}}})
    };
    measure("ClusterExtensions", &client, [&world.manager, &world.controller], async {
        create_all(&client, (0..OPERATORS).map(extension).collect()).await;
        let is_done = |object: &DynamicObject| olmv1::case::rolled_out().met_by(object);
        until_done(&client, (OLM, "ClusterExtension"), is_done).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: `make soak`"]
async fn a_thousand_subscriptions_cost_what_a_thousand_extensions_do() {
    by_extensions().await;
    by_subscriptions().await;
}
