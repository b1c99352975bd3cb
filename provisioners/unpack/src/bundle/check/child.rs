//! The child's side: content on stdin, a reply on stdout.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use rukpak_content::{BundleTree, Limits};
use rukpak_format::BundleFormat as _;
use rukpak_runtime::error::Chain;
use rukpak_sandbox::Sandbox;
use rukpak_store::read_content;

use super::{Expected, Refusal, Reply, Task};

/// Of a refusal, and of each warning.
const TEXT_BYTES: usize = 32 * 1024;
const WARNING_BYTES: usize = 1024;
const WARNINGS: usize = 20;

/// Checks one bundle in this process, which confines itself as `sandbox` says before it reads. Call it before any other
/// thread is started. Another code than 0 means that there is no answer.
pub fn main(sandbox: Option<&OsStr>, task: Option<&OsStr>) -> ExitCode {
    if let Err(error) = Sandbox::read(sandbox).and_then(|sandbox| sandbox.enter()) {
        eprintln!("check child: {}", Chain(&error));
        return ExitCode::FAILURE;
    }
    match answer(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("check child: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(task: Option<&OsStr>) -> io::Result<()> {
    let task: Task = serde_json::from_slice(task.map(OsStr::as_encoded_bytes).unwrap_or_default())?;
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &reply(input.into(), &task))?;
    output.flush()
}

fn reply(input: File, task: &Task) -> Reply {
    let Task { content, expected, limits } = task;
    match read_content(input, content, &|path| expected.format.has_part(path), limits) {
        Ok(tree) => judge(&tree, *expected, limits),
        Err(error) => Reply::Unreadable(cut(Chain(&error).to_string(), TEXT_BYTES)),
    }
}

/// What there is to say of a tree. Pure.
pub(super) fn judge(tree: &BundleTree, expected: Expected, limits: &Limits) -> Reply {
    match expected.format.check(tree, limits, expected.watches_namespace) {
        Ok(warnings) => {
            Reply::Accepted(warnings.into_iter().take(WARNINGS).map(|warning| cut(warning, WARNING_BYTES)).collect())
        }
        Err(error) => {
            let wants_watched_namespace = error.wants_watched_namespace();
            Reply::Refused(Refusal { text: cut(Chain(&error).to_string(), TEXT_BYTES), wants_watched_namespace })
        }
    }
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}
