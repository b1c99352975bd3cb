//! A real object store that speaks S3: SeaweedFS, all of it in one process, with a bucket.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use crate::keeper::Kept;
use crate::tools;

/// Between two questions whether it answers.
const READY_INTERVAL: Duration = Duration::from_millis(50);
const ACCESS_KEY: &str = "rukpak-tests";
const SECRET_KEY: &str = "not-a-secret";

/// SeaweedFS on loopback ports, without TLS. It ends when dropped.
pub struct BucketServer {
    s3_port: u16,
    filer_port: u16,
    client: reqwest::Client,
    // Order matters: the process is dropped before its folder.
    kept: Kept,
    folder: tempfile::TempDir,
}

impl BucketServer {
    /// The name of its bucket.
    pub const BUCKET: &'static str = "bundles";

    /// Starts it, and waits until the bucket is there.
    pub async fn start() -> Result<Self> {
        tools::use_ring();
        let folder = tools::temp_folder("bucket")?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(path("data"))?;
        let credentials = json!([{ "accessKey": ACCESS_KEY, "secretKey": SECRET_KEY }]);
        let identity =
            json!({ "name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"] });
        std::fs::write(path("s3.json"), json!({ "identities": [identity] }).to_string())?;
        let mut command = Command::new(tools::seaweedfs()?);
        let ports = ["master", "volume", "filer", "s3"];
        command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.autoCreateBucket=false"]);
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64", "-volume.max=16"]);
        command.arg(format!("-dir={}", path("data"))).arg(format!("-s3.config={}", path("s3.json")));
        let mut numbers = Vec::new();
        for name in ports {
            let (port, grpc) = (tools::free_port()?, tools::free_port()?);
            command.arg(format!("-{name}.port={port}")).arg(format!("-{name}.port.grpc={grpc}"));
            numbers.push(port);
        }
        let (kept, _) = Kept::run(&command, &folder.path().join("weed.log")).await?;
        let client =
            reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(Duration::from_secs(5)).build()?;
        let server = Self { s3_port: numbers[3], filer_port: numbers[2], client, kept, folder };
        server.await_bucket().await?;
        Ok(server)
    }

    /// `http://127.0.0.1:port`, the endpoint of S3.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.s3_port)
    }

    /// What a program is told in its environment to reach the bucket by the server at `endpoint`: [`Self::url`], or one before it.
    pub fn environment(endpoint: &str) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL_S3", endpoint),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// The names of the objects whose keys begin with `prefix`, which ends with a slash; sorted, looked up behind the back of S3.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let (mut keys, mut folders) = (Vec::new(), vec![prefix.to_owned()]);
        while let Some(folder) = folders.pop() {
            let url = format!("http://127.0.0.1:{}/buckets/{}/{folder}?limit=10000", self.filer_port, Self::BUCKET);
            let answer = self.client.get(url).header("Accept", "application/json").send().await?;
            if answer.status() == reqwest::StatusCode::NOT_FOUND {
                continue;
            }
            let listed: serde_json::Value = serde_json::from_str(&answer.error_for_status()?.text().await?)?;
            for entry in listed["Entries"].as_array().into_iter().flatten() {
                let name = entry["FullPath"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
                // A folder has the mode of one.
                if entry["Mode"].as_u64().is_some_and(|mode| mode >> 31 == 1) {
                    folders.push(format!("{folder}{name}/"));
                } else {
                    keys.push(format!("{folder}{name}"));
                }
            }
        }
        keys.sort();
        Ok(keys)
    }

    /// Replaces the bytes of an object behind the back of S3.
    pub async fn overwrite(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/buckets/{}/{key}", self.filer_port, Self::BUCKET);
        self.client.put(url).body(bytes).send().await?.error_for_status()?;
        Ok(())
    }

    async fn await_bucket(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + tools::PATIENCE;
        let folder = format!("http://127.0.0.1:{}/buckets/{}/", self.filer_port, Self::BUCKET);
        loop {
            let made = self.client.post(&folder).send().await.map(|answer| answer.status());
            let made = made.is_ok_and(|status| status.is_success() || status == reqwest::StatusCode::CONFLICT);
            if made && self.client.get(self.url()).send().await.is_ok() && self.takes_objects().await {
                return Ok(());
            }
            let exited = self.kept.heard(|line| line["exited"].as_str().map(str::to_owned));
            if exited.is_some() || tokio::time::Instant::now() > deadline {
                bail!(
                    "SeaweedFS is not ready; the end of its log:\n{}",
                    tools::tail(&self.folder.path().join("weed.log"), 20)
                );
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// The servers of volumes come last.
    async fn takes_objects(&self) -> bool {
        let key = "ready";
        let taken = self.overwrite(key, b"1".to_vec()).await.is_ok();
        let url = format!("http://127.0.0.1:{}/buckets/{}/{key}", self.filer_port, Self::BUCKET);
        taken && self.client.delete(url).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}
