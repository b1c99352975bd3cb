//! Proxies of the environment. The environment belongs to a process, so each case runs in one of its own: this test program,
//! told by a variable to be the client.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::*;

const URL: &str = "RUKPAK_TEST_URL";
const AUTHORITY: &str = "RUKPAK_TEST_AUTHORITY";
/// Set: addresses are refused as they are by default.
const GUARDED: &str = "RUKPAK_TEST_GUARDED";
const VARIABLES: [&str; 7] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"];

/// A proxy that passes everything on to one server, whatever name it is asked for.
struct Proxy {
    address: SocketAddr,
    /// The heads of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (heads, target) = (seen.clone(), server.host());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass_on(stream, target.clone(), heads.clone()));
            }
        });
        Self { address, seen, task }
    }

    fn url(&self) -> String {
        format!("http://agent:m4rked-proxy@{}", self.address)
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut client: TcpStream, target: String, heads: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).ok()?;
    heads.lock().ok()?.push(text.clone());
    let mut server = TcpStream::connect(target).await.ok()?;
    if text.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    } else {
        server.write_all(text.as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

/// Downloads `url` in a process with `environment`; what it said.
async fn download(url: &str, authority: &[u8], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "http::tests::proxies::proxies_of_the_environment_are_used", "--nocapture"]);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.env(URL, url).env(AUTHORITY, String::from_utf8(authority.to_vec()).unwrap());
    let output = command.envs(environment.iter().copied()).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The client: says the digest or the error.
async fn be_the_client(url: &str) {
    let extra_ca_pem = std::env::var(AUTHORITY).unwrap().into_bytes();
    let egress = if std::env::var_os(GUARDED).is_some() { Egress::default() } else { Egress::anywhere() };
    let fetcher = Fetcher::new(FetcherOptions { extra_ca_pem, egress, ..options() }).unwrap();
    match fetcher.download(&Request::new(url).unwrap()).await {
        Ok(download) => println!("got {}", download.digest()),
        Err(error) => println!("failed {} {error:?}", chain(&error)),
    }
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    if let Ok(url) = std::env::var(URL) {
        return be_the_client(&url).await;
    }
    let (tls, authority) = certificate("bundles.invalid");
    let plain = serve(Answer::new(200, bundle())).await;
    let secure = Server::start_with(Some(tls), |_| Answer::new(200, bundle())).await;
    let (plain_proxy, secure_proxy) = (Proxy::to(&plain).await, Proxy::to(&secure).await);
    let (http, https) = (plain_proxy.url(), secure_proxy.url());
    let got = format!("got {}", Digest::sha256(&bundle()));
    let login = basic("agent", "m4rked-proxy").to_ascii_lowercase();

    // The name means nothing to anyone but the proxy.
    let both = [("HTTP_PROXY", http.as_str()), ("HTTPS_PROXY", https.as_str())];
    let said = download("http://bundles.invalid/b.tgz", &authority, &both).await;
    assert!(said.contains(&got), "{said}");
    let seen = plain_proxy.seen().concat().to_ascii_lowercase();
    assert!(seen.starts_with("get http://bundles.invalid/b.tgz ") && seen.contains(&login), "{seen}");
    assert!(secure_proxy.seen().is_empty());

    let said = download("https://bundles.invalid/b.tgz", &authority, &both).await;
    assert!(said.contains(&got), "{said}");
    let seen = secure_proxy.seen().concat().to_ascii_lowercase();
    assert!(seen.starts_with("connect bundles.invalid:443 ") && seen.contains(&login), "{seen}");
    assert!(plain_proxy.seen().is_empty());

    // Small letters, and hosts that are asked without a proxy.
    let direct = format!("http://{}/b.tgz", plain.host());
    for (no_proxy, proxied) in [("example.com", true), ("example.com, 127.0.0.0/8", false)] {
        let said = download(&direct, &authority, &[("http_proxy", &http), ("no_proxy", no_proxy)]).await;
        assert!(said.contains(&got), "{said}");
        assert_eq!(!plain_proxy.seen().is_empty(), proxied);
    }

    // The proxy may be on loopback, by whatever name; nothing else may, not even under the proxy's name.
    let named = http.replace("127.0.0.1", "localhost");
    for (proxy, url, no_proxy, expected) in [
        (&http, "http://bundles.invalid/b.tgz", "", true),
        (&named, "http://bundles.invalid/b.tgz", "", true),
        (&named, &direct.replace("127.0.0.1", "localhost"), "localhost", false),
        (&named, &direct, "", false),
        (&http, "http://169.254.169.254/", "", false),
    ] {
        let environment = [(GUARDED, "1"), ("HTTP_PROXY", proxy), ("NO_PROXY", no_proxy)];
        let said = download(url, &authority, &environment).await;
        assert_eq!(said.contains(&got), expected, "{url}: {said}");
        assert_eq!(said.contains("sources may not be fetched from"), !expected, "{url}: {said}");
        assert_eq!(!plain_proxy.seen().is_empty(), expected, "{url}");
    }

    // A proxy that is not there: its login is not shown.
    let gone = format!("http://agent:m4rked-proxy@{}", serve(Answer::default()).await.host());
    for url in ["http://bundles.invalid/b.tgz", "https://bundles.invalid/b.tgz"] {
        let said = download(url, &authority, &[("HTTP_PROXY", &gone), ("HTTPS_PROXY", &gone)]).await;
        assert!(said.contains("failed GET ") && !said.contains("m4rked"), "{said}");
    }
}
