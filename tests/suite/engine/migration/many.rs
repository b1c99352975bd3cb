//! As many objects as a large cluster has of one kind.

use std::time::{Duration, Instant};

use http::Method;
use kube::api::DynamicObject;
use rukpak_tests::verbs;
use serde_json::json;

use super::{definitions, fill, is_migrated};
use crate::engine::case::{Case, definition_target};
use crate::engine::worlds;

/// Prints how long it takes, and how many requests: `cargo test --workspace --test suites migration::fifty -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes half an hour"]
async fn fifty_thousand_objects_are_migrated() {
    const MANY: usize = 50_000;
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "migration-many").await;
    let ([old, new], group) = definitions("many");
    case.install(&[old]).await;
    let begun = Instant::now();
    let before = fill(&case, &group, MANY).await;
    println!("{MANY} objects created in {:?}", begun.elapsed());
    let turn = worlds::PROXY.lock().await;
    proxy.forget();
    let begun = Instant::now();
    case.change("v2", &[new]).await;
    let is_done = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data.pointer("/spec/versions/0/name") == Some(&json!("v2")))
    };
    let target = definition_target(&group);
    let done = verbs::await_object(&case.client, &target, "the end", Duration::from_mins(40), is_done).await;
    let took = begun.elapsed();
    let of_kind = format!("/apis/{group}/");
    let asked: Vec<_> = proxy.seen().into_iter().filter(|seen| seen.path.contains(&of_kind)).collect();
    drop(turn);
    done.expect("it comes to an end");
    let count = |method: Method, part: &str| {
        asked.iter().filter(|seen| seen.method == method && seen.path.contains(part)).count()
    };
    let (lists, patches) = (count(Method::GET, "limit="), count(Method::PATCH, ""));
    let tried = count(Method::PATCH, "dryRun=");
    println!("{MANY} objects migrated in {took:?}: {lists} lists, {tried} dry runs, {} writes", patches - tried);
    assert!((patches - tried) * 10 <= MANY * 11, "{patches} requests");
    is_migrated(&case, &group, &before).await;
}
