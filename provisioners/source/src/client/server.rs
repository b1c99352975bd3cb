//! A web server that does what a test tells it to, over real sockets. Used by the tests of images and of http.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
}

/// What to send back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Hang up after this much of the body.
    pub(crate) cut: Option<usize>,
    /// Say nothing more after what was sent, and keep the connection.
    pub(crate) hang: bool,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn redirect(to: String) -> Self {
        Self::new(307, "").header("Location", to)
    }

    pub(crate) fn bearer(realm: &str) -> Self {
        Self::new(401, "").header(
            "WWW-Authenticate",
            format!("Bearer realm=\"{realm}\",service=\"test\",scope=\"repository:other:push\""),
        )
    }

    pub(crate) fn basic() -> Self {
        Self::new(401, "").header("WWW-Authenticate", "Basic realm=\"test\"")
    }
}

/// The header that proves a login.
pub(crate) fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}")))
}

/// A server certificate for `name` and the PEM of who signed it.
pub(crate) fn certificate(name: &str) -> (TlsAcceptor, Vec<u8>) {
    let key = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), key.cert.pem().into_bytes())
}

type Handler = dyn Fn(&Seen) -> Answer + Send + Sync;

/// Serves until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, handler).await
    }

    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (tls, handler, seen) = (tls.clone(), handler.clone(), seen.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, &*handler, &seen).await,
                            Some(tls) => match tls.accept(stream).await {
                                Ok(stream) => serve(stream, &*handler, &seen).await,
                                Err(_) => None,
                            },
                        }
                    });
                }
            }
        });
        Self { address, seen, task }
    }

    /// `127.0.0.1:port`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S>(mut stream: S, handler: &Handler, seen: &Mutex<Vec<Seen>>) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        // A handshake of TLS is no HTTP.
        if !head[0].is_ascii_uppercase() {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    let authorization = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        .map(|(_, value)| value.to_owned());
    let request = Seen { target, authorization };
    seen.lock().ok()?.push(request.clone());
    let answer = handler(&request);
    let mut head =
        format!("HTTP/1.1 {} Because\r\nConnection: close\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.extend([*name, ": ", value, "\r\n"]);
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
    let end = answer.cut.unwrap_or(answer.body.len());
    stream.write_all(&answer.body[..end]).await.ok()?;
    stream.flush().await.ok()?;
    if answer.hang {
        std::future::pending::<()>().await;
    }
    stream.shutdown().await.ok()
}
