//! As many objects as a large cluster has of one kind, while the controller is killed every few hundred writes and people go on reading.
//!
//! The sweep kills it at every single write of a migration of four objects. Not here: whoever goes on lists what is written already,
//! which takes seconds, so that 50,000 kills would take days.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use http::Method;
use kube::api::{DynamicObject, ListParams};
use rukpak_tests::faulty::Seen;
use rukpak_tests::world::World;
use rukpak_tests::{Fault, FaultyServer, Rule, verbs};
use serde_json::json;

use super::{Contents, PAGE, content, definitions, fill, is_migrated, objects, recorded, versions};
use crate::engine::case::{Case, definition_target};
use crate::engine::worlds;

const MANY: usize = 50_000;
/// A controller is killed at one of its first so many writes.
const WRITES: usize = 700;
const LEAST_KILLS: usize = 100;
/// To try to store every object takes minutes.
const PROVED_WITHIN: Duration = Duration::from_mins(30);
const WRITTEN_WITHIN: Duration = Duration::from_mins(5);
const READ_EVERY: Duration = Duration::from_millis(250);
/// Of the names that are read, so many are passed over. It is prime.
const STRIDE: usize = 7_919;

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
    let (begun, reads) = (Instant::now(), Cell::new(0));
    case.change("v2", &[new]).await;
    let killed = tokio::select! {
        killed = kill_until_migrated(&case, world, proxy, &group) => killed,
        never = read_on(&case, &group, &before, &reads) => match never {},
    };
    let took = begun.elapsed();
    drop(turn);

    let Killed { kills, tally: Tally { tried, written, lists }, peak_bytes } = killed;
    let reads = reads.get();
    println!(
        "{MANY} objects migrated in {took:?} with {kills} kills: {tried} dry runs, {written} writes, {lists} lists; they were read \
         {reads} times; the controller took {} MiB at most",
        peak_bytes >> 20
    );
    assert!(kills >= LEAST_KILLS, "{kills}");
    assert!(reads > kills, "people read all the time: {reads}");
    // Every object is tried once and written once, and what was done is not done again after a kill: it is listed.
    let pages = MANY.div_ceil(PAGE);
    assert!(tried * 10 <= MANY * 11, "{tried} dry runs");
    assert!((written + 3 * pages) * 10 <= MANY * 11, "{written} writes");
    assert!(lists <= (3 + kills) * pages, "{lists} lists");
    is_migrated(&case, &group, &before).await;
}

#[derive(Default)]
struct Killed {
    kills: usize,
    tally: Tally,
    /// The most memory that a controller had.
    peak_bytes: u64,
}

/// What controllers asked about the objects.
#[derive(Default)]
struct Tally {
    /// Dry runs.
    tried: usize,
    written: usize,
    lists: usize,
}

impl Tally {
    fn add(&mut self, seen: &[Seen], group: &str) {
        let of_kind = format!("/apis/{group}/");
        for seen in seen.iter().filter(|seen| seen.path.contains(&of_kind)) {
            match seen.method {
                Method::PATCH if seen.path.contains("dryRun=") => self.tried += 1,
                Method::PATCH => self.written += 1,
                Method::GET if seen.path.contains("limit=") => self.lists += 1,
                _ => {}
            }
        }
    }
}

/// Kills the controller while it writes an object, again and again: one time the write does not arrive, the other time its answer.
async fn kill_until_migrated(case: &Case<'_>, world: &World, proxy: &FaultyServer, group: &str) -> Killed {
    let (mut killed, mut said) = (Killed::default(), 0);
    let object = format!("/apis/{group}/v2/namespaces/{}/gadgets/g-", case.namespace);
    // From here on nothing is a dry run.
    let is_proved = |object: &DynamicObject| object.data.pointer("/status/inventory/pending/migrations/0").is_some();
    verbs::await_object(&case.client, &case.target(), "the first object", PROVED_WITHIN, |object| {
        object.is_some_and(is_proved)
    })
    .await
    .expect("every object can be stored");
    killed.tally.add(&proxy.take_seen(), group);
    loop {
        // The same in each run.
        let number = 1 + (killed.kills + 1) * STRIDE % WRITES;
        if killed.tally.written + number > MANY {
            break;
        }
        let fault = if killed.kills.is_multiple_of(2) { Fault::Hang } else { Fault::StallAfter(0) };
        let skipped = u32::try_from(number - 1).expect("it is small");
        proxy.add(Rule::on(&object, fault).skip(skipped));
        proxy.asked(&object, number, WRITTEN_WITHIN).await.expect("it goes on where the one before was");
        killed.peak_bytes = killed.peak_bytes.max(world.controller.peak_resident_bytes().expect("it runs"));
        world.controller.kill().await.expect("the controller obeys");
        proxy.mend();
        killed.kills += 1;
        killed.tally.add(&proxy.take_seen(), group);
        let now = recorded(case).await;
        assert!(now >= said, "the status went back from {said} to {now}");
        said = now;

        world.controller.restart().await.expect("the controller starts");
        world.controller.wait_ready().await.expect("the controller is ready");
    }
    case.until_value(&definition_target(group), "/spec/versions/0/name", &json!("v2")).await;
    case.ready().await;
    killed.tally.add(&proxy.take_seen(), group);
    killed.peak_bytes = killed.peak_bytes.max(world.controller.peak_resident_bytes().expect("it runs"));
    killed
}

/// Lists and gets objects for ever: in the version that stays, and in the other one as long as it is there. Each is what it was.
async fn read_on(case: &Case<'_>, group: &str, before: &Contents, reads: &Cell<usize>) -> Infallible {
    let (v1, v2) = (objects(case, group, "v1"), objects(case, group, "v2"));
    let all: Vec<_> = before.iter().collect();
    let (mut ticks, mut is_v1_served) = (tokio::time::interval(READ_EVERY), true);
    loop {
        ticks.tick().await;
        let few = v2.list(&ListParams::default().limit(10)).await.expect("v2 is listed throughout");
        assert_eq!(few.items.len(), 10);
        let (name, expected) = all[reads.get() * STRIDE % all.len()];
        let found = v2.get(name).await.expect("v2 is read throughout");
        assert_eq!(content(found).1, *expected, "{name}");
        if is_v1_served {
            match v1.get(name).await {
                Ok(found) => assert_eq!(content(found).1, *expected, "{name}"),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    assert_eq!(versions(case, group).await.0, "v2*", "v1 is there until it is dropped");
                    is_v1_served = false;
                }
                Err(error) => panic!("v1 is read until it is dropped: {error}"),
            }
        }
        reads.set(reads.get() + 1);
    }
}
