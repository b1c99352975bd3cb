//! A large bundle through the content service: up, unpacked and down again. How fast, and what the controller needs for it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::write::GzEncoder;
use kube::Client;
use reqwest::StatusCode;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, token};
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::{self, World};
use serde_json::json;

use super::memory::status;
use super::report::{Row, Target, Unit, median, range};
use super::unpack::Noise;

/// The one large file of the bundle; it does not compress.
const FILE_BYTES: u64 = 200 << 20;
/// Each round moves it three times.
const ROUNDS: usize = 3;
/// What the controller may need beyond what it had before.
const EXTRA_MEBIBYTES: f64 = 32.0;
/// One write of the client.
const CHUNK_BYTES: usize = 256 * 1024;
/// Until the controller has nothing left to do.
const REST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two questions whether a right is known. It cannot be watched.
const INTERVAL: Duration = Duration::from_millis(50);

/// What is sent.
struct Sample {
    path: PathBuf,
    bytes: u64,
    _folder: tempfile::TempDir,
}

/// Bytes that do not compress.
struct Incompressible(Noise);

/// Somebody who may read and write.
struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// What the rounds gave.
#[derive(Default)]
struct Figures {
    up: Vec<Duration>,
    unpacked: Vec<Duration>,
    down: Vec<Duration>,
    /// Bytes that came down in one round.
    down_bytes: u64,
    /// Most memory beyond the rest before the round, in mebibytes.
    extra_up: f64,
    extra_unpacked: f64,
    extra_down: f64,
}

/// Measures in a world of its own.
pub(crate) async fn measure(rounds: usize) -> Result<Vec<Row>> {
    eprintln!("bench: transfer of {} MiB", FILE_BYTES >> 20);
    let world = World::start(Vec::new()).await?;
    let client = world.plane.admin().await?;
    let sample = tokio::task::spawn_blocking(sample).await??;
    let caller = Caller::new(&world, &client).await?;
    let mut figures = Figures::default();
    for _ in 0..rounds.min(ROUNDS) {
        round(&world, &client, &caller, &sample, &mut figures).await?;
    }
    Ok(rows(&sample, &figures))
}

fn rows(sample: &Sample, figures: &Figures) -> Vec<Row> {
    let speed = |what: &str, bytes: u64, times: &[Duration], more: String| {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let measured = bytes as f64 / 1e3 / median(times);
        let note = format!("{} MB in {} ms{more}", bytes / 1_000_000, range(times));
        Row { what: what.to_owned(), measured, unit: Unit::MegabytesPerSecond, target: None, note }
    };
    let memory = |what: &str, measured, note: &str| Row {
        what: what.to_owned(),
        measured,
        unit: Unit::Mebibytes,
        target: Some(Target::AtMost(EXTRA_MEBIBYTES)),
        note: format!("peak of the controller beyond what it had before{note}; {} MiB", FILE_BYTES >> 20),
    };
    let unpacked = format!("; Unpacked {} ms later", range(&figures.unpacked));
    vec![
        speed("transfer, upload", sample.bytes, &figures.up, unpacked),
        speed("transfer, download of content", figures.down_bytes, &figures.down, String::new()),
        memory("transfer, extra memory, upload", figures.extra_up, ""),
        memory("transfer, extra memory, unpacking", figures.extra_unpacked, ", upload to Unpacked"),
        memory("transfer, extra memory, download", figures.extra_down, ", of the upload and of the content"),
    ]
}

async fn round(world: &World, client: &Client, caller: &Caller, sample: &Sample, figures: &mut Figures) -> Result<()> {
    let name = unique_name("transfer");
    let target = verbs::Target::bundle(&name);
    verbs::create(client, &world::bundle(&name, json!({"type": "upload", "upload": {}}))).await?;
    tokio::time::sleep(REST).await;
    let before = status(world, "VmRSS")?;
    let extra = || Ok::<_, anyhow::Error>((status(world, "VmHWM")? - before).max(0.0));

    forget_peak(world)?;
    figures.up.push(caller.put(&name, &sample.path).await?);
    figures.extra_up = figures.extra_up.max(extra()?);
    let start = Instant::now();
    verbs::await_condition(client, &target, Expected::is_true("Unpacked", "UnpackSuccessful"), PATIENCE).await?;
    figures.unpacked.push(start.elapsed());
    figures.extra_unpacked = figures.extra_unpacked.max(extra()?);

    tokio::time::sleep(REST).await;
    forget_peak(world)?;
    let (bytes, _) = caller.get(&format!("/uploads/{name}.tgz")).await?;
    ensure!(bytes == sample.bytes, "{} bytes went up and {bytes} came down", sample.bytes);
    let (bytes, time) = caller.get(&format!("/bundles/{name}.tgz")).await?;
    ensure!(bytes >= FILE_BYTES, "the content is only {bytes} bytes");
    figures.down.push(time);
    figures.down_bytes = bytes;
    figures.extra_down = figures.extra_down.max(extra()?);
    verbs::delete(client, &target).await?;
    verbs::await_deleted(client, &target, PATIENCE).await
}

/// From now on `VmHWM` is the peak since now (proc(5), `clear_refs`).
fn forget_peak(world: &World) -> Result<()> {
    let path = format!("/proc/{}/clear_refs", world.controller.pid().context("the controller does not run")?);
    std::fs::write(&path, "5").with_context(|| format!("write {path}"))
}

/// A bundle of one small manifest, with one large file beside it.
fn sample() -> Result<Sample> {
    let folder = tools::temp_folder("transfer")?;
    let path = folder.path().join("bundle.tgz");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    // What does not compress would be stored as it is by any level.
    let mut builder = tar::Builder::new(GzEncoder::new(io::BufWriter::new(file), flate2::Compression::none()));
    let mut manifest = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: transfer\n".as_slice();
    let mut noise = Incompressible(Noise(0x9e37_79b9_7f4a_7c15));
    let parts: [(&str, u64, &mut dyn Read); 2] =
        [("manifests/a.yaml", manifest.len() as u64, &mut manifest), ("assets/large.bin", FILE_BYTES, &mut noise)];
    for (path, bytes, content) in parts {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes);
        builder.append_data(&mut header, path, content.take(bytes))?;
    }
    builder.into_inner()?.finish()?.into_inner().context("write the bundle")?;
    let bytes = path.metadata()?.len();
    Ok(Sample { path, bytes, _folder: folder })
}

impl Read for Incompressible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(buffer.len())
    }
}

impl Caller {
    /// With an account that may do both, once that is known.
    async fn new(world: &World, client: &Client) -> Result<Self> {
        let account = unique_name("transfer");
        let metadata = json!({"name": account, "namespace": SYSTEM_NAMESPACE});
        verbs::create(client, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await?;
        for role in ["bundle-reader", "bundle-uploader", "rukpak-edit"] {
            let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE});
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{account}-{role}")}, "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
            verbs::create(client, &binding).await?;
        }
        let token = token(client, SYSTEM_NAMESPACE, &account).await?;
        let http = reqwest::Client::builder().no_proxy().tls_certs_only(authorities(client).await?).build()?;
        let caller = Self { http, url: format!("https://localhost:{}", world.controller.content_port), token };
        for path in ["/bundles/none.tgz", "/uploads/none.tgz"] {
            caller.until_known(path).await?;
        }
        Ok(caller)
    }

    async fn until_known(&self, path: &str) -> Result<()> {
        let wait = async {
            loop {
                let answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await;
                if answer.is_ok_and(|answer| answer.status() == StatusCode::NOT_FOUND) {
                    return;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.with_context(|| format!("{path} may not be read after {PATIENCE:?}"))
    }

    /// Sends the file; returns how long it took until it was taken.
    async fn put(&self, name: &str, path: &Path) -> Result<Duration> {
        let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let chunks = std::iter::from_fn(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            match file.read(&mut chunk) {
                Ok(0) => None,
                Ok(count) => {
                    chunk.truncate(count);
                    Some(Ok(chunk))
                }
                Err(error) => Some(Err(error)),
            }
        });
        let body = reqwest::Body::wrap_stream(futures::stream::iter(chunks));
        let request = self.http.put(format!("{}/uploads/{name}.tgz", self.url)).bearer_auth(&self.token).body(body);
        let start = Instant::now();
        let answer = request.send().await.context("upload")?;
        let time = start.elapsed();
        ensure!(answer.status() == StatusCode::CREATED, "the upload was answered {}", answer.status());
        Ok(time)
    }

    /// Reads and forgets; returns how many bytes came in which time.
    async fn get(&self, path: &str) -> Result<(u64, Duration)> {
        let start = Instant::now();
        let mut answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await?;
        ensure!(answer.status() == StatusCode::OK, "{path} was answered {}", answer.status());
        let mut bytes = 0;
        while let Some(chunk) = answer.chunk().await.with_context(|| format!("download {path}"))? {
            bytes += chunk.len() as u64;
        }
        Ok((bytes, start.elapsed()))
    }
}

/// The authorities of the content service, as clients read them, once they are there.
async fn authorities(client: &Client) -> Result<Vec<reqwest::Certificate>> {
    let target = verbs::Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, "rukpak-ca");
    let found = verbs::await_object(client, &target, "ca.crt", PATIENCE, |object| {
        object.is_some_and(|object| object.data["data"]["ca.crt"].is_string())
    });
    let secret = found.await?.context("the Secret went away")?;
    let text = secret.data["data"]["ca.crt"].as_str().context("the Secret holds no ca.crt")?;
    Ok(reqwest::Certificate::from_pem_bundle(&BASE64_STANDARD.decode(text)?)?)
}
