//! Fifty published packages, each subscribed to in a namespace of its own.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and does nothing.
//! Its layout: `registry-v1/<package>/<version>`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{CatalogImage, Documents, tools};
use serde_json::{Value, json};

use super::facade::case::text;
use super::facade::world::{GLOBAL, World};
use crate::platform::packages::{self, Files, channel, package};

const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
const SOURCE: &str = "published";
const PACKAGES: usize = 50;
/// Fifty installations at once, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

/// Kubernetes 1.28.
const OLDEST_MINOR: u32 = 28;
/// Kinds of others that bundles have objects of: group, version and kind.
const FOREIGN: [(&str, &str, &str); 7] = [
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler"),
    ("console.openshift.io", "v1", "ConsoleYAMLSample"),
    ("console.openshift.io", "v1", "ConsoleQuickStart"),
    ("console.openshift.io", "v1", "ConsolePlugin"),
    ("console.openshift.io", "v1", "ConsoleLink"),
];
/// Bundles with an object that no API server takes, and its words.
const BROKEN: [(&str, &str); 1] = [("ack-secretsmanager-controller", "spec.name: Required value")];

/// A bundle as it was published.
struct Published {
    package: String,
    version: String,
    csv: String,
    modes: Vec<String>,
    /// Definitions that it brings.
    owned: Vec<String>,
    files: Files,
}

/// The files of a folder of a bundle, if all are text.
pub fn files(folder: &Path) -> Option<Files> {
    let mut all = Files::new();
    for part in ["manifests", "metadata"] {
        for file in tools::listing(&folder.join(part)).ok()? {
            let name = file.file_name().into_string().ok()?;
            all.push((format!("{part}/{name}"), std::fs::read_to_string(file.path()).ok()?));
        }
    }
    Some(all)
}

/// Whether current clusters serve everything in it, and it needs no other package.
fn is_whole(files: &Files) -> bool {
    let needs = ["olm.package.required", "olm.gvk.required", "olm.constraint"];
    files.iter().all(|(path, text)| {
        path != "metadata/dependencies.yaml"
            && !text.contains("apiextensions.k8s.io/v1beta1")
            && !needs.iter().any(|need| text.contains(need))
    })
}

/// Whether it is for newer clusters than the oldest that tests run on.
fn is_for_newer(csv: &Value) -> bool {
    let minor =
        csv["spec"]["minKubeVersion"].as_str().and_then(|version| version.split('.').nth(1)?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor > OLDEST_MINOR)
}

/// A definition of which any object is good.
fn definition((group, version, kind): (&str, &str, &str)) -> Value {
    let (singular, scope) = (kind.to_lowercase(), if group.starts_with("console") { "Cluster" } else { "Namespaced" });
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": format!("{singular}s.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
           "spec": {"group": group, "scope": scope,
                    "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
                    "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]}})
}

/// The bundle in a folder; `None` if it is none that an operator is installed from.
fn read(package: &str, folder: &Path) -> Option<Published> {
    let files = files(folder).filter(is_whole)?;
    let documents = files.iter().filter_map(|(_, text)| serde_saphyr::from_str::<Value>(text).ok());
    let csv = documents.into_iter().find(|document| document["kind"] == "ClusterServiceVersion")?;
    let definitions =
        |list: &str| csv["spec"]["customresourcedefinitions"][list].as_array().cloned().unwrap_or_default();
    if !definitions("required").is_empty() || is_for_newer(&csv) {
        return None;
    }
    let owned = definitions("owned").into_iter().filter_map(|one| one["name"].as_str().map(str::to_owned));
    let modes = csv["spec"]["installModes"].as_array().cloned().unwrap_or_default();
    let modes = modes.iter().filter(|mode| mode["supported"] == true).filter_map(|mode| mode["type"].as_str());
    Some(Published {
        package: package.to_owned(),
        version: csv["spec"]["version"].as_str()?.to_owned(),
        csv: csv["metadata"]["name"].as_str()?.to_owned(),
        modes: modes.map(str::to_owned).collect(),
        owned: owned.collect(),
        files,
    })
}

/// The first packages by name, each in its last version by name, but for those that bring what another one brings.
fn published(corpus: &Path) -> Vec<Published> {
    let packages = tools::listing(&corpus.join("registry-v1")).expect("the corpus has bundles");
    let read_last = |folder: std::fs::DirEntry| {
        let versions = tools::listing(&folder.path()).ok()?;
        read(folder.file_name().to_str()?, &versions.last()?.path())
    };
    let mut taken = BTreeSet::new();
    let mut is_alone = |bundle: &Published| {
        let is_alone = bundle.owned.iter().all(|name| !taken.contains(name));
        taken.extend(bundle.owned.iter().filter(|_| is_alone).cloned());
        is_alone
    };
    let bundles = packages.into_iter().filter_map(read_last).filter(|bundle| !bundle.modes.is_empty());
    bundles.filter(|bundle| is_alone(bundle)).take(PACKAGES).collect()
}

impl Published {
    fn space(&self) -> String {
        format!("of-{}", self.package)
    }

    /// What the catalog has of it.
    fn documents(&self, image: &str) -> Vec<Value> {
        let property = json!({"packageName": self.package, "version": self.version});
        vec![
            package(&self.package, "stable"),
            channel(&self.package, "stable", json!([{"name": self.csv}])),
            json!({"schema": "olm.bundle", "name": self.csv, "package": self.package, "image": image,
                   "properties": [{"type": "olm.package", "value": property}]}),
        ]
    }

    /// An OperatorGroup that the bundle supports.
    fn group(&self) -> Value {
        let is = |mode: &str| self.modes.iter().any(|known| known == mode);
        let spec = match () {
            () if is("AllNamespaces") => json!({}),
            () if is("OwnNamespace") => json!({"targetNamespaces": [self.space()]}),
            () => json!({"targetNamespaces": [GLOBAL]}),
        };
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
               "metadata": {"name": "group", "namespace": self.space()}, "spec": spec})
    }

    fn subscription(&self) -> Value {
        json!({"apiVersion": V1ALPHA1, "kind": "Subscription",
               "metadata": {"name": self.package, "namespace": self.space()},
               "spec": {"name": self.package, "source": SOURCE, "sourceNamespace": GLOBAL}})
    }

    /// What became of it, when it is installed or time is over.
    async fn end(&self, client: &Client) -> String {
        let csv = Target::namespaced(V1ALPHA1, "ClusterServiceVersion", &self.space(), &self.csv);
        let done = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| ["Succeeded", "Failed"].contains(&text(object, "/status/phase")))
        };
        if let Ok(Some(end)) = verbs::await_object(client, &csv, "an end", PATIENCE, done).await {
            return format!("{} {}", text(&end, "/status/phase"), text(&end, "/status/message"));
        }
        let subscription = Target::namespaced(V1ALPHA1, "Subscription", &self.space(), &self.package);
        let found = |target: Target| async move { verbs::get(client, &target).await.ok().flatten() };
        let (csv, subscription) = (found(csv).await, found(subscription).await);
        let said = |object: &Option<DynamicObject>, pointer: &str| {
            object.as_ref().and_then(|object| object.data.pointer(pointer)).map(Value::to_string).unwrap_or_default()
        };
        format!(
            "{} {} {}; {}",
            said(&csv, "/status/phase"),
            said(&csv, "/status/reason"),
            said(&csv, "/status/message"),
            said(&subscription, "/status/conditions")
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn published_packages_are_installed_through_subscriptions() {
    let Some(corpus) = tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no published package was installed");
        return;
    };
    let bundles = published(&corpus);
    assert!(!bundles.is_empty(), "no package of {} can be installed", corpus.display());
    let world = World::beside(&FOREIGN.map(definition)).await;
    let client = world.admin().await;
    let mut documents = Documents::default();
    let mut kubelets = Vec::new();
    for bundle in &bundles {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bundle.space()}});
        verbs::create(&client, &space).await.expect("a namespace");
        kubelets.push(Kubelet::play(client.clone(), &bundle.space()));
        let image = packages::push(&world.registry, &bundle.package, "1", bundle.files.clone()).await;
        documents = bundle.documents(&image).into_iter().fold(documents, Documents::with);
    }
    let image = CatalogImage::of(documents).expect("a catalog");
    let image = image.push(&world.registry, "catalogs/published", "v1").await.expect("the registry takes it").reference;
    let source = json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource", "metadata": {"name": SOURCE, "namespace": GLOBAL},
                        "spec": {"sourceType": "grpc", "image": image}});
    verbs::create(&client, &source).await.expect("a CatalogSource");
    for bundle in &bundles {
        verbs::create(&client, &bundle.group()).await.expect("an OperatorGroup");
        verbs::create(&client, &bundle.subscription()).await.expect("a Subscription");
    }
    let ends = futures::future::join_all(bundles.iter().map(|bundle| bundle.end(&client))).await;
    let ends: BTreeMap<&str, String> = bundles.iter().map(|bundle| bundle.package.as_str()).zip(ends).collect();
    let is_expected = |(package, end): &(&&str, &String)| match BROKEN.iter().find(|(broken, _)| broken == *package) {
        Some((_, words)) => end.starts_with("Failed ") && end.contains(words),
        None => end.starts_with("Succeeded "),
    };
    let others: Vec<_> = ends.iter().filter(|end| !is_expected(end)).collect();
    let installed = ends.values().filter(|end| end.starts_with("Succeeded ")).count();
    eprintln!("{installed} of {} published packages are installed", ends.len());
    assert!(others.is_empty(), "{others:#?}");
}
