//! Over real TLS: the certificate changes, and no call is refused; what the flags of TLS leave out is.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::routing::get;
use clap::Parser;
use rukpak_runtime::args::TlsArgs;
use rukpak_runtime::certificates::identity::{Identity, certificates};
use rukpak_runtime::certificates::{Issued, issue};
use rukpak_runtime::server::{Bounds, serve};
use rukpak_runtime::serving::{OverTls, Tls};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, NamedGroup, ProtocolVersion, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const NAME: &str = "localhost";
const LONG: Duration = Duration::from_mins(1);
const BOUNDS: Bounds =
    Bounds { connections: 64, strangers_per_address: 64, handshake: LONG, headers: LONG, connection: LONG };

fn issued() -> Issued {
    issue(&[NAME.to_owned()], Duration::from_hours(1), SystemTime::now()).unwrap()
}

fn identity(issued: &Issued) -> Identity {
    Identity::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap()
}

/// A client that trusts these authorities and would rather speak HTTP/2.
async fn connect(address: SocketAddr, authorities: &str) -> std::io::Result<TlsStream<TcpStream>> {
    connect_with(ring::default_provider(), address, authorities).await
}

/// Such a client that speaks this TLS.
async fn connect_with(
    provider: CryptoProvider,
    address: SocketAddr,
    authorities: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(authorities.as_bytes()).unwrap());
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
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

async fn call(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    while !text.ends_with("yes") {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.unwrap();
        assert!(length > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
    }
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// Starts a server that answers every call.
async fn start(tls: &Arc<Tls>, bounds: Bounds) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, router) = (CancellationToken::new(), Router::new().route("/", get(async || "yes")));
    let server = tokio::spawn(serve(listener, OverTls(Arc::clone(tls)), router, bounds, (stop.clone(), LONG)));
    (address, stop, server)
}

/// The API server opens a second connection where the first is busy, uses the one that is free earlier, and writes a later call on
/// the other. If that was closed meanwhile, a call of more than one packet is lost: "write: broken pipe".
#[tokio::test]
async fn a_connection_opened_ahead_of_its_first_call_is_kept_and_one_without_a_handshake_is_not() {
    let (tls, issued) = (Arc::new(Tls::default()), issued());
    tls.serve(&identity(&issued)).unwrap();
    let (address, ..) = start(&tls, Bounds { handshake: Duration::from_secs(1), ..BOUNDS }).await;

    let mut ahead = connect(address, &issued.authority).await.unwrap();
    let mut without_handshake = TcpStream::connect(address).await.unwrap();
    let closed = tokio::time::timeout(LONG, without_handshake.read(&mut [0; 16])).await.unwrap();
    assert_eq!(closed.unwrap(), 0, "its time is over");

    call(&mut ahead).await;
}

#[tokio::test]
async fn a_changed_certificate_costs_no_call() {
    let [old, new] = [issued(), issued()];
    let both = old.authority.clone() + &new.authority;
    let tls = Arc::new(Tls::default());
    let (address, stop, server) = start(&tls, BOUNDS).await;
    assert!(connect(address, &both).await.is_err(), "there is no certificate yet");

    tls.serve(&identity(&old)).unwrap();
    let mut open = connect(address, &both).await.unwrap();
    assert_eq!(open.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    call(&mut open).await;

    let enough = CancellationToken::new();
    let client = {
        let (enough, both) = (enough.clone(), both.clone());
        tokio::spawn(async move {
            let mut calls = 0;
            while !enough.is_cancelled() {
                let mut stream = connect(address, &both).await.expect("because it trusts old and new");
                call(&mut stream).await;
                calls += 1;
            }
            calls
        })
    };
    for issued in [&new, &old, &new] {
        tls.serve(&identity(issued)).unwrap();
        let stream = connect(address, &issued.authority).await.unwrap();
        assert_eq!(served(&stream), certificates(issued.certificate.as_bytes()).unwrap()[0]);
    }
    enough.cancel();
    assert!(client.await.unwrap() > 0);
    assert!(connect(address, &old.authority).await.is_err(), "the old authority does not vouch for the new");
    call(&mut open).await; // a connection outlives its certificate
    stop.cancel();
    tokio::time::timeout(LONG, server).await.unwrap().unwrap();
}

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    tls: TlsArgs,
}

/// A client of one version, with a cipher suite and a curve of its own.
#[derive(Clone, Copy, Debug)]
struct Offer {
    version: ProtocolVersion,
    suite: Option<CipherSuite>,
    curve: Option<NamedGroup>,
}

impl Offer {
    const TLS12: Self = Self { version: ProtocolVersion::TLSv1_2, suite: None, curve: None };
    const TLS13: Self = Self { version: ProtocolVersion::TLSv1_3, suite: None, curve: None };

    fn with_suite(self, suite: CipherSuite) -> Self {
        Self { suite: Some(suite), ..self }
    }

    fn with_curve(self, curve: NamedGroup) -> Self {
        Self { curve: Some(curve), ..self }
    }

    fn provider(self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        provider.cipher_suites.retain(|suite| {
            suite.version().version == self.version && self.suite.is_none_or(|only| suite.suite() == only)
        });
        provider.kx_groups.retain(|group| self.curve.is_none_or(|only| group.name() == only));
        provider
    }
}

/// The scenarios of operator-controller's tests, and one for each flag and version besides.
#[tokio::test]
async fn a_listener_speaks_the_tls_that_its_flags_leave() {
    const AES128: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    const AES256: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    let (tls12, tls13) = (Offer::TLS12, Offer::TLS13);
    let (curve, other) = (NamedGroup::secp256r1, NamedGroup::secp384r1);
    let only_suite = "--tls-profile=custom --tls-custom-ciphers=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let only_curve = "--tls-profile=custom --tls-custom-curves=prime256v1";
    let tls13_suite = CipherSuite::TLS13_AES_256_GCM_SHA384;

    let issued = issued();
    for (flags, accepted, refused) in [
        ("", vec![tls12, tls13], vec![]),
        ("--tls-profile=modern", vec![tls13], vec![tls12]),
        ("--tls-profile=custom --tls-custom-version=TLSv1.3", vec![tls13], vec![tls12]),
        (only_suite, vec![tls12.with_suite(AES128), tls13], vec![tls12.with_suite(AES256)]),
        (
            "--tls-profile=custom --tls-custom-ciphers=TLS_AES_256_GCM_SHA384",
            vec![tls13.with_suite(tls13_suite)],
            vec![tls12, tls13.with_suite(CipherSuite::TLS13_AES_128_GCM_SHA256)],
        ),
        (
            only_curve,
            vec![tls12.with_suite(AES128).with_curve(curve), tls13.with_curve(curve)],
            vec![tls12.with_suite(AES128).with_curve(other), tls13.with_curve(other)],
        ),
    ] {
        let arguments = std::iter::once("program").chain(flags.split_whitespace());
        let provider = Program::try_parse_from(arguments).unwrap().tls.provider().unwrap();
        let tls = Arc::new(Tls::default().speaking(provider));
        tls.serve(&identity(&issued)).unwrap();
        let (address, stop, _server) = start(&tls, BOUNDS).await;

        for offer in accepted {
            let connected = connect_with(offer.provider(), address, &issued.authority).await;
            let mut stream = connected.unwrap_or_else(|error| panic!("{flags}: {offer:?}: {error}"));
            let connection = stream.get_ref().1;
            assert_eq!(connection.protocol_version(), Some(offer.version), "{flags}: {offer:?}");
            let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
            assert!(offer.suite.is_none() || offer.suite == suite, "{flags}: {offer:?}: {suite:?}");
            call(&mut stream).await;
        }
        for offer in refused {
            let connected = connect_with(offer.provider(), address, &issued.authority).await;
            let error = connected.err().unwrap_or_else(|| panic!("{flags}: {offer:?} is accepted"));
            assert!(error.to_string().contains("received fatal alert"), "{flags}: {offer:?}: {error}");
        }
        stop.cancel();
    }
}

/// As everything here that connects: such a client finds no server of TLS 1.2 good enough.
#[tokio::test]
async fn a_client_speaks_the_tls_that_the_flags_leave() {
    let issued = issued();
    let tls = Arc::new(Tls::default().speaking(Offer::TLS12.provider()));
    tls.serve(&identity(&issued)).unwrap();
    let (address, ..) = start(&tls, BOUNDS).await;

    for (flag, is_connected) in [("--tls-profile=intermediate", true), ("--tls-profile=modern", false)] {
        let provider = Program::try_parse_from(["program", flag]).unwrap().tls.provider().unwrap();
        assert_eq!(connect_with(provider, address, &issued.authority).await.is_ok(), is_connected, "{flag}");
    }
}
