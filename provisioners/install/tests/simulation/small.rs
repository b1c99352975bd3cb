//! Small stories, each about one thing: everything that may disturb them is tried.

use serde_json::{Value, json};

use crate::cluster::State;
use crate::fate::News;
use crate::script::{Disturbance, Script};
use crate::server::{Key, Refusal};
use crate::story::{
    FINALIZER, Hand, NAMESPACE, Story, asks, changes, config_map, creates, db, db_of, definition, deletes, hand,
    lets_pass, namespace, sets, versions,
};

const CRD: &str = "CustomResourceDefinition";
const DBS: &str = "dbs.example.com";

fn two_maps(x: &str) -> Vec<Value> {
    vec![config_map("a", x), config_map("b", x)]
}

fn edits(name: &'static str) -> Hand {
    changes("ConfigMap", name, "hand", json!({"data": {"x": "theirs"}}))
}

fn operates(body: Value) -> Hand {
    changes("Db", "precious", "operator", body)
}

fn holds() -> Hand {
    operates(json!({"metadata": {"finalizers": [FINALIZER]}}))
}

fn orphans() -> Hand {
    sets("app", json!({"deletionPolicy": "Orphan"}))
}

fn suspends() -> Hand {
    sets("app", json!({"suspend": true}))
}

/// Has a webhook refuse ConfigMap "b" where it is `x`.
fn refuses(x: &'static str, refusal: Refusal) -> Hand {
    hand(format!("a webhook answers {refusal:?} to ConfigMap \"b\" with {x}"), move |state: &mut State| {
        state.server.refused = vec![(Key::new("ConfigMap", "b"), x.to_owned(), refusal)];
        state.server.lets_trials_pass = true;
    })
}

fn restarts() -> Hand {
    hand("all controllers are killed", |state| state.is_restarting = true)
}

/// A custom resource of somebody's CRD.
pub fn served() -> Story {
    let release = |x: &str| vec![db_of("v1alpha1", x), config_map("a", x)];
    let names = ["v1alpha1", "v1"];
    let ends = || changes(CRD, DBS, "hand", json!({"spec": {"versions": versions(&names, &["v1"])}}));
    let hands = vec![
        ends(),
        operates(json!({"spec": {"size": "5"}})),
        deletes(CRD, DBS),
        creates("hand", definition(&names)),
        asks("app", 1),
    ];
    Story {
        name: "a version that ends",
        before: vec![definition(&names)],
        releases: vec![release("1"), release("2")],
        hands,
        course: vec![ends(), restarts(), asks("app", 1)],
        ..Story::default()
    }
}

/// A custom resource whose CRD goes, and comes back.
pub fn gone() -> Story {
    let release = |x: &str| vec![db(x), config_map("a", x)];
    Story {
        name: "a definition that goes",
        before: vec![definition(&["v1"])],
        releases: vec![release("1"), release("2")],
        hands: vec![asks("app", 1), edits("a"), deletes("Db", "precious"), creates("hand", definition(&["v1"]))],
        course: vec![deletes(CRD, DBS), restarts(), creates("hand", definition(&["v1"]))],
        ..Story::default()
    }
}

/// A CRD of the bundle, which leaves.
pub fn definitions() -> Story {
    let mut new = db("1");
    new["metadata"]["name"] = json!("new");
    let hands = vec![
        asks("app", 1),
        hand("a policy refuses deletions of Db", |state| state.server.undeletable = vec!["Db".to_owned()]),
        hand("the policy is gone", |state| state.server.undeletable.clear()),
        creates("somebody", new),
        holds(),
    ];
    Story {
        name: "a definition that leaves",
        releases: vec![vec![definition(&["v1"]), db("1"), config_map("a", "1")], vec![config_map("a", "2")]],
        hands,
        course: vec![restarts(), asks("app", 1)],
        ..Story::default()
    }
}

/// What the spec says beside the template.
pub fn policy() -> Story {
    let hands = vec![
        suspends(),
        sets("app", json!({"suspend": null})),
        orphans(),
        sets("app", json!({"deletionPolicy": "Delete"})),
        asks("app", 1),
        edits("a"),
    ];
    Story {
        name: "what the spec says",
        releases: vec![vec![config_map("a", "1")], vec![config_map("a", "2")]],
        hands,
        course: vec![orphans(), asks("app", 1), restarts()],
        ..Story::default()
    }
}

/// Another account for what is installed already. "weak" may write nothing before it is granted.
pub fn account() -> Story {
    let names = |name: &str| sets("app", json!({"serviceAccount": {"name": name, "namespace": NAMESPACE}}));
    let hands = vec![
        names("installer"),
        names("weak"),
        creates("admin", config_map(crate::wire::GRANT, "")),
        asks("app", 1),
        edits("a"),
    ];
    Story {
        name: "another account",
        releases: vec![two_maps("1"), two_maps("2")],
        hands,
        course: vec![names("installer"), asks("app", 1)],
        ..Story::default()
    }
}

/// A deployment that is deleted in order.
pub fn end() -> Story {
    let in_order = || sets("app", json!({"deletionPolicy": "InOrder"}));
    let ends = || deletes("BundleDeployment", "app");
    Story {
        name: "a deletion in order",
        releases: vec![vec![definition(&["v1"]), db("1"), config_map("a", "1")]],
        hands: vec![in_order(), orphans(), ends(), holds(), suspends()],
        course: vec![in_order(), restarts(), ends()],
        ..Story::default()
    }
}

/// An object that an operator has written to before it is taken over.
pub fn adoption() -> Story {
    let mut found = db("1");
    found["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": "app"});
    let body = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"volume": "v-1"}});
    let writes = || changes("Db", "precious", "manager", body.clone());
    Story {
        name: "an object that is taken over",
        before: vec![definition(&["v1"]), found],
        releases: vec![vec![db("1")], vec![db("2")]],
        hands: vec![writes(), asks("app", 1)],
        course: vec![writes(), asks("app", 1)],
        ..Story::default()
    }
}

/// Somebody who changes the same field again and again.
pub fn contest() -> Story {
    let mut body = config_map("a", "1");
    body["data"]["z"] = json!("1");
    let insists = || {
        hand("somebody insists on another value in ConfigMap \"a\"", |state: &mut State| {
            state.insisted = Some((Key::new("ConfigMap", "a"), json!({"data": {"x": "theirs"}})));
        })
    };
    let yields = || hand("nobody insists any more", |state: &mut State| state.insisted = None);
    let deletes = || deletes("ConfigMap", "a");
    Story {
        name: "a field that somebody insists on",
        releases: vec![vec![body]],
        hands: vec![insists(), yields(), deletes()],
        course: vec![insists(), yields(), deletes()],
        ..Story::default()
    }
}

/// An object that has our marks by copy, and a controller of its own.
pub fn copies() -> Story {
    let copies = || {
        hand("an operator copies ConfigMap \"a\", with its marks, for a controller of its own", |state: &mut State| {
            let owner = state.server.objects.get(&Key::new("BundleDeployment", "app"));
            let uid = owner.map(|owner| owner.uid.clone());
            let mut copy = config_map("copy", "1");
            copy["metadata"]["labels"] =
                json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "app"});
            copy["metadata"]["annotations"] = json!({"core.rukpak.io/owner-uid": uid});
            copy["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs",
                "uid": "ConfigMap/theirs#1.", "controller": true}]);
            (creates("operator", copy).act)(state);
        })
    };
    Story {
        name: "a copy with our marks",
        before: vec![config_map("theirs", "1")],
        releases: vec![two_maps("1"), vec![config_map("a", "2")]],
        hands: vec![copies(), asks("app", 1), deletes("ConfigMap", "a")],
        course: vec![copies(), asks("app", 1)],
        ..Story::default()
    }
}

/// Two deployments in one Namespace, which the first has made.
pub fn sharing() -> Story {
    let releases = vec![
        vec![namespace("n"), config_map("a", "1")],
        vec![config_map("a", "2")],
        vec![namespace("n"), config_map("b", "1")],
    ];
    Story {
        name: "a Namespace of two",
        releases,
        deployments: vec![("app", 0), ("other", 2)],
        hands: vec![asks("app", 0), asks("app", 1), deletes("BundleDeployment", "app")],
        course: vec![asks("app", 1), asks("app", 0)],
        ..Story::default()
    }
}

/// Two deployments with one CRD: they begin alike, and then each may add a version, leave the CRD out, and be deleted.
pub fn united() -> Story {
    let crd = |version: &str| definition(&["v1", version]);
    let releases = vec![
        vec![definition(&["v1"]), config_map("a", "1")],
        vec![crd("v1beta1"), config_map("a", "2")],
        vec![config_map("a", "3")],
        vec![definition(&["v1"]), config_map("b", "1")],
        vec![crd("v1alpha1"), config_map("b", "2")],
        vec![config_map("b", "3")],
    ];
    let hands = vec![
        asks("app", 2),
        asks("other", 5),
        deletes("BundleDeployment", "app"),
        deletes("BundleDeployment", "other"),
    ];
    Story {
        name: "a CRD of two",
        releases,
        deployments: vec![("app", 0), ("other", 3)],
        hands,
        course: vec![asks("app", 1), asks("other", 4), asks("app", 2)],
        ..Story::default()
    }
}

/// A deployment that another controller gets while the first works on it.
pub fn shards() -> Story {
    let gets = || {
        let labels = changes("BundleDeployment", "app", "hand", json!({"metadata": {"labels": {"shard": "two"}}}));
        hand("app is given to the other controller, and asks for release 2", move |state: &mut State| {
            (labels.act)(state);
            (asks("app", 2).act)(state);
        })
    };
    Story {
        name: "two controllers",
        releases: vec![two_maps("1"), two_maps("2"), two_maps("3")],
        shards: vec!["shard!=two", "shard=two"],
        hands: vec![asks("app", 1), gets()],
        course: vec![asks("app", 1), gets()],
        // Both labelled the Bundles for their shard, again and again.
        kept: vec![Script(vec![(134, Disturbance::News(News::Expired))])],
        ..Story::default()
    }
}

/// Two processes, of which one works: the one that has the Lease.
pub fn led() -> Story {
    Story {
        name: "two replicas and a Lease",
        releases: vec![two_maps("1"), vec![config_map("a", "2")], two_maps("3")],
        shards: vec!["", ""],
        is_led: true,
        hands: vec![asks("app", 2), deletes("Lease", crate::story::LEASE), deletes("ConfigMap", "a")],
        course: vec![asks("app", 1)],
        ..Story::default()
    }
}

fn annotates(key: &str, value: &str) -> Hand {
    changes("BundleDeployment", "app", "hand", json!({"metadata": {"annotations": {key: value}}}))
}

/// An upgrade that a webhook refuses, or does not answer.
pub fn upgrade() -> Story {
    let hands = vec![
        asks("app", 1),
        refuses("2", Refusal::Forbidden),
        refuses("2", Refusal::Unavailable),
        lets_pass(),
        annotates("example.com/last-seen", "now"),
        asks("app", 2),
    ];
    Story {
        name: "an upgrade that hangs",
        releases: vec![two_maps("1"), two_maps("2"), two_maps("3")],
        hands,
        course: vec![refuses("2", Refusal::Unavailable), asks("app", 1), lets_pass(), asks("app", 2)],
        ..Story::default()
    }
}

/// An upgrade that is refused for good.
pub fn refused() -> Story {
    Story {
        name: "an upgrade that is refused",
        releases: vec![two_maps("1"), two_maps("2"), two_maps("3")],
        hands: vec![annotates("example.com/last-seen", "now"), asks("app", 2), lets_pass()],
        course: vec![refuses("2", Refusal::Forbidden), asks("app", 1), annotates("example.com/last-seen", "now")],
        ..Story::default()
    }
}

/// A deployment whose manifests are kept, and leave its history again: what cannot be written or removed of them stops nothing.
pub fn manifests() -> Story {
    Story {
        name: "manifests that are kept",
        releases: vec![two_maps("1"), two_maps("2"), two_maps("3")],
        hands: vec![asks("app", 2), deletes("BundleDeployment", "app")],
        course: vec![
            annotates("core.rukpak.io/keep-manifests", "true"),
            asks("app", 1),
            sets("app", json!({"revisionHistoryLimit": 1})),
            asks("app", 2),
        ],
        ..Story::default()
    }
}

/// A deployment that depends on another, and is to go back.
pub fn dependency() -> Story {
    let back = || sets("app", json!({"rollbackTo": 1}));
    let ill = || {
        hand("what app depends on falls ill", |state: &mut State| {
            (refuses("ill", Refusal::Forbidden).act)(state);
            (asks("other", 3).act)(state);
        })
    };
    let releases = vec![
        vec![config_map("a", "1")],
        vec![config_map("a", "2")],
        vec![config_map("b", "1")],
        vec![config_map("b", "ill")],
    ];
    Story {
        name: "a way back past what is ill",
        releases,
        deployments: vec![("app", 0), ("other", 2)],
        hands: vec![ill(), back(), asks("app", 1)],
        course: vec![sets("app", json!({"dependsOn": [{"name": "other"}]})), asks("app", 1), ill(), back()],
        ..Story::default()
    }
}
