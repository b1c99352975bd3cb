//! One child process, from start to its last trace.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rukpak_content::{Limit, LimitExceeded, Limits};
use rukpak_sandbox::Findings;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::JoinHandle;

use super::access::Access;
use super::roots::{Layout, Roots};
use super::sandbox::sandbox;
use super::wire::Reply;
use super::{Commit, Error, Failure, FetcherOptions, Objects};
use crate::archive;

/// Of a line of the child: two objects, as base64.
const REPLY_BYTES: u64 = 1024 * 1024;
/// Of what the child says on stderr, for an error.
const COMPLAINT_BYTES: u64 = 2 * 1024;
/// A running child and its folder. Dropped, it kills the one and removes the other.
pub(super) struct Run {
    shown: String,
    program: PathBuf,
    limits: Limits,
    child: Option<Child>,
    folder: Option<TempDir>,
    pipes: Option<Pipes>,
    /// The child reads it when it meets a certificate.
    _roots: Arc<Layout>,
}

/// This side's ends.
struct Pipes {
    /// The child ends when it is closed, so it stays open until the child has ended by itself.
    stdin: ChildStdin,
    stdout: BufReader<File>,
    complaint: JoinHandle<String>,
}

/// What came of a run that ended by itself.
pub(super) enum Answer<T> {
    /// The commit, and what was made of the bytes behind the first line.
    Done(Commit, T),
    /// The child's refusal.
    Failed(Failure),
}

/// What the reading side saw.
enum Seen<T> {
    Answer(Answer<T>),
    /// The tree was refused, or the tar damaged.
    Refused(archive::Error),
    /// What can be signed.
    SignedObjects(Objects),
    /// What was tried.
    Probed(Findings),
    /// There was no first line, or not one of ours.
    Nothing,
}

impl Run {
    /// Starts the child in a new folder and a sandbox, with nothing in its environment that it does not need: `proxy` is the variable that names
    /// the proxy to use.
    pub(super) fn start(
        options: &FetcherOptions,
        roots: &Roots,
        access: Access,
        proxy: Option<(&'static str, OsString)>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Folder { path: options.stage_dir.clone(), source };
        let folder = tempfile::Builder::new().prefix("git-").tempdir_in(&options.stage_dir).map_err(failed)?;
        let roots = roots.layout().map_err(failed)?;
        let urls: Vec<String> = proxy.iter().map(|(_, url)| url.to_string_lossy().into_owned()).collect();
        let sandbox = sandbox(&access.address, folder.path(), roots.path(), &urls, &options.limits);
        let program = options.program.clone();
        let failed = |source| Error::Run { program: program.clone(), source };
        let mut command = Command::new(&options.program);
        command
            .args(&options.arguments)
            .arg(sandbox.argument().map_err(|error| failed(io::Error::other(error)))?)
            .env_clear()
            .envs(proxy)
            .envs(roots.variables())
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let pipes = Pipes::take(&mut child).map_err(failed)?;
        let limits = options.limits.clone();
        let (child, folder, pipes) = (Some(child), Some(folder), Some(pipes));
        Ok(Self { shown: access.shown, program, limits, child, folder, pipes, _roots: roots })
    }

    /// The child's folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// Hands over the task to resolve. After [`Answer::Done`] the child is still there, and waits for what comes next.
    pub(super) async fn resolve(&mut self, line: Vec<u8>) -> Result<Answer<()>, Error> {
        match self.exchange(line, |_| Ok(())).await? {
            Seen::Answer(Answer::Done(commit, ())) => Ok(Answer::Done(commit, ())),
            seen => self.finish(seen).await,
        }
    }

    /// Hands over the line that asks for a tree, and what comes back to `read`, on a thread that may block. The child ends.
    pub(super) async fn fetch<T: Send + 'static>(
        &mut self,
        line: Vec<u8>,
        read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error> + Send + 'static,
    ) -> Result<Answer<T>, Error> {
        let seen = self.exchange(line, read).await?;
        self.finish(seen).await
    }

    /// Hands over the line that asks what can be signed. After that the child is still there, and waits to be asked for the tree.
    pub(super) async fn look(&mut self, line: Vec<u8>) -> Result<Result<Objects, Failure>, Error> {
        match self.exchange(line, |_| Ok(())).await? {
            Seen::SignedObjects(objects) => Ok(Ok(objects)),
            seen => match self.finish(seen).await? {
                Answer::Failed(failure) => Ok(Err(failure)),
                Answer::Done(..) => Err(self.failed("it answered another question")),
            },
        }
    }

    /// Hands over the task to try what is forbidden. The child ends.
    pub(super) async fn probe(&mut self, line: Vec<u8>) -> Result<Findings, Error> {
        match self.exchange(line, |_| Ok(())).await? {
            Seen::Probed(findings) => Ok(findings),
            seen => match self.finish(seen).await? {
                Answer::Failed(failure) => Err(self.failed(failure)),
                Answer::Done(..) => Err(self.failed("it answered another question")),
            },
        }
    }

    async fn exchange<T: Send + 'static>(
        &mut self,
        line: Vec<u8>,
        read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error> + Send + 'static,
    ) -> Result<Seen<T>, Error> {
        let Pipes { mut stdin, mut stdout, complaint } =
            self.pipes.take().ok_or_else(|| self.failed("it has ended"))?;
        let reader = tokio::task::spawn_blocking(move || {
            let seen = receive(&mut stdout, read);
            (stdout, seen)
        });
        // A child that does not read it has ended, which its status tells better.
        let _ = send(&mut stdin, &line).await;
        let (stdout, seen) = reader.await.map_err(|error| self.failed(error))?;
        self.pipes = Some(Pipes { stdin, stdout, complaint });
        Ok(seen)
    }

    /// Waits for the child to end by itself, which says whether what was seen is whole.
    async fn finish<T>(&mut self, seen: Seen<T>) -> Result<Answer<T>, Error> {
        let seen = match seen {
            Seen::Refused(source) if !source.is_damage() => return Err(self.refused(source)),
            seen => seen,
        };
        let (Some(child), Some(pipes)) = (self.child.as_mut(), self.pipes.take()) else {
            return Err(self.failed("it has ended"));
        };
        // A child that has more to say than anyone reads must not wait for that.
        drop(pipes.stdout);
        let status = child.wait().await.map_err(|source| self.failed(source))?;
        let complaint = pipes.complaint.await.unwrap_or_default();
        drop(pipes.stdin);
        match seen {
            Seen::Answer(answer) if status.success() => Ok(answer),
            Seen::Refused(source) if status.success() => Err(self.refused(source)),
            _ => Err(self.died(status, &complaint)),
        }
    }

    fn failed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Run { program: self.program.clone(), source: io::Error::other(source) }
    }

    /// The error for a run that took too long.
    pub(super) fn late(&self) -> Error {
        self.limit(Limit::GitTime, self.limits.git_time.as_secs())
    }

    fn limit(&self, limit: Limit, maximum: u64) -> Error {
        Error::Limit { source: LimitExceeded { limit, maximum, place: self.shown.clone() } }
    }

    fn refused(&self, source: archive::Error) -> Error {
        Error::Content { repository: self.shown.clone(), source }
    }

    fn died(&self, status: ExitStatus, complaint: &str) -> Error {
        let hint = match status.signal().and_then(Signal::from_named_raw) {
            Some(Signal::XFSZ) => return self.limit(Limit::GitBytes, self.limits.git_bytes),
            Some(Signal::XCPU) => return self.late(),
            // What the allocator of this program says before it aborts.
            Some(Signal::ABORT) if complaint.contains("memory allocation of") => {
                return self.limit(Limit::ChildBytes, self.limits.child_bytes);
            }
            Some(Signal::KILL) => ", perhaps out of memory".to_owned(),
            // libgit2 1.9 compares the query of a redirect that has none.
            Some(Signal::SEGV) => {
                ": the server's answer crashed it, as a redirect without its query does: use the final URL".to_owned()
            }
            _ if complaint.is_empty() => String::new(),
            _ => format!(": {complaint}"),
        };
        Error::Died { repository: self.shown.clone(), status: status.to_string(), hint }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let (Some(mut child), folder) = (self.child.take(), self.folder.take()) else { return };
        // It may write until it is gone; only then can the folder be removed for good.
        let _ = child.start_kill();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = child.wait().await;
                let _ = tokio::task::spawn_blocking(move || drop(folder)).await;
            });
        }
    }
}

impl Pipes {
    fn take(child: &mut Child) -> io::Result<Self> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        let stdout = BufReader::with_capacity(64 * 1024, File::from(stdout.into_owned_fd()?));
        Ok(Self { stdin, stdout, complaint: tokio::spawn(listen(stderr)) })
    }
}

async fn send(stdin: &mut ChildStdin, line: &[u8]) -> io::Result<()> {
    stdin.write_all(line).await?;
    stdin.flush().await
}

async fn listen(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    let _ = (&mut stderr).take(COMPLAINT_BYTES).read_to_end(&mut text).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).trim().replace(char::is_control, " ")
}

fn receive<T>(
    mut reader: &mut BufReader<File>,
    read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error>,
) -> Seen<T> {
    let mut line = Vec::new();
    if (&mut reader).take(REPLY_BYTES).read_until(b'\n', &mut line).is_err() {
        return Seen::Nothing;
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Probed(findings)) => Seen::Probed(findings),
        Ok(Reply::SignedObjects(objects)) => Seen::SignedObjects(objects.into()),
        Ok(Reply::Failed(failure)) => Seen::Answer(Answer::Failed(failure)),
        Ok(Reply::Done(commit)) => match read(&mut reader) {
            Ok(value) => Seen::Answer(Answer::Done(commit, value)),
            Err(error) => Seen::Refused(error),
        },
        Err(_) => Seen::Nothing,
    }
}
