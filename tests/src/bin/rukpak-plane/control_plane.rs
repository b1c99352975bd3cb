//! etcd, kube-apiserver and kube-controller-manager of one plane.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rukpak_tests::plane::NODE_NAME;
use rukpak_tests::plane::kubeconfig::{Credential, write_kubeconfig};
use rukpak_tests::{Leaf, TestCa, tools};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

use crate::child::Child;
use crate::flags::{FRONT_PROXY, Layout};

/// Longest time from start to ready; 4 s is usual. Beside many others an API server has taken more than 90 s to reconcile its roles.
const READY_DEADLINE: Duration = Duration::from_mins(4);
/// Between two questions whether it is ready: nothing to watch exists before it is.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// So many planes of a machine start at once.
const STARTS: u32 = 2;
/// From SIGTERM to SIGKILL. The data is thrown away, so there is little to wait for.
const GRACE: Duration = Duration::from_secs(3);

/// What the caller chooses.
pub struct Options {
    /// Keep an audit log.
    pub audit: bool,
    /// The address of a node that is to join.
    pub node: Option<Ipv4Addr>,
}

/// A running control plane. Dropping it kills its processes.
pub struct ControlPlane {
    // Order matters: processes are dropped before their folder.
    controller_manager: Option<Child>,
    apiserver: Option<Child>,
    etcd: Child,
    options: Options,
    assets: PathBuf,
    etcd_port: u16,
    apiserver_port: u16,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// Finds the programs (building them if need be), starts them and waits until the API server is ready.
    pub async fn start(options: Options) -> Result<Self> {
        let assets = find_assets().await?;
        let folder = tools::unswept_folder("plane")?;
        let (etcd_port, apiserver_port) = (tools::free_port()?, tools::free_port()?);
        let layout = Layout { folder: folder.path(), etcd_port, apiserver_port, node: options.node };
        write_files(folder.path(), apiserver_port, options.node)?;
        // A start takes both cores of a small machine for seconds: of many at once none is ready in time.
        let _turn = tools::turn("plane-start", STARTS).await?;

        let etcd = layout.spawn_etcd(&assets)?;
        let apiserver = Some(layout.spawn_apiserver(&assets, &options)?);
        let mut plane =
            Self { controller_manager: None, apiserver, etcd, options, assets, etcd_port, apiserver_port, folder };
        plane.await_ready().await?;
        Ok(plane)
    }

    /// What the library needs to know.
    pub fn describe(&self) -> Value {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        json!({
            "folder": self.folder.path().display().to_string(),
            "kubeconfig": file("admin.kubeconfig"),
            "server": format!("https://127.0.0.1:{}", self.apiserver_port),
            "certificateAuthority": file("apiserver-ca.crt"),
            "pids": self.pids(),
        })
    }

    /// The pids of the running children by program.
    pub fn pids(&self) -> Value {
        json!({
            "etcd": self.etcd.pid(),
            "kube-apiserver": self.apiserver.as_ref().map(Child::pid),
            "kube-controller-manager": self.controller_manager.as_ref().map(Child::pid),
        })
    }

    /// Ends the API server and starts it again with the same data and certificates.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Ends the API server and leaves it down.
    pub async fn stop_apiserver(&mut self) -> Result<()> {
        let mut apiserver = self.apiserver.take().context("the API server is down already")?;
        apiserver.end(GRACE).await;
        Ok(())
    }

    /// Starts the API server after [`ControlPlane::stop_apiserver`].
    pub async fn start_apiserver(&mut self) -> Result<()> {
        if self.apiserver.is_some() {
            bail!("the API server is up already");
        }
        self.apiserver = Some(self.layout().spawn_apiserver(&self.assets, &self.options)?);
        self.await_ready().await
    }

    /// Ends kube-controller-manager and starts it again, without waiting until it works. Its garbage collector then knows the
    /// kinds that have been defined so far, of which it would otherwise learn up to 30 s later.
    pub async fn restart_controller_manager(&mut self) -> Result<()> {
        if let Some(mut controller_manager) = self.controller_manager.take() {
            controller_manager.end(GRACE).await;
        }
        self.start_controller_manager()
    }

    /// Returns when etcd or the API server has ended by itself: which, how, and the ends of the logs.
    pub async fn until_broken(&mut self) -> anyhow::Error {
        let apiserver = async {
            match &mut self.apiserver {
                Some(child) => child.wait().await,
                None => std::future::pending().await,
            }
        };
        let (name, status) = tokio::select! {
            status = self.etcd.wait() => ("etcd", status),
            status = apiserver => ("kube-apiserver", status),
        };
        let how = status.map_or_else(|error| format!("{error:#}"), |status| status.to_string());
        anyhow::anyhow!("{name} ended by itself: {how}; the ends of the logs:\n{}", self.logs())
    }

    /// Ends all of it and removes the folder.
    pub async fn end(mut self) {
        if let Some(controller_manager) = &mut self.controller_manager {
            controller_manager.terminate();
        }
        if let Some(mut apiserver) = self.apiserver.take() {
            apiserver.end(GRACE).await;
        }
        if let Some(controller_manager) = &mut self.controller_manager {
            controller_manager.end(GRACE).await;
        }
        self.etcd.end(GRACE).await;
    }

    /// Until the API server says so and the controller-manager has done its first work.
    async fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        let client = admin(self.folder.path()).await?;
        while let Err(problem) = self.first_signs(&client).await {
            self.check_alive()?;
            if Instant::now() > deadline {
                bail!("not ready after {READY_DEADLINE:?}: {problem:#}; the ends of the logs:\n{}", self.logs());
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Ok(())
    }

    fn check_alive(&mut self) -> Result<()> {
        let etcd = self.etcd.exit_status().map(|status| ("etcd", status));
        let apiserver = self.apiserver.as_mut().and_then(Child::exit_status).map(|status| ("kube-apiserver", status));
        if let Some((name, status)) = etcd.or(apiserver) {
            bail!("{name} ended with {status}; the ends of the logs:\n{}", self.logs());
        }
        Ok(())
    }

    /// Succeeds when the API server is ready and the first ServiceAccount is there, which the controller-manager makes. That is
    /// started here: without an API server it ends itself, and a kubelet would start it again and again.
    async fn first_signs(&mut self, client: &Client) -> Result<()> {
        client.request_text(http_get("/readyz")?).await.context("ask kube-apiserver for /readyz")?;
        if self.controller_manager.as_mut().is_none_or(|child| child.exit_status().is_some()) {
            self.start_controller_manager()?;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        accounts.get("default").await.context("get the first ServiceAccount")?;
        Ok(())
    }

    fn start_controller_manager(&mut self) -> Result<()> {
        self.controller_manager = Some(self.layout().spawn_controller_manager(&self.assets)?);
        Ok(())
    }

    fn layout(&self) -> Layout<'_> {
        Layout {
            folder: self.folder.path(),
            etcd_port: self.etcd_port,
            apiserver_port: self.apiserver_port,
            node: self.options.node,
        }
    }

    fn logs(&self) -> String {
        let tail =
            |name: &str| format!("{name}:\n{}\n", tools::tail(&self.folder.path().join(format!("{name}.log")), 20));
        ["etcd", "kube-apiserver", "kube-controller-manager"].map(tail).concat()
    }
}

impl Layout<'_> {
    fn spawn_etcd(&self, assets: &Path) -> Result<Child> {
        spawn(&assets.join("etcd"), &self.etcd(), self.folder, "etcd")
    }

    fn spawn_apiserver(&self, assets: &Path, options: &Options) -> Result<Child> {
        spawn(&assets.join("kube-apiserver"), &self.apiserver(options.audit), self.folder, "kube-apiserver")
    }

    fn spawn_controller_manager(&self, assets: &Path) -> Result<Child> {
        let program = assets.join("kube-controller-manager");
        spawn(&program, &self.controller_manager(), self.folder, "kube-controller-manager")
    }
}

fn http_get(path: &str) -> Result<axum::http::Request<Vec<u8>>> {
    axum::http::Request::get(path).body(Vec::new()).with_context(|| format!("make a request for {path}"))
}

async fn admin(folder: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(folder.join("admin.kubeconfig")).context("read the admin kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("use the admin kubeconfig")?;
    Client::try_from(config).context("make a client")
}

fn spawn(program: &Path, flags: &[String], folder: &Path, name: &str) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(flags).current_dir(folder);
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "KUBECONFIG"] {
        command.env_remove(variable);
    }
    // Go collects garbage a quarter as often: processor time for memory.
    command.env("GOGC", "400");
    Child::spawn(name, &mut command, &folder.join(format!("{name}.log")))
}

/// Asks the script where kube-apiserver is. Its progress goes to our stderr.
async fn find_assets() -> Result<PathBuf> {
    let script = tools::crate_folder().join("tools/control-plane.sh");
    let output = Command::new(&script).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("run {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed with {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout).context("read the folder of kube-apiserver")?.trim()))
}

/// Certificates, keys and kubeconfigs of a plane.
fn write_files(folder: &Path, port: u16, node: Option<Ipv4Addr>) -> Result<()> {
    let write =
        |name: &str, text: String| std::fs::write(folder.join(name), text).with_context(|| format!("write {name}"));
    let serving = TestCa::new("apiserver-ca")?;
    let clients = TestCa::new("client-ca")?;
    write("apiserver-ca.crt", serving.pem())?;
    write("client-ca.crt", clients.pem())?;
    let proxies = TestCa::new("front-proxy-ca")?;
    write("front-proxy-ca.crt", proxies.pem())?;
    proxies.client(FRONT_PROXY, None)?.write(folder, FRONT_PROXY)?;
    let address = node.map(|address| address.to_string());
    let mut names = vec!["localhost", "127.0.0.1", "10.0.0.1", "kubernetes.default.svc"];
    names.extend(address.as_deref());
    serving.server(&names)?.write(folder, "apiserver")?;
    let accounts = rcgen::KeyPair::generate()?;
    write("service-account.key", accounts.serialize_pem())?;
    write("service-account.pub", accounts.public_key_pem())?;
    write(
        "audit-policy.json",
        json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata" }],
        })
        .to_string(),
    )?;
    let server = format!("https://127.0.0.1:{port}");
    let mut users = vec![
        ("admin", "system:admin", Some("system:masters")),
        ("controller-manager", "system:kube-controller-manager", node.is_none().then_some("system:masters")),
    ];
    let kubelet = format!("system:node:{NODE_NAME}");
    if node.is_some() {
        users.push(("kubelet", &kubelet, Some("system:nodes")));
        users.push(("kube-proxy", "system:kube-proxy", None));
        users.push(("kube-scheduler", "system:kube-scheduler", None));
        let caller = clients.client("kube-apiserver-kubelet-client", Some("system:masters"))?;
        caller.write(folder, "apiserver-kubelet-client")?;
    }
    for (file, user, group) in users {
        let Leaf { cert_pem, key_pem } = clients.client(user, group)?;
        let credential = Credential::Certificate { cert_pem: &cert_pem, key_pem: &key_pem };
        write_kubeconfig(&folder.join(format!("{file}.kubeconfig")), &server, &serving.pem(), &credential, "default")?;
    }
    Ok(())
}
