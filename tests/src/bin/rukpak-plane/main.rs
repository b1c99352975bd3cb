//! Keeper of the programs that the tests talk to. See the module `keeper` of the library for why it exists.
//!
//! `rukpak-plane start` runs a control plane, `rukpak-plane run -- PROGRAM ...` any one program. Both answer on
//! stdout with one JSON object a line and end with their children when stdin closes.

mod child;
mod control_plane;
mod flags;

use std::ffi::OsString;
use std::io::BufRead;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::child::Child;
use crate::control_plane::{ControlPlane, Options};

/// Runs real servers on loopback for as long as its standard input is open.
#[derive(Parser)]
#[command(name = "rukpak-plane")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run etcd, kube-apiserver and kube-controller-manager
    Start {
        /// Write an audit log of every request (metadata only) to audit.log in the plane's folder
        #[arg(long)]
        audit: bool,
        /// Let a node with this address join: the API server listens on all addresses, so only in a network namespace
        #[arg(long)]
        node: Option<Ipv4Addr>,
    },
    /// Remove the folders named on stdin, one a line, once stdin is closed
    Sweep,
    /// Run one program
    Run {
        /// File that its output is appended to
        #[arg(long)]
        log: PathBuf,
        /// Seconds between the polite and the forced end
        #[arg(long, default_value_t = 10)]
        grace_seconds: u64,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    rukpak_tests::tools::use_ring();
    match keep(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&json!({ "error": format!("{error:#}") }));
            ExitCode::FAILURE
        }
    }
}

/// One thread: children are ended by the thread that started them, in order.
#[tokio::main(flavor = "current_thread")]
async fn keep(command: Command) -> Result<()> {
    let commands = commands()?;
    match command {
        Command::Start { audit, node } => keep_plane(Options { audit, node }, commands).await,
        Command::Sweep => {
            sweep(commands).await;
            Ok(())
        }
        Command::Run { log, grace_seconds, command } => {
            keep_one(&log, Duration::from_secs(grace_seconds), &command, commands).await
        }
    }
}

/// Lines of stdin; the channel closes when stdin does or a signal asks us to end.
fn commands() -> Result<mpsc::Receiver<String>> {
    let (sender, receiver) = mpsc::channel(8);
    let (lines, mut from_thread) = mpsc::channel(8);
    // A thread, not tokio's stdin: a read that never returns must not hold up the end of the runtime.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let line = tokio::select! {
                line = from_thread.recv() => line,
                _ = terminate.recv() => None,
                _ = interrupt.recv() => None,
                _ = hang_up.recv() => None,
            };
            let Some(line) = line else { return };
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

async fn keep_plane(options: Options, mut commands: mpsc::Receiver<String>) -> Result<()> {
    // Asked to end while still starting: dropping the half-started plane ends its children.
    let mut plane = {
        let starting = ControlPlane::start(options);
        tokio::pin!(starting);
        tokio::select! {
            plane = &mut starting => plane?,
            None = commands.recv() => return Ok(()),
        }
    };
    say(&json!({ "ready": plane.describe() }));
    let mut is_whole = true;
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            // Every test that uses the plane fails from now on, and none of them can say why.
            error = plane.until_broken(), if is_whole => {
                eprintln!("the control plane broke down: {error:#}");
                is_whole = false;
                continue;
            }
        };
        let Some(command) = command else { break };
        let result = match command.as_str() {
            "restart-apiserver" => plane.restart_apiserver().await,
            "stop-apiserver" => plane.stop_apiserver().await,
            "start-apiserver" => plane.start_apiserver().await,
            "restart-controller-manager" => plane.restart_controller_manager().await,
            other => Err(anyhow::anyhow!("unknown command {other:?}")),
        };
        match result {
            Ok(()) => say(&json!({ "done": command, "pids": plane.pids() })),
            Err(error) => say(&json!({ "error": format!("{command}: {error:#}") })),
        }
    }
    plane.end().await;
    Ok(())
}

async fn keep_one(
    log: &std::path::Path,
    grace: Duration,
    command: &[OsString],
    mut commands: mpsc::Receiver<String>,
) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program given")?;
    let mut child =
        Child::spawn(&program.to_string_lossy(), tokio::process::Command::new(program).args(arguments), log)?;
    say(&json!({ "pid": child.pid() }));
    loop {
        tokio::select! {
            status = child.wait() => {
                say(&json!({ "exited": status?.to_string() }));
                return Ok(());
            }
            command = commands.recv() => match command.as_deref() {
                Some("terminate") => child.terminate(),
                Some("kill") => child.kill(),
                Some("pause") => child.pause(),
                Some("resume") => child.resume(),
                Some(other) => say(&json!({ "error": format!("unknown command {other:?}") })),
                None => {
                    child.end(grace).await;
                    return Ok(());
                }
            },
        }
    }
}

/// Other keepers may still be ending programs that write into these folders, so it tries for a while.
async fn sweep(mut commands: mpsc::Receiver<String>) {
    let mut folders = Vec::new();
    while let Some(folder) = commands.recv().await {
        folders.push(PathBuf::from(folder));
    }
    for _ in 0..100 {
        folders.retain(|folder| folder.exists() && std::fs::remove_dir_all(folder).is_err());
        if folders.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// One answer on stdout. Nobody listening means that our end is near anyway.
fn say(answer: &Value) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{answer}");
}
