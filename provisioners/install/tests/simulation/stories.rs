//! The stories.

use serde_json::json;

use crate::cluster::State;
use crate::server::{Key, Refusal};
use crate::story::{
    FINALIZER, GROUP, Hand, NAMESPACE, Story, asks, changes, config_map, creates, db, definition, deletes, deployment,
    hand, lets_pass, namespace, sets,
};

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
        lets_pass(),
        deletes("BundleDeployment", "app"),
        creates("hand", deployment("app", 1)),
    ]);
    Story { name: "one deployment", releases, hands, course: vec![asks("app", 1), asks("app", 2)], ..Story::default() }
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
    Story {
        name: "two deployments",
        releases,
        deployments,
        hands: all,
        course: vec![asks("app", 1), asks("other", 5)],
        ..Story::default()
    }
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
    Story { name: "objects that were there", before, releases, hands, course: vec![asks("app", 1)], ..Story::default() }
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
        releases: releases.into_iter().chain(others).collect(),
        deployments: vec![("app", 0), ("other", 3)],
        shards: vec!["shard!=two", "shard=two"],
        hands,
        ..Story::default()
    }
}

/// All stories with one controller.
pub fn stories() -> Vec<Story> {
    vec![one(), two(), found()]
}
