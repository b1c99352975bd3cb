//! Stacks of the controller, and the API server's own profile, while something is measured: `tests/tools/flame.sh`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use futures::AsyncReadExt as _;
use kube::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;

/// Samples a second. No round number: what happens at round times would be seen too often or never.
const SAMPLES: &str = "197";
/// So long the API server samples itself, from the beginning on. It has to be told beforehand.
const SERVER_SECONDS: u32 = 5;

/// What writes until it is told to end; nothing without a folder.
#[derive(Default)]
pub struct Recording {
    perf: Option<Child>,
    server: Option<JoinHandle<Result<()>>>,
}

impl Recording {
    /// Begins to sample the process `pid` into `FOLDER/NAME.perf`, and has the API server sample itself into
    /// `FOLDER/NAME-kube-apiserver.pb.gz`; does nothing without a folder.
    ///
    /// # Errors
    /// Where perf is missing or not allowed.
    pub fn begin(folder: Option<&Path>, name: &str, pid: u32, server: &Client) -> Result<Self> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let file = folder.join(format!("{name}.perf"));
        let perf = Command::new("perf")
            .args(["record", "--quiet", "--freq", SAMPLES, "--call-graph", "fp", "--pid", &pid.to_string(), "--output"])
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .context("start perf (Debian package linux-perf)")?;
        let server = sample(server.clone(), folder.join(format!("{name}-kube-apiserver.pb.gz")));
        Ok(Self { perf: Some(perf), server: Some(tokio::spawn(server)) })
    }

    /// Ends, and waits until everything is written.
    ///
    /// # Errors
    /// If perf or the API server has failed.
    pub async fn end(self) -> Result<()> {
        if let Some(mut perf) = self.perf {
            let pid = i32::try_from(perf.id()).ok().and_then(Pid::from_raw).context("perf has no pid")?;
            kill_process(pid, Signal::INT).context("perf ended by itself")?;
            let status = perf.wait().context("wait for perf")?;
            // It passes the signal on as its end.
            ensure!(status.success() || status.code().is_none(), "perf ended with {status}");
        }
        match self.server {
            Some(server) => server.await.context("wait for the API server's profile")?,
            None => Ok(()),
        }
    }
}

/// Has the API server sample where it spends its CPU time.
async fn sample(server: Client, file: PathBuf) -> Result<()> {
    let path = format!("/debug/pprof/profile?seconds={SERVER_SECONDS}");
    let request = http::Request::get(path).body(Vec::new())?;
    let mut answer = pin!(server.request_stream(request).await.context("profile the API server")?);
    let mut profile = Vec::new();
    answer.read_to_end(&mut profile).await.context("read the API server's profile")?;
    std::fs::write(&file, profile).with_context(|| format!("write {}", file.display()))
}
