//! An HTTP proxy as companies have them: `CONNECT` for TLS, requests with a whole URL otherwise, and a login.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const USER: &str = "agent";
const PASSWORD: &str = "m4rked-proxy";
/// Longest head of a request.
const HEAD_BYTES: usize = 16 << 10;

/// A proxy that tunnels to whatever it is asked for. It ends when dropped.
pub struct HttpProxy {
    address: SocketAddr,
    /// Targets of tunnels, in order.
    tunnels: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl HttpProxy {
    /// Listens on a loopback port, within the runtime of the test.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("bind a loopback port")?;
        let (address, tunnels) = (listener.local_addr()?, Arc::<Mutex<Vec<String>>>::default());
        let seen = Arc::clone(&tunnels);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    if let Err(error) = tunnel(client, &seen).await {
                        tracing::debug!(%error, "the proxy ended a connection");
                    }
                });
            }
        });
        Ok(Self { address, tunnels, task })
    }

    /// What `HTTPS_PROXY` says, with the login.
    pub fn url(&self) -> String {
        format!("http://{USER}:{PASSWORD}@{}", self.address)
    }

    /// The targets of the tunnels so far, each once, as `host:port`; from now on others are noted.
    pub fn take_tunnels(&self) -> Vec<String> {
        let mut targets = std::mem::take(&mut *self.tunnels.lock().unwrap_or_else(PoisonError::into_inner));
        targets.sort();
        targets.dedup();
        targets
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn tunnel(mut client: TcpStream, tunnels: &Mutex<Vec<String>>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES {
            bail!("a head of more than {HEAD_BYTES} bytes");
        }
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let login = format!("basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let is_known = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .any(|(name, value)| name.eq_ignore_ascii_case("proxy-authorization") && value.eq_ignore_ascii_case(&login));
    if !is_known {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\n\
                       Content-Length: 0\r\nConnection: close\r\n\r\n";
        client.write_all(refusal.as_bytes()).await?;
        return Ok(());
    }
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).context("not a CONNECT")?;
    tunnels.lock().unwrap_or_else(PoisonError::into_inner).push(target.to_owned());
    let mut server = TcpStream::connect(target).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
