//! What `make test` runs: every test program of the workspace, several at a time. Most tests wait for a control plane of their
//! suite, and `cargo test` has one suite wait for the other.
//!
//! Each program writes to `target/test-logs/NAME.log`; the log of one that failed is printed when it ends, and a table at the end. The
//! working folder of a program is that of its package, as under cargo. Exit code 1 if anything failed.

mod conformance;
mod ground;
mod needs;
mod programs;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::ground::Ground;
use crate::needs::Need;
use crate::programs::Program;

/// Runs all test programs, or those that are named
#[derive(Parser)]
#[command(name = "run-tests")]
struct Arguments {
    /// Test programs, such as `engine` or `store-rukpak_store`, or tests of the suites by the beginnings of their names, such as
    /// `engine::pivot`; all if none is given
    names: Vec<String>,
    /// How many programs run at once; as many as there are processors if it is not given, and no more than four
    #[arg(long, env = "TEST_JOBS")]
    jobs: Option<usize>,
    /// Run what needs no cluster: all but the suites
    #[arg(long, conflicts_with = "names")]
    no_cluster: bool,
    /// What has to be there: without it nothing runs. Otherwise the tests that need it do not run, and are counted
    #[arg(long, env = "REQUIRE", value_enum, value_delimiter = ',')]
    require: Vec<Need>,
    /// Write the table in docs/conformance.md from the results of whole runs, and run nothing
    #[arg(long, conflicts_with = "names")]
    conformance: bool,
}

/// What Go programs are told, unless the environment says otherwise: many run at once, on few cores. One thread each and fewer garbage
/// collections take a quarter off the CPU time that the start of an API server takes.
const GO: [(&str, &str); 2] = [("GOMAXPROCS", "1"), ("GOGC", "300")];

/// More programs at once hold more memory than they save time.
const MOST_JOBS: usize = 4;

/// How a program ended.
struct Outcome {
    name: String,
    passed: bool,
    /// What libtest said at the end, such as `141 passed; 0 failed; 1 ignored`.
    summary: String,
    took: Duration,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.conformance {
        conformance::write_page()?;
        return Ok(ExitCode::SUCCESS);
    }
    let ground = Ground::find(arguments.no_cluster)?;
    println!("{ground}");
    let chosen = programs::build(&arguments.names, arguments.no_cluster)?;
    let absent = needs::absent(&chosen, &arguments.require, &ground)?;
    let (chosen, not_run) = needs::without(chosen, &absent);

    let start = Instant::now();
    let jobs = arguments.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(2, usize::from).min(MOST_JOBS));
    let outcomes = run_all(chosen, jobs, &ground)?;
    let passed = table(&outcomes);
    let last = needs::told(&absent, not_run);
    println!("{passed} in {:.0} s{last}; {ground}", start.elapsed().as_secs_f64());

    if arguments.names.is_empty() && !arguments.no_cluster {
        conformance::keep(&ground, &outcomes)?;
    }
    Ok(if outcomes.iter().all(|outcome| outcome.passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_all(programs: Vec<Program>, jobs: usize, ground: &Ground) -> Result<Vec<Outcome>> {
    let logs = programs::logs_folder()?;
    let queue = Mutex::new(VecDeque::from(programs));
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..jobs.max(1)).map(|_| scope.spawn(|| work(&queue, &outcomes, &logs, ground))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn work(queue: &Mutex<VecDeque<Program>>, outcomes: &Mutex<Vec<Outcome>>, logs: &Path, ground: &Ground) -> Result<()> {
    loop {
        let Some(program) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return Ok(()) };
        let log = logs.join(format!("{}.log", program.name));
        let outcome = run(program, &log, ground)?;
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        // While the others wait, so that logs do not mix.
        show(&outcome, &log)?;
        outcomes.push(outcome);
    }
}

fn run(Program { name, command, folder, .. }: Program, log: &PathBuf, ground: &Ground) -> Result<Outcome> {
    let output = File::create(log).with_context(|| format!("write {}", log.display()))?;
    let start = Instant::now();
    let mut process = Command::new(&command[0]);
    ground.hand_to(&mut process);
    let status = process
        .args(&command[1..])
        .envs(GO.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| format!("run {}", command[0]))?;
    let took = start.elapsed();
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let summary = counts(&text).unwrap_or_else(|| status.to_string());
    Ok(Outcome { name, passed: status.success(), summary, took })
}

/// The sums of all lines like `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
fn counts(text: &str) -> Option<String> {
    let results: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("test result: ")).collect();
    let sum = |word: &str| -> u32 {
        let parts = results.iter().flat_map(|line| line.split(['.', ';']));
        parts.filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u32>().ok()).sum()
    };
    let sums = ["passed", "failed", "ignored"].map(|word| format!("{} {word}", sum(word)));
    (!results.is_empty()).then(|| sums.join(", "))
}

/// One line of a program that passed, and the whole log of one that did not.
fn show(outcome: &Outcome, log: &PathBuf) -> Result<()> {
    let mut out = io::stdout().lock();
    if outcome.passed {
        writeln!(out, "passed: {} ({:.0} s)", outcome.name, outcome.took.as_secs_f64())?;
        return Ok(());
    }
    writeln!(out, "\n==== {} ({:.0} s)", outcome.name, outcome.took.as_secs_f64())?;
    io::copy(&mut File::open(log)?, &mut out)?;
    Ok(())
}

/// Prints what each program had to say, and returns what there is to say of all.
fn table(outcomes: &[Outcome]) -> String {
    println!("\n{:<22} {:>7}  result", "program", "seconds");
    for Outcome { name, passed, summary, took } in outcomes {
        let word = if *passed { "" } else { "FAILED: " };
        println!("{name:<22} {:>7.0}  {word}{summary}", took.as_secs_f64());
    }
    let failed: Vec<&str> = outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| &*outcome.name).collect();
    if failed.is_empty() {
        return format!("all {} test programs passed", outcomes.len());
    }
    let names = failed.join(" ").replace('+', " ");
    println!("failed: {} (target/test-logs/NAME.log; again: target/debug/run-tests {names})", failed.join(", "));
    format!("{} of {} test programs failed", failed.len(), outcomes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\nnoise 9 failed\n\
                    test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        assert_eq!(counts(text).as_deref(), Some("43 passed, 2 failed, 1 ignored"));
        assert_eq!(counts("killed"), None);
    }
}
