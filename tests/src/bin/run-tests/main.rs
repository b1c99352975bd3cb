//! What `make test` runs: every test program of the workspace, several at a time. Most tests wait for a control plane of their
//! suite, and `cargo test` has one suite wait for the other.
//!
//! Each program writes to `target/test-logs/NAME.log`; the log is printed when the program ends, and a table at the end. The
//! working folder of a program is that of its package, as under cargo. Exit code 1 if anything failed.

mod programs;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use rukpak_tests::tools;

use crate::programs::Program;

/// Runs all test programs, or those that are named
#[derive(Parser)]
#[command(name = "run-tests")]
struct Arguments {
    /// Names of test programs, such as `engine` or `store-rukpak_store`; all if none is given
    names: Vec<String>,
    /// How many programs run at once
    #[arg(long, env = "TEST_JOBS", default_value_t = 4)]
    jobs: usize,
}

/// What Go programs are told, unless the environment says otherwise: many run at once, on few cores. One thread each and fewer garbage
/// collections take a quarter off the CPU time that the start of an API server takes.
const GO: [(&str, &str); 2] = [("GOMAXPROCS", "1"), ("GOGC", "300")];

/// How a program ended.
struct Outcome {
    name: String,
    passed: bool,
    /// What libtest said at the end, such as `141 passed; 0 failed; 1 ignored`.
    summary: String,
    took: Duration,
}

fn main() -> Result<ExitCode> {
    let Arguments { names, jobs } = Arguments::parse();
    let programs = programs::build(&names)?;
    anyhow::ensure!(!programs.is_empty(), "there is no test program of that name");
    let logs = programs::logs_folder()?;
    let start = Instant::now();
    let queue = Mutex::new(VecDeque::from(programs));
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(|| work(&queue, &outcomes, &logs))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    table(&outcomes, start.elapsed());
    if tools::corpus().is_none() {
        println!(
            "ABSENT: no corpus of published bundles in $CORPUS or ../shared/corpus; nothing was compared with them"
        );
    }
    if outcomes.iter().any(|outcome| outcome.name.split('+').any(|suite| suite == "cli"))
        && let Err(error) = tools::browser()
    {
        println!("ABSENT: no Chromium, so no page of `rukpakctl ui` was looked at: {error:#}");
    }
    Ok(if outcomes.iter().all(|outcome| outcome.passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn work(queue: &Mutex<VecDeque<Program>>, outcomes: &Mutex<Vec<Outcome>>, logs: &std::path::Path) -> Result<()> {
    loop {
        let Some(program) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return Ok(()) };
        let log = logs.join(format!("{}.log", program.name));
        let outcome = run(program, &log)?;
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        // While the others wait, so that logs do not mix.
        show(&outcome, &log)?;
        outcomes.push(outcome);
    }
}

fn run(Program { name, command, folder, .. }: Program, log: &PathBuf) -> Result<Outcome> {
    let output = File::create(log).with_context(|| format!("write {}", log.display()))?;
    let start = Instant::now();
    let status = Command::new(&command[0])
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

fn show(outcome: &Outcome, log: &PathBuf) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n==== {} ({:.0} s)", outcome.name, outcome.took.as_secs_f64())?;
    io::copy(&mut File::open(log)?, &mut out)?;
    Ok(())
}

fn table(outcomes: &[Outcome], took: Duration) {
    println!("\n{:<22} {:>7}  result", "program", "seconds");
    for Outcome { name, passed, summary, took } in outcomes {
        let word = if *passed { "" } else { "FAILED: " };
        println!("{name:<22} {:>7.0}  {word}{summary}", took.as_secs_f64());
    }
    let failed: Vec<&str> = outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| &*outcome.name).collect();
    match failed.as_slice() {
        [] => println!("all {} test programs passed in {:.0} s", outcomes.len(), took.as_secs_f64()),
        failed => {
            println!("failed: {} (target/test-logs/NAME.log; again: target/debug/run-tests NAME)", failed.join(", "));
        }
    }
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
