//! The content service, from outside the cluster: through a forwarded port, or where a flag says. The credentials are those of
//! the kubeconfig, the authorities those of the cluster's Secret.

use std::error::Error as StdError;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::time::Duration;

use futures::TryStreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use kube::client::{Body, ConfigExt as _};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use rukpak_content::{Limit, LimitExceeded, Limits};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::args::ServiceArgs;
use crate::cluster::{self, Cluster};
use crate::forward::{self, Forward};
use crate::progress::Progress;
use crate::source::pack::Packed;

/// Where the Secret has the authorities.
const AUTHORITIES: &str = "ca.crt";
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// For a whole answer. A body of the size that the service takes needs 0.5 MiB a second.
const ANSWER_TIME: Duration = Duration::from_mins(10);
/// What is read of an answer that is no content.
const TEXT_BYTES: usize = 16 * 1024;

type BoxError = Box<dyn StdError + Send + Sync>;

/// The service, and who we are to it.
pub struct Service {
    http: Client,
    base: Url,
    authorization: Option<HeaderValue>,
    _forward: Option<Forward>,
}

/// What became of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploaded {
    New,
    /// These very bytes were there already.
    Known,
}

/// Why something was not sent or fetched. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret cannot be read.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// There is no such Secret: most often because RukPak is in another namespace, or in none. It begins with upstream's words.
    #[error(
        "secrets {name:?} not found: is RukPak installed in namespace {namespace:?}? Name another one by --system-namespace"
    )]
    NoSecret {
        name: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The Secret does not say whom to trust.
    #[error("secret {0} has no certificates in {AUTHORITIES}")]
    NoAuthorities(String),
    /// What it says cannot be read.
    #[error("read {AUTHORITIES} of secret {0}")]
    Authorities(String, #[source] pem::Error),
    /// The kubeconfig's user is no good here.
    #[error("use the credentials of the kubeconfig")]
    Credentials(#[source] BoxError),
    /// There is no way to the service.
    #[error(transparent)]
    Forward(#[from] forward::Error),
    /// No client can be made.
    #[error("set up the client for the content service")]
    Client(#[source] reqwest::Error),
    /// No answer, or half of one.
    #[error("{method} {url}")]
    Send { method: Method, url: Url, source: reqwest::Error },
    /// The service says no, in words of its own.
    #[error("{text}")]
    Answer { status: StatusCode, text: String },
    /// It is too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// What was fetched cannot be kept.
    #[error("set what was fetched aside")]
    Keep(#[source] io::Error),
}

impl Error {
    /// Whether somebody said no, and will say it again.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Cluster(source) | Self::Forward(forward::Error::Cluster(source)) => source.is_refusal(),
            Self::Answer { status, .. } => cluster::is_refusal(status.as_u16()),
            Self::Limit(_) | Self::NoSecret { .. } => true,
            _ => false,
        }
    }
}

impl Service {
    /// Finds the service. It is not spoken to yet.
    pub async fn connect(cluster: &Cluster, flags: &ServiceArgs) -> Result<Self, Error> {
        let tls = tls(cluster, flags).await?;
        let mut http = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIME)
            .timeout(ANSWER_TIME);
        let mut forward = None;
        let base = if let Some(url) = &flags.endpoint {
            url.clone()
        } else {
            let open = Forward::open(cluster, &flags.system_namespace, &flags.upload_service_name).await?;
            let base = local(open.port());
            forward = Some(open);
            http = http.no_proxy();
            base
        };
        let http = http.build().map_err(Error::Client)?;
        Ok(Self { http, base, authorization: authorization(cluster).await?, _forward: forward })
    }

    /// Sends an archive for a Bundle.
    pub async fn upload(&self, bundle: &str, packed: Packed) -> Result<Uploaded, Error> {
        let url = self.url(&format!("/uploads/{bundle}.tgz"));
        let mut progress = Progress::start(format!("uploading to bundle {bundle:?}"), packed.size_bytes);
        let chunks = tokio_util::io::ReaderStream::with_capacity(tokio::fs::File::from_std(packed.file), 64 * 1024);
        let chunks = chunks.inspect_ok(move |chunk| progress.add(chunk.len()));
        let request = self
            .http
            .put(url.clone())
            .header(CONTENT_TYPE, "application/gzip")
            .header(CONTENT_LENGTH, packed.size_bytes)
            .body(reqwest::Body::wrap_stream(chunks));
        let answer = self.send(request).await.map_err(sent(Method::PUT, &url))?;
        match answer.status() {
            StatusCode::CREATED => Ok(Uploaded::New),
            StatusCode::NO_CONTENT => Ok(Uploaded::Known),
            _ => Err(refused(answer).await),
        }
    }

    /// Fetches the files of a Bundle as they were unpacked, whatever its format.
    pub async fn fetch_source(&self, bundle: &str, limits: &Limits) -> Result<File, Error> {
        let mut url = self.url(&format!("/bundles/{bundle}.tgz"));
        url.set_query(Some("form=source"));
        self.fetch_url(url, limits).await
    }

    /// Fetches what is at a path of the service, to a file without a name that stands at its beginning.
    pub async fn fetch(&self, path: &str, limits: &Limits) -> Result<File, Error> {
        self.fetch_url(self.url(path), limits).await
    }

    async fn fetch_url(&self, url: Url, limits: &Limits) -> Result<File, Error> {
        let mut answer = self.send(self.http.get(url.clone())).await.map_err(sent(Method::GET, &url))?;
        if answer.status() != StatusCode::OK {
            return Err(refused(answer).await);
        }
        let mut file = tempfile::tempfile().map_err(Error::Keep)?;
        let mut size_bytes = 0;
        while let Some(chunk) = answer.chunk().await.map_err(sent(Method::GET, &url))? {
            size_bytes += chunk.len() as u64;
            Limit::DownloadBytes.check(size_bytes, limits.download_bytes, || url.path().to_owned())?;
            file.write_all(&chunk).map_err(Error::Keep)?;
        }
        file.rewind().map_err(Error::Keep)?;
        Ok(file)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()).send().await,
            None => request.send().await,
        }
    }
}

/// The forwarded port, by a name that the certificates of our services bear.
pub(crate) fn local(port: u16) -> Url {
    let mut url = Url::parse("https://localhost").expect("because this is a URL");
    // Only URLs without a host refuse a port.
    let _ = url.set_port(Some(port));
    url
}

fn sent(method: Method, url: &Url) -> impl FnOnce(reqwest::Error) -> Error {
    let url = url.clone();
    |source| Error::Send { method, url, source: source.without_url() }
}

async fn refused(mut answer: Response) -> Error {
    let status = answer.status();
    let mut text = Vec::new();
    while text.len() < TEXT_BYTES
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        text.extend(chunk);
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let text = if text.is_empty() { format!("unexpected status \"{status}\"") } else { text };
    Error::Answer { status, text }
}

/// Who is trusted, and the client certificate of the kubeconfig if it has one. How the API server is trusted does not matter.
async fn tls(cluster: &Cluster, flags: &ServiceArgs) -> Result<rustls::ClientConfig, Error> {
    let authorities = authorities(cluster, &flags.system_namespace, &flags.ca_secret_name).await?;
    trusting(&cluster.config, authorities)
}

/// The certificates in `ca.crt` of a Secret. DER.
pub(crate) async fn authorities(cluster: &Cluster, namespace: &str, secret: &str) -> Result<Vec<Vec<u8>>, Error> {
    let name = format!("{namespace}/{secret}");
    let secret = match cluster.secret(namespace, secret).await {
        Err(cluster::Error::Refused(status)) if status.code == 404 => {
            return Err(Error::NoSecret { name: secret.to_owned(), namespace: namespace.to_owned() });
        }
        other => other?,
    };
    let pem = secret.data.as_ref().and_then(|data| data.get(AUTHORITIES));
    let pem = &pem.ok_or_else(|| Error::NoAuthorities(name.clone()))?.0;
    let read = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|one| one.to_vec()));
    let authorities = read.collect::<Result<Vec<_>, _>>().map_err(|source| Error::Authorities(name.clone(), source))?;
    if authorities.is_empty() { Err(Error::NoAuthorities(name)) } else { Ok(authorities) }
}

/// As `config` says who we are, but with these authorities alone.
pub(crate) fn trusting(config: &kube::Config, authorities: Vec<Vec<u8>>) -> Result<rustls::ClientConfig, Error> {
    let mut config = config.clone();
    config.root_cert = Some(authorities);
    config.root_cert_file = None;
    config.accept_invalid_certs = false;
    config.rustls_client_config().map_err(|source| Error::Credentials(source.into()))
}

/// The header that the kubeconfig's user sends, whatever it is made of: a token, a file, a program's answer.
async fn authorization(cluster: &Cluster) -> Result<Option<HeaderValue>, Error> {
    let layer = cluster.config.auth_layer().map_err(|source| Error::Credentials(source.into()))?;
    let Some(layer) = layer else { return Ok(None) };
    // The layer only writes on requests, so it is given one.
    let look = service_fn(async |request: http::Request<Body>| {
        let value = request.headers().get(AUTHORIZATION).cloned();
        Ok::<_, BoxError>(http::Response::new(value))
    });
    let answer = layer.layer(look).oneshot(http::Request::new(Body::empty())).await.map_err(Error::Credentials)?;
    Ok(answer.into_body().map(|mut value| {
        value.set_sensitive(true);
        value
    }))
}
