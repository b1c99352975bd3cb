//! Published bundles on a real control plane: installed, upgraded, and removed without a trace.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, image, until_bundle};
use serde_json::{Value, json};

use super::case::{PLAIN, REGISTRY, installed};
use super::listing;
use super::published::{self, Published};
use super::serving;

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
/// Bundles that are worked on at once.
const PARALLEL: usize = 4;
/// Longest installation: unoptimised programs read large schemas slowly.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where a bundle is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// An image.
    Image,
    /// A folder of a branch.
    Git,
    /// What a Bundle of its own resolved to.
    Standalone,
}

/// Versions to be installed one after the other; whether the last has webhooks (V, M) or conversions (C).
const CHOSEN: [(From, &[&str], &str); 14] = [
    (From::Image, &["node-maintenance-operator/0.12.1", "node-maintenance-operator/0.18.0"], "V"),
    (From::Image, &["self-node-remediation/0.8.0", "self-node-remediation/0.11.0"], "VM"),
    (From::Image, &["aws-efs-operator/0.0.6", "aws-efs-operator/0.0.8"], ""),
    (From::Image, &["gitlab-runner-operator/1.43.0", "gitlab-runner-operator/1.52.0"], ""),
    (From::Image, &["webhook-operator/0.0.1", "webhook-operator/0.0.5"], "VMC"),
    (From::Git, &["rabbitmq-messaging-topology-operator/1.10.2", "rabbitmq-messaging-topology-operator/1.12.1"], "V"),
    (From::Standalone, &["cert-manager/1.13.3-rc1"], "VM"),
    (From::Image, &["gingersnap/0.0.1"], "VM"),
    (From::Image, &["kube-green/0.7.1"], "V"),
    (From::Image, &["node-observability-operator/0.3.0"], "C"),
    (From::Image, &["metallb-operator/0.13.4"], "VC"),
    (From::Image, &["apicast-operator/0.0.1__3scale-2.12.0-GA"], ""),
    (From::Image, &["advanced-cluster-management/2.11.10"], ""),
    (From::Image, &["headscale-operator/0.1.1"], ""),
];

/// Defines [`FOREIGN_KINDS`], with any content.
pub async fn define_foreign_kinds(client: &Client) {
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
pub fn deployment(name: &str, bundle: &Published, source: &Value) -> Value {
    let mut object = super::case::deployment(PLAIN, name, source);
    if !bundle.config.is_null() {
        object["spec"]["config"] = bundle.config.clone();
    }
    // Some need other packages, or a newer Kubernetes than this may be.
    object["metadata"]["annotations"] = json!({"core.rukpak.io/ignore-dependencies": "true"});
    object
}

/// Pushes it; returns its source.
pub async fn push(world: &World, bundle: &Published) -> Value {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let tag: String = bundle.version().chars().map(|c| if is_fit(c) { c } else { '_' }).collect();
    let builder = ImageBuilder::of_folder(&bundle.folder).expect("the folder can be read");
    let pushed = world.registry.push(&format!("corpus/{}", bundle.package()), &tag, &builder).await;
    image(&pushed.unwrap_or_else(|error| panic!("{}: {error:#}", bundle.name)).reference)
}

/// Brings a version to where it is to be taken from.
async fn source(world: &World, client: &Client, from: From, bundle: &Published) -> Value {
    match from {
        From::Image => push(world, bundle).await,
        From::Git => {
            let folder = "operators/the-bundle";
            let name = format!("{}-{}", bundle.package(), bundle.version());
            let repository = world.git.repository(&name).expect("a repository can be made");
            let files = bundle.files();
            let files: Vec<(String, Vec<u8>)> =
                files.into_iter().map(|(path, text)| (format!("{folder}/{path}"), text)).collect();
            let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
            repository.write(&files).expect("it can be written");
            repository.commit("bundle").expect("it can be committed");
            json!({"type": "git", "git": {"repository": world.git.url(&name), "ref": {"branch": "main"},
                                          "directory": folder}})
        }
        From::Standalone => {
            let name = verbs::unique_name("standalone");
            let source = push(world, bundle).await;
            let object = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
                                "spec": {"provisionerClassName": REGISTRY, "source": source}});
            verbs::create(client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
            let unpacked = until_bundle(client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
            verbs::delete(client, &Target::bundle(&name)).await.expect("it can be deleted");
            unpacked.data["status"]["resolvedSource"].clone()
        }
    }
}

/// What is installed is what is rendered, and its webhooks are trusted; returns the first letters of the kinds that have some.
async fn has_all(client: &Client, deployment: &str, bundle: &Published) -> BTreeSet<char> {
    let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={deployment}");
    let mut seen = BTreeSet::new();
    for (api_version, kind) in bundle.kinds() {
        let objects = verbs::list(client, api_version, kind, &labels).await.unwrap_or_else(|error| panic!("{error:#}"));
        let names: BTreeSet<&str> = objects.iter().filter_map(|object| object.metadata.name.as_deref()).collect();
        for object in bundle.objects.iter().filter(|object| object["kind"] == kind) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            // A namespace that was there before is used, not owned.
            let is_there = names.contains(name) || kind == "Namespace";
            assert!(is_there, "{}: {kind} {name} is missing among {names:?}", bundle.name);
        }
        for object in &objects {
            let trusted = serving::is_trusted_by(client, object).await;
            let count = trusted.unwrap_or_else(|error| panic!("{}: {kind}: {error:#}", bundle.name));
            seen.extend((count > 0).then(|| kind.chars().next().unwrap_or_default()));
        }
    }
    seen
}

/// One of [`CHOSEN`]; returns the name of its BundleDeployment.
async fn work(world: &World, client: &Client, from: From, versions: &[Published], webhooks: &str) -> String {
    let name = verbs::unique_name("corpus");
    let target = Target::bundle_deployment(&name);
    let (mut active, mut seen) = (Value::Null, BTreeSet::new());
    for (index, bundle) in versions.iter().enumerate() {
        let source = source(world, client, from, bundle).await;
        if index == 0 {
            let object = deployment(&name, bundle, &source);
            verbs::create(client, &object).await.unwrap_or_else(|error| panic!("{}: {error:#}", bundle.name));
        } else {
            let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
            verbs::merge(client, &target, &patch).await.unwrap_or_else(|error| panic!("{}: {error:#}", bundle.name));
        }
        let is_new = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.data["status"]["activeBundle"] != active && installed().met_by(object))
        };
        let object = verbs::await_object(client, &target, "its installation", PATIENCE, is_new).await;
        let object = object.unwrap_or_else(|error| panic!("{}: {error:#}", bundle.name));
        active = object.map(|object| object.data["status"]["activeBundle"].clone()).unwrap_or_default();
        seen = has_all(client, &name, bundle).await;
    }
    assert_eq!(seen, webhooks.chars().collect(), "{:?}: kinds of webhooks", versions.last().map(|bundle| &bundle.name));
    name
}

#[tokio::test]
async fn published_bundles_are_installed_upgraded_and_removed_without_a_trace() {
    let Some(corpus) = rukpak_tests::tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no published bundle was installed");
        return;
    };
    let world = World::start(Vec::new()).await.unwrap();
    let client = world.admin().await;
    define_foreign_kinds(&client).await;
    let before = listing::everything(&client).await;
    let (world, client, corpus) = (&world, &client, &corpus);
    let works = CHOSEN.iter().map(|&(from, names, webhooks)| async move {
        let read = |name: &&str| published::read(corpus, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let versions: Vec<Published> = names.iter().map(read).collect();
        Box::pin(work(world, client, from, &versions, webhooks)).await
    });
    let names: Vec<String> = futures::stream::iter(works).buffer_unordered(PARALLEL).collect().await;
    for name in &names {
        verbs::delete(client, &Target::bundle_deployment(name)).await.unwrap();
    }
    let left = listing::left_over(client, &before, Duration::from_mins(3)).await;
    assert_eq!(left, BTreeSet::new(), "{}", world.controller.log_tail(200));
    let upgraded = CHOSEN.iter().filter(|(_, versions, _)| versions.len() > 1).count();
    eprintln!("installed {}, upgraded {upgraded}, removed without a trace", names.len());
}
