//! A real control plane: etcd, kube-apiserver, kube-controller-manager. No kubelet, no scheduler: Pods stay Pending.

mod current;
pub mod install;
pub mod kubeconfig;
pub mod yaml;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use tokio::sync::OnceCell;

pub use self::install::{InstallOptions, Installed};
use crate::keeper::Kept;

/// Longest restart of an API server.
const RESTART_DEADLINE: Duration = Duration::from_mins(5);

/// The name of the node that may join, see [`PlaneOptions::node`].
pub const NODE_NAME: &str = "node";

/// A running control plane, ended when dropped or when this process ends.
pub struct Plane {
    programs: Programs,
    described: Described,
    pub(crate) installed: Mutex<Option<Installed>>,
}

/// Whose the programs of a plane are.
enum Programs {
    /// Ours, through their keeper.
    Kept(Kept),
    /// Those of a cluster that was there before. Holds the folder with our kubeconfigs.
    Foreign(tempfile::TempDir),
}

/// What a plane should have beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlaneOptions {
    /// Write one line for each request (metadata only) to [`Plane::audit_log`].
    pub audit: bool,
    /// The address of a node that is to join as [`NODE_NAME`], with the kubeconfigs that its programs need in the plane's folder. The
    /// API server then listens on all addresses: for a network namespace of its own only.
    pub node: Option<Ipv4Addr>,
}

/// The keeper's answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    folder: PathBuf,
    kubeconfig: PathBuf,
    server: String,
    certificate_authority: PathBuf,
}

/// Pids of the parts of a plane at one moment.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pids {
    /// etcd.
    pub etcd: u32,
    /// kube-apiserver, absent while it is stopped.
    pub kube_apiserver: Option<u32>,
    /// kube-controller-manager.
    pub kube_controller_manager: u32,
}

impl Plane {
    /// Starts a plane. Takes about 5 s, or minutes when kube-apiserver has to be built first (once a machine).
    pub async fn start() -> Result<Self> {
        Self::start_with(PlaneOptions::default()).await
    }

    /// Starts a plane with `options`.
    pub async fn start_with(options: PlaneOptions) -> Result<Self> {
        crate::tools::use_ring();
        let node = options.node.map(|address| format!("--node={address}"));
        let arguments = ["start"].into_iter().chain(options.audit.then_some("--audit")).chain(node.as_deref());
        let keeper = Kept::start(arguments, |_| ())?;
        let ready = keeper.hear(0, None, |line| line.get("ready").cloned()).await.context("start the control plane")?;
        let described = serde_json::from_value(ready).context("read what the keeper says of the plane")?;
        Ok(Self { programs: Programs::Kept(keeper), described, installed: Mutex::new(None) })
    }

    /// The one plane of this process, started at the first call. Tests that break a plane start their own.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Plane> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A client with every right, made for the calling runtime: do not keep it in a `static`.
    pub async fn admin(&self) -> Result<Client> {
        self.client(&self.described.kubeconfig).await
    }

    /// A client with the identity of a kubeconfig file.
    pub async fn client(&self, kubeconfig: &Path) -> Result<Client> {
        Client::try_from(config(kubeconfig).await?).context("make a client")
    }

    /// The administrator's client, acting as a user with these groups.
    pub async fn impersonating(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = config(&self.described.kubeconfig).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        Client::try_from(config).context("make a client")
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.described.kubeconfig
    }

    /// The folder with logs (`kube-apiserver.log` and so on), certificates and kubeconfigs; removed with the plane.
    pub fn folder(&self) -> &Path {
        &self.described.folder
    }

    /// The API server's address, an https URL.
    pub fn server(&self) -> &str {
        &self.described.server
    }

    /// The certificate authority of the API server, a PEM file.
    pub fn certificate_authority_path(&self) -> &Path {
        &self.described.certificate_authority
    }

    /// The audit log, present with [`PlaneOptions::audit`]: one `audit.k8s.io/v1` Event as JSON a line.
    pub fn audit_log(&self) -> PathBuf {
        self.described.folder.join("audit.log")
    }

    /// The pid of the keeper's latest word on each part.
    pub fn pids(&self) -> Result<Pids> {
        let mut latest = None;
        self.keeper()?.heard(|line| -> Option<()> {
            if let Some(pids) = line.get("pids").or_else(|| line.pointer("/ready/pids")) {
                latest = Some(pids.clone());
            }
            None
        });
        serde_json::from_value(latest.context("the keeper has told no pids")?).context("read the pids")
    }

    /// Ends the API server, starts it again, and returns when it is ready.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.order("restart-apiserver").await
    }

    /// Ends the API server and leaves it down.
    pub async fn stop_apiserver(&self) -> Result<()> {
        self.order("stop-apiserver").await
    }

    /// Starts a stopped API server and returns when it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        self.order("start-apiserver").await
    }

    /// Has garbage collection know the kinds that are defined now. It learns by itself, but only every 30 s.
    pub(crate) async fn introduce_kinds(&self) -> Result<()> {
        match &self.programs {
            Programs::Kept(_) => self.order("restart-controller-manager").await,
            Programs::Foreign(_) => Ok(()),
        }
    }

    /// Ends the plane now, in place of at the drop.
    pub fn end(&self) {
        if let Programs::Kept(keeper) = &self.programs {
            keeper.end();
        }
    }

    fn keeper(&self) -> Result<&Kept> {
        match &self.programs {
            Programs::Kept(keeper) => Ok(keeper),
            Programs::Foreign(folder) => bail!(
                "the programs of this cluster are not ours (kubeconfigs in {}): they cannot be stopped or restarted",
                folder.path().display()
            ),
        }
    }

    async fn order(&self, command: &str) -> Result<()> {
        let keeper = self.keeper()?;
        let mark = keeper.mark();
        keeper.tell(command)?;
        keeper.hear(mark, Some(RESTART_DEADLINE), |line| (line["done"] == command).then_some(())).await
    }
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.context("use the kubeconfig")
}
