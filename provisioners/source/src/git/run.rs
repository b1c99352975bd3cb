//! One child process, from start to its last trace.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rukpak_content::{Limit, LimitExceeded, Limits};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

use super::wire::Reply;
use super::{Commit, Error, Failure, FetcherOptions};
use crate::archive;

/// Of the child's first line.
const REPLY_BYTES: u64 = 64 * 1024;
/// Of what the child says on stderr, for an error.
const COMPLAINT_BYTES: u64 = 2 * 1024;
/// Passed on to the child, which finds its proxy through them as git does.
const PROXY_VARIABLES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// Where systems keep their CA certificates in one file.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A running child and its folder. Dropped, it kills the one and removes the other.
pub(super) struct Run {
    shown: String,
    program: PathBuf,
    limits: Limits,
    child: Option<Child>,
    folder: Option<TempDir>,
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
    /// There was no first line, or not one of ours.
    Nothing,
}

impl Run {
    /// Starts the child in a new folder, with nothing in its environment that it does not need.
    pub(super) fn start(options: &FetcherOptions, shown: String) -> Result<Self, Error> {
        let failed = |source| Error::Folder { path: options.stage_dir.clone(), source };
        let folder = tempfile::Builder::new().prefix("git-").tempdir_in(&options.stage_dir).map_err(failed)?;
        let roots = roots(options.extra_ca_pem.as_deref(), folder.path()).map_err(failed)?;
        let mut command = Command::new(&options.program);
        command
            .args(&options.arguments)
            .env_clear()
            .envs(PROXY_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(roots.map(|roots| ("SSL_CERT_FILE", roots)))
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let program = options.program.clone();
        let child = command.spawn().map_err(|source| Error::Run { program: program.clone(), source })?;
        Ok(Self { shown, program, limits: options.limits.clone(), child: Some(child), folder: Some(folder) })
    }

    /// The child's folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// Hands the task over, and what comes back to `read`, on a thread that may block.
    pub(super) async fn talk<T: Send + 'static>(
        &mut self,
        task: Vec<u8>,
        read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error> + Send + 'static,
    ) -> Result<Answer<T>, Error> {
        let failed = |source| Error::Run { program: self.program.clone(), source };
        let child = self.child.as_mut().expect("set until dropped, because only drop takes it");
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed(io::Error::other("a pipe is missing")));
        };
        let stdout = File::from(stdout.into_owned_fd().map_err(failed)?);
        let reader = tokio::task::spawn_blocking(move || receive(stdout, read));
        let complaint = tokio::spawn(listen(stderr));
        // The child ends when its stdin does, so this end stays open until it has ended by itself.
        let _stdin = send(stdin, &task).await;
        let seen = reader.await.map_err(|error| failed(error.into()))?;
        let seen = match seen {
            Seen::Refused(source) if !source.is_damage() => return Err(self.refused(source)),
            seen => seen,
        };
        let status = child.wait().await.map_err(failed)?;
        let complaint = complaint.await.unwrap_or_default();
        match seen {
            Seen::Answer(answer) if status.success() => Ok(answer),
            Seen::Refused(source) if status.success() => Err(self.refused(source)),
            _ => Err(self.died(status, &complaint)),
        }
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

/// Writes the task. A child that does not read it has ended, which its status tells better.
async fn send(mut stdin: ChildStdin, task: &[u8]) -> Option<ChildStdin> {
    stdin.write_all(task).await.ok()?;
    stdin.flush().await.ok()?;
    Some(stdin)
}

async fn listen(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    let _ = (&mut stderr).take(COMPLAINT_BYTES).read_to_end(&mut text).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).trim().replace(char::is_control, " ")
}

fn receive<T>(stdout: File, read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error>) -> Seen<T> {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    if (&mut reader).take(REPLY_BYTES).read_until(b'\n', &mut line).is_err() {
        return Seen::Nothing;
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Failed(failure)) => Seen::Answer(Answer::Failed(failure)),
        Ok(Reply::Done(commit)) => match read(&mut reader) {
            Ok(value) => Seen::Answer(Answer::Done(commit, value)),
            Err(error) => Seen::Refused(error),
        },
        Err(_) => Seen::Nothing,
    }
}

/// The file with all CA certificates to trust: the system's own, or a copy of it with `extra` behind.
fn roots(extra: Option<&str>, folder: &Path) -> io::Result<Option<PathBuf>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = named.into_iter().chain(SYSTEM_ROOTS.map(PathBuf::from)).find(|path| path.is_file());
    let Some(extra) = extra else { return Ok(system) };
    let bundle = folder.join("roots.pem");
    let mut file = File::create_new(&bundle)?;
    if let Some(system) = system {
        file.write_all(&fs::read(system)?)?;
    }
    file.write_all(b"\n")?;
    file.write_all(extra.as_bytes())?;
    Ok(Some(bundle))
}
