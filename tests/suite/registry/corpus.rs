//! Published bundles on a real control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, image};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::listing;
use super::published::{self, Published};

/// Kinds that bundles may have and a plain cluster does not serve: group, version, kind.
const FOREIGN_KINDS: [(&str, &str, &str); 9] = [
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("monitoring.coreos.com", "v1", "PodMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler"),
    ("console.openshift.io", "v1", "ConsoleYAMLSample"),
    ("console.openshift.io", "v1", "ConsoleQuickStart"),
    ("console.openshift.io", "v1", "ConsoleCLIDownload"),
    ("console.openshift.io", "v1", "ConsoleLink"),
    ("console.openshift.io", "v1", "ConsolePlugin"),
];

/// Defines [`FOREIGN_KINDS`], with any content.
async fn define_foreign_kinds(client: &Client) {
    for (group, version, kind) in FOREIGN_KINDS {
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        let scope = if group.starts_with("console") { "Cluster" } else { "Namespaced" };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"),
                         "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {
                "group": group, "scope": scope,
                "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        verbs::apply(client, &definition).await.unwrap_or_else(|error| panic!("{error:#}"));
        let api_version = format!("{group}/{version}");
        verbs::await_served(client, &api_version, kind, Duration::from_secs(30)).await.expect("it is served");
    }
}

/// A BundleDeployment of a published bundle.
fn deployment(name: &str, bundle: &Published, source: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"provisionerClassName": "core-rukpak-io-registry", "source": source}}},
    });
    if !bundle.config.is_null() {
        object["spec"]["config"] = bundle.config.clone();
    }
    if bundle.unresolvable {
        object["metadata"]["annotations"] = json!({"core.rukpak.io/ignore-dependencies": "true"});
    }
    object
}

async fn push(world: &World, bundle: &Published) -> Value {
    let (package, version) = bundle.name.split_once('/').expect("a package and a version");
    let tag: String =
        version.chars().map(|c| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' }).collect();
    let builder = ImageBuilder::of_folder(&bundle.folder).expect("the folder can be read");
    let pushed = world.registry.push(&format!("corpus/{package}"), &tag, &builder).await;
    image(&pushed.unwrap_or_else(|error| panic!("{}: {error:#}", bundle.name)).reference)
}

/// Installs one and removes it again: how it went.
async fn try_out(world: &World, client: &Client, bundle: &Published) -> Result<Duration, String> {
    let name = verbs::unique_name("every");
    let target = Target::bundle_deployment(&name);
    let source = push(world, bundle).await;
    let start = std::time::Instant::now();
    verbs::create(client, &deployment(&name, bundle, &source)).await.map_err(|error| format!("{error:#}"))?;
    let expected = Expected::is_true("Installed", "InstallationSucceeded");
    let installed = verbs::await_condition(client, &target, expected, Duration::from_secs(20)).await;
    let took = start.elapsed();
    let mut result = Ok(took);
    if installed.is_err() {
        let object = verbs::get(client, &target).await.expect("it can be read").expect("it exists");
        let text = |kind| verbs::condition(&object, kind).map(|condition| condition["message"].to_string());
        result = Err(format!("HasValidBundle: {:?}; Installed: {:?}", text("HasValidBundle"), text("Installed")));
    }
    verbs::delete(client, &target).await.expect("it can be deleted");
    let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={name}");
    let kinds: BTreeSet<(String, String)> = bundle
        .objects
        .iter()
        .map(|object| (object["apiVersion"].as_str().unwrap().to_owned(), object["kind"].as_str().unwrap().to_owned()))
        .collect();
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        let mut left = Vec::new();
        for (api_version, kind) in &kinds {
            if let Ok(objects) = verbs::list(client, api_version, kind, &labels).await {
                left.extend(objects.into_iter().map(|object| format!("{kind} {:?}", object.metadata.name)));
            }
        }
        if left.is_empty() {
            break;
        }
        if tokio::time::Instant::now() > end {
            eprintln!("LEFT by {}: {left:?}", bundle.name);
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    result
}

/// By hand, for a look at all of them: `cargo test -p rukpak-tests --test registry every_published -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes many minutes; what it shows are reasons, which are in the notes"]
async fn every_published_bundle_is_installed_or_refused_for_a_reason() {
    let Some(corpus) = published::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus");
        return;
    };
    let filter = std::env::var("ONLY").unwrap_or_default();
    let world = World::start(Vec::new()).await.unwrap();
    let client = world.admin().await;
    define_foreign_kinds(&client).await;
    let before = listing::everything(&client).await;
    let mut bundles = Vec::new();
    let mut refused = 0;
    for name in published::with_golden(&corpus) {
        if !name.contains(&filter) {
            continue;
        }
        match published::read(&corpus, &name) {
            Ok(bundle) => bundles.push(bundle),
            Err(error) => {
                refused += 1;
                eprintln!("NOT RENDERED {name}: {}", error.lines().next().unwrap_or_default());
            }
        }
    }
    let locks: BTreeMap<String, Arc<Mutex<()>>> =
        bundles.iter().flat_map(Published::claims).map(|claim| (claim, Arc::default())).collect();
    let alone = tokio::sync::RwLock::new(());
    let (world, client, locks, alone) = (&world, &client, &locks, &alone);
    let count = bundles.len();
    let results = futures::stream::iter(bundles.iter().map(|bundle| async move {
        let mut held = Vec::new();
        for claim in bundle.claims() {
            held.push(locks[&claim].lock().await);
        }
        let result = if bundle.stops_others() {
            let _alone = alone.write().await;
            try_out(world, client, bundle).await
        } else {
            let _others = alone.read().await;
            try_out(world, client, bundle).await
        };
        match &result {
            Ok(took) => eprintln!("INSTALLED {} in {took:?}", bundle.name),
            Err(error) => eprintln!("FAILED {}: {error}", bundle.name),
        }
        result.is_ok()
    }))
    .buffer_unordered(6)
    .collect::<Vec<_>>()
    .await;
    let installed = results.iter().filter(|ok| **ok).count();
    eprintln!("{installed} of {count} installed; {refused} not rendered");
    let left = listing::left_over(client, &before, Duration::from_secs(120)).await;
    assert_eq!(left, BTreeSet::new());
}
