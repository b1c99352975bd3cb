//! The child's side: what a binary's hidden subcommand runs.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use git2::Repository;
use rukpak_sandbox::{Sandbox, no_more_threads};
use serde::de::DeserializeOwned;

use super::access::Access;
use super::wire::{Action, Reply, Task};
use super::{Class, Commit, Failure, Step};
use crate::chain::chain;
use heads::Heads;
use tree::Item;

mod heads;
mod latency;
mod objects;
mod peers;
mod remote;
mod tree;

const MIB: u64 = 1024 * 1024;
/// Of a request: two Secrets at Kubernetes' size limit of 1 MiB, with room for JSON.
const REQUEST_BYTES: u64 = 4 * MIB;
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

/// Serves one request from `input` on `output`, then ends. `argument` is what the parent added to the command line: the
/// process confines itself as that says before it reads, for good, and exits when `input` closes, so that it does not
/// outlive its parent. Call it before any runtime or other thread is started.
///
/// Returns 0 also where the answer is a refusal; another code means that there is no whole answer.
pub fn main(argument: Option<&OsStr>, input: impl Read + Send + 'static, output: impl Write) -> ExitCode {
    if let Err(error) = Sandbox::read(argument).and_then(|sandbox| sandbox.enter()) {
        return complain(&chain(&error));
    }
    match listen(input).and_then(|parent| answer(&parent, output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

fn complain(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("git child: {error}");
    ExitCode::FAILURE
}

/// What the parent says.
struct Parent {
    task: Receiver<io::Result<Task>>,
    next: Receiver<Action>,
}

/// Starts the one thread that reads, and lets it begin when no other can be started.
fn listen(input: impl Read + Send + 'static) -> io::Result<Parent> {
    let (begin, gate) = mpsc::channel::<()>();
    let (task_sender, task) = mpsc::channel();
    let (sender, next) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut input = BufReader::new(input);
        if gate.recv().is_ok() {
            let _ = task_sender.send(read(&mut input));
            watch(input, &sender);
        }
    })?;
    no_more_threads()?;
    let _ = begin.send(());
    Ok(Parent { task, next })
}

fn answer(parent: &Parent, mut output: impl Write) -> io::Result<()> {
    let task = parent.task.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
    if let Action::Probe(attempts) = &task.action {
        return reply(&mut output, &Reply::Probed(attempts.run()));
    }
    // Nothing is read twice here, and the cache alone may take 256 MiB.
    git2::opts::enable_caching(false);
    serve(&task, &parent.next, &mut BufWriter::with_capacity(64 * 1024, output))
}

fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    input.take(REQUEST_BYTES).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// Passes the next actions on, and ends the process when `input` closes.
fn watch(mut input: impl BufRead, next: &Sender<Action>) {
    while let Ok(action) = read(&mut input) {
        let _ = next.send(action);
    }
    // Not exit: its handlers would take OpenSSL down under the thread that is using it.
    std::process::abort();
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
    let mut looks_at = None;
    let choose = |heads: &Heads| {
        let action = match &task.action {
            Action::Resolve => {
                reply(output, &Reply::Done(heads.named(&access)?))?;
                wait(next)?
            }
            action => action.clone(),
        };
        match action {
            Action::Fetch(commit) => Ok(commit),
            Action::Look(commit) => {
                looks_at = Some(heads.tag_object(&access.wanted));
                Ok(commit)
            }
            Action::Resolve | Action::Probe(_) => Err(again()),
        }
    };
    let commit = remote::fetch(&access, &repository, &task.limits, choose)?;
    if let Some(tag) = looks_at {
        let objects = objects::read(&repository, &commit, tag, &access.shown)?;
        reply(output, &Reply::SignedObjects(objects.into()))?;
        match wait(next)? {
            Action::Fetch(wanted) if wanted == commit => {}
            _ => return Err(again()),
        }
    }
    let directory = task.request.directory.as_ref();
    let items = tree::list(&repository, &commit, directory, &access.shown, &task.limits)?;
    Ok((repository, items, commit))
}

/// What to do next. The connection to the server stays open meanwhile.
fn wait(next: &Receiver<Action>) -> Result<Action, Error> {
    next.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe).into())
}

fn again() -> Error {
    io::Error::other("asked for something that does not come next").into()
}

fn prepare(task: &Task) -> Result<Access, Failure> {
    let access = Access::new(&task.request)?.through(task.egress.clone());
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
