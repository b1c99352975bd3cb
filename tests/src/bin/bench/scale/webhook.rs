//! Admission reviews as fast as they are answered, over connections that stay open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::verbs::{self, Target as Object};
use rukpak_tests::world;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::site::Site;
use crate::memory;
use crate::report::{Row, Target, Unit};

const SERVICE: &str = "rukpak-webhook-service.rukpak-system.svc";
const CONFIGURATION: &str = "rukpak-validating-webhook-configuration";
const CERTIFICATE: &str = "rukpak-webhook-certificate";
const PATH: &str = "/validate-core-rukpak-io-v1alpha1-bundle";
/// Connections at a time.
const CONNECTIONS: [usize; 3] = [1, 16, 256];
/// How long each number of them asks.
const TIME: Duration = Duration::from_secs(5);
/// Largest head of an answer.
const HEAD_BYTES: usize = 8 << 10;
/// What was measured from outside, with another client on a machine like this.
const REVIEWS_A_SECOND: f64 = 25_000.0;
const P99_MILLISECONDS: f64 = 2.0;
const MEBIBYTES: f64 = 16.0;

/// Asks with each number of connections, and with 16 once more while the certificate is replaced.
pub async fn measure(site: &Site) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        rows.extend(ask(site, connections, false).await?);
    }
    rows.extend(ask(site, 16, true).await?);
    rows.push(Row {
        what: "webhook, memory".to_owned(),
        measured: memory::peak(site.world.webhook.pid().context("the webhook does not run")?)?,
        unit: Unit::Mebibytes,
        target: Some(Target::AtMost(MEBIBYTES)),
        note: "peak of resident memory, after all of these".to_owned(),
    });
    Ok(rows)
}

async fn ask(site: &Site, connections: usize, is_rotated: bool) -> Result<Vec<Row>> {
    let rotating = if is_rotated { ", certificate replaced meanwhile" } else { "" };
    eprintln!("bench: webhook, {connections} connections{rotating}");
    let client = Reviewer::new(site).await?;
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        streams.push(client.connect().await?);
    }
    let start = Instant::now();
    let asking = streams.into_iter().map(|stream| tokio::spawn(client.clone().ask_on(stream, start + TIME)));
    let asking: Vec<_> = asking.collect();
    if is_rotated {
        let secret = Object::namespaced("v1", "Secret", "rukpak-system", CERTIFICATE);
        verbs::delete(&site.admin, &secret).await.context("remove the certificate")?;
    }
    let mut times = Vec::new();
    for one in asking {
        times.extend(one.await.context("a connection")??);
    }
    let seconds = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).context("no review was answered")?.as_secs_f64() * 1e3;
    // The target is for 16 connections; it is the client's cores as well.
    let of_16 = |target| Some(target).filter(|_| connections == 16);
    let row = |what: &str, measured, unit, target| Row {
        what: format!("webhook, {connections} connections{rotating}, {what}"),
        measured,
        unit,
        target: of_16(target),
        note: format!("{} reviews, all answered; client and API server share the cores", times.len()),
    };
    Ok(vec![
        row("reviews a second", super::number(times.len()) / seconds, Unit::Count, Target::AtLeast(REVIEWS_A_SECOND)),
        row("p99", p99, Unit::Milliseconds, Target::AtMost(P99_MILLISECONDS)),
    ])
}

/// A client that sends the same review again and again.
#[derive(Clone)]
struct Reviewer {
    tls: TlsConnector,
    port: u16,
    request: Arc<[u8]>,
}

impl Reviewer {
    /// Trusts what the API server trusts.
    async fn new(site: &Site) -> Result<Self> {
        let api = "admissionregistration.k8s.io/v1";
        let configuration = Object::cluster(api, "ValidatingWebhookConfiguration", CONFIGURATION);
        let found = verbs::get(&site.admin, &configuration).await?.context("no webhook is registered")?;
        let bundle = found.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().context("it has no caBundle")?;
        let pem = BASE64_STANDARD.decode(bundle).context("caBundle is not base64")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.context("caBundle is not PEM")?)?;
        }
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let port = site.world.plane.installed()?.context("nothing is installed")?.webhook_port;
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), port, request: request().into() })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await.context("connect")?;
        tcp.set_nodelay(true)?;
        self.tls.connect(ServerName::try_from(SERVICE)?, tcp).await.context("TLS")
    }

    /// One review after the other until `end`: how long each took.
    async fn ask_on(self, mut stream: TlsStream<TcpStream>, end: Instant) -> Result<Vec<Duration>> {
        let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(HEAD_BYTES));
        while Instant::now() < end {
            let begun = Instant::now();
            stream.write_all(&self.request).await.context("ask")?;
            answer(&mut stream, &mut buffer).await?;
            times.push(begun.elapsed());
        }
        Ok(times)
    }
}

/// A Bundle that is created, as the API server asks about it.
fn request() -> Vec<u8> {
    let bundle = world::bundle("b", world::image("registry.example.com/bundle:v1"));
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "core.rukpak.io", "version": "v1alpha1", "kind": "Bundle"},
        "resource": {"group": "core.rukpak.io", "version": "v1alpha1", "resource": "bundles"},
        "name": "b", "operation": "CREATE", "userInfo": {"username": "bench"}, "object": bundle, "oldObject": Value::Null}})
    .to_string();
    let length = review.len();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: {SERVICE}\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    format!("{head}\r\n\r\n{review}").into_bytes()
}

/// Reads one answer, which has to admit.
async fn answer(stream: &mut TlsStream<TcpStream>, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        ensure!(buffer.len() < HEAD_BYTES, "the head of the answer does not end");
        ensure!(stream.read_buf(buffer).await.context("read the answer")? > 0, "the webhook closed the connection");
    };
    let text = str::from_utf8(&buffer[..head]).context("read the head")?.to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let whole = head + length.context("the answer has no length")?;
    while buffer.len() < whole {
        ensure!(stream.read_buf(buffer).await.context("read the answer")? > 0, "the answer broke off");
    }
    let body: Value = serde_json::from_slice(&buffer[head..whole]).context("read the answer")?;
    if !text.starts_with("http/1.1 200") || body["response"]["allowed"] != json!(true) {
        bail!("the webhook answered {text}{body}");
    }
    Ok(())
}
