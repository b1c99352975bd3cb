//! Children that cannot outlive us.
//!
//! A test process may be killed at any moment, and a killed process runs no destructor. So each real program is the child
//! of a small *keeper* process (binary `rukpak-plane`), whose standard input we hold open: the kernel closes it when
//! we end, and the keeper then ends its children, by pid, and removes their folder.
//!
//! The keeper answers with one JSON object a line. Its commands are lines too. All of it is read by a plain thread, not by a
//! tokio runtime, because a [`Kept`] may be shared by tests that each have their own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use tokio::sync::watch;

/// How long a keeper may take to end its children once its input is closed.
const GRACE: Duration = Duration::from_secs(20);

/// A keeper and, through it, what it keeps.
pub struct Kept {
    keeper: Mutex<Child>,
    commands: Mutex<Option<ChildStdin>>,
    heard: watch::Receiver<Heard>,
}

/// Everything that a keeper has said.
#[derive(Default)]
struct Heard {
    lines: Vec<Value>,
    over: bool,
}

impl Kept {
    /// Starts a keeper with the arguments that the binary `rukpak-plane` takes, after `prepare` has had its say on
    /// environment and folder.
    pub fn start<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let mut command = Command::new(crate::tools::workspace_binary("rukpak-plane")?);
        // A group of its own: Ctrl-C at a terminal reaches the tests only, and the closed input does the rest.
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        prepare(&mut command);
        let mut keeper = command.spawn().context("start the keeper")?;
        let commands = keeper.stdin.take();
        let answers = keeper.stdout.take().context("the keeper has no output")?;
        let (sender, heard) = watch::channel(Heard::default());
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                sender.send_modify(|heard| heard.lines.push(value));
            }
            sender.send_modify(|heard| heard.over = true);
        });
        Ok(Self { keeper: Mutex::new(keeper), commands: Mutex::new(commands), heard })
    }

    /// Starts `program` under a keeper with its output in `log`; returns the pid of `program`.
    pub async fn run(command: &Command, log: &Path) -> Result<(Self, u32)> {
        let mut arguments =
            vec![OsStr::new("run"), OsStr::new("--log"), log.as_os_str(), OsStr::new("--"), command.get_program()];
        arguments.extend(command.get_args());
        let kept = Self::start(arguments, |keeper| copy_surroundings(command, keeper))?;
        let pid = kept.hear(0, Some(crate::tools::PATIENCE), |line| line["pid"].as_u64()).await?;
        Ok((kept, u32::try_from(pid).context("read the pid")?))
    }

    /// The number of lines heard so far: what comes after it is news.
    pub fn mark(&self) -> usize {
        self.heard.borrow().lines.len()
    }

    /// Sends a command line.
    pub fn tell(&self, command: &str) -> Result<()> {
        let mut commands =
            self.commands.lock().map_err(|_| anyhow!("another thread panicked while it held the keeper"))?;
        let commands = commands.as_mut().context("the keeper has been ended")?;
        writeln!(commands, "{command}").with_context(|| format!("tell the keeper to {command}"))
    }

    /// Waits for the first line after `mark` that `pick` takes. A line with the key `error` ends the wait with that error.
    pub async fn hear<T>(
        &self,
        mark: usize,
        deadline: Option<Duration>,
        pick: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        let mut heard = self.heard.clone();
        let wait = heard.wait_for(|heard| {
            heard.over || heard.lines.iter().skip(mark).any(|line| pick(line).is_some() || line.get("error").is_some())
        });
        let heard = match deadline {
            Some(deadline) => tokio::time::timeout(deadline, wait)
                .await
                .with_context(|| format!("no answer from the keeper within {deadline:?}"))?,
            None => wait.await,
        };
        let heard = heard.context("the keeper's output is gone")?;
        for line in heard.lines.iter().skip(mark) {
            if let Some(found) = pick(line) {
                return Ok(found);
            }
            if let Some(error) = line.get("error") {
                bail!("{}", error.as_str().unwrap_or("the keeper reports an unreadable error"));
            }
        }
        bail!("the keeper ended without the expected answer")
    }

    /// The answer to a question about what has been heard already.
    pub fn heard<T>(&self, mut pick: impl FnMut(&Value) -> Option<T>) -> Option<T> {
        self.heard.borrow().lines.iter().find_map(&mut pick)
    }

    /// Closes the keeper's input and waits until it and what it keeps have ended.
    pub fn end(&self) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.take();
        }
        let Ok(mut keeper) = self.keeper.lock() else { return };
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match keeper.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)), // std has no wait with a deadline
                Ok(Some(_)) | Err(_) => return,
            }
        }
        // A keeper that does not end is a bug of the harness; it must not hang the tests as well.
        let _ = keeper.kill();
        let _ = keeper.wait();
    }
}

/// Has `folder` removed when this process has ended, by one keeper for all such folders.
pub(crate) fn sweep(folder: &Path) {
    static SWEEPER: OnceLock<Option<Kept>> = OnceLock::new();
    // Without a sweeper a folder may stay behind, which is no reason to fail a test.
    if let Some(sweeper) = SWEEPER.get_or_init(|| Kept::start(["sweep"], |_| ()).ok()) {
        let _ = sweeper.tell(&folder.display().to_string());
    }
}

/// Gives `to` the environment and the folder of `from`.
pub(crate) fn copy_surroundings(from: &Command, to: &mut Command) {
    for (key, value) in from.get_envs() {
        match value {
            Some(value) => to.env(key, value),
            None => to.env_remove(key),
        };
    }
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}
