//! `make demo`: what an administrator sees when bundles and packages are installed, upgraded and removed, on a real control
//! plane.
//!
//! stdout is the show; what the demo is busy with goes to stderr. Every step waits for what it shows and fails the demo if
//! that does not come.

mod objects;
mod setup;
mod show;
mod steps;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::setup::{MANIFESTS, Setup};
use crate::show::Show;
use crate::steps::Demo;

/// Installs, upgrades and removes bundles and a package, and shows what an administrator sees of it.
#[derive(Parser)]
#[command(name = "demo", max_term_width = 120)]
struct Arguments {
    /// Where to run
    #[arg(long, env = "CLUSTER", value_enum, default_value = "embedded")]
    cluster: Cluster,
    /// Leave everything running at the end, until Ctrl-C; anything but "" and 0 counts as yes
    #[arg(long, env = "KEEP", default_value = "", hide_default_value = true, num_args = 0..=1, default_missing_value = "1")]
    keep: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cluster {
    /// A control plane of its own: etcd, kube-apiserver, kube-controller-manager on loopback
    #[value(alias = "")] // an empty variable of the environment is none
    Embedded,
    /// The cluster of the current kubeconfig context
    Current,
}

/// How the run ended.
enum End {
    /// All steps were shown.
    Whole,
    /// A step did not happen.
    Broken,
    /// Somebody wants us to stop.
    Interrupted,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let keep = !matches!(arguments.keep.as_str(), "" | "0");
    match run(arguments.cluster, keep) {
        Ok(End::Whole) => ExitCode::SUCCESS,
        Ok(End::Broken) => ExitCode::FAILURE,
        Ok(End::Interrupted) => ExitCode::from(130), // what shells give for Ctrl-C
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[tokio::main]
async fn run(cluster: Cluster, keep: bool) -> Result<End> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut stop = std::pin::pin!(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    });
    let mut show = Show::begin();
    let setup = tokio::select! {
        setup = Setup::start(cluster, &mut show) => setup,
        () = &mut stop => Err(anyhow::anyhow!("interrupted")),
    };
    let setup = setup.with_context(|| match cluster {
        Cluster::Embedded => "cannot set the stage".to_owned(),
        Cluster::Current => format!(
            "cannot set the stage (what the lines above say was applied stays; to remove it: kubectl delete -f {MANIFESTS})"
        ),
    })?;
    let end = tokio::select! {
        end = play(&setup, &mut show, keep) => end,
        () = &mut stop => End::Interrupted,
    };
    if keep && matches!(end, End::Whole) {
        if let Err(error) = setup.say_how_to_look(&show) {
            eprintln!("error: {error:#}");
        }
        stop.await;
        eprintln!("ending");
    }
    setup.end().await?;
    Ok(end)
}

async fn play(setup: &Setup, show: &mut Show, keep: bool) -> End {
    let mut demo = Demo::new(setup);
    let outcome = demo.play(show, keep).await;
    if let Err(error) = &outcome {
        show.fail();
        eprintln!("\nerror: {error:#}");
    }
    show.summary(&setup.description());
    if outcome.is_ok() { End::Whole } else { End::Broken }
}
