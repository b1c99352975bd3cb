//! A real OCI registry, and images made by hand: right ones, and wrong in every way a test can ask for.

mod cosign;
mod image;
mod push;
mod tarball;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

pub use self::cosign::{Cosign, Keyless, SignatureBlob, Signing, payload, referrers};
pub use self::image::{Compression, Flavour, ImageBuilder, Layer, Platform};
pub use self::push::{Pushed, digest};
pub use self::tarball::{TarEntry, tarball};
use crate::keeper::Kept;
use crate::{TestCa, tools};

/// Between two questions whether it listens.
const READY_INTERVAL: Duration = Duration::from_millis(20);

/// Debian's `docker-registry`, with TLS on a loopback port unless it is told otherwise. It ends when dropped.
pub struct Registry {
    scheme: &'static str,
    host: String,
    ca: TestCa,
    credentials: Option<(String, String)>,
    client: reqwest::Client,
    // Order matters: the process is dropped before its folder.
    kept: Kept,
    pid: u32,
    folder: tempfile::TempDir,
}

/// What the registry should ask of its clients.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// User name and password; open to all when absent.
    pub credentials: Option<(String, String)>,
    /// Where it listens instead, without TLS: for Pods, who reach no loopback address of the node.
    pub plain_address: Option<Ipv4Addr>,
}

impl RegistryOptions {
    /// A registry that only this user may read.
    pub fn private(user: &str, password: &str) -> Self {
        Self { credentials: Some((user.to_owned(), password.to_owned())), ..Self::default() }
    }
}

impl Registry {
    /// Starts a registry and waits until it answers.
    pub async fn start(options: RegistryOptions) -> Result<Self> {
        let folder = tools::temp_folder("registry")?;
        let port = tools::free_port()?;
        let ca = TestCa::new("registry-ca")?;
        ca.localhost()?.write(folder.path(), "server")?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut config = json!({
            "version": 0.1,
            "log": { "level": "info", "accesslog": { "disabled": false } },
            "storage": { "filesystem": { "rootdirectory": path("data") }, "delete": { "enabled": true } },
            "http": {
                "addr": format!("127.0.0.1:{port}"),
                "tls": { "certificate": path("server.crt"), "key": path("server.key") },
            },
        });
        if let Some(address) = options.plain_address {
            config["http"] = json!({ "addr": format!("{address}:{port}") });
        }
        if let Some((user, password)) = &options.credentials {
            std::fs::write(path("htpasswd"), htpasswd(user, password)?)?;
            config["auth"] = json!({ "htpasswd": { "realm": "rukpak-tests", "path": path("htpasswd") } });
        }
        std::fs::write(path("config.yml"), config.to_string())?; // JSON is YAML
        let mut command = Command::new(tools::system_program("docker-registry")?);
        command.args(["serve", &path("config.yml")]).env("OTEL_TRACES_EXPORTER", "none");
        let (kept, pid) = Kept::run(&command, &folder.path().join("registry.log")).await?;
        let client = crate::faulty::client(&ca.pem())?;
        let host = options.plain_address.map_or_else(|| "localhost".to_owned(), |address| address.to_string());
        let (scheme, host) = (if options.plain_address.is_some() { "http" } else { "https" }, format!("{host}:{port}"));
        let registry = Self { scheme, host, ca, credentials: options.credentials, client, kept, pid, folder };
        registry.await_ready().await?;
        Ok(registry)
    }

    /// `localhost:port`, or the address that it was told.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `https://localhost:port`, or `http://` before the address that it was told.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// The certificate authority that a client must trust.
    pub fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// Its log: one line for each request.
    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("registry.log")
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The text of `.dockerconfigjson` for this registry.
    pub fn pull_secret_json(&self, user: &str, password: &str) -> String {
        pull_secret_json(&self.host, user, password)
    }

    /// A Secret of type `kubernetes.io/dockerconfigjson` in the system namespace.
    pub fn pull_secret(&self, name: &str, user: &str, password: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": crate::plane::install::SYSTEM_NAMESPACE },
            "stringData": { ".dockerconfigjson": self.pull_secret_json(user, password) },
        })
    }

    /// The bytes of a stored blob.
    pub fn read_blob(&self, digest: &str) -> Result<Vec<u8>> {
        let path = self.blob_path(digest)?;
        std::fs::read(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Changes the bytes of a stored blob behind the registry's back; it then serves them under the old digest.
    pub fn overwrite_blob(&self, digest: &str, bytes: &[u8]) -> Result<()> {
        let path = self.blob_path(digest)?;
        std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
    }

    /// Cuts a stored blob short.
    pub fn truncate_blob(&self, digest: &str, bytes: usize) -> Result<()> {
        let mut content = self.read_blob(digest)?;
        content.truncate(bytes);
        self.overwrite_blob(digest, &content)
    }

    /// Removes a stored blob: the registry answers 404 for it.
    pub fn remove_blob(&self, digest: &str) -> Result<()> {
        let path = self.blob_path(digest)?;
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
    }

    fn blob_path(&self, digest: &str) -> Result<PathBuf> {
        let hex = digest
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64)
            .with_context(|| format!("no digest: {digest}"))?;
        let path = format!("data/docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]);
        let path = self.folder.path().join(path);
        if !path.is_file() {
            bail!("the registry holds no blob {digest}");
        }
        Ok(path)
    }

    async fn await_ready(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + tools::PATIENCE;
        while let Err(error) = self.client.get(format!("{}/v2/", self.url())).send().await {
            let exited = self.kept.heard(|line| line["exited"].as_str().map(str::to_owned));
            if exited.is_some() || tokio::time::Instant::now() > deadline {
                bail!(
                    "the registry does not answer ({error:?}); the end of its log:\n{}",
                    tools::tail(&self.log_path(), 20)
                );
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Ok(())
    }
}

/// The text of `.dockerconfigjson` for any registry host.
pub fn pull_secret_json(host: &str, user: &str, password: &str) -> String {
    let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
    json!({ "auths": { host: { "username": user, "password": password, "auth": auth } } }).to_string()
}

/// One line with a bcrypt hash, the only kind that the registry takes.
fn htpasswd(user: &str, password: &str) -> Result<Vec<u8>> {
    let program = tools::system_program("htpasswd")?;
    let output =
        Command::new(program).args(["-Bbn", user, password]).stdin(Stdio::null()).output().context("run htpasswd")?;
    if !output.status.success() {
        bail!("htpasswd failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}
