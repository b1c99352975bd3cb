//! Connections that are there to be there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rukpak_tests::Process;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::scene::{BUNDLES, Scene, flood, review};

const NAME: &str = "localhost";

/// As many files as this process may have open at all.
fn open_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("it is allowed");
}

async fn encrypted(scene: &Scene) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let certificates = rustls::pki_types::CertificateDer::pem_slice_iter(&scene.authorities);
    for certificate in certificates {
        roots.add(certificate.expect("caBundle is PEM")).expect("it is a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("they are supported").with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(scene.address()).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).expect("a name"), stream).await
}

async fn answered_at_once(scene: &Scene) {
    let bundle = json!({"metadata": {"name": "b"}, "spec": {"provisionerClassName": "p", "source": {"type": "image", "image": {"ref": "r"}}}});
    let question = review(["core.rukpak.io", "v1alpha1", "Bundle"], "CREATE", &Value::Null, &bundle);
    let begin = Instant::now();
    assert_eq!(scene.ask(BUNDLES, &question).await["allowed"], true);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn ten_thousand_silent_connections_keep_nobody_out() {
    open_many_files();
    let (scene, _alone) = flood().await;
    let mut silent = Vec::new();
    for count in 1..=10_000 {
        silent.push(TcpStream::connect(scene.address()).await.expect("it is accepted"));
        if count % 1_024 == 0 {
            answered_at_once(scene).await;
        }
    }
    scene.assert_unharmed().await;
    drop(silent);
}

#[tokio::test]
async fn connections_that_have_been_answered_once_keep_nobody_out() {
    open_many_files();
    let (scene, _alone) = flood().await;
    let head = format!(
        "POST {BUNDLES} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{{}}"
    );
    let mut idle = Vec::new();
    for _ in 0..1_200 {
        let mut stream = encrypted(scene).await.expect("it is accepted");
        stream.write_all(head.as_bytes()).await.expect("it is read");
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.expect("it is answered");
        assert_eq!(&begin, b"HTTP/1.1 400");
        idle.push(stream);
    }
    answered_at_once(scene).await;
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn half_a_call_keeps_nobody_out() {
    open_many_files();
    let (scene, _alone) = flood().await;
    let mut halves = Vec::new();
    for index in 0..1_100 {
        let mut stream = encrypted(scene).await.expect("it is accepted");
        let text = match index % 3 {
            0 => format!("POST {BUNDLES} HTTP/1.1\r\nhost: x\r\nx: "),
            1 => format!(
                "POST {BUNDLES} HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\ncontent-type: application/json\r\n\r\n{{"
            ),
            _ => format!("POST {BUNDLES} HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(60_000)),
        };
        stream.write_all(text.as_bytes()).await.expect("it is read");
        halves.push(stream);
    }
    answered_at_once(scene).await;
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed_and_one_without_a_call_is_kept() {
    let (scene, _alone) = flood().await;
    let (mut bare, mut greeted) = (
        TcpStream::connect(scene.address()).await.expect("it is accepted"),
        encrypted(scene).await.expect("so is this"),
    );
    let closed = tokio::time::timeout(Duration::from_secs(20), bare.read(&mut [0; 1])).await.expect("it is closed");
    assert!(closed.map_or(true, |bytes| bytes == 0));

    // The API server opens connections ahead; a call on one that we close is lost.
    greeted.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is open");
    let mut answer = [0; 9];
    greeted.read_exact(&mut answer).await.expect("it is answered");
    assert_eq!(&answer, b"HTTP/1.1 ");
}

#[tokio::test]
async fn a_truncated_body_is_forgotten() {
    let (scene, _alone) = flood().await;
    for _ in 0..50 {
        let mut stream = encrypted(scene).await.expect("it is accepted");
        let text = format!(
            "POST {BUNDLES} HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\ncontent-type: application/json\r\n\r\n{{\"a\":"
        );
        stream.write_all(text.as_bytes()).await.expect("it is read");
    }
    scene.assert_unharmed().await;
}

/// Probes and metrics need no login either.
#[tokio::test]
async fn silent_connections_to_probes_and_metrics_keep_no_probe_out() {
    let (scene, _alone) = flood().await;
    let port = |url: &str| url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let webhook: &Process = &scene.webhook;
    let mut silent = Vec::new();
    for url in [&webhook.health_url, &webhook.http_url] {
        for _ in 0..500 {
            silent.push(TcpStream::connect(("127.0.0.1", port(url))).await.expect("it is accepted"));
        }
    }
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().expect("a client");
    for url in [
        format!("{}/readyz", webhook.health_url),
        format!("{}/healthz", webhook.health_url),
        format!("{}/metrics", webhook.http_url),
    ] {
        let answer = http.get(&url).send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(answer.status().as_u16(), 200, "{url}");
    }
}
