//! Every seed through its target, within bounds: no panic, 5 seconds of one core an input (unoptimised), 1 GiB in all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rukpak_fuzz::{TARGETS, Target};

/// Of a core, for one input, in the kernel's hundredths of a second. Most take one or none.
const WORK: u64 = 500;
/// For one input to end at all, however busy the machine is.
const TIME: Duration = Duration::from_mins(2);
/// For the process, at its largest.
const MEMORY_KIB: u64 = 1024 * 1024;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let name = |path: PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    entries.filter_map(|entry| name(entry.expect("a readable folder").path())).collect()
}

/// What is wrong with an input, if anything.
fn fault(run: fn(&[u8]), input: Vec<u8>) -> Option<String> {
    let (done, finished) = channel();
    let running = thread::Builder::new().name("input".to_owned()).spawn(move || {
        let before = work();
        run(&input);
        // Nobody listens any more where it took too long.
        let _ = done.send(work() - before);
    });
    let running = running.expect("a thread");
    match finished.recv_timeout(TIME) {
        Ok(work) if work > WORK => Some(format!("kept a core busy for {work} hundredths of a second")),
        Ok(_) => running.join().err().map(|_| "panicked".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Some("panicked".to_owned()),
        Err(RecvTimeoutError::Timeout) => Some(format!("took more than {TIME:?}")),
    }
}

/// What this thread has had of a core, in hundredths of a second.
fn work() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
    // Behind the name, which may hold anything: the state is field 3, user and system time are 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// The most memory that this process has had.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}

fn replay((name, run): Target) -> Vec<String> {
    let seeds = folder().join("seeds").join(name);
    let mut faults = Vec::new();
    for entry in fs::read_dir(&seeds).unwrap_or_else(|error| panic!("{}: {error}", seeds.display())) {
        let path = entry.expect("a readable folder").path();
        let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let before = peak_kib();
        let fault = fault(run, input);
        let fault = fault.or_else(|| {
            let peak = peak_kib();
            (peak > MEMORY_KIB && peak > before).then(|| format!("needed {} MiB", peak / 1024))
        });
        faults.extend(fault.map(|fault| format!("{}: {fault}", path.display())));
    }
    faults
}

#[test]
fn every_seed_is_read_or_refused_in_time_and_memory() {
    let faults: Vec<String> = TARGETS.into_iter().flat_map(replay).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_target_has_seeds_and_a_program() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&folder().join("seeds")), targets);
    assert_eq!(names(&folder().join("fuzz_targets")), targets);
    for name in &targets {
        assert!(names(&folder().join("seeds").join(name)).len() >= 4, "{name} begins with next to nothing");
    }
}
