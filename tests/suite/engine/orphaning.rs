//! `kubectl delete --cascade=orphan` leaves every object, whatever is under way: nothing that has been let go is owned again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use crate::engine::case::Case;
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds::{self, orphan, until_collected};

/// Objects whose loss would hurt, with a value that tells the version.
fn belongings(case: &Case<'_>, version: &str) -> Vec<Value> {
    let mut objects = case.config_maps(20, version);
    objects.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": case.namespace},
        "stringData": {"version": version}}));
    objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": case.namespace, "labels": {"version": format!("v{version}")}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    let mut workload = case.workload("w", 0);
    workload["metadata"]["labels"] = json!({"version": format!("v{version}")});
    objects.push(workload);
    objects
}

/// The object in whose creation a pass is kept waiting. It comes before all others, and was never there before.
fn gate(case: &Case<'_>) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gate", "namespace": case.namespace}})
}

async fn uids(case: &Case<'_>, objects: &[Value]) -> Vec<Option<String>> {
    let mut uids = Vec::new();
    for object in objects {
        let target = Target::of(object).expect("it has a name");
        uids.push(case.get(&target).await.and_then(|object| object.metadata.uid));
    }
    uids
}

fn is_free(object: &DynamicObject, owner: &str) -> bool {
    object.metadata.deletion_timestamp.is_none()
        && !object.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner)
}

/// All of them are there, and nobody's, for `period`.
async fn all_are_left(case: &Case<'_>, objects: &[Value], owner: &str, period: Duration) {
    let targets: Vec<Target> = objects.iter().map(|object| Target::of(object).expect("it has a name")).collect();
    let watches = targets.iter().map(|target| async move {
        let free = |object: Option<&DynamicObject>| object.is_some_and(|object| is_free(object, owner));
        verbs::holds_for(&case.client, target, "it stays, and is nobody's", period, free).await
    });
    for watched in futures::future::join_all(watches).await {
        watched.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

/// The same after garbage collection has done its work.
async fn none_is_collected(case: &Case<'_>, objects: &[Value], before: &[Option<String>], owner: &str) {
    until_collected(case, &case.name, owner).await;
    assert_eq!(uids(case, objects).await, before, "nothing was deleted, or made anew");
}

/// A deployment that is gone is no more the owner of anything: the pass that runs meanwhile writes nothing any more.
#[tokio::test]
async fn orphaned_in_the_middle_of_an_upgrade_its_objects_stay() {
    let case = Case::new("orphan-pivot").await;
    let v1 = belongings(&case, "1");
    case.install(&v1).await;
    let (owner, before) = (case.uid().await, uids(&case, &v1).await);
    let hook = Hook::start(&case, &[["", "serviceaccounts"]], |_| Verdict::AtGate).await;
    let mut v2 = belongings(&case, "2");
    v2.push(gate(&case));
    case.change("v2", &v2).await;
    hook.until_at_gate().await;
    orphan(&case).await;
    case.until_gone(&case.target()).await;
    hook.open_gate();
    all_are_left(&case, &v1, &owner, Duration::from_secs(5)).await;
    none_is_collected(&case, &v1, &before, &owner).await;
    hook.end().await;
}

/// The same while garbage collection still works on it: whoever is being deleted owns nothing anew either.
#[tokio::test]
async fn orphaned_in_the_middle_of_an_upgrade_nothing_is_owned_again_while_it_terminates() {
    let case = Case::new("orphan-half").await;
    let v1 = belongings(&case, "1");
    case.install(&v1).await;
    let (owner, before) = (case.uid().await, uids(&case, &v1).await);
    let hook = Hook::start(&case, &[["", "serviceaccounts"]], |_| Verdict::AtGate).await;
    let mut v2 = belongings(&case, "2");
    v2.push(gate(&case));
    case.change("v2", &v2).await;
    hook.until_at_gate().await;
    // Held by somebody else's finalizer after garbage collection has let its objects go.
    case.edit("user", &case.target(), json!({"metadata": {"finalizers": ["engine.test/hold"]}})).await;
    orphan(&case).await;
    for object in &v1 {
        let target = Target::of(object).unwrap();
        case.until(&target, "its freedom", |object| object.is_some_and(|object| is_free(object, &owner))).await;
    }
    hook.open_gate();
    let holding = async {
        let there = |object: Option<&DynamicObject>| object.is_some_and(|object| is_free(object, &owner));
        for object in [&v1[0], &v1[19], &v1[20], &v1[21], &v1[22]] {
            let target = Target::of(object).unwrap();
            verbs::holds_for(&case.client, &target, "it stays free", Duration::from_secs(1), there).await.unwrap();
        }
    };
    holding.await;
    case.edit("user", &case.target(), json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&case.target()).await;
    all_are_left(&case, &v1, &owner, Duration::from_secs(2)).await;
    none_is_collected(&case, &v1, &before, &owner).await;
    hook.end().await;
}

/// The deletion is seen by another watch than the objects that were let go: one of them may be late.
#[tokio::test]
async fn orphaned_while_the_news_of_the_deletion_is_late_its_objects_stay() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "orphan-late").await;
    let v1 = belongings(&case, "1");
    case.install(&v1).await;
    let (owner, before) = (case.uid().await, uids(&case, &v1).await);
    let turn = worlds::PROXY.lock().await;
    proxy.hold("/bundledeployments?");
    orphan(&case).await;
    let watching = async {
        case.until_gone(&case.target()).await;
        all_are_left(&case, &v1, &owner, Duration::from_secs(5)).await;
    };
    let left = AssertUnwindSafe(watching).catch_unwind().await;
    // Others need it.
    proxy.release();
    drop(turn);
    left.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    none_is_collected(&case, &v1, &before, &owner).await;
}
