//! Runs histories: random ones, and all of a search.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rukpak_store::Store;

use crate::fate::Chance;
use crate::history::{History, Lived, Size, Violation};
use crate::process;
use crate::search;
use crate::story::{Story, Told};

/// So many histories, if nothing else is said: the same each time.
pub const HISTORIES: u64 = 240;
/// And no longer than that, on a machine that is busy.
const LONGEST: Duration = Duration::from_mins(1);
/// So many violations are enough.
const ENOUGH: usize = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Has a history happen, in time of its own.
pub fn live<T>(seed: u64, history: impl AsyncFnOnce() -> T) -> T {
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
    let folder = folder();
    (Store::open(folder.path()).unwrap(), folder)
}

/// A folder in memory, where there is that.
pub fn folder() -> tempfile::TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }.unwrap()
}

/// Runs `count` histories of these stories, and those that are kept, or what the environment says.
pub fn run(stories: Vec<Story>, count: u64, kept: &[u64]) {
    let (store, _folder) = store();
    let told: Vec<Told> = stories.into_iter().map(|story| Told::new(story, &store)).collect();
    process::prepare();

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

/// Searches all that may disturb the course of a story.
pub fn search_story(story: Story) {
    let (contents, _folder) = store();
    process::prepare();
    let pairs = number("RUKPAK_PAIRS").map(Duration::from_mins);
    let found = search::search(&Told::new(story, &contents), &contents, pairs);
    found.unwrap_or_else(|violations| panic!("{violations}"));
}

/// A test for each story, which searches it.
macro_rules! searches {
    ($($test:ident: $story:path;)*) => { $(#[test] fn $test() { $crate::run::search_story($story()); })* };
}
pub(crate) use searches;
