//! Whole programs in simulation: the real install reconciler, with its watches and its queue, against the small API server, on one
//! thread, in time that jumps, as a seed says. `simulation/history.rs` decides what is next.
//!
//! `RUKPAK_SIMULATION=N` runs N histories; `RUKPAK_SEED=N` begins with that seed, and with that alone where nothing else is said.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

#[path = "simulation/cluster.rs"]
mod cluster;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/numbers.rs"]
mod numbers;
#[path = "simulation/process.rs"]
mod process;
#[path = "simulation/properties.rs"]
mod properties;
#[path = "../../plan/tests/worlds/server.rs"]
mod server;
#[path = "simulation/story.rs"]
mod story;
#[path = "simulation/wire.rs"]
mod wire;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use history::{History, Size, Violation};
use rukpak_store::Store;
use story::{Told, stories};

/// What `make test` has time for.
const LONGEST: Duration = Duration::from_secs(15);
/// Seeds that once failed.
const KEPT: [u64; 0] = [];
/// So many violations are enough.
const ENOUGH: usize = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// One history.
fn run(told: &[Told], store: &Store, seed: u64) -> Result<Size, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // Where libraries wait a random time.
    fastrand::seed(seed);
    let count = told.len() as u64;
    let told = &told[usize::try_from(seed % count).unwrap()];
    runtime.block_on(async { History::new(told, store, seed / count).run().await })
}

#[test]
fn keeps_every_promise_in_random_histories() {
    let shared_memory = Path::new("/dev/shm");
    let folder =
        if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }.unwrap();
    process::note_panics();
    let store = Store::open(folder.path()).unwrap();
    let told: Vec<Told> = stories().into_iter().map(|story| Told::new(story, &store)).collect();

    let (seed, count) = (number("RUKPAK_SEED"), number("RUKPAK_SIMULATION"));
    let first = seed.unwrap_or(1);
    let last = first + count.unwrap_or(if seed.is_some() { 1 } else { u64::MAX / 2 });
    let kept = if seed.is_some() { &[][..] } else { &KEPT[..] };
    let (start, next, done, steps, requests) =
        (Instant::now(), AtomicU64::new(first), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let violations = Mutex::new(Vec::new());
    let one = |seed: u64| match run(&told, &store, seed) {
        Ok(size) => {
            done.fetch_add(1, Ordering::Relaxed);
            steps.fetch_add(size.steps, Ordering::Relaxed);
            requests.fetch_add(size.requests, Ordering::Relaxed);
        }
        Err(violation) => violations.lock().unwrap().push((seed, violation)),
    };
    for seed in kept {
        one(*seed);
    }
    let work = || {
        while (count.is_some() || start.elapsed() < LONGEST) && violations.lock().unwrap().len() < ENOUGH {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= last {
                break;
            }
            one(seed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));

    let (done, seconds) = (done.into_inner(), start.elapsed().as_secs_f64());
    println!(
        "{done} histories, {} requests, {} steps, {seconds:.1} s: {:.0} histories a minute",
        requests.into_inner(),
        steps.into_inner(),
        60.0 * f64::from(u32::try_from(done).unwrap()) / seconds
    );
    let violations = violations.into_inner().unwrap();
    for (seed, Violation { what, words }) in &violations {
        println!(
            "\nRUKPAK_SEED={seed} ({}): {what}\n{}",
            told[usize::try_from(seed % told.len() as u64).unwrap()].story.name,
            words.join("\n")
        );
    }
    assert!(violations.is_empty(), "{} violations", violations.len());
}
