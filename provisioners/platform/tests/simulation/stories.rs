//! The stories: packages, and what may happen to them.

use serde_json::{Value, json};

use crate::cluster::State;
use crate::packages::{image, platform};
use crate::rest;
use crate::server::{Key, Refusal};
use crate::story::{
    Hand, NAMESPACE, Story, changes, cluster_definition, config_map, creates, deletes, hand, lets_pass, namespace,
};

const OLM: &str = "olm.operatorframework.io";
const OPENSHIFT: &str = "platform.openshift.io";

/// The kinds of the program.
fn before() -> Vec<Value> {
    vec![
        cluster_definition(OLM, "v1", "ClusterCatalog"),
        cluster_definition(OLM, "v1", "ClusterExtension"),
        cluster_definition(OPENSHIFT, "v1alpha1", "PlatformOperator"),
        cluster_definition("core.rukpak.io", "v1alpha1", "ContentPolicy"),
    ]
}

fn catalog(number: usize) -> Value {
    json!({"apiVersion": format!("{OLM}/v1"), "kind": "ClusterCatalog", "metadata": {"name": "c"},
        "spec": {"availabilityMode": "Available", "priority": 0, "source": {"type": "Image", "image": {"ref": image(number)}}}})
}

fn of_package(name: &str) -> Value {
    json!({"apiVersion": format!("{OLM}/v1"), "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": NAMESPACE, "source": {"sourceType": "Catalog",
            "catalog": {"packageName": name, "upgradeConstraintPolicy": "CatalogProvided"}}}})
}

fn two_maps(x: &str) -> Vec<Value> {
    vec![config_map("a", x), config_map("b", x)]
}

/// What every story of packages has: the program makes the BundleDeployments.
fn of_platform() -> Story {
    Story { deployments: Vec::new(), programs: vec![platform()], rest: rest::wrong, ..Story::default() }
}

/// The catalog gets other content.
fn publishes(number: usize) -> Hand {
    changes("ClusterCatalog", "c", "hand", json!({"spec": {"source": {"image": {"ref": image(number)}}}}))
}

/// A ClusterExtension that follows its catalog.
pub fn extension() -> Story {
    let mut before = before();
    before.extend([catalog(0), of_package("app")]);
    Story {
        name: "an extension",
        before,
        releases: vec![two_maps("1"), two_maps("2")],
        packaged: vec![("app", "1.0.0"), ("app", "1.1.0")],
        hands: vec![
            publishes(1),
            changes("ClusterCatalog", "c", "hand", json!({"spec": {"availabilityMode": "Unavailable"}})),
            changes("ClusterCatalog", "c", "hand", json!({"spec": {"availabilityMode": "Available"}})),
            changes("ClusterExtension", "app", "hand", json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}})),
            changes("ClusterExtension", "app", "hand", json!({"spec": {"source": {"catalog": {"version": null}}}})),
            deletes("ClusterExtension", "app"),
            creates("hand", of_package("app")),
            deletes("ConfigMap", "a"),
        ],
        course: vec![publishes(1), deletes("ClusterExtension", "app")],
        ..of_platform()
    }
}

/// A PlatformOperator of the package `app`.
fn operator_of_app(name: &str) -> Value {
    json!({"apiVersion": format!("{OPENSHIFT}/v1alpha1"), "kind": "PlatformOperator", "metadata": {"name": name},
        "spec": {"package": {"name": "app"}, "upgradePolicy": "Automatic"}})
}

/// A PlatformOperator that follows its catalog, and another one for the same package.
pub fn operator() -> Story {
    let mut before = before();
    before.extend([catalog(0), operator_of_app("app")]);
    let release = |x: &str| {
        let mut release = two_maps(x);
        release.push(namespace("app-system"));
        release
    };
    Story {
        name: "a platform operator",
        before,
        releases: vec![release("1"), release("2")],
        packaged: vec![("app", "1.0.0"), ("app", "1.1.0")],
        hands: vec![
            publishes(1),
            deletes("PlatformOperator", "app"),
            creates("hand", operator_of_app("app")),
            creates("hand", operator_of_app("twin")),
            deletes("PlatformOperator", "twin"),
            deletes("ClusterCatalog", "c"),
            creates("hand", catalog(1)),
            deletes("ConfigMap", "a"),
        ],
        course: vec![publishes(1), creates("hand", operator_of_app("twin")), deletes("PlatformOperator", "app")],
        ..of_platform()
    }
}

/// Two extensions whose versions need each other: they are upgraded together, or not at all.
pub fn pair() -> Story {
    let mut leader = of_package("app");
    leader["metadata"]["annotations"] = json!({"core.rukpak.io/dependencies": "Install"});
    // Made by hand, it must not wait for `app`, which waits for it.
    let mut pair = of_package("pair");
    pair["metadata"]["annotations"] = json!({"core.rukpak.io/ignore-dependencies": "true"});
    let mut before = before();
    before.extend([catalog(2), leader]);
    let map = |name: &str, x: &str| vec![config_map(name, x)];
    Story {
        name: "two that go together",
        before,
        releases: vec![map("a", "1"), map("a", "2"), map("b", "1"), map("b", "2")],
        packaged: vec![("app", "1.0.0"), ("app", "1.1.0"), ("pair", "1.0.0"), ("pair", "1.1.0")],
        hands: vec![
            publishes(3),
            refuses("2"),
            lets_pass(),
            deletes("ClusterExtension", "pair"),
            creates("hand", pair),
            deletes("ConfigMap", "a"),
        ],
        // What is installed for another one stays at its version until somebody says that it may move.
        course: vec![
            changes("ClusterExtension", "pair", "hand", json!({"spec": {"source": {"catalog": {"version": null}}}})),
            publishes(3),
        ],
        ..of_platform()
    }
}

/// Has a webhook refuse ConfigMap "b" where it is `x`.
fn refuses(x: &'static str) -> Hand {
    hand(format!("a webhook refuses ConfigMap \"b\" with {x}"), move |state: &mut State| {
        state.server.refused = vec![(Key::new("ConfigMap", "b"), x.to_owned(), Refusal::Forbidden)];
    })
}
