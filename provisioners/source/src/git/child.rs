//! The child's side: what a binary's hidden subcommand runs.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use git2::Repository;
use rukpak_content::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;

use super::access::Access;
use super::wire::{Action, Reply, Task};
use super::{Class, Commit, Failure, Step};
use heads::Heads;
use tree::Item;

mod heads;
mod latency;
mod remote;
mod tree;

const MIB: u64 = 1024 * 1024;
/// Of a request: two Secrets at Kubernetes' size limit of 1 MiB, with room for JSON.
const REQUEST_BYTES: u64 = 4 * MIB;
/// Address space beside pack, its deltas and the largest file: libraries, stacks, libgit2's tables.
const ADDRESS_SPACE_BYTES: u64 = 1024 * MIB;
/// Index files and pack trailers that a pack within its limit needs beside it.
const FILE_SLACK_BYTES: u64 = 16 * MIB;
const OPEN_FILES: u64 = 256;

/// Why there is no tree.
enum Error {
    /// The answer is a refusal.
    Refused(Failure),
    /// The parent could not be talked to.
    Parent(io::Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Parent(error)
    }
}

/// Serves one request from `input` on `output`, then ends. The process gets resource limits that it cannot shed, and
/// exits when `input` closes: it does not outlive its parent. Call it before any runtime or other thread is started.
///
/// Returns 0 also where the answer is a refusal; another code means that there is no whole answer.
pub fn main(input: impl Read + Send + 'static, output: impl Write) -> ExitCode {
    let mut input = BufReader::new(input);
    let task: Task = match read(&mut input) {
        Ok(task) => task,
        Err(error) => return complain(&error),
    };
    let (sender, next) = mpsc::channel();
    thread::spawn(move || watch(input, &sender));
    if let Err(error) = confine(&task.limits) {
        return complain(&error);
    }
    // Nothing is read twice here, and the cache alone may take 256 MiB.
    git2::opts::enable_caching(false);
    match serve(&task, &next, &mut BufWriter::with_capacity(64 * 1024, output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

fn complain(error: &io::Error) -> ExitCode {
    eprintln!("git child: {error}");
    ExitCode::FAILURE
}

fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    input.take(REQUEST_BYTES).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// Passes the next action on, and ends the process when `input` closes.
fn watch(mut input: impl BufRead, next: &Sender<Action>) {
    if let Ok(action) = read(&mut input) {
        let _ = next.send(action);
        let _ = io::copy(&mut input, &mut io::sink());
    }
    // Not exit: its handlers would take OpenSSL down under the thread that is using it.
    std::process::abort();
}

/// Limits of the operating system, for what libgit2 does with hostile packs: deltas expand after the bytes were counted.
fn confine(limits: &Limits) -> io::Result<()> {
    let address_space = ADDRESS_SPACE_BYTES + 2 * limits.git_bytes + limits.tree_bytes;
    let processor_time = limits.git_time.as_secs() + 2;
    let table = [
        (Resource::As, address_space),
        (Resource::Fsize, limits.git_bytes + FILE_SLACK_BYTES),
        (Resource::Cpu, processor_time),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Core, 0),
    ];
    for (resource, wanted) in table {
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // Past the soft limit of processor time comes a signal that says so, past the hard one SIGKILL.
        let current = if matches!(resource, Resource::Cpu) { maximum.saturating_sub(1) } else { maximum };
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?;
    }
    Ok(())
}

fn serve(task: &Task, next: &Receiver<Action>, output: &mut impl Write) -> io::Result<()> {
    match bring(task, next, output) {
        Ok((repository, items, commit)) => {
            reply(output, &Reply::Done(commit))?;
            tree::write(&repository, &items, output)
        }
        Err(Error::Refused(failure)) => reply(output, &Reply::Failed(failure)),
        Err(Error::Parent(error)) => Err(error),
    }
}

fn bring(
    task: &Task,
    next: &Receiver<Action>,
    output: &mut impl Write,
) -> Result<(Repository, Vec<Item>, Commit), Error> {
    let access = prepare(task)?;
    let repository = remote::repository(&access, &task.folder)?;
    let choose = |heads: &Heads| match &task.action {
        Action::Fetch(commit) => Ok(commit.clone()),
        Action::Resolve => {
            reply(output, &Reply::Done(heads.named(&access)?))?;
            wait(next)
        }
    };
    let commit = remote::fetch(&access, &repository, &task.limits, choose)?;
    let directory = task.request.directory.as_ref();
    let items = tree::list(&repository, &commit, directory, &access.shown, &task.limits)?;
    Ok((repository, items, commit))
}

/// What to bring. The connection to the server stays open meanwhile.
fn wait(next: &Receiver<Action>) -> Result<Commit, Error> {
    match next.recv() {
        Ok(Action::Fetch(commit)) => Ok(commit),
        Ok(Action::Resolve) => Err(io::Error::other("asked to resolve twice").into()),
        Err(_) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
    }
}

fn prepare(task: &Task) -> Result<Access, Failure> {
    let access = Access::new(&task.request)?;
    if let super::access::Login::Key { known_hosts: Some(lines), .. } = &access.login {
        // libgit2 looks below HOME, which the parent sets to this folder.
        let folder = task.folder.join(".ssh");
        let written = fs::create_dir(&folder).and_then(|()| fs::write(folder.join("known_hosts"), lines));
        written.map_err(|error| Failure::new(Step::Auth, Class::Unavailable, format!("write known_hosts: {error}")))?;
    }
    Ok(access)
}

fn reply(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    serde_json::to_writer(&mut *output, reply)?;
    output.write_all(b"\n")?;
    output.flush()
}
