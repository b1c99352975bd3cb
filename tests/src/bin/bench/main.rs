//! Measures speed and memory against peers in one run: `make bench`, or with flags
//! `cargo run --release -p rukpak-tests --bin bench -- --only speed --rounds 3 --json`.
//!
//! Build all programs with `--release` first. The table goes to stdout, progress to stderr. The exit code is 0 unless something
//! could not be measured: a figure that misses its target is told by the table.

mod bare;
mod catalog;
mod created;
mod memory;
mod published;
mod rendering;
mod report;
mod requests;
mod scale;
mod speed;
mod transfer;
mod unpack;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use report::Row;
use scale::Size;

/// Speed and memory of the controller, beside what a bare client and gzip need for the same.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// How often each figure is taken; the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
    /// Measure only this; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Deployments of the largest fleet
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    deployments: usize,
    /// Objects of the largest bundle
    #[arg(long, value_name = "COUNT", default_value_t = 20_000)]
    objects: usize,
    /// How long the controller is watched doing nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle: u64,
    /// Keep stacks of the controller for flame graphs, and profiles of the API server, in this folder (`tests/tools/flame.sh`)
    #[arg(long, value_name = "FOLDER")]
    perf: Option<PathBuf>,
    /// Print one JSON document in place of the table
    #[arg(long)]
    json: bool,
    /// Write that document to a file as well, when it has been compared
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Compare with a document that an earlier run wrote
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// From the creation of a BundleDeployment to Installed.
    Speed,
    /// Resident memory of the controller.
    Memory,
    /// From the bytes of an image to sealed content.
    Unpack,
    /// From the folders of registry+v1 bundles to objects.
    Rendering,
    /// A large bundle up and down through the content service.
    Transfer,
    /// A catalog of real size, from files and over gRPC, and many PlatformOperators on one.
    Catalog,
    /// Many deployments, large ones and bad neighbours.
    Scale,
    /// What one request of each kind costs the API server and etcd.
    Prices,
}

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == rendering::CHILD) {
        return exit(rendering::child_main(std::env::args_os().skip(2)));
    }
    if std::env::args_os().nth(1).is_some_and(|argument| argument == catalog::CHILD) {
        return exit(catalog::child_main(std::env::args_os().skip(2)).await);
    }
    let arguments = Arguments::parse();
    rukpak_tests::tools::use_ring();
    if cfg!(debug_assertions) {
        eprintln!("bench: these programs are not optimised; use cargo run --release (make bench does)");
    }
    let measured = Box::pin(measure(&arguments)).await;
    exit(measured.and_then(|rows| show(&arguments, rows)))
}

fn show(arguments: &Arguments, mut rows: Vec<Row>) -> Result<()> {
    let kept = format!("{}\n", report::json(&rows));
    if let Some(file) = &arguments.baseline {
        match std::fs::read_to_string(file) {
            Ok(earlier) => report::compare(&mut rows, &earlier)?,
            // What was measured is not lost for that.
            Err(error) => eprintln!("bench: compared with no earlier run: {}: {error}", file.display()),
        }
    }
    published::note(&mut rows);
    println!("{}", if arguments.json { report::json(&rows) } else { report::table(&rows) });
    if let Some(file) = &arguments.keep {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        std::fs::write(file, kept).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments) -> Result<Vec<Row>> {
    let rounds = usize::from(arguments.rounds);
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut rows = Vec::new();
    // First, in a world of its own: what the other parts leave in the cluster would count.
    if wanted(Part::Memory) {
        rows.extend(memory::measure().await?);
    }
    if wanted(Part::Scale) {
        let idle = Duration::from_secs(arguments.idle);
        let size = Size { deployments: arguments.deployments, objects: arguments.objects, idle };
        rows.extend(Box::pin(scale::measure(size, arguments.perf.clone())).await?);
    }
    if wanted(Part::Prices) {
        rows.extend(scale::prices().await?);
    }
    if wanted(Part::Speed) {
        rows.extend(speed::measure(rounds).await?);
    }
    if wanted(Part::Transfer) {
        rows.extend(transfer::measure(rounds).await?);
    }
    if wanted(Part::Unpack) {
        rows.extend(unpack::measure(rounds).await?);
    }
    if wanted(Part::Rendering) {
        rows.extend(tokio::task::spawn_blocking(move || rendering::measure(rounds)).await??);
    }
    if wanted(Part::Catalog) {
        rows.extend(tokio::task::spawn_blocking(move || catalog::measure(rounds)).await??);
        rows.extend(catalog::operators().await?);
    }
    Ok(rows)
}
