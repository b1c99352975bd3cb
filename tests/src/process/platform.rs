//! `rukpak-platform`, the manager of PlatformOperators.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{ALLOW_LOOPBACK, Ports, Process};
use crate::plane::Plane;
use crate::plane::install::SYSTEM_NAMESPACE;
use crate::tools;

/// ServiceAccount of the manager, as the manifests name it.
pub const PLATFORM_ACCOUNT: &str = "platform-operators-controller-manager";

/// How to start the manager.
#[derive(Debug, Clone, Default)]
pub struct PlatformOptions {
    /// Further flags.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// Another identity than the ServiceAccount of the manifests.
    pub kubeconfig: Option<PathBuf>,
}

impl Plane {
    /// Starts `rukpak-platform`; it is running when this returns, see [`Process::wait_ready`].
    pub async fn start_platform(&self, options: PlatformOptions) -> Result<Process> {
        let folder = tools::temp_folder("platform")?;
        let storage = folder.path().join("catalogs");
        std::fs::create_dir_all(&storage).with_context(|| format!("create {}", storage.display()))?;
        let (http, health) = (tools::free_port()?, tools::free_port()?);
        let mut command = Command::new(tools::workspace_binary("rukpak-platform")?);
        command
            .arg(format!("--system-namespace={SYSTEM_NAMESPACE}"))
            .arg(format!("--storage-dir={}", storage.display()))
            .arg(format!("--metrics-bind-address=127.0.0.1:{http}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .args(ALLOW_LOOPBACK)
            .args(options.arguments)
            .envs(options.environment);
        let kubeconfig = options.kubeconfig.unwrap_or_else(|| self.account_kubeconfig(PLATFORM_ACCOUNT));
        let ports = Ports { http, health, content: 0 };
        Process::start("rukpak-platform", command, &kubeconfig, folder, ports, storage).await
    }
}
