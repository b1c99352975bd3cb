//! What the cluster of a history has, and what people and other programs may do to it.

use rukpak_content::{BundleTree, Digest, RelativePath};
use rukpak_store::{Sealed, Store};
use serde_json::{Value, json};

use crate::cluster::{Cluster, State};
use crate::process::{Process, now};
use crate::script::Script;
use crate::server::{Key, Request};

/// The namespace of the controller.
pub const SYSTEM: &str = "rukpak-system";
/// The Lease of who leads.
pub const LEASE: &str = "core.rukpak.io";
/// The namespace of everything else.
pub const NAMESPACE: &str = "ns";
pub const GROUP: &str = "example.com";
/// The finalizer of an operator.
pub const FINALIZER: &str = "example.com/clean";

/// A cluster, and what may happen in it.
pub struct Story {
    pub name: &'static str,
    /// Objects of others that are there before.
    pub before: Vec<Value>,
    /// Each release is a list of manifests.
    pub releases: Vec<Vec<Value>>,
    /// The names of the deployments, and the release that each asks for first.
    pub deployments: Vec<(&'static str, usize)>,
    /// Which deployments each controller works on, as selectors.
    pub shards: Vec<&'static str>,
    /// Whether the controllers compete for one Lease.
    pub is_led: bool,
    /// Other programs than controllers.
    pub programs: Vec<Program>,
    /// Package and version of each release, where releases are registry+v1 bundles.
    pub packaged: Vec<(&'static str, &'static str)>,
    /// Says what is wrong at rest with what other programs than controllers write.
    pub rest: fn(&State, &Told) -> Option<String>,
    pub hands: Vec<Hand>,
    /// What is done one after the other, each when all is at rest: the history that a search disturbs.
    pub course: Vec<Hand>,
    /// What once disturbed it, and was a defect. A change of the story makes other histories of that.
    pub kept: Vec<Script>,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            name: "",
            before: Vec::new(),
            releases: Vec::new(),
            deployments: vec![("app", 0)],
            shards: vec![""],
            is_led: false,
            programs: Vec::new(),
            packaged: Vec::new(),
            rest: |_, _| None,
            hands: Vec::new(),
            course: Vec::new(),
            kept: Vec::new(),
        }
    }
}

/// A program that is no controller.
pub struct Program {
    pub name: &'static str,
    /// Starts the process of this number.
    pub start: fn(&Cluster, usize) -> Process,
}

/// What somebody may do.
pub struct Hand {
    pub words: String,
    pub act: Box<dyn Fn(&mut State) + Send + Sync>,
}

pub fn hand(words: impl Into<String>, act: impl Fn(&mut State) + Send + Sync + 'static) -> Hand {
    Hand { words: words.into(), act: Box::new(act) }
}

/// A story, and the contents of its releases.
pub struct Told {
    pub story: Story,
    pub digests: Vec<Digest>,
    _sealed: Vec<Sealed>,
}

impl Told {
    pub fn new(story: Story, contents: &Store) -> Self {
        let releases = story.releases.iter().enumerate();
        let sealed: Vec<Sealed> =
            releases.map(|(number, release)| seal(contents, release, story.packaged.get(number))).collect();
        Self { digests: sealed.iter().map(|sealed| sealed.digest.clone()).collect(), story, _sealed: sealed }
    }

    /// Which of the releases has this content.
    pub fn number(&self, content: &Digest) -> usize {
        self.digests.iter().position(|known| known == content).expect("because there are no others")
    }
}

fn seal(store: &Store, release: &[Value], packaged: Option<&(&str, &str)>) -> Sealed {
    let mut tree = BundleTree::new();
    let mut add = |path: &str, content: &Value| {
        tree.add_file(RelativePath::new(path).expect("a path"), false, content.to_string().into());
    };
    // A namespace is made for a package that names none.
    let is_in_bundle = |object: &&Value| packaged.is_none() || object["kind"] != "Namespace";
    for (number, object) in release.iter().filter(is_in_bundle).enumerate() {
        add(&format!("manifests/{number}.yaml"), object);
    }
    if let Some((package, version)) = packaged {
        add("manifests/csv.yaml", &service_version(package, version));
        let annotations = json!({"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": package});
        add("metadata/annotations.yaml", &json!({"annotations": annotations}));
    }
    store.seal(&tree).expect("because the disk has room")
}

/// The ClusterServiceVersion of an operator that has no Deployments.
fn service_version(package: &str, version: &str) -> Value {
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes: Vec<Value> =
        modes.iter().map(|mode| json!({"type": mode, "supported": *mode == "AllNamespaces"})).collect();
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{package}.v{version}")},
        "spec": {"version": version, "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}})
}

impl Story {
    /// What is there before the controller starts.
    pub fn begin(&self, state: &mut State) {
        state.server.time = now().to_string();
        for kind in ["BundleDeployment", "Bundle", "Plan"] {
            create(state, "setup", &cluster_definition("core.rukpak.io", "v1alpha1", kind));
        }
        for body in &self.before {
            create(state, "somebody", body);
        }
        for (name, release) in &self.deployments {
            create(state, "hand", &deployment(name, *release));
        }
        state.note();
    }
}

/// The CRD of a kind without namespaces.
pub fn cluster_definition(group: &str, version: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase()).replace("policys", "policies");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true}]}})
}

pub fn deployment(name: &str, release: usize) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-plain", "source": source(release)}}}})
}

fn source(release: usize) -> Value {
    json!({"type": "image", "image": {"ref": format!("example.com/app:{release}")}})
}

/// The release that a spec asks for.
pub fn release_of(spec: &Value) -> Option<usize> {
    let reference = spec["source"]["image"]["ref"].as_str()?;
    reference.rsplit(':').next()?.parse().ok()
}

/// What a manifest is about, and the version of its kind.
pub fn named(body: &Value) -> (Key, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&body["apiVersion"]).rsplit('/').next().unwrap_or_default().to_owned();
    (Key { kind: text(&body["kind"]), name: text(&body["metadata"]["name"]) }, version)
}

pub fn create(state: &mut State, manager: &str, body: &Value) {
    let (key, version) = named(body);
    send(state, &Request::Create { key, version, body: body.clone(), manager: manager.to_owned() });
}

/// What is refused has not happened.
fn send(state: &mut State, request: &Request) {
    let _ = state.server.answer(request);
    state.note();
}

fn version_of(kind: &str) -> String {
    if matches!(kind, "BundleDeployment" | "PlatformOperator") { "v1alpha1" } else { "v1" }.to_owned()
}

pub fn patch(state: &mut State, (kind, name): (&str, &str), manager: &str, body: Value) {
    let version = version_of(kind);
    let (key, manager) = (Key::new(kind, name), manager.to_owned());
    send(state, &Request::Patch { key, version, body, manager, is_status: false });
}

pub fn delete(state: &mut State, kind: &str, name: &str) {
    let version = version_of(kind);
    send(state, &Request::Delete { key: Key::new(kind, name), version, uid: None, resource_version: None });
}

pub fn config_map(name: &str, x: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": {"x": x}})
}

pub fn db(size: &str) -> Value {
    db_of("v1", size)
}

pub fn db_of(version: &str, size: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Db", "metadata": {"name": "precious", "namespace": NAMESPACE},
        "spec": {"size": size}})
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn versions(names: &[&str], served: &[&str]) -> Value {
    let text = json!({"type": "string"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": text, "volume": text}}}}});
    let version = |name: &&str| json!({"name": name, "served": served.contains(name), "storage": *name == "v1", "schema": schema});
    names.iter().map(version).collect()
}

pub fn definition(names: &[&str]) -> Value {
    let versions = versions(names, names);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("dbs.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "dbs", "singular": "db", "kind": "Db"}, "versions": versions}})
}

pub fn asks(name: &'static str, release: usize) -> Hand {
    hand(format!("{name} asks for release {release}"), move |state| {
        let body = json!({"spec": {"template": {"spec": {"source": source(release)}}}});
        patch(state, ("BundleDeployment", name), "hand", body);
    })
}

pub fn sets(name: &'static str, spec: Value) -> Hand {
    hand(format!("somebody sets {spec} of {name}"), move |state| {
        patch(state, ("BundleDeployment", name), "hand", json!({"spec": spec}));
    })
}

pub fn deletes(kind: &'static str, name: &'static str) -> Hand {
    hand(format!("somebody deletes {kind} {name:?}"), move |state| delete(state, kind, name))
}

pub fn changes(kind: &'static str, name: &'static str, manager: &'static str, body: Value) -> Hand {
    hand(format!("{manager} changes {kind} {name:?}: {body}"), move |state| {
        patch(state, (kind, name), manager, body.clone());
    })
}

pub fn lets_pass() -> Hand {
    hand("the webhook lets everything pass", |state| state.server.refused.clear())
}

pub fn creates(manager: &'static str, body: Value) -> Hand {
    let words = format!("{manager} creates {} {}", body["kind"], body["metadata"]["name"]);
    hand(words, move |state| create(state, manager, &body))
}
