//! What the tests stand on: the versions of the control plane and of this repository.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rukpak_tests::tools;

/// The control plane's programs, and what is tested on them.
pub struct Ground {
    cluster: Option<Cluster>,
    revision: String,
}

struct Cluster {
    folder: PathBuf,
    /// The newest: pages have people type what older ones do not know, and a kubectl serves older clusters.
    kubectl: PathBuf,
    kubernetes: String,
    etcd: String,
}

impl Ground {
    /// Finds the programs of the control plane that the environment chooses, and builds them where they are missing.
    pub fn find(without_cluster: bool) -> Result<Self> {
        let cluster = if without_cluster { None } else { Some(Cluster::find()?) };
        Ok(Self { cluster, revision: revision() })
    }

    /// The version of Kubernetes, such as `1.37.2`.
    pub fn kubernetes(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| &*cluster.kubernetes)
    }

    /// Its minor version, such as `37`.
    pub fn minor(&self) -> Option<u32> {
        self.kubernetes()?.split('.').nth(1)?.parse().ok()
    }

    /// What is tested.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Has a test program take these very programs.
    pub fn hand_to(&self, command: &mut Command) {
        if let Some(cluster) = &self.cluster {
            command
                .env("KUBEBUILDER_ASSETS", &cluster.folder)
                .env("KUBECTL", &cluster.kubectl)
                .env_remove("KUBERNETES");
        }
    }
}

impl Cluster {
    fn find() -> Result<Self> {
        let script = tools::crate_folder().join("tools/control-plane.sh");
        let folder = PathBuf::from(said(Command::new(&script).stderr(Stdio::inherit()))?);
        let of_kubectl = match std::env::var("KUBERNETES") {
            Ok(version) if !version.is_empty() => {
                said(Command::new(&script).arg("kubectl").env("KUBERNETES", "newest").stderr(Stdio::inherit()))?.into()
            }
            _ => folder.clone(),
        };
        // `Kubernetes v1.37.2`
        let kubernetes = version(&folder, "kube-apiserver", "Kubernetes v")?;
        let etcd = version(&folder, "etcd", "etcd Version: ")?;
        Ok(Self { folder, kubectl: of_kubectl.join("kubectl"), kubernetes, etcd })
    }
}

impl Display for Ground {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(Cluster { kubernetes, etcd, .. }) = &self.cluster {
            write!(f, "Kubernetes {kubernetes}, etcd {etcd}, ")?;
        }
        write!(f, "revision {}", self.revision)
    }
}

fn version(folder: &Path, program: &str, before: &str) -> Result<String> {
    let text = said(Command::new(folder.join(program)).arg("--version"))?;
    let version = text.lines().find_map(|line| line.strip_prefix(before));
    version.map(|version| version.trim().to_owned()).with_context(|| format!("{program} --version says {text:?}"))
}

/// The commit that is checked out, and whether something else is built.
fn revision() -> String {
    let git = |words: &[&str]| {
        said(Command::new("git").args(words).current_dir(tools::workspace_folder()).stderr(Stdio::null())).ok()
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return "of no git clone".to_owned() };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} with changes"),
    }
}

/// What a program prints.
fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {program}"))?;
    ensure!(output.status.success(), "{program} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout).with_context(|| format!("read what {program} prints"))?.trim().to_owned())
}
