//! Programs that run once: kubectl, `rukpakctl`, ctr.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Runs programs against one cluster.
pub struct Hands {
    /// The kubectl to use.
    pub kubectl: PathBuf,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
}

impl Hands {
    /// `kubectl WORDS...`, split at blanks; what it prints on stdout.
    pub async fn kubectl(&self, words: &str) -> Result<String> {
        self.run(&self.kubectl, words.split(' ')).await
    }

    /// `kubectl`, which has to fail; what it prints on stderr.
    pub async fn kubectl_refused(&self, words: &str) -> Result<String> {
        let output = self.command(&self.kubectl).args(words.split(' ')).output().await?;
        if output.status.success() {
            bail!("kubectl {words} was meant to be refused, and was not");
        }
        Ok(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    /// Any program; what it prints on stdout. Fails with what it prints on stderr.
    pub async fn run(&self, program: &Path, arguments: impl IntoIterator<Item = &str>) -> Result<String> {
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let line = || format!("{} {}", program.display(), arguments.join(" "));
        let output = self.command(program).args(&arguments).output().await.with_context(line)?;
        if !output.status.success() {
            bail!("{}: {}: {}", line(), output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}
