//! Programs of the node that run all the time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rukpak_tests::keeper::Kept;
use rukpak_tests::tools;

/// A running program and how to start it again.
pub struct Daemon {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    kept: Kept,
}

impl Daemon {
    /// Starts it, with its output in `<folder>/<name>.log`.
    pub async fn start(name: &'static str, program: PathBuf, arguments: Vec<String>, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let kept = run(&program, &arguments, &log).await.with_context(|| format!("start {name}"))?;
        Ok(Self { name, program, arguments, log, kept })
    }

    /// Ends it, by SIGTERM, and waits until it has ended.
    pub async fn stop(&self) -> Result<()> {
        self.kept.tell("terminate")?;
        let ended = self.kept.hear(0, Some(tools::PATIENCE), |line| line["exited"].as_str().map(str::to_owned)).await;
        ended.map(|_| ()).with_context(|| format!("wait for the end of {}", self.name))
    }

    /// Starts it after [`Daemon::stop`].
    pub async fn start_again(&mut self) -> Result<()> {
        self.kept =
            run(&self.program, &self.arguments, &self.log).await.with_context(|| format!("start {}", self.name))?;
        Ok(())
    }

    /// The end of its output.
    pub fn tail(&self) -> String {
        format!("--- {}\n{}", self.name, tools::tail(&self.log, 25))
    }
}

async fn run(program: &Path, arguments: &[String], log: &Path) -> Result<Kept> {
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(Kept::run(&command, log).await?.0)
}
