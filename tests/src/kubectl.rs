//! kubectl, typed at: commands as they stand in the documentation, run by bash against one cluster.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::tools;

/// Seconds after which a command is ended. `kubectl rollout status` and `kubectl delete` wait without an end.
const LIMIT_SECONDS: u32 = 180;

/// A terminal for one user of a cluster.
pub struct Terminal {
    /// With kubectl before anything else.
    path: OsString,
    kubeconfig: PathBuf,
    folder: PathBuf,
    /// kubectl remembers a server's kinds in its home folder, by address, and ports are used again.
    home: tempfile::TempDir,
}

/// What a command printed.
#[derive(Debug)]
pub struct Printed {
    /// The lines of stdout and stderr, as they came.
    pub lines: Vec<String>,
    /// Whether it ended with 0.
    pub succeeded: bool,
}

impl Terminal {
    /// A terminal for the user of a kubeconfig, in the folder of the workspace. Builds kubectl, once a machine.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let kubectl = tools::kubectl()?;
        let mut path = OsString::from(kubectl.parent().context("kubectl is in no folder")?);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let folder = tools::workspace_folder().to_owned();
        Ok(Self { path, kubeconfig: kubeconfig.to_owned(), folder, home: tools::temp_folder("home")? })
    }

    /// The same in another folder.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Types a command, or several lines of which none is run after one that failed.
    ///
    /// # Errors
    /// Where nothing can be run. That a command fails is no error here.
    pub async fn enter(&self, text: &str) -> Result<Printed> {
        // timeout ends kubectl together with its shell, also when nobody waits for it any more.
        let output = Command::new("timeout")
            .args([&LIMIT_SECONDS.to_string(), "bash", "-e", "-o", "pipefail", "-c", &format!("exec 2>&1\n{text}")])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .output();
        let output = output.await.context("run bash")?;
        let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        Ok(Printed { lines, succeeded: output.status.success() })
    }
}

impl Printed {
    /// The lines of a command that succeeded.
    ///
    /// # Errors
    /// The lines of one that failed.
    pub fn of_success(self) -> Result<Vec<String>> {
        if !self.succeeded {
            bail!("the command failed: {}", self.lines.join("\n"));
        }
        Ok(self.lines)
    }
}
