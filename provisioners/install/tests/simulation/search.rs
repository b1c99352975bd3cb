//! Every history of a small size: the course of a story, and with it everything that may disturb each of its steps.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rukpak_store::Store;

use crate::fate::Point;
use crate::history::{History, Lived, Violation};
use crate::run::live;
use crate::script::{Following, Means, Script};
use crate::story::Told;

/// So many histories of a story, if not all are to be tried.
const SOME: usize = 32;
/// So many violations of a story are enough.
const ENOUGH: usize = 5;

/// What a search has come to.
#[derive(Default)]
pub struct Found {
    pub histories: usize,
    /// So many there were to try.
    pub all: usize,
    /// Steps of the longest.
    pub longest: usize,
    /// Each violation, with the first history that ends in it.
    violations: BTreeMap<String, (Script, Vec<String>)>,
}

/// Runs one history on a thread of its own time. What its steps were, if it was without a violation.
pub fn follow(told: &Told, store: &Store, script: &Script) -> Result<(Vec<Point>, Lived), Violation> {
    let mut fate = Following::new(script, &told.story);
    let lived = live(1, async || History::new(told, store, &mut fate).run().await)?;
    Ok((fate.points, lived))
}

/// How many of the histories are run: of those that there is no time for, some from everywhere.
#[derive(Clone, Copy)]
struct Bounds {
    count: usize,
    until: Option<Instant>,
}

/// Runs scripts on every processor.
fn run_all(
    (told, store): (&Told, &Store),
    count: usize,
    script: &(impl Fn(usize) -> Script + Sync),
    bounds: Bounds,
) -> (Found, Vec<(Script, Vec<Point>)>) {
    let (next, found, lived) = (AtomicUsize::new(0), Mutex::new(Found::default()), Mutex::new(Vec::new()));
    found.lock().unwrap().all = count;
    let is_whole = bounds.count >= count && bounds.until.is_none();
    let stride = if is_whole { 1 } else { stride(count) };
    let is_over = || bounds.until.is_some_and(|until| Instant::now() >= until);
    let work = || {
        while found.lock().unwrap().violations.len() < ENOUGH && !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count.min(bounds.count) {
                break;
            }
            let script = script(number * stride % count);
            let ended = follow(told, store, &script);
            let found = &mut *found.lock().unwrap();
            found.histories += 1;
            match ended {
                Ok((points, size)) => {
                    found.longest = found.longest.max(size.size.steps);
                    lived.lock().unwrap().push((number, (script, points)));
                }
                Err(Violation { what, words }) => {
                    let known = found.violations.entry(what).or_insert_with(|| (script.clone(), words.clone()));
                    if words.len() < known.1.len() {
                        *known = (script, words);
                    }
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut lived: Vec<(usize, (Script, Vec<Point>))> = lived.into_inner().unwrap();
    lived.sort_by_key(|(number, _)| *number);
    (found.into_inner().unwrap(), lived.into_iter().map(|(_, one)| one).collect())
}

/// A step with which a walk comes to each of `count` places, far from the one before.
fn stride(count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let first = count * 5 / 8 + 1;
    (first..=first + count).find(|stride| gcd(*stride, count) == 1).unwrap_or(1)
}

/// Runs the course of the story, then with each disturbance, then for so long with two of them. Without a time: with some of the
/// disturbances. Says what was tried.
///
/// # Errors
/// The violations, each with its history, in words.
pub fn search(told: &Told, store: &Store, pairs: Option<Duration>) -> Result<(), String> {
    let means = Means { hands: told.story.hands.len(), has_others: told.story.shards.len() > 1 };
    for script in &told.story.kept {
        if let Err(Violation { what, words }) = follow(told, store, script) {
            return Err(format!("\n{}: {what}\n{}\n{:?}\n", told.story.name, words.join("\n"), script.0));
        }
    }
    let mut parents = vec![(Script::default(), vec![])];
    for disturbances in 0..=2 {
        let begun = Instant::now();
        let until = pairs.filter(|_| disturbances == 2).map(|pairs| begun + pairs);
        let bounds = Bounds { count: if pairs.is_some() { usize::MAX } else { SOME }, until };
        // How many histories there are up to each of those with one disturbance less.
        let counts = parents.iter().map(|(script, points)| script.next(points, means).count());
        let counts: Vec<usize> = if disturbances == 0 { vec![1] } else { counts.collect() };
        let ends: Vec<usize> = counts
            .iter()
            .scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            })
            .collect();
        let script = |number: usize| {
            let parent = ends.partition_point(|end| *end <= number);
            let (script, points) = &parents[parent];
            let one = script.next(points, means).nth(number + counts[parent] - ends[parent]);
            one.map_or_else(Script::default, |one| script.with(one))
        };
        let (found, lived) = run_all((told, store), *ends.last().unwrap_or(&0), &script, bounds);
        println!(
            "{}, {disturbances} disturbances: {} of {} histories, up to {} steps, {:.1} s",
            told.story.name,
            found.histories,
            found.all,
            found.longest,
            begun.elapsed().as_secs_f64()
        );
        if !found.violations.is_empty() {
            return Err(told_violations(told, &found));
        }
        if disturbances == 1 && pairs.is_none_or(|pairs| pairs.is_zero()) {
            break;
        }
        parents = lived;
    }
    Ok(())
}

fn told_violations(told: &Told, found: &Found) -> String {
    let mut all: Vec<_> = found.violations.iter().collect();
    all.sort_by_key(|(_, (script, words))| (script.0.len(), words.len()));
    let text = |(what, (script, words)): (&String, &(Script, Vec<String>))| {
        format!("\n{}: {what}\n{}\n{:?}\n", told.story.name, words.join("\n"), script.0)
    };
    all.into_iter().map(text).collect()
}
