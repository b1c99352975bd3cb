//! `git http-backend` as a CGI program behind TLS and, if asked, basic authentication.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::AsyncWriteExt;

use crate::faulty::Seen;
use crate::tls::{Served, serve};
use crate::{RepoBuilder, TestCa, tools};

/// Largest request of a git client.
const BODY_LIMIT_BYTES: usize = 64 << 20;

/// A git server over https on a loopback port. It ends when dropped.
pub struct GitServer {
    served: Served,
    ca: TestCa,
    shared: Arc<Shared>,
    root: tempfile::TempDir,
}

/// What the server should ask of its clients.
#[derive(Debug, Clone, Default)]
pub struct GitServerOptions {
    /// User name and password; open to all when absent.
    pub credentials: Option<(String, String)>,
}

struct Shared {
    root: std::path::PathBuf,
    credentials: Option<(String, String)>,
    seen: Mutex<Vec<Seen>>,
}

impl GitServer {
    /// Starts an open server.
    pub fn start() -> Result<Self> {
        Self::start_with(GitServerOptions::default())
    }

    /// Starts a server with `options`.
    pub fn start_with(options: GitServerOptions) -> Result<Self> {
        let root = tools::temp_folder("git")?;
        let ca = TestCa::new("git-ca")?;
        let shared = Shared { root: root.path().to_owned(), credentials: options.credentials, seen: Mutex::default() };
        let shared = Arc::new(shared);
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let served = serve(router, &ca.localhost()?)?;
        Ok(Self { served, ca, shared, root })
    }

    /// Makes an empty repository on this server.
    pub fn repository(&self, name: &str) -> Result<RepoBuilder> {
        RepoBuilder::new(self.root.path(), name)
    }

    /// `https://localhost:port`.
    pub fn base_url(&self) -> String {
        format!("https://localhost:{}", self.served.address().port())
    }

    /// `https://localhost:port/<name>.git`.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}.git", self.base_url())
    }

    /// The certificate authority that a client must trust.
    pub fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// The folder with the repositories.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let authorization =
        request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Ok(mut seen) = shared.seen.lock() {
        let (method, path) = (request.method().clone(), request.uri().to_string());
        seen.push(Seen { method, path, authorization: authorization.clone() });
    }
    if let Some((user, password)) = &shared.credentials {
        let wanted = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        if authorization.as_deref() != Some(&wanted) {
            return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, r#"Basic realm="git""#)]).into_response();
        }
    }
    match backend(&shared, request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")).into_response(),
    }
}

/// One request through the CGI program (RFC 3875).
async fn backend(shared: &Shared, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_LIMIT_BYTES).await.context("read the request")?;
    let mut command = std::process::Command::new(tools::system_program("git")?);
    super::clean(&mut command, &shared.root);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("REMOTE_ADDR", "127.0.0.1");
    for (variable, name) in [
        ("CONTENT_TYPE", "content-type"),
        ("HTTP_CONTENT_ENCODING", "content-encoding"),
        ("GIT_PROTOCOL", "git-protocol"),
    ] {
        if let Some(value) = parts.headers.get(name).and_then(|value| value.to_str().ok()) {
            command.env(variable, value);
        }
    }
    let mut command = tokio::process::Command::from(command);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut child = child.context("start git http-backend")?;
    let mut input = child.stdin.take().context("git http-backend has no input")?;
    let feed = async move {
        // The program may end without reading everything, which is its right.
        let _ = input.write_all(&body).await;
        drop(input);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    response(&output.context("run git http-backend")?.stdout)
}

/// Turns a CGI answer into an HTTP one.
fn response(output: &[u8]) -> Result<Response> {
    let split = output.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(split) = split else { bail!("git http-backend gave no headers") };
    let mut response = Response::new(Body::from(output[split + 4..].to_vec()));
    for line in String::from_utf8_lossy(&output[..split]).lines() {
        let (name, value) = line.split_once(':').with_context(|| format!("no CGI header: {line:?}"))?;
        if name.eq_ignore_ascii_case("status") {
            let code = value.split_whitespace().next().unwrap_or_default().parse::<u16>()?;
            *response.status_mut() = StatusCode::from_u16(code)?;
        } else {
            response.headers_mut().append(HeaderName::try_from(name)?, HeaderValue::from_str(value.trim())?);
        }
    }
    Ok(response)
}
