//! As many objects as a large cluster has of one kind, while the controller is killed again and again.

use std::time::{Duration, Instant};

use http::Method;
use kube::api::ListParams;
use rukpak_tests::verbs;
use rukpak_tests::world::World;
use serde_json::json;

use super::{definitions, fill, is_migrated, objects, versions};
use crate::engine::case::Case;
use crate::engine::worlds;

const MANY: usize = 50_000;
/// The controller is killed each time that the status says so many more.
const KILLS: usize = 10_000;
const WITHIN: Duration = Duration::from_mins(40);

/// Prints how long it takes, how many requests, and how much memory:
/// `cargo test --workspace --test suites migration::many -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes half an hour"]
async fn fifty_thousand_objects_are_migrated_under_kills() {
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
    let Watched { kills, peak_bytes } = watch(&case, world, &group).await;
    let took = begun.elapsed();
    let of_kind = format!("/apis/{group}/");
    let asked: Vec<_> = proxy.seen().into_iter().filter(|seen| seen.path.contains(&of_kind)).collect();
    drop(turn);
    let count = |method: Method, part: &str| {
        asked.iter().filter(|seen| seen.method == method && seen.path.contains(part)).count()
    };
    let (lists, patches) = (count(Method::GET, "limit="), count(Method::PATCH, ""));
    let tried = count(Method::PATCH, "dryRun=");
    println!(
        "{MANY} objects migrated in {took:?} with {kills} kills: {tried} dry runs, {} writes, {lists} lists; the controller took {} MiB at most",
        patches - tried,
        peak_bytes >> 20
    );
    assert!(kills >= MANY / KILLS - 1, "{kills}");
    assert!((patches - tried + lists) * 10 <= MANY * 11, "{} writes and {lists} lists", patches - tried);
    is_migrated(&case, &group, &before).await;
}

struct Watched {
    kills: usize,
    /// The most memory that a controller had.
    peak_bytes: u64,
}

/// Kills the controller at intervals until the version is dropped, and looks all the time whether the objects can be read.
async fn watch(case: &Case<'_>, world: &World, group: &str) -> Watched {
    let (deadline, api) = (Instant::now() + WITHIN, objects(case, group, "v2"));
    let (mut watched, mut said) = (Watched { kills: 0, peak_bytes: 0 }, 0);
    while versions(case, group).await != ("v2*".to_owned(), json!(["v2"])) {
        assert!(Instant::now() < deadline, "{said} objects are migrated");
        let few = api.list(&ListParams::default().limit(10)).await.expect("the API is served throughout");
        assert_eq!(few.items.len(), 10);
        watched.peak_bytes = watched.peak_bytes.max(world.controller.peak_resident_bytes().expect("it runs"));
        if let Some(now) = migrated(case).await {
            assert!(now >= said, "the status went back from {said} to {now}");
            said = now;
            if now >= (watched.kills + 1) * KILLS && now < MANY {
                watched.kills += 1;
                world.controller.kill().await.expect("the controller obeys");
                world.controller.restart().await.expect("the controller starts");
                world.controller.wait_ready().await.expect("the controller is ready");
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await; // a figure of another process
    }
    watched
}

/// How many objects the status says are migrated, while it says so.
async fn migrated(case: &Case<'_>) -> Option<usize> {
    let object = case.get(&case.target()).await?;
    let ready = verbs::condition(&object, "Ready")?;
    let (_, rest) = ready["message"].as_str()?.split_once(" to v2: ")?;
    rest.split_once(" of ")?.0.replace(',', "").parse().ok()
}
