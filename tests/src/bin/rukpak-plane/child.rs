//! One child in a process group of its own, ended by its pid.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// A running program. Dropping it kills its group.
pub struct Child {
    name: String,
    pid: Pid,
    process: tokio::process::Child,
    ended: bool,
}

impl Child {
    /// Starts `command` with its output appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let open = || {
            OpenOptions::new().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))
        };
        command.stdin(Stdio::null()).stdout(open()?).stderr(open()?).process_group(0);
        let process = command.spawn().with_context(|| format!("start {name}"))?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self {
            name: name.to_owned(),
            pid: pid.with_context(|| format!("{name} has no pid"))?,
            process,
            ended: false,
        })
    }

    /// Its pid, which is its process group as well.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.process.wait().await.with_context(|| format!("wait for {}", self.name))?;
        self.ended = true;
        Ok(status)
    }

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.process.try_wait().ok().flatten();
        self.ended |= status.is_some();
        status
    }

    /// Asks it to end.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Ends it without asking.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Freezes it, as a machine that hangs would.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Undoes [`Child::pause`].
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end, waits for `grace`, then ends it.
    pub async fn end(&mut self, grace: Duration) {
        self.resume();
        self.terminate();
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.kill();
            // A killed process ends; the only error here would be that someone else has waited for it.
            let _ = self.wait().await;
        }
        // Stragglers of the group, which the program itself may have left behind.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_none() {
            // Fails only when the group has ended in this very moment.
            let _ = kill_process_group(self.pid, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}
