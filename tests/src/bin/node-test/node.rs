//! The node: its programs, started in order, and what is known of it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use kube::Client;
use rukpak_tests::plane::NODE_NAME;
use rukpak_tests::tools::{self, PATIENCE};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Plane, PlaneOptions};

use crate::daemon::Daemon;
use crate::kubectl::Hands;
use crate::programs::{CONTAINERD, CommandLine, Layout};
use crate::{Arguments, Clock};

/// The node's address, that of a link which `node.sh` has made.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// A control plane with a node on which Pods run.
pub struct Node {
    /// What people type.
    pub hands: Hands,
    /// The administrator.
    pub client: Client,
    /// What `make image` wrote.
    pub image: PathBuf,
    /// What `make manifests` wrote.
    pub manifests: PathBuf,
    containerd: Daemon,
    kubelet: Daemon,
    proxy: Daemon,
    scheduler: Daemon,
    folder: PathBuf,
    _plane: Plane,
}

impl Node {
    /// Starts everything and waits until the node is ready.
    pub async fn start(arguments: &Arguments, clock: &Clock) -> Result<Self> {
        let plane = Plane::start_with(PlaneOptions { node: Some(ADDRESS), ..PlaneOptions::default() }).await?;
        clock.say("the control plane is ready");
        let folder = arguments.folder.clone();
        let layout = Layout { folder: &folder, plane: plane.folder(), kubernetes: &arguments.kubernetes };
        let hands = Hands { kubectl: arguments.kubectl.clone(), kubeconfig: plane.kubeconfig_path().to_owned() };
        let containerd = start("containerd", layout.containerd()?, &folder).await?;
        let pods = layout.pod_images(&arguments.pod)?;
        await_containerd(&hands).await.with_context(|| containerd.tail())?;
        load(&hands, &pods, &[]).await?;
        let minor = minor_version(&hands, &arguments.kubernetes.join("kubelet")).await?;
        let kubelet = start("kubelet", layout.kubelet(minor)?, &folder).await?;
        let client = plane.admin().await?;
        await_ready(&client).await.with_context(|| kubelet.tail())?;
        let node = Self {
            // After the node is registered: kube-proxy asks for it, and otherwise tries again ever more rarely.
            proxy: start("kube-proxy", layout.kube_proxy(), &folder).await?,
            scheduler: start("kube-scheduler", layout.kube_scheduler(), &folder).await?,
            image: arguments.image.clone(),
            manifests: arguments.manifests.clone(),
            client,
            hands,
            kubelet,
            containerd,
            folder,
            _plane: plane,
        };
        clock.say(&format!("the node is ready: kubelet 1.{minor}"));
        Ok(node)
    }

    /// Loads the image that `make image` wrote to a folder; returns its name by digest.
    pub async fn load_image(&self, folder: &Path) -> Result<String> {
        let reference = std::fs::read_to_string(folder.join("reference")).context("read the image's name")?;
        let reference = reference.trim().to_owned();
        let name = reference.split('@').next().unwrap_or_default();
        load(&self.hands, &folder.join("rukpak.tar"), &["--digests", "--base-name", name]).await?;
        Ok(reference)
    }

    /// Ends kubelet and containerd and starts them again, as an update of the node would. A kubelet begins anew to ask whether Pods
    /// are ready, so this waits until it has asked so many.
    pub async fn restart(&mut self, pods: usize) -> Result<()> {
        self.kubelet.stop().await?;
        self.containerd.stop().await?;
        self.containerd.start_again().await?;
        await_containerd(&self.hands).await?;
        self.kubelet.start_again().await?;
        // Node and Pods still say what the kubelet said before it ended, so it is the kubelet that is asked, through the API server.
        let question = format!("get --raw /api/v1/nodes/{NODE_NAME}/proxy/metrics/probes");
        let asked = || async {
            let metrics = self.hands.kubectl(&question).await?;
            let of_ready = |line: &&str| line.contains("\"Readiness\"") && line.contains("\"successful\"");
            let ready = metrics.lines().filter(of_ready).count();
            ensure!(ready >= pods, "{ready} of {pods} Pods have been found ready");
            Ok(())
        };
        until("the kubelet has found all Pods ready", asked).await
    }

    /// A folder for files of a step.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    /// The ends of the logs, on stderr.
    pub fn tell_what_is_wrong(&self) {
        for daemon in [&self.containerd, &self.kubelet, &self.proxy, &self.scheduler] {
            eprintln!("{}", daemon.tail());
        }
    }
}

async fn start(name: &'static str, (program, arguments): CommandLine, folder: &Path) -> Result<Daemon> {
    Daemon::start(name, program, arguments, folder).await
}

/// `ctr` on the images of Kubernetes.
pub async fn ctr(hands: &Hands, words: &[&str]) -> Result<String> {
    let program = tools::system_program("ctr")?;
    hands.run(&program, ["--address", CONTAINERD, "--namespace", "k8s.io"].iter().chain(words).copied()).await
}

async fn load(hands: &Hands, archive: &Path, flags: &[&str]) -> Result<()> {
    let archive = archive.to_str().context("the archive's path is no text")?;
    let words = ["images", "import"].iter().chain(flags).chain([&archive]);
    ctr(hands, &words.copied().collect::<Vec<_>>()).await.map(|_| ())
}

/// Until the kubelet says that it can run Pods.
async fn await_ready(client: &Client) -> Result<()> {
    let target = Target::cluster("v1", "Node", NODE_NAME);
    let ready = verbs::Expected::is_true("Ready", "KubeletReady");
    verbs::await_condition(client, &target, ready, PATIENCE * 2).await.map(|_| ())
}

/// Until containerd answers. Its socket is there before that.
async fn await_containerd(hands: &Hands) -> Result<()> {
    until("containerd answers", || async { ctr(hands, &["version"]).await.map(|_| ()) }).await
}

/// Until a question that cannot be watched has an answer.
pub async fn until<F: Future<Output = Result<()>>>(what: &str, ask: impl Fn() -> F) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while let Err(error) = ask().await {
        if tokio::time::Instant::now() > deadline {
            return Err(error.context(format!("after {PATIENCE:?} it does not hold that {what}")));
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The 37 of `Kubernetes v1.37.2`.
async fn minor_version(hands: &Hands, program: &Path) -> Result<u32> {
    let text = hands.run(program, ["--version"]).await?;
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.with_context(|| format!("{} --version says {text:?}, which is no version", program.display()))
}
