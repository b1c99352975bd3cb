//! `PUT` and `GET /uploads/<name>.tgz`: content from a client, for a Bundle whose source says so. Codes and texts are upstream's.
//!
//! ```text
//! 201  taken          204  has these very bytes already     404  no such Bundle
//! 409  not an upload Bundle, or unpacked already            413  past the limit
//! ```

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use kube::{Api, ResourceExt as _};
use rukpak_content::{Algorithm, Digest, Hasher, Limit, LimitExceeded};
use rukpak_crds::{Bundle, BundlePhase};
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::{JoinError, spawn_blocking};

use super::depot::{self, Depot};
use super::reply::{self, Content};
use crate::context::Context;
use crate::error::Chain;
use crate::{bundle, cluster};

const TYPE: &str = "upload";
/// How long a client may send nothing.
const IDLE: Duration = Duration::from_secs(30);
/// Chunks on the way to the disk. A chunk is what one read from the connection gave.
const QUEUE: usize = 4;

/// Why an upload is not taken, or not sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The Bundle is not there, or cannot be looked up.
    #[error(transparent)]
    Bundle(cluster::Error),
    /// Its content comes from elsewhere.
    #[error("bundle source type is {0:?}; expected {TYPE:?}")]
    Type(String),
    /// Its content is what it is.
    #[error("bundle has already been unpacked, cannot change content of existing bundle")]
    Unpacked,
    /// It is too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The client broke off.
    #[error("read request body")]
    Read(#[source] axum::Error),
    /// The client fell silent.
    #[error("read request body: nothing came for {} seconds", IDLE.as_secs())]
    Silence,
    /// The disk.
    #[error("failed to store bundle data")]
    Store(#[source] io::Error),
    /// A thread was lost.
    #[error("failed to store bundle data: the worker thread ended early")]
    Worker(#[from] JoinError),
    /// It is stored, but the Bundle's status does not say so.
    #[error("failed to update bundle status")]
    Status(#[source] cluster::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Bundle(source) | Self::Status(source) => {
                let code = StatusCode::from_u16(source.code()).ok().filter(|code| !code.is_success());
                code.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Type(_) | Self::Unpacked => StatusCode::CONFLICT,
            Self::Limit(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Silence => StatusCode::REQUEST_TIMEOUT,
            Self::Read(_) | Self::Store(_) | Self::Worker(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (self.status(), format!("{}\n", Chain(&self))).into_response()
    }
}

/// A body that came whole.
struct Received {
    file: NamedTempFile,
    digest: Digest,
}

/// Takes an upload.
pub async fn put(name: &str, headers: &HeaderMap, body: Body, depot: &Arc<Depot>, context: &Arc<Context>) -> Response {
    let bundle = match find(name, context).await {
        Ok(bundle) => bundle,
        Err(error) => {
            super::drain(body).await;
            return error.into_response();
        }
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Err(error) = check_size(name, length.unwrap_or(0), context) {
        super::drain(body).await;
        return error.into_response();
    }
    match take(name, &bundle, body, depot, context).await {
        Ok(status) => {
            tracing::info!(bundle = name, status = status.as_u16(), "upload");
            status.into_response()
        }
        Err(error) => {
            tracing::warn!(bundle = name, error = %Chain(&error), "an upload was not taken");
            error.into_response()
        }
    }
}

/// Sends what was uploaded.
pub async fn get(
    name: &str,
    method: &Method,
    headers: &HeaderMap,
    depot: &Arc<Depot>,
    context: &Arc<Context>,
) -> Response {
    let uid = match find(name, context).await {
        Ok(bundle) => bundle.uid().unwrap_or_default(),
        // Upstream knows files, not Bundles.
        Err(Error::Type(_)) => return super::not_found(),
        Err(error) => return error.into_response(),
    };
    let (depot, method, headers) = (Arc::clone(depot), method.clone(), headers.clone());
    let opened = spawn_blocking(move || -> io::Result<Option<Response>> {
        let Some(file) = depot.find(&uid)? else { return Ok(None) };
        let metadata = file.metadata()?;
        let tag = format!("{uid}-{}-{}-{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if reply::is_known(&headers, &tag) {
            return Ok(Some(reply::known(&tag)));
        }
        reply::file(Content { file, tag }, &method, &headers).map(Some)
    });
    match opened.await.map_err(Error::Worker).and_then(|opened| opened.map_err(Error::Store)) {
        Ok(Some(response)) => response,
        Ok(None) => super::not_found(),
        Err(error) => error.into_response(),
    }
}

/// The Bundle as it is now, which may be newer than what the watch has told.
async fn find(name: &str, context: &Context) -> Result<Arc<Bundle>, Error> {
    let api: Api<Bundle> = Api::all(context.client.clone());
    let bundle = api.get(name).await.map_err(|error| Error::Bundle(error.into()))?;
    if bundle.spec.source.type_ != TYPE {
        return Err(Error::Type(bundle.spec.source.type_));
    }
    Ok(Arc::new(bundle))
}

fn check_size(name: &str, size_bytes: u64, context: &Context) -> Result<(), Error> {
    let maximum = context.limits.download_bytes;
    Ok(Limit::DownloadBytes.check(size_bytes, maximum, || format!("upload of {name}"))?)
}

async fn take(
    name: &str,
    bundle: &Bundle,
    body: Body,
    depot: &Arc<Depot>,
    context: &Arc<Context>,
) -> Result<StatusCode, Error> {
    let uid = bundle.uid().unwrap_or_default();
    let Received { file, digest } = receive(name, body, depot, context).await?;
    // From here on nobody else looks at the upload, so that what is unpacked is what was said to be taken.
    let _turn = depot.turn(&uid).await;
    if stored(&uid, depot).await? == Some(digest) {
        return Ok(StatusCode::NO_CONTENT);
    }
    // It may have been unpacked, or deleted, while the body came.
    let bundle = find(name, context).await?;
    if bundle.is_in(BundlePhase::Unpacked) || bundle.uid().as_deref() != Some(&uid) {
        return Err(Error::Unpacked);
    }
    let keep = {
        let depot = Arc::clone(depot);
        move || depot.keep(&uid, file)
    };
    spawn_blocking(keep).await?.map_err(Error::Store)?;
    bundle::received(&bundle, context).await.map_err(Error::Status)?;
    Ok(StatusCode::CREATED)
}

async fn stored(uid: &str, depot: &Arc<Depot>) -> Result<Option<Digest>, Error> {
    let (depot, uid) = (Arc::clone(depot), uid.to_owned());
    let read = move || depot.find(&uid)?.map(|mut file| depot::digest(&mut file)).transpose();
    spawn_blocking(read).await?.map_err(Error::Store)
}

/// Writes the body to disk as it comes.
async fn receive(name: &str, body: Body, depot: &Arc<Depot>, context: &Context) -> Result<Received, Error> {
    let (queue, source) = mpsc::channel(QUEUE);
    let writer = {
        let depot = Arc::clone(depot);
        spawn_blocking(move || write(&depot, source))
    };
    let fed = feed(name, body, queue, context).await;
    let written = writer.await?;
    fed?;
    written.map_err(Error::Store)
}

async fn feed(name: &str, body: Body, queue: mpsc::Sender<Bytes>, context: &Context) -> Result<(), Error> {
    let mut chunks = body.into_data_stream();
    let mut size_bytes = 0;
    while let Some(chunk) = tokio::time::timeout(IDLE, chunks.next()).await.map_err(|_| Error::Silence)? {
        let chunk = chunk.map_err(Error::Read)?;
        size_bytes += chunk.len() as u64;
        check_size(name, size_bytes, context)?;
        if queue.send(chunk).await.is_err() {
            // The writer gave up; it says why.
            return Ok(());
        }
    }
    Ok(())
}

fn write(depot: &Depot, mut source: mpsc::Receiver<Bytes>) -> io::Result<Received> {
    let mut file = depot.receive()?;
    let mut hasher = Hasher::new(Algorithm::Sha256);
    while let Some(chunk) = source.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    Ok(Received { file, digest: hasher.finish() })
}
