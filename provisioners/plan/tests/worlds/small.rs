//! The worlds.

use rukpak_crds::{DeletionPolicy, ServiceAccountReference};
use serde_json::{Value, json};

use crate::reconcile::reconcile;
use crate::server::{Key, Refusal, Request};
use crate::world::{Hand, NAMESPACE, Small, World, create};

const GROUP: &str = "example.com";

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
}

fn db(version: &str, size: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Db", "metadata": {"name": "precious", "namespace": NAMESPACE},
        "spec": {"size": size}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn versions(old_is_served: bool) -> Value {
    json!([{"name": "v1alpha1", "served": old_is_served, "storage": false}, {"name": "v1", "served": true, "storage": true}])
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dbs.example.com"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "dbs", "kind": "Db"}, "versions": versions(true)}})
}

fn patch(world: &mut World, kind: &str, name: &str, manager: &str, body: Value) {
    let (key, version, manager) = (Key::new(kind, name), "v1".to_owned(), manager.to_owned());
    world.send(&Request::Patch { key, version, body, manager, is_status: false });
}

fn delete(world: &mut World, kind: &str, name: &str) {
    let (key, version) = (Key::new(kind, name), "v1".to_owned());
    world.send(&Request::Delete { key, version, uid: None, resource_version: None });
}

fn template(world: &mut World, release: usize) {
    world.edit(0, |deployment| deployment.template = release);
}

const RELEASE_2: Hand = Hand { words: "the template asks for release 2", act: |world| template(world, 1) };
const CHANGE_A: Hand = Hand {
    words: "somebody changes ConfigMap \"a\"",
    act: |world| patch(world, "ConfigMap", "a", "hand", json!({"data": {"x": "theirs"}})),
};
const DELETE_A: Hand = Hand { words: "somebody deletes ConfigMap \"a\"", act: |world| delete(world, "ConfigMap", "a") };

const ORPHAN: Hand = Hand {
    words: "somebody sets deletionPolicy: Orphan",
    act: |world| world.edit(0, |this| this.spec().deletion_policy = Some(DeletionPolicy::Orphan)),
};
const SUSPEND: Hand =
    Hand { words: "somebody suspends the deployment", act: |world| world.edit(0, |this| this.spec().suspend = true) };
const FINALIZER: Hand = Hand {
    words: "the operator sets a finalizer on Db \"precious\"",
    act: |world| {
        patch(world, "Db", "precious", "operator", json!({"metadata": {"finalizers": ["example.com/clean"]}}));
    },
};

fn small(name: &'static str, releases: Vec<Vec<Value>>, hands: Vec<Hand>) -> Small {
    Small { name, before: Vec::new(), releases, templates: vec![0], controllers: 1, hands, pauses: Vec::new() }
}

/// A custom resource of somebody's CRD.
pub fn served() -> Small {
    let releases = vec![
        vec![db("v1alpha1", "1"), config_map("a", &json!({"x": "1"}))],
        vec![db("v1alpha1", "2"), config_map("a", &json!({"x": "2"}))],
    ];
    let hands = vec![
        Hand {
            words: "v1alpha1 of Db is served no more",
            act: |world| {
                patch(
                    world,
                    "CustomResourceDefinition",
                    "dbs.example.com",
                    "hand",
                    json!({"spec": {"versions": versions(false)}}),
                );
            },
        },
        Hand {
            words: "the operator changes Db \"precious\"",
            act: |world| patch(world, "Db", "precious", "operator", json!({"spec": {"size": "5"}})),
        },
        Hand {
            words: "somebody deletes the CRD of Db",
            act: |world| delete(world, "CustomResourceDefinition", "dbs.example.com"),
        },
        Hand { words: "somebody creates the CRD of Db", act: |world| world.send(&create(&definition(), "hand")) },
        RELEASE_2,
    ];
    Small { before: vec![definition()], ..small("a version that ends", releases, hands) }
}

/// A CRD of the bundle, which leaves.
pub fn definitions() -> Small {
    let releases = vec![
        vec![definition(), db("v1", "1"), config_map("a", &json!({"x": "1"}))],
        vec![config_map("a", &json!({"x": "2"}))],
    ];
    let other = |world: &mut World| {
        let mut body = db("v1", "1");
        body["metadata"]["name"] = json!("new");
        world.send(&create(&body, "hand"));
    };
    let hands = vec![
        RELEASE_2,
        Hand {
            words: "a policy refuses deletions of Db",
            act: |world| world.server.undeletable = vec!["Db".to_owned()],
        },
        Hand { words: "somebody creates Db \"new\"", act: other },
        FINALIZER,
    ];
    small("a definition that leaves", releases, hands)
}

/// What the spec says beside the template.
pub fn policy() -> Small {
    let releases = vec![vec![config_map("a", &json!({"x": "1"}))], vec![config_map("a", &json!({"x": "2"}))]];
    let hands = vec![
        SUSPEND,
        Hand {
            words: "somebody resumes the deployment",
            act: |world| world.edit(0, |this| this.spec().suspend = false),
        },
        ORPHAN,
        Hand {
            words: "somebody sets deletionPolicy: Delete",
            act: |world| world.edit(0, |this| this.spec().deletion_policy = Some(DeletionPolicy::Delete)),
        },
        RELEASE_2,
        CHANGE_A,
    ];
    small("what the spec says", releases, hands)
}

/// Another account for what is installed already.
pub fn account() -> Small {
    fn name(world: &mut World, name: &str) {
        let account = ServiceAccountReference { name: name.to_owned(), namespace: NAMESPACE.to_owned() };
        world.edit(0, |this| this.spec().service_account = Some(account));
    }
    let release = |x: &str| vec![config_map("a", &json!({"x": x})), config_map("b", &json!({"x": x}))];
    let hands = vec![
        Hand { words: "somebody names the account \"installer\"", act: |world| name(world, "installer") },
        Hand {
            words: "somebody names the account \"weak\", which may not write ConfigMap \"b\"",
            act: |world| name(world, "weak"),
        },
        Hand { words: "the account \"weak\" gets the right that it lacks", act: |world| world.is_granted = true },
        RELEASE_2,
        CHANGE_A,
    ];
    small("another account", vec![release("1"), release("2")], hands)
}

/// A deployment that is deleted in order.
pub fn end() -> Small {
    let release = vec![definition(), db("v1", "1"), config_map("a", &json!({"x": "1"}))];
    let hands = vec![
        Hand {
            words: "somebody sets deletionPolicy: InOrder",
            act: |world| world.edit(0, |this| this.spec().deletion_policy = Some(DeletionPolicy::InOrder)),
        },
        ORPHAN,
        Hand { words: "the deployment is deleted", act: |world| world.delete(0) },
        FINALIZER,
        SUSPEND,
    ];
    small("a deletion in order", vec![release], hands)
}

/// An object that an operator has written to before it is taken over.
pub fn adoption() -> Small {
    let releases = vec![vec![db("v1", "1")], vec![db("v1", "2")]];
    let mut found = db("v1", "1");
    found["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": "app"});
    let hands = vec![
        Hand {
            words: "the operator, as \"manager\", sets finalizer and volume of Db \"precious\"",
            act: |world| {
                let body = json!({"metadata": {"finalizers": ["example.com/clean"]}, "spec": {"volume": "v-1"}});
                patch(world, "Db", "precious", "manager", body);
            },
        },
        RELEASE_2,
    ];
    Small { before: vec![definition(), found], ..small("an object that is taken over", releases, hands) }
}

/// Somebody who changes the same field again and again.
pub fn contest() -> Small {
    let releases = vec![vec![config_map("a", &json!({"x": "1", "z": "1"}))]];
    small("a field that somebody insists on", releases, vec![CHANGE_A, DELETE_A])
}

/// An object that has our marks by copy, and a controller of its own.
pub fn copies() -> Small {
    let releases = vec![
        vec![config_map("a", &json!({"x": "1"})), config_map("b", &json!({"x": "1"}))],
        vec![config_map("a", &json!({"x": "2"}))],
    ];
    let copy = |world: &mut World| {
        let mut body = config_map("copy", &json!({"x": "1"}));
        body["metadata"]["labels"] =
            json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "app"});
        body["metadata"]["annotations"] = json!({"core.rukpak.io/owner-uid": "uid-of-app"});
        body["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true}]);
        world.send(&create(&body, "operator"));
    };
    let hands = vec![
        Hand {
            words: "an operator makes a copy of ConfigMap \"a\", with its marks and a controller of its own",
            act: copy,
        },
        RELEASE_2,
        DELETE_A,
    ];
    small("a copy with our marks", releases, hands)
}

/// Two deployments in one Namespace, which the first has made.
pub fn sharing() -> Small {
    let releases = vec![
        vec![namespace("n"), config_map("a", &json!({"x": "1"}))],
        vec![config_map("a", &json!({"x": "2"}))],
        vec![namespace("n"), config_map("b", &json!({"x": "1"}))],
    ];
    let hands = vec![
        RELEASE_2,
        Hand { words: "garbage is collected", act: World::collect },
        Hand { words: "the first deployment asks for release 1", act: |world| template(world, 0) },
    ];
    Small { templates: vec![0, 2], ..small("a Namespace of two", releases, hands) }
}

/// Two deployments with one CRD: they begin alike, and then each may add a version, leave the CRD out, and be deleted.
pub fn united() -> Small {
    fn other(world: &mut World, release: usize) {
        world.edit(1, |deployment| deployment.template = release);
    }
    let crd = |names: &[&str]| {
        let mut crd = definition();
        let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1"});
        crd["spec"]["versions"] = names.iter().map(version).collect();
        crd
    };
    let releases = vec![
        vec![crd(&["v1"]), config_map("a", &json!({"x": "1"}))],
        vec![crd(&["v1", "v1beta1"]), config_map("a", &json!({"x": "2"}))],
        vec![config_map("a", &json!({"x": "3"}))],
        vec![crd(&["v1"]), config_map("b", &json!({"x": "1"}))],
        vec![crd(&["v1", "v1alpha1"]), config_map("b", &json!({"x": "2"}))],
        vec![config_map("b", &json!({"x": "3"}))],
    ];
    let hands = vec![
        Hand { words: "the first deployment asks for release 2, with v1beta1", act: |world| template(world, 1) },
        Hand { words: "the first deployment asks for release 3, without the CRD", act: |world| template(world, 2) },
        Hand { words: "the first deployment asks for release 1", act: |world| template(world, 0) },
        Hand { words: "the other deployment asks for release 5, with v1alpha1", act: |world| other(world, 4) },
        Hand { words: "the other deployment asks for release 6, without the CRD", act: |world| other(world, 5) },
        Hand { words: "the other deployment asks for release 4", act: |world| other(world, 3) },
        Hand { words: "the first deployment is deleted", act: |world| world.delete(0) },
        Hand { words: "the other deployment is deleted", act: |world| world.delete(1) },
        Hand { words: "garbage is collected", act: World::collect },
    ];
    Small { templates: vec![0, 3], ..small("a CRD of two", releases, hands) }
}

/// A deployment that another controller gets while the first works on it.
pub fn shards() -> Small {
    let release = |x: &str| vec![config_map("a", &json!({"x": x})), config_map("b", &json!({"x": x}))];
    let hand_over = |world: &mut World| {
        world.edit(0, |deployment| (deployment.controller, deployment.template) = (1, 2));
        world.restart(1);
        for _ in 0..3 {
            world.catch_up(1);
            reconcile(world, 1, 0, None);
        }
    };
    let hands = vec![
        RELEASE_2,
        Hand { words: "the deployment is given to another controller, which installs release 3", act: hand_over },
    ];
    Small { controllers: 2, ..small("two controllers", vec![release("1"), release("2"), release("3")], hands) }
}

/// Has a webhook refuse ConfigMap "b" of release 2.
fn webhook(world: &mut World, refusal: Refusal) {
    world.server.refused = vec![(Key::new("ConfigMap", "b"), "2".to_owned(), refusal)];
}

/// An upgrade that a webhook refuses, or does not answer.
pub fn upgrade() -> Small {
    let release = |x: &str| vec![config_map("a", &json!({"x": x})), config_map("b", &json!({"x": x}))];
    let hands = vec![
        RELEASE_2,
        Hand {
            words: "a webhook begins to refuse ConfigMap \"b\" of release 2",
            act: |world| webhook(world, Refusal::Forbidden),
        },
        Hand {
            words: "a webhook is away that ConfigMap \"b\" of release 2 needs",
            act: |world| webhook(world, Refusal::Unavailable),
        },
        Hand {
            words: "somebody annotates the deployment",
            act: |world| {
                world.deployments[0].annotations.insert("example.com/last-seen".to_owned(), "now".to_owned());
                world.touch(0);
            },
        },
        Hand {
            words: "the template asks for release 3, whose Bundle is not unpacked yet",
            act: |world| world.edit(0, |this| (this.template, this.is_unpacked) = (2, false)),
        },
        Hand {
            words: "the Bundle is unpacked",
            act: |world| {
                world.deployments[0].is_unpacked = true;
                world.touch(0);
            },
        },
    ];
    let pauses = vec![Hand {
        words: "the controller is away for ten minutes",
        act: |world| {
            world.now += std::time::Duration::from_mins(10);
            world.restart(0);
        },
    }];
    Small { pauses, ..small("an upgrade that hangs", vec![release("1"), release("2"), release("3")], hands) }
}

/// A deployment that depends on another, and is to go back.
pub fn dependency() -> Small {
    let hands = vec![
        RELEASE_2,
        Hand {
            words: "what the deployment depends on falls ill",
            act: |world| {
                world.deployments[0].has_dependencies = false;
                world.touch(0);
            },
        },
        Hand {
            words: "somebody sets rollbackTo: 1",
            act: |world| world.edit(0, |this| this.spec().rollback_to = Some(1)),
        },
    ];
    let releases = vec![vec![config_map("a", &json!({"x": "1"}))], vec![config_map("a", &json!({"x": "2"}))]];
    small("a way back past what is ill", releases, hands)
}

/// Three releases of two objects, a CRD and a custom resource, and everything at once.
pub fn everything() -> Small {
    let map = |name: &str, x: &str| config_map(name, &json!({"x": x}));
    let releases = vec![
        vec![definition(), db("v1", "1"), map("a", "1"), map("b", "1")],
        vec![definition(), db("v1", "2"), map("a", "2")],
        vec![map("a", "3"), map("b", "3")],
    ];
    let hands = vec![
        RELEASE_2,
        Hand { words: "the template asks for release 3", act: |world| template(world, 2) },
        CHANGE_A,
        DELETE_A,
        Hand { words: "somebody deletes Db \"precious\"", act: |world| delete(world, "Db", "precious") },
        Hand {
            words: "the operator changes Db \"precious\", and sets a finalizer",
            act: |world| {
                let body = json!({"metadata": {"finalizers": ["example.com/clean"]}, "spec": {"size": "5"}});
                patch(world, "Db", "precious", "operator", body);
            },
        },
        Hand {
            words: "the operator takes its finalizer off Db \"precious\"",
            act: |world| patch(world, "Db", "precious", "operator", json!({"metadata": {"finalizers": []}})),
        },
        Hand {
            words: "somebody deletes the CRD of Db",
            act: |world| delete(world, "CustomResourceDefinition", "dbs.example.com"),
        },
        Hand {
            words: "a webhook begins to refuse ConfigMap \"a\" of release 2",
            act: |world| world.server.refused = vec![(Key::new("ConfigMap", "a"), "2".to_owned(), Refusal::Forbidden)],
        },
        SUSPEND,
        Hand {
            words: "somebody resumes the deployment",
            act: |world| world.edit(0, |this| this.spec().suspend = false),
        },
        ORPHAN,
    ];
    small("everything", releases, hands)
}
