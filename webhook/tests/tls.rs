//! Over real TLS: certificates change and the server leaves without a refused call.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod support;

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rukpak_certificates::identity::{Identity, certificates};
use rukpak_certificates::{Issued, issue};
use rukpak_webhook::certificates::{Installed, files};
use rukpak_webhook::health::{Readiness, Trust};
use rukpak_webhook::router::router;
use rukpak_webhook::serve::serve;
use rukpak_webhook::tls::{Serving, server_config};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const NAME: &str = "localhost";
const PATIENCE: Duration = Duration::from_secs(20);

fn issued() -> Issued {
    issue(&[NAME.to_owned()], Duration::from_hours(1), SystemTime::now()).unwrap()
}

fn identity(issued: &Issued) -> Identity {
    Identity::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap()
}

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(serving: &Arc<Serving>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let tls = Arc::new(server_config(Arc::clone(serving)).unwrap());
    let shared = support::Known::default().shared();
    let connections = Arc::clone(&shared.connections);
    let task = tokio::spawn(serve(listener, tls, router(&shared), connections, stop.clone(), PATIENCE));
    Server { address, stop, task }
}

fn installed() -> Arc<Installed> {
    Arc::new(Installed {
        serving: Arc::default(),
        readiness: Arc::new(Readiness::new(Trust::NotOurs)),
        metrics: Arc::default(),
    })
}

/// A client that trusts these authorities and would rather speak HTTP/2.
async fn connect(address: SocketAddr, authorities: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(authorities.as_bytes()).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).unwrap(), stream).await
}

fn served(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

async fn call(stream: &mut TlsStream<TcpStream>) -> String {
    let head = format!("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n", rukpak_webhook::BUNDLE_PATH);
    stream.write_all(format!("{head}content-type: application/json\r\n\r\n{{}}").as_bytes()).await.unwrap();
    answer(stream).await
}

async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut text = String::new();
    while !text.contains("admission.k8s.io/v1") {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.unwrap();
        assert!(length > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
    }
    text
}

#[tokio::test]
async fn a_changed_certificate_costs_no_call() {
    let [old, new] = [issued(), issued()];
    let serving = Arc::new(Serving::default());
    let server = start(&serving).await;
    let both = old.authority.clone() + &new.authority;
    assert!(connect(server.address, &both).await.is_err(), "there is no certificate yet");

    serving.set(identity(&old).key());
    let mut open = connect(server.address, &both).await.unwrap();
    assert_eq!(open.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    assert!(call(&mut open).await.starts_with("HTTP/1.1 400 "));

    let stop = CancellationToken::new();
    let client = {
        let (stop, both, address) = (stop.clone(), both.clone(), server.address);
        tokio::spawn(async move {
            let mut calls = 0;
            while !stop.is_cancelled() {
                let mut stream = connect(address, &both).await.expect("because it trusts old and new");
                assert!(call(&mut stream).await.starts_with("HTTP/1.1 400 "));
                calls += 1;
            }
            calls
        })
    };
    for issued in [&new, &old, &new] {
        serving.set(identity(issued).key());
        let authority = &issued.authority;
        let stream = connect(server.address, authority).await.unwrap();
        assert_eq!(served(&stream), certificates(issued.certificate.as_bytes()).unwrap()[0]);
    }
    stop.cancel();
    assert!(client.await.unwrap() > 0);
    assert!(connect(server.address, &old.authority).await.is_err(), "the old authority does not vouch for the new");
    assert!(call(&mut open).await.starts_with("HTTP/1.1 400 "), "a connection outlives its certificate");
    server.stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_call_in_flight_is_answered_before_the_end() {
    let one = issued();
    let serving = Arc::new(Serving::default());
    serving.set(identity(&one).key());
    let server = start(&serving).await;
    let mut busy = connect(server.address, &one.authority).await.unwrap();
    let mut idle = connect(server.address, &one.authority).await.unwrap();
    call(&mut idle).await;
    let head = format!("POST {} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n", rukpak_webhook::BUNDLE_PATH);
    let head = format!("{head}content-length: 2\r\ncontent-type: application/json\r\n\r\n");
    busy.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once the call has reached its handler.
    let mut ask = [0; 12];
    busy.read_exact(&mut ask).await.unwrap();
    assert_eq!(&ask, b"HTTP/1.1 100");

    server.stop.cancel();
    let mut rest = Vec::new();
    // Both are what a closed connection looks like.
    let _ = idle.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "an idle connection is closed");
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody new is let in");
    assert!(!server.task.is_finished());
    busy.write_all(b"{}").await.unwrap();
    let text = answer(&mut busy).await;
    assert!(text.contains("HTTP/1.1 400") && text.contains("connection: close"), "{text}");
    tokio::time::timeout(PATIENCE, server.task).await.unwrap().unwrap();
}

/// Changes the folder as kubelet does: a new directory, and one symlink renamed over the old.
fn mount(volume: &Path, version: &str, certificate: &str, key: &str) {
    let data = volume.join(version);
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("tls.crt"), certificate).unwrap();
    std::fs::write(data.join("tls.key"), key).unwrap();
    symlink(version, volume.join("..data_tmp")).unwrap();
    std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

async fn until_served(serving: &Serving, issued: &Issued) {
    let wanted = certificates(issued.certificate.as_bytes()).unwrap();
    let see = async {
        while serving.get().is_none_or(|key| key.cert != wanted) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, see).await.expect("because the folder is read every few milliseconds");
}

#[tokio::test]
async fn files_are_followed_through_a_symlink_swap() {
    let volume = tempfile::tempdir().unwrap();
    let installed = installed();
    let serving = Arc::clone(&installed.serving);
    let stop = CancellationToken::new();
    let folder = volume.path().to_owned();
    let task = {
        let (installed, stop) = (Arc::clone(&installed), stop.clone());
        tokio::spawn(async move { files::keep(&folder, installed, Duration::from_millis(5), stop).await })
    };
    for file in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{file}"), volume.path().join(file)).unwrap();
    }
    let [one, two, three] = [issued(), issued(), issued()];
    mount(volume.path(), "1", &one.certificate, &one.key);
    until_served(&serving, &one).await;
    mount(volume.path(), "2", &two.certificate, &two.key);
    until_served(&serving, &two).await;

    // A key that is not the certificate's changes nothing, and the next good pair is taken over.
    mount(volume.path(), "3", &one.certificate, &two.key);
    mount(volume.path(), "4", &three.certificate, &three.key);
    until_served(&serving, &three).await;
    let text = rukpak_runtime::metrics::text(&installed.metrics.registry());
    let expiry =
        text.lines().find_map(|line| line.strip_prefix("rukpak_webhook_certificate_expiry_timestamp_seconds "));
    assert!(expiry.is_some_and(|expiry| expiry != "0"), "{text}");
    stop.cancel();
    task.await.unwrap();
}
