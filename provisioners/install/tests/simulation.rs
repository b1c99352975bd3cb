//! Whole programs in simulation: the real install reconciler, with its watches and its queue, against the small API server, on one
//! thread, in time that jumps. `simulation/fate.rs` decides what is next: as a seed says, or one thing after the other.
//!
//! `RUKPAK_SIMULATION=N` runs N random histories; `RUKPAK_SEED=N` begins with that seed, and with that alone where nothing else is said.
//! `RUKPAK_PAIRS=N` searches each story whole, with one disturbance, and then for N minutes with two.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

#[path = "simulation/cluster.rs"]
mod cluster;
#[path = "simulation/fate.rs"]
mod fate;
#[path = "simulation/garbage.rs"]
mod garbage;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/numbers.rs"]
mod numbers;
#[path = "simulation/process.rs"]
mod process;
#[path = "simulation/properties.rs"]
mod properties;
#[path = "simulation/script.rs"]
mod script;
#[path = "simulation/search.rs"]
mod search;
#[path = "simulation/server.rs"]
mod server;
#[path = "simulation/small.rs"]
mod small;
#[path = "simulation/stories.rs"]
mod stories;
#[path = "simulation/story.rs"]
mod story;
#[path = "simulation/wire.rs"]
mod wire;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fate::Chance;
use history::{History, Lived, Size, Violation};
use rukpak_store::Store;
use stories::{shards, stories};
use story::{Story, Told};

/// So many histories, if nothing else is said: the same each time.
const HISTORIES: u64 = 240;
/// And no longer than that, on a machine that is busy.
const LONGEST: Duration = Duration::from_mins(1);
/// Seeds that once failed. A change of the stories, or of what is random, makes other histories of them.
const KEPT: [(u64, &str); 3] = [
    (202, "two deployments made a shared CRD again at once, and the one that lost took it for gone"),
    (1_150, "the same, the other way round"),
    (1_308, "what a watch told while a restart read health was lost: an object was gone"),
];
/// So many violations are enough.
const ENOUGH: usize = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Has a history happen, in time of its own.
fn live<T>(seed: u64, history: impl AsyncFnOnce() -> T) -> T {
    // What blocks, is done one after the other.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.max_blocking_threads(1).enable_time().start_paused(true).build().unwrap();
    // Where libraries wait a random time.
    fastrand::seed(seed);
    runtime.block_on(history())
}

/// Runs histories, and knows what came of them.
struct Histories<'a> {
    told: &'a [Told],
    store: &'a Store,
    begun: Instant,
    /// Whether one that keeps its promises is told of, too.
    is_told: bool,
    lived: Mutex<(u32, Size)>,
    violations: Mutex<Vec<u64>>,
}

impl Histories<'_> {
    fn story(&self, seed: u64) -> &Told {
        &self.told[usize::try_from(seed % self.told.len() as u64).unwrap()]
    }

    fn run(&self, seed: u64) {
        let (story, numbers) = (self.story(seed), seed / self.told.len() as u64);
        let mut chance = Chance::new(numbers, story.story.is_led);
        let lived = live(seed, async || History::new(story, self.store, &mut chance).run().await);
        let show = |what: &str, words: &[String]| {
            println!("\nRUKPAK_SEED={seed} ({}): {what}\n{}", story.story.name, words.join("\n"));
        };
        match lived {
            Ok(Lived { size, words }) => {
                let (count, all) = &mut *self.lived.lock().unwrap();
                (*count, all.steps, all.requests) = (*count + 1, all.steps + size.steps, all.requests + size.requests);
                if self.is_told {
                    show("keeps every promise", &words);
                }
            }
            Err(Violation { what, words }) => {
                show(&what, &words);
                self.violations.lock().unwrap().push(seed);
            }
        }
    }

    /// Runs all of these, on every processor.
    fn run_all(&self, seeds: &[u64]) {
        let next = AtomicUsize::new(0);
        let work = || {
            let is_over = || self.begun.elapsed() > LONGEST && seeds.len() as u64 <= HISTORIES;
            while self.violations.lock().unwrap().len() < ENOUGH && !is_over() {
                let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                self.run(*seed);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }
}

/// A store, as long as its folder is there.
fn store() -> (Store, tempfile::TempDir) {
    let shared_memory = Path::new("/dev/shm");
    let folder =
        if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }.unwrap();
    (Store::open(folder.path()).unwrap(), folder)
}

/// Runs `count` histories of these stories, and those that are kept, or what the environment says.
fn run(stories: Vec<Story>, count: u64, kept: &[u64]) {
    let (store, _folder) = store();
    let told: Vec<Told> = stories.into_iter().map(|story| Told::new(story, &store)).collect();
    process::note_panics();

    let (seed, more) = (number("RUKPAK_SEED"), number("RUKPAK_SIMULATION"));
    let is_told = seed.is_some() && more.is_none();
    let (lived, violations) = (Mutex::default(), Mutex::default());
    let all = Histories { told: &told, store: &store, begun: Instant::now(), is_told, lived, violations };
    if seed.is_none() {
        all.run_all(kept);
    }
    let first = seed.unwrap_or(1);
    let count = more.unwrap_or(if is_told { 1 } else { count });
    all.run_all(&(first..first + count).collect::<Vec<_>>());

    let ((lived, size), seconds) = (all.lived.into_inner().unwrap(), all.begun.elapsed().as_secs_f64());
    println!(
        "{lived} histories, {} requests, {} steps, {seconds:.1} s: {:.0} histories a minute",
        size.requests,
        size.steps,
        60.0 * f64::from(lived) / seconds
    );
    let violations = all.violations.into_inner().unwrap();
    assert!(violations.is_empty(), "these seeds fail, each with its history above: {violations:?}");
}

#[test]
fn keeps_every_promise_in_random_histories() {
    run(stories(), HISTORIES, &KEPT.map(|(seed, _)| seed));
}

#[test]
fn keeps_every_promise_in_random_histories_of_two_shards() {
    run(vec![shards()], HISTORIES / 4, &[]);
}

/// Searches all that may disturb the course of a story.
fn search_story(story: Story) {
    let (contents, _folder) = store();
    process::note_panics();
    let pairs = number("RUKPAK_PAIRS").map(Duration::from_mins);
    let found = search::search(&Told::new(story, &contents), &contents, pairs);
    found.unwrap_or_else(|violations| panic!("{violations}"));
}

macro_rules! searches {
    ($($test:ident: $story:path;)*) => { $(#[test] fn $test() { search_story($story()); })* };
}

searches! {
    keeps_objects_when_their_version_ends: small::served;
    tells_what_is_missing_after_a_restart: small::gone;
    keeps_definition_while_instances_live: small::definitions;
    carries_out_policy_before_it_is_ready: small::policy;
    asks_what_another_account_may_do_before_it_is_ready: small::account;
    deletes_in_order_and_keeps_the_finalizer_until_all_is_gone: small::end;
    keeps_what_operators_wrote_at_an_adoption: small::adoption;
    creates_objects_with_fields_left_to_others: small::contest;
    leaves_copies_of_its_marks_alone: small::copies;
    keeps_namespace_that_another_deployment_shares: small::sharing;
    keeps_definition_as_long_as_one_of_two_deployments_declares_it: small::united;
    leaves_one_release_where_two_controllers_write: small::shards;
    lets_one_replica_write_at_a_time: small::led;
    takes_upgrade_forward_or_back_once: small::upgrade;
    tries_what_was_refused_again_in_time: small::refused;
    rolls_back_without_waiting_for_others: small::dependency;
    goes_on_where_manifests_cannot_be_kept: small::manifests;
}

#[test]
fn holds_every_promise_at_once() {
    stories().into_iter().for_each(search_story);
}

#[test]
fn lets_one_replica_write_at_a_time_in_random_histories() {
    run(vec![small::led()], HISTORIES / 4, &[]);
}
