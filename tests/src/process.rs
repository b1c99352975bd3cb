//! The programs under test, run the way a cluster runs them: with the kubeconfig of their own ServiceAccount.

mod deployed;
mod platform;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::keeper::{Kept, copy_surroundings};
use crate::plane::Plane;
use crate::plane::install::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, WEBHOOK_ACCOUNT};
use crate::tools::{self, PATIENCE};

pub use deployed::DeployedOptions;
pub use platform::{PLATFORM_ACCOUNT, PlatformOptions};

/// Where the manifests say that clients in the cluster find the content service.
pub const CONTENT_URL: &str = "https://core.rukpak-system.svc";

/// Where the registries and servers of tests are, which the programs would refuse. The rest of loopback stays refused.
pub(crate) const ALLOW_LOOPBACK: [&str; 2] = ["--source-allow-cidr=127.0.0.1/32", "--source-allow-cidr=::1/128"];

/// Between two questions whether it is ready. `/readyz` cannot be watched.
const READY_INTERVAL: Duration = Duration::from_millis(25);
/// Environment variables that would change what the programs see.
const FOREIGN_ENVIRONMENT: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_AUTH_SOCK",
];

/// A program under test. Dropping it ends it; so does the end of this process.
pub struct Process {
    name: &'static str,
    log: PathBuf,
    command: Mutex<Command>,
    /// Flags beside those of `command`, from the next start on.
    further: Mutex<Vec<String>>,
    running: Mutex<Option<Running>>,
    /// Base URL of the health probes.
    pub health_url: String,
    /// Base URL of metrics, and of what else it serves in plain HTTP.
    pub http_url: String,
    /// The loopback port of the content service; 0 for the webhook, and where flags of a test say where it is.
    pub content_port: u16,
    /// Its storage folder; empty for the webhook.
    pub storage: PathBuf,
    _folder: tempfile::TempDir,
}

/// Where a program listens.
struct Ports {
    http: u16,
    health: u16,
    content: u16,
}

struct Running {
    kept: Kept,
    pid: u32,
}

/// How to start the controller.
#[derive(Debug, Clone, Default)]
pub struct ControllerOptions {
    /// Further flags.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// Storage folder; a new one when absent.
    pub storage: Option<PathBuf>,
    /// Another identity than the ServiceAccount of the manifests.
    pub kubeconfig: Option<PathBuf>,
    /// A program, with arguments, to start it under.
    pub under: Vec<String>,
}

/// How to start the webhook.
#[derive(Debug, Clone, Default)]
pub struct WebhookOptions {
    /// Further flags.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// Another identity than the ServiceAccount of the manifests.
    pub kubeconfig: Option<PathBuf>,
}

impl Plane {
    /// Starts `rukpak-controller`; it is running when this returns, see [`Process::wait_ready`].
    pub async fn start_controller(&self, options: ControllerOptions) -> Result<Process> {
        let folder = tools::temp_folder("controller")?;
        let storage = options.storage.unwrap_or_else(|| folder.path().join("storage"));
        std::fs::create_dir_all(&storage).with_context(|| format!("create {}", storage.display()))?;
        let (http, health) = (tools::free_port()?, tools::free_port()?);
        let own_content = options.arguments.iter().any(|argument| argument.starts_with("--content-bind-address"));
        let content = if own_content { 0 } else { tools::free_port()? };
        let mut words = options.under;
        words.push(tools::workspace_binary("rukpak-controller")?.display().to_string());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg(format!("--system-namespace={SYSTEM_NAMESPACE}"))
            .arg(format!("--provisioner-storage-dir={}", storage.display()))
            .arg(format!("--upload-storage-dir={}", storage.join("uploads").display()))
            .arg(format!("--http-external-address={CONTENT_URL}"))
            .args((!own_content).then(|| format!("--content-bind-address=127.0.0.1:{content}")))
            .arg(format!("--http-bind-address=127.0.0.1:{http}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg("--feature-gates=BundleDeploymentHealth=true")
            .args(ALLOW_LOOPBACK)
            .args(options.arguments)
            .envs(options.environment);
        let kubeconfig = options.kubeconfig.unwrap_or_else(|| self.account_kubeconfig(CONTROLLER_ACCOUNT));
        let ports = Ports { http, health, content };
        Process::start("rukpak-controller", command, &kubeconfig, folder, ports, storage).await
    }

    /// Starts `rukpak-webhook` on the port that the installed webhook configurations name.
    pub async fn start_webhook(&self, options: WebhookOptions) -> Result<Process> {
        let port = self.installed()?.context("install the manifests first: they fix the webhook's port")?.webhook_port;
        let folder = tools::temp_folder("webhook")?;
        let (metrics, health) = (tools::free_port()?, tools::free_port()?);
        let mut command = Command::new(tools::workspace_binary("rukpak-webhook")?);
        command
            .arg(format!("--system-namespace={SYSTEM_NAMESPACE}"))
            .arg(format!("--webhook-bind-address=127.0.0.1:{port}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .args(options.arguments)
            .envs(options.environment);
        let kubeconfig = options.kubeconfig.unwrap_or_else(|| self.account_kubeconfig(WEBHOOK_ACCOUNT));
        let ports = Ports { http: metrics, health, content: 0 };
        Process::start("rukpak-webhook", command, &kubeconfig, folder, ports, PathBuf::new()).await
    }
}

impl Process {
    async fn start(
        name: &'static str,
        mut command: Command,
        kubeconfig: &Path,
        folder: tempfile::TempDir,
        ports: Ports,
        storage: PathBuf,
    ) -> Result<Self> {
        for variable in FOREIGN_ENVIRONMENT {
            command.env_remove(variable);
        }
        command
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .current_dir(folder.path());
        let process = Self {
            name,
            log: folder.path().join(format!("{name}.log")),
            command: Mutex::new(command),
            further: Mutex::default(),
            running: Mutex::new(None),
            health_url: format!("http://127.0.0.1:{}", ports.health),
            http_url: format!("http://127.0.0.1:{}", ports.http),
            content_port: ports.content,
            storage,
            _folder: folder,
        };
        crate::verbs::show_log(&process.log);
        process.restart().await?;
        Ok(process)
    }

    /// Starts it with the same flags, ports and storage, ending it first if it still runs.
    pub async fn restart(&self) -> Result<()> {
        self.end();
        let command = {
            let command =
                self.command.lock().map_err(|_| anyhow!("another thread panicked while it started {}", self.name))?;
            let mut copy = copy_of(&command);
            copy.args(self.further.lock().map_err(|_| anyhow!("another thread panicked while it set flags"))?.iter());
            copy
        };
        let (kept, pid) = Kept::run(&command, &self.log).await.with_context(|| format!("start {}", self.name))?;
        *self.lock()? = Some(Running { kept, pid });
        Ok(())
    }

    /// Flags beside those it was first started with, for each [`Process::restart`] from now on. Of a flag that is there twice the
    /// last one counts.
    pub fn set_further_flags(&self, flags: &[&str]) -> Result<()> {
        let mut further = self.further.lock().map_err(|_| anyhow!("another thread panicked while it set flags"))?;
        *further = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Ok(())
    }

    /// Adds or replaces environment for the next [`Process::restart`].
    pub fn set_environment(&self, key: &str, value: &str) -> Result<()> {
        self.command
            .lock()
            .map_err(|_| anyhow!("another thread panicked while it started {}", self.name))?
            .env(key, value);
        Ok(())
    }

    /// Waits until `/readyz` answers 200. Fails with the log when the program ends before.
    pub async fn wait_ready(&self) -> Result<()> {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build()?;
        let url = format!("{}/readyz", self.health_url);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let problem = match client.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => answer.status().to_string(),
                Err(error) => format!("{error:?}"),
            };
            if let Some(status) = self.exit_status()? {
                bail!("{} ended ({status}) before it was ready; the end of its log:\n{}", self.name, self.log_tail(40));
            }
            if tokio::time::Instant::now() > deadline {
                bail!(
                    "{} is not ready after {PATIENCE:?} ({problem}); the end of its log:\n{}",
                    self.name,
                    self.log_tail(40)
                );
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// The file with its output.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Its output so far.
    ///
    /// # Panics
    /// Where it cannot be read: what is not to stand in it would not be found.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_else(|error| panic!("{}: {error}", self.log.display()))
    }

    /// Waits until it has written `text` after the first `from` bytes of its output.
    ///
    /// # Errors
    /// It did not within the time of [`PATIENCE`].
    pub async fn until_logged(&self, from: usize, text: &str) -> Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            let new = log.get(from..).unwrap_or_default();
            if new.contains(text) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{} does not log {text:?}, but:\n{new}", self.name);
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// The last lines of its output.
    pub fn log_tail(&self, lines: usize) -> String {
        tools::tail(&self.log, lines)
    }

    /// Its pid, absent when it was not started or has been ended by [`Process::end`].
    pub fn pid(&self) -> Option<u32> {
        self.running.lock().ok().and_then(|running| running.as_ref().map(|running| running.pid))
    }

    /// How it ended, if it has ended by itself or by a signal.
    pub fn exit_status(&self) -> Result<Option<String>> {
        let running = self.lock()?;
        Ok(running.as_ref().and_then(|running| running.kept.heard(|line| line["exited"].as_str().map(str::to_owned))))
    }

    /// SIGTERM; returns how it ended.
    pub async fn terminate(&self) -> Result<String> {
        self.signal("terminate").await
    }

    /// SIGKILL, as a node that dies would.
    pub async fn kill(&self) -> Result<String> {
        self.signal("kill").await
    }

    /// SIGSTOP: it hangs, its sockets stay open.
    pub fn pause(&self) -> Result<()> {
        self.tell("pause")
    }

    /// SIGCONT.
    pub fn resume(&self) -> Result<()> {
        self.tell("resume")
    }

    /// Ends it: SIGTERM, then SIGKILL after 10 s.
    pub fn end(&self) {
        if let Ok(mut running) = self.running.lock() {
            running.take();
        }
    }

    /// Resident memory in bytes, from `/proc`.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory it ever had, in bytes, from `/proc`.
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid().context("it does not run")?);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
        let kibibytes: u64 =
            line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("read {field}"))?;
        Ok(kibibytes * 1024)
    }

    async fn signal(&self, command: &str) -> Result<String> {
        self.tell(command)?;
        // The handle is taken so that no lock is held while waiting; it is of no use after the end.
        let running = self.lock()?.take().with_context(|| format!("{} does not run", self.name))?;
        let status = running.kept.hear(0, Some(PATIENCE), |line| line["exited"].as_str().map(str::to_owned)).await;
        status.with_context(|| format!("wait for the end of {}", self.name))
    }

    fn tell(&self, command: &str) -> Result<()> {
        self.lock()?.as_ref().with_context(|| format!("{} does not run", self.name))?.kept.tell(command)
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Option<Running>>> {
        self.running.lock().map_err(|_| anyhow!("another thread panicked while it held {}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        crate::verbs::hide_log(&self.log);
    }
}

/// `Command` has no `clone`.
fn copy_of(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy_surroundings(command, &mut copy);
    copy
}
