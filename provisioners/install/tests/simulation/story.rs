//! What the cluster of a history has, and what people and other programs may do to it.

use rukpak_content::{BundleTree, Digest, RelativePath};
use rukpak_store::{Sealed, Store};
use serde_json::{Value, json};

use crate::cluster::State;
use crate::process::now;
use crate::server::{Key, Refusal, Request};

/// The namespace of the controller.
pub const SYSTEM: &str = "rukpak-system";
/// The namespace of everything else.
const NAMESPACE: &str = "ns";
const GROUP: &str = "example.com";
/// The finalizer of an operator.
pub const FINALIZER: &str = "example.com/clean";

/// A cluster, and what may happen in it.
pub struct Story {
    pub name: &'static str,
    /// Objects of others that are there before.
    before: Vec<Value>,
    /// Each release is a list of manifests.
    pub releases: Vec<Vec<Value>>,
    /// The names of the deployments, and the release that each asks for first.
    pub deployments: Vec<(&'static str, usize)>,
    /// Which deployments each controller works on, as selectors.
    pub shards: Vec<&'static str>,
    pub hands: Vec<Hand>,
}

/// What somebody may do.
pub struct Hand {
    pub words: String,
    pub act: Box<dyn Fn(&mut State) + Send + Sync>,
}

fn hand(words: impl Into<String>, act: impl Fn(&mut State) + Send + Sync + 'static) -> Hand {
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
        let sealed: Vec<Sealed> = story.releases.iter().map(|release| seal(contents, release)).collect();
        Self { digests: sealed.iter().map(|sealed| sealed.digest.clone()).collect(), story, _sealed: sealed }
    }

    /// Which of the releases has this content.
    pub fn number(&self, content: &Digest) -> usize {
        self.digests.iter().position(|known| known == content).expect("because there are no others")
    }
}

fn seal(store: &Store, release: &[Value]) -> Sealed {
    let mut tree = BundleTree::new();
    for (number, object) in release.iter().enumerate() {
        let path: RelativePath = RelativePath::new(&format!("manifests/{number}.yaml")).expect("a path");
        tree.add_file(path, false, object.to_string().into());
    }
    store.seal(&tree).expect("because the disk has room")
}

impl Story {
    /// What is there before the controller starts.
    pub fn begin(&self, state: &mut State) {
        state.server.time = now().to_string();
        let own = [("BundleDeployment", "bundledeployments"), ("Bundle", "bundles"), ("Plan", "plans")];
        for (kind, plural) in own {
            let versions = json!([{"name": "v1alpha1", "served": true, "storage": true}]);
            create(
                state,
                "setup",
                &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.core.rukpak.io")},
                "spec": {"group": "core.rukpak.io", "scope": "Cluster", "names": {"plural": plural, "kind": kind}, "versions": versions}}),
            );
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

fn deployment(name: &str, release: usize) -> Value {
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

fn create(state: &mut State, manager: &str, body: &Value) {
    let (key, version) = named(body);
    send(state, &Request::Create { key, version, body: body.clone(), manager: manager.to_owned() });
}

/// What is refused has not happened.
fn send(state: &mut State, request: &Request) {
    let _ = state.server.answer(request);
    state.note();
}

fn patch(state: &mut State, (kind, name): (&str, &str), manager: &str, body: Value) {
    let version = if kind == "BundleDeployment" { "v1alpha1" } else { "v1" }.to_owned();
    let (key, manager) = (Key::new(kind, name), manager.to_owned());
    send(state, &Request::Patch { key, version, body, manager, is_status: false });
}

fn delete(state: &mut State, kind: &str, name: &str) {
    let version = if kind == "BundleDeployment" { "v1alpha1" } else { "v1" }.to_owned();
    send(state, &Request::Delete { key: Key::new(kind, name), version, uid: None, resource_version: None });
}

fn config_map(name: &str, x: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": {"x": x}})
}

fn db(size: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Db", "metadata": {"name": "precious", "namespace": NAMESPACE},
        "spec": {"size": size}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn definition(names: &[&str]) -> Value {
    let text = json!({"type": "string"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": text, "volume": text}}}}});
    let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema});
    let versions: Vec<Value> = names.iter().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("dbs.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "dbs", "singular": "db", "kind": "Db"}, "versions": versions}})
}

fn asks(name: &'static str, release: usize) -> Hand {
    hand(format!("{name} asks for release {release}"), move |state| {
        let body = json!({"spec": {"template": {"spec": {"source": source(release)}}}});
        patch(state, ("BundleDeployment", name), "hand", body);
    })
}

fn sets(name: &'static str, spec: Value) -> Hand {
    hand(format!("somebody sets {spec} of {name}"), move |state| {
        patch(state, ("BundleDeployment", name), "hand", json!({"spec": spec}));
    })
}

fn deletes(kind: &'static str, name: &'static str) -> Hand {
    hand(format!("somebody deletes {kind} {name:?}"), move |state| delete(state, kind, name))
}

fn changes(kind: &'static str, name: &'static str, manager: &'static str, body: Value) -> Hand {
    hand(format!("{manager} changes {kind} {name:?}: {body}"), move |state| {
        patch(state, (kind, name), manager, body.clone());
    })
}

fn creates(manager: &'static str, body: Value) -> Hand {
    let words = format!("{manager} creates {} {}", body["kind"], body["metadata"]["name"]);
    hand(words, move |state| create(state, manager, &body))
}

/// What may happen to one deployment and its objects.
fn hands(name: &'static str, releases: &[usize]) -> Vec<Hand> {
    let mut hands: Vec<Hand> = releases.iter().map(|release| asks(name, *release)).collect();
    hands.extend([
        sets(name, json!({"suspend": true})),
        sets(name, json!({"suspend": null})),
        sets(name, json!({"deletionPolicy": "Orphan"})),
        sets(name, json!({"deletionPolicy": null})),
        sets(name, json!({"rollbackTo": 1})),
        sets(name, json!({"rollbackTo": null})),
    ]);
    hands
}

/// One deployment, three releases of two ConfigMaps, a CRD and a custom resource.
fn one() -> Story {
    let releases = vec![
        vec![definition(&["v1"]), db("1"), config_map("a", "1"), config_map("b", "1")],
        vec![definition(&["v1", "v1beta1"]), db("2"), config_map("a", "2")],
        vec![config_map("a", "3"), config_map("b", "3")],
    ];
    let mut hands = hands("app", &[0, 1, 2, 1, 2]);
    let labels = json!({"core.rukpak.io/owner-kind": null, "core.rukpak.io/owner-name": null});
    hands.extend([
        changes("ConfigMap", "a", "hand", json!({"data": {"x": "theirs"}})),
        changes("ConfigMap", "a", "hand", json!({"data": {"y": "theirs"}})),
        changes("ConfigMap", "b", "hand", json!({"metadata": {"labels": labels}})),
        deletes("ConfigMap", "a"),
        deletes("ConfigMap", "b"),
        deletes("Db", "precious"),
        deletes("CustomResourceDefinition", "dbs.example.com"),
        changes(
            "Db",
            "precious",
            "operator",
            json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"volume": "v-1"}}),
        ),
        changes("Db", "precious", "operator", json!({"spec": {"size": "5"}})),
        creates(
            "somebody",
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Db",
            "metadata": {"name": "new", "namespace": NAMESPACE}, "spec": {"size": "1"}}),
        ),
        deletes("Db", "new"),
        creates("somebody", config_map("b", "foreign")),
        hand("a webhook begins to refuse ConfigMap \"a\" of release 1", |state| refuse(state, Refusal::Forbidden)),
        hand("a webhook is away that ConfigMap \"a\" of release 1 needs", |state| refuse(state, Refusal::Unavailable)),
        hand("the webhook lets everything pass", |state| state.server.refused.clear()),
        deletes("BundleDeployment", "app"),
        creates("hand", deployment("app", 1)),
    ]);
    Story {
        name: "one deployment",
        before: Vec::new(),
        releases,
        deployments: vec![("app", 0)],
        shards: vec![""],
        hands,
    }
}

fn refuse(state: &mut State, refusal: Refusal) {
    state.server.refused = vec![(Key::new("ConfigMap", "a"), "2".to_owned(), refusal)];
}

/// Two deployments that share a Namespace and a CRD.
fn two() -> Story {
    let releases = vec![
        vec![namespace("n"), definition(&["v1"]), config_map("a", "1")],
        vec![definition(&["v1", "v1beta1"]), db("1"), config_map("a", "2")],
        vec![config_map("a", "3")],
        vec![namespace("n"), definition(&["v1"]), config_map("b", "1")],
        vec![definition(&["v1", "v1alpha1"]), config_map("b", "2")],
        vec![config_map("b", "3")],
    ];
    let mut all = hands("app", &[0, 1, 2, 1, 2]);
    all.extend(hands("other", &[3, 4, 5, 4, 5]));
    all.extend([
        deletes("BundleDeployment", "app"),
        creates("hand", deployment("app", 1)),
        deletes("BundleDeployment", "other"),
        creates("hand", deployment("other", 4)),
        deletes("CustomResourceDefinition", "dbs.example.com"),
        deletes("Db", "precious"),
        changes("ConfigMap", "a", "hand", json!({"data": {"x": "theirs"}})),
        deletes("ConfigMap", "b"),
        // Both declare the same object.
        sets("other", json!({"dependsOn": [{"name": "app"}]})),
    ]);
    let deployments = vec![("app", 0), ("other", 3)];
    Story { name: "two deployments", before: Vec::new(), releases, deployments, shards: vec![""], hands: all }
}

/// A custom resource of somebody's CRD, and an object that was there before.
fn found() -> Story {
    let releases =
        vec![vec![db("1"), config_map("a", "1")], vec![db("2"), config_map("a", "2")], vec![config_map("a", "3")]];
    let mut there = db("1");
    there["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": "app"});
    there["metadata"]["finalizers"] = json!([FINALIZER]);
    there["spec"]["volume"] = json!("v-1");
    let adopt = json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": "app"}}});
    let mut hands = hands("app", &[0, 1, 2, 1, 2]);
    hands.extend([
        changes("ConfigMap", "a", "hand", adopt),
        deletes("ConfigMap", "a"),
        deletes("CustomResourceDefinition", "dbs.example.com"),
        creates("somebody", definition(&["v1"])),
        changes("Db", "precious", "operator", json!({"spec": {"volume": "v-2"}})),
        deletes("BundleDeployment", "app"),
        creates("hand", deployment("app", 1)),
    ]);
    let before = vec![definition(&["v1"]), there, config_map("a", "foreign")];
    Story { name: "objects that were there", before, releases, deployments: vec![("app", 0)], shards: vec![""], hands }
}

/// Two controllers, and two deployments that are given from one to the other.
pub fn shards() -> Story {
    let releases: Vec<_> = ["1", "2", "3"].map(|x| vec![config_map("a", x), config_map("b", x)]).into();
    let others = ["4", "5"].map(|x| vec![definition(&["v1"]), config_map("c", x)]);
    let mut hands = hands("app", &[0, 1, 2, 1, 2]);
    hands.extend([asks("other", 3), asks("other", 4)]);
    for (name, shard) in [("app", "one"), ("app", "two"), ("app", "one"), ("app", "two"), ("other", "one")] {
        let body = json!({"metadata": {"labels": {"shard": shard}}});
        hands.push(changes("BundleDeployment", name, "hand", body));
    }
    hands.extend([deletes("ConfigMap", "a"), changes("ConfigMap", "b", "hand", json!({"data": {"x": "theirs"}}))]);
    Story {
        name: "two shards",
        before: Vec::new(),
        releases: releases.into_iter().chain(others).collect(),
        deployments: vec![("app", 0), ("other", 3)],
        shards: vec!["shard!=two", "shard=two"],
        hands,
    }
}

/// All stories with one controller.
pub fn stories() -> Vec<Story> {
    vec![one(), two(), found()]
}
