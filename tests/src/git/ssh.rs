//! A real `sshd` on a loopback port, without system users.
//!
//! The source under test logs in as `git`, always. No such user need exist here, and the harness makes none:
//! `libnss_wrapper` shows this one server a private copy of the user table, in which `git` is whoever runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::keeper::Kept;
use crate::{RepoBuilder, tools};

/// The user that clients log in as.
pub const SSH_USER: &str = "git";
/// Between two questions whether it listens.
const READY_INTERVAL: Duration = Duration::from_millis(20);

/// An ssh server with git repositories. It ends when dropped.
pub struct SshServer {
    port: u16,
    // Order matters: the process is dropped before its folder.
    kept: Kept,
    pid: u32,
    folder: tempfile::TempDir,
}

impl SshServer {
    /// Starts a server with a new host key, and with one client key that it accepts.
    pub async fn start() -> Result<Self> {
        let folder = tools::temp_folder("ssh")?;
        let port = tools::free_port()?;
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("repositories"))?;
        for key in ["host_key", "client_key", "other_key"] {
            make_key(&path(key))?;
        }
        std::fs::copy(path("client_key.pub"), path("authorized_keys"))?;
        std::fs::write(path("sshd_config"), config(folder.path(), port))?;
        write_users(folder.path())?;
        make_privilege_separation_folder()?;

        let mut command = Command::new(tools::system_program("sshd")?);
        command.args(["-D", "-e", "-f"]).arg(path("sshd_config"));
        command.env("LD_PRELOAD", "libnss_wrapper.so");
        command.env("NSS_WRAPPER_PASSWD", path("passwd")).env("NSS_WRAPPER_GROUP", path("group"));
        let (kept, pid) = Kept::run(&command, &path("sshd.log")).await?;
        let server = Self { port, kept, pid, folder };
        server.await_ready().await?;
        Ok(server)
    }

    /// Makes an empty repository on this server.
    pub fn repository(&self, name: &str) -> Result<RepoBuilder> {
        RepoBuilder::new(&self.folder.path().join("repositories"), name)
    }

    /// `ssh://git@localhost:port/.../<name>.git`.
    pub fn url(&self, name: &str) -> String {
        let path = self.folder.path().join("repositories").join(format!("{name}.git"));
        format!("ssh://{SSH_USER}@localhost:{}{}", self.port, path.display())
    }

    /// The private key that the server accepts, OpenSSH's PEM.
    pub fn client_key(&self) -> Result<String> {
        self.read("client_key")
    }

    /// A private key that the server refuses.
    pub fn other_key(&self) -> Result<String> {
        self.read("other_key")
    }

    /// The file of the private key that the server accepts.
    pub fn client_key_path(&self) -> PathBuf {
        self.folder.path().join("client_key")
    }

    /// A `known_hosts` line for this server.
    pub fn known_hosts(&self) -> Result<String> {
        Ok(format!("[localhost]:{} {}", self.port, self.read("host_key.pub")?))
    }

    /// A `known_hosts` line with the key of another server.
    pub fn wrong_known_hosts(&self) -> Result<String> {
        Ok(format!("[localhost]:{} {}", self.port, self.read("other_key.pub")?))
    }

    /// A Secret of type `kubernetes.io/ssh-auth` in the system namespace, with the accepted key and the host's.
    pub fn secret(&self, name: &str) -> Result<Value> {
        Ok(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth",
            "metadata": { "name": name, "namespace": crate::plane::install::SYSTEM_NAMESPACE },
            "stringData": { "ssh-privatekey": self.client_key()?, "ssh-knownhosts": self.known_hosts()? },
        }))
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("sshd.log")
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn read(&self, name: &str) -> Result<String> {
        std::fs::read_to_string(self.folder.path().join(name)).with_context(|| format!("read {name}"))
    }

    async fn await_ready(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + tools::PATIENCE;
        while let Err(error) = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await {
            let exited = self.kept.heard(|line| line["exited"].as_str().map(str::to_owned));
            if exited.is_some() || tokio::time::Instant::now() > deadline {
                bail!("sshd does not listen ({error}); the end of its log:\n{}", tools::tail(&self.log_path(), 20));
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Ok(())
    }
}

fn config(folder: &Path, port: u16) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let lines = [
        "ListenAddress 127.0.0.1".to_owned(),
        format!("Port {port}"),
        format!("HostKey {}", file("host_key")),
        format!("PidFile {}", file("sshd.pid")),
        format!("AuthorizedKeysFile {}", file("authorized_keys")),
        // The temporary folder is not below a home, which the strict modes ask for.
        "StrictModes no".to_owned(),
        "UsePAM no".to_owned(),
        "PasswordAuthentication no".to_owned(),
        "KbdInteractiveAuthentication no".to_owned(),
        // Whoever runs the tests is who `git` is, root included.
        "PermitRootLogin prohibit-password".to_owned(),
        "UseDNS no".to_owned(),
        "MaxStartups 100".to_owned(),
        "LogLevel VERBOSE".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// The user table with `git` at its end. sshd needs the rest of it for its own unprivileged half.
fn write_users(folder: &Path) -> Result<()> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let others = |file: &str| -> Result<String> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        Ok(text.lines().filter(|line| !line.starts_with("git:")).fold(String::new(), |text, line| text + line + "\n"))
    };
    // First, so that a look-up by number finds it as well.
    let user = format!("{SSH_USER}:x:{uid}:{gid}::{}:/bin/sh\n", folder.display());
    std::fs::write(folder.join("passwd"), user + &others("/etc/passwd")?)?;
    std::fs::write(folder.join("group"), others("/etc/group")?)?;
    Ok(())
}

fn make_key(path: &Path) -> Result<()> {
    let program = tools::system_program("ssh-keygen")?;
    let output = Command::new(program)
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "rukpak-tests", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output();
    let output = output.context("run ssh-keygen")?;
    if !output.status.success() {
        bail!("ssh-keygen failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Root's sshd wants an empty folder that Debian makes at boot, where there is a boot.
fn make_privilege_separation_folder() -> Result<()> {
    if rustix::process::getuid().is_root() {
        std::fs::create_dir_all("/run/sshd").context("create /run/sshd")?;
    }
    Ok(())
}
