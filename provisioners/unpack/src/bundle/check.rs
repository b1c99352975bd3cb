//! Whether sealed content is a bundle of its class. The format is read in a child process: manifests are the work of others,
//! and what they make of memory and processor time is then the child's end and nobody else's.

mod child;

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use rukpak_content::{Digest, Limit, LimitExceeded, Limits};
use rukpak_format::Format;
use rukpak_sandbox::{Calls, Resources, Sandbox};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::task::spawn_blocking;

use super::failure::Failure;
use crate::context::Context;

pub use child::main;

/// The subcommand of the child.
pub const CHILD: &str = "check-child";

const MIB: u64 = 1024 * 1024;
/// Address space beside the memory: libraries, and what the allocator sets aside.
const LIBRARY_BYTES: u64 = 256 * MIB;
const REPLY_BYTES: u64 = 256 * 1024;
/// Of what the child says on stderr.
const COMPLAINT_BYTES: u64 = 2 * 1024;
const OPEN_FILES: u64 = 16;

/// What content has to be.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Expected {
    pub format: Format,
    /// Whether the owning BundleDeployment says what is watched.
    pub watches_namespace: bool,
}

/// Why content could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The child could not be started or talked to.
    #[error("check the bundle: run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    /// It takes more than it may.
    #[error("check the bundle")]
    Limit(#[from] LimitExceeded),
    /// The content is not as it was sealed.
    #[error("check the bundle: {0}")]
    Content(String),
    /// The child ended without an answer.
    #[error("check the bundle: the process ended with {status}{complaint}")]
    Died {
        status: ExitStatus,
        /// What it last said.
        complaint: String,
    },
}

/// What the child is told. The content is its stdin.
#[derive(Serialize, Deserialize)]
struct Task {
    content: Digest,
    expected: Expected,
    limits: Limits,
}

/// Why content is no bundle of its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub text: String,
    /// Whether it would be one if the owning BundleDeployment said what is watched.
    pub wants_watched_namespace: bool,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    /// It is a bundle. What its author should know.
    Accepted(Vec<String>),
    /// It is none.
    Refused(Refusal),
    /// It is not what was sealed, and why.
    Unreadable(String),
}

/// Reads what is sealed, in a child; logs what a reader should know although nothing was refused.
#[tracing::instrument(level = "debug", skip_all)]
pub async fn check(bundle: &str, sealed: &Digest, expected: Expected, context: &Context) -> Result<(), Failure> {
    // The semaphore is never closed.
    let _turn = context.children.checks.acquire().await.ok();
    let (store, digest) = (context.store.clone(), sealed.clone());
    let opened = spawn_blocking(move || store.open_content(&digest)).await.map_err(Failure::Worker)?;
    let input = opened.map_err(|source| Failure::Store(Box::new(source)))?;
    let task = Task { content: sealed.clone(), expected, limits: context.limits.clone() };
    match ask(&task, input, &context.children.program).await? {
        Reply::Accepted(warnings) => {
            for warning in warnings {
                tracing::warn!(bundle, %warning, "the bundle may not mean what its author thinks");
            }
            Ok(())
        }
        Reply::Refused(refusal) => Err(Failure::Refused(refusal)),
        Reply::Unreadable(text) => Err(Error::Content(text).into()),
    }
}

async fn ask(task: &Task, input: File, program: &std::path::Path) -> Result<Reply, Error> {
    let failed = |source| Error::Run { program: program.to_owned(), source };
    let sandbox = sandbox(&task.limits).argument().map_err(|error| failed(io::Error::other(error)))?;
    let mut child = Command::new(program)
        .args([CHILD, &sandbox])
        .arg(serde_json::to_string(task).map_err(|error| failed(error.into()))?)
        .env_clear()
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async { tokio::join!(read(stdout, REPLY_BYTES), read(stderr, COMPLAINT_BYTES), child.wait()) };
    let seconds = task.limits.check_time;
    let Ok((reply, complaint, status)) = tokio::time::timeout(seconds, answer).await else {
        return Err(exceeded(Limit::CheckTime, seconds.as_secs()));
    };
    let status = status.map_err(failed)?;
    match serde_json::from_slice(&reply) {
        Ok(reply) if status.success() => Ok(reply),
        _ => Err(died(status, &complaint, &task.limits)),
    }
}

/// Computes and nothing else: the content is open already.
fn sandbox(limits: &Limits) -> Sandbox {
    Sandbox::new(
        Calls::Compute,
        Resources {
            memory_bytes: limits.child_bytes,
            address_space_bytes: limits.child_bytes + LIBRARY_BYTES,
            file_bytes: 0,
            processor_seconds: limits.check_time.as_secs(),
            open_files: OPEN_FILES,
        },
    )
}

/// The beginning of what a pipe brings. What comes after that is not waited for.
async fn read(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(most).read_to_end(&mut bytes).await;
    }
    bytes
}

fn died(status: ExitStatus, complaint: &[u8], limits: &Limits) -> Error {
    let complaint = String::from_utf8_lossy(complaint).trim().replace(char::is_control, " ");
    match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::XCPU) => exceeded(Limit::CheckTime, limits.check_time.as_secs()),
        // What the allocator says before it aborts.
        Some(Signal::ABORT) if complaint.contains("memory allocation of") => {
            exceeded(Limit::ChildBytes, limits.child_bytes)
        }
        _ if complaint.is_empty() => Error::Died { status, complaint },
        _ => Error::Died { status, complaint: format!(": {complaint}") },
    }
}

fn exceeded(limit: Limit, maximum: u64) -> Error {
    LimitExceeded { limit, maximum, place: "its manifests".to_owned() }.into()
}

#[cfg(test)]
mod tests;
