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
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, Url};
use rukpak_content::{Limit, Limits};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::args::ServiceArgs;
use crate::cluster::{self, Cluster};
use crate::failure::Failure;
use crate::forward::Forward;
use crate::output::chain;
use crate::progress::Progress;
use crate::registries::certificates;
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

impl Service {
    /// Finds the service. It is not spoken to yet.
    pub async fn connect(cluster: &Cluster, flags: &ServiceArgs) -> Result<Self, Failure> {
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
        let http = build(http)?;
        Ok(Self { http, base, authorization: authorization(cluster).await?, _forward: forward })
    }

    /// Sends an archive for a Bundle.
    pub async fn upload(&self, bundle: &str, packed: Packed) -> Result<Uploaded, Failure> {
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
    pub async fn fetch_source(&self, bundle: &str) -> Result<File, Failure> {
        let mut url = self.url(&format!("/bundles/{bundle}.tgz"));
        url.set_query(Some("form=source"));
        self.fetch_url(url).await
    }

    /// Fetches what is at a path of the service, to a file without a name that stands at its beginning.
    pub async fn fetch(&self, path: &str) -> Result<File, Failure> {
        self.fetch_url(self.url(path)).await
    }

    async fn fetch_url(&self, url: Url) -> Result<File, Failure> {
        let answer = self.send(self.http.get(url.clone())).await.map_err(sent(Method::GET, &url))?;
        if answer.status() != StatusCode::OK {
            return Err(refused(answer).await);
        }
        keep(answer, &Limits::default(), url.path(), sent(Method::GET, &url)).await
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

/// Makes the client. Fails where its settings contradict each other.
pub(crate) fn build(http: ClientBuilder) -> Result<Client, Failure> {
    http.build().map_err(|error| Failure::during("set up the HTTPS client", &error))
}

/// Keeps an answer in a file without a name, which stands at its beginning. An answer that is too large is refused in the name of `place`;
/// `failed` says what was asked for where the answer ends early.
pub(crate) async fn keep(
    mut answer: Response,
    limits: &Limits,
    place: &str,
    failed: impl Fn(reqwest::Error) -> Failure,
) -> Result<File, Failure> {
    let unkept = |error: io::Error| Failure::during("set what was fetched aside", &error);

    let mut file = tempfile::tempfile().map_err(unkept)?;
    let mut size_bytes = 0;
    while let Some(chunk) = answer.chunk().await.map_err(&failed)? {
        size_bytes += chunk.len() as u64;
        let checked = Limit::DownloadBytes.check(size_bytes, limits.download_bytes, || place.to_owned());
        checked.map_err(|error| Failure::no(chain(&error)))?;
        file.write_all(&chunk).map_err(unkept)?;
    }
    file.rewind().map_err(unkept)?;
    Ok(file)
}

fn sent(method: Method, url: &Url) -> impl Fn(reqwest::Error) -> Failure {
    move |error: reqwest::Error| Failure::during(format!("{method} {url}"), &error.without_url())
}

async fn refused(mut answer: Response) -> Failure {
    let status = answer.status();
    let mut text = Vec::new();
    while text.len() < TEXT_BYTES
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        text.extend(chunk);
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    let text = if text.is_empty() { format!("unexpected status \"{status}\"") } else { text };
    Failure::either(cluster::is_refusal(status.as_u16()), text)
}

/// Who is trusted, and the client certificate of the kubeconfig if it has one. How the API server is trusted does not matter.
async fn tls(cluster: &Cluster, flags: &ServiceArgs) -> Result<rustls::ClientConfig, Failure> {
    let authorities = authorities(cluster, &flags.system_namespace, &flags.ca_secret_name).await?;
    trusting(&cluster.config, authorities)
}

/// The certificates in `ca.crt` of a Secret. DER.
pub(crate) async fn authorities(cluster: &Cluster, namespace: &str, secret: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let name = format!("{namespace}/{secret}");
    let secret = match cluster.secret(namespace, secret).await {
        Err(cluster::Error::Refused(status)) if status.code == 404 => {
            // Most often RukPak is in another namespace, or in none. It begins with upstream's words.
            return Err(Failure::no(format!(
                "secrets {secret:?} not found: is RukPak installed in namespace {namespace:?}? Name another one by --system-namespace"
            )));
        }
        other => other?,
    };
    let none = || Failure::unknown(format!("secret {name} has no certificates in {AUTHORITIES}"));
    let pem = &secret.data.as_ref().and_then(|data| data.get(AUTHORITIES)).ok_or_else(none)?.0;
    let read = certificates(pem);
    let authorities = read.map_err(|error| Failure::during(format!("read {AUTHORITIES} of secret {name}"), &error))?;
    if authorities.is_empty() { Err(none()) } else { Ok(authorities) }
}

/// As `config` says who we are, but with these authorities alone.
pub(crate) fn trusting(config: &kube::Config, authorities: Vec<Vec<u8>>) -> Result<rustls::ClientConfig, Failure> {
    let mut config = config.clone();
    config.root_cert = Some(authorities);
    config.root_cert_file = None;
    config.accept_invalid_certs = false;
    config.rustls_client_config().map_err(|error| unusable(&error))
}

/// Says that the kubeconfig's user is no good here.
fn unusable(error: &dyn StdError) -> Failure {
    Failure::during("use the credentials of the kubeconfig", error)
}

/// The header that the kubeconfig's user sends, whatever it is made of: a token, a file, a program's answer.
async fn authorization(cluster: &Cluster) -> Result<Option<HeaderValue>, Failure> {
    let layer = cluster.config.auth_layer().map_err(|error| unusable(&error))?;
    let Some(layer) = layer else { return Ok(None) };
    // The layer only writes on requests, so it is given one.
    let look = service_fn(async |request: http::Request<Body>| {
        let value = request.headers().get(AUTHORIZATION).cloned();
        Ok::<_, BoxError>(http::Response::new(value))
    });
    let answer = layer.layer(look).oneshot(http::Request::new(Body::empty())).await;
    let answer = answer.map_err(|error| unusable(&*error))?;
    Ok(answer.into_body().map(|mut value| {
        value.set_sensitive(true);
        value
    }))
}
