//! `PUT` and `GET /uploads/<name>.tgz`: content from a client, for a Bundle whose source says so. Codes and texts are upstream's.
//!
//! ```text
//! 201  taken          204  has these very bytes already     404  no such Bundle
//! 409  not an upload Bundle, or unpacked already            413  past the limit
//! ```
//!
//! And ours, for what upstream does not bound: 408 too slow, 503 too many at once or the process stops, 507 no room.
//! No thread waits for a client: what has come is written when there is enough of it.

use std::io::{self, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::{Api, ResourceExt as _};
use rukpak_content::{Digest, Limit, LimitExceeded};
use rukpak_crds::{Bundle, BundleDeployment, BundlePhase};
use rukpak_runtime::access::Denied;
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use rukpak_runtime::reply::{self, Content};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use super::access::{self, InstalledBy, UploadOwner};
use super::slots::{Pace, Refused};
use super::{GZIP, Service};
use crate::bundle;
use crate::context::Context;
use crate::depot::{self, Depot, Received, Receiving};

const TYPE: &str = "upload";
/// What is gathered of a body before it is written.
const BATCH_BYTES: usize = 256 * 1024;
/// When to try again what cannot be done now.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Why an upload is not taken, or not sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The Bundle is not there, or cannot be looked up.
    #[error(transparent)]
    Bundle(api::Error),
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
    /// It is somebody else's.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The owner of the Bundle cannot be looked up.
    #[error("look up the BundleDeployment that the Bundle belongs to")]
    Owner(#[source] api::Error),
    /// There are too many, or it does not come fast enough.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the server is shutting down; try again")]
    Stopping,
    /// There is no room.
    #[error("failed to store bundle data: {0}")]
    Full(depot::Error),
    #[error("failed to store bundle data")]
    Store(#[source] io::Error),
    /// A thread was lost.
    #[error("failed to store bundle data: the worker thread ended early")]
    Worker(#[from] JoinError),
    /// It is stored, but the Bundle's status does not say so.
    #[error("failed to update bundle status")]
    Status(#[source] api::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Bundle(source) | Self::Status(source) => {
                let code = StatusCode::from_u16(source.code()).ok().filter(|code| !code.is_success());
                code.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Denied(Denied::Unavailable(_))
            | Self::Owner(_)
            | Self::Refused(Refused::Twice | Refused::Many(_))
            | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Denied(_) => StatusCode::FORBIDDEN,
            Self::Type(_) | Self::Unpacked => StatusCode::CONFLICT,
            Self::Limit(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Refused(Refused::Late(_) | Refused::Slow(_) | Refused::Silent) => StatusCode::REQUEST_TIMEOUT,
            Self::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Read(_) | Self::Store(_) | Self::Worker(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<depot::Error> for Error {
    fn from(error: depot::Error) -> Self {
        match error {
            depot::Error::Disk(error) => Self::Store(error),
            full @ depot::Error::Full(_) => Self::Full(full),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status(), format!("{}\n", Chain(&self))).into_response();
        if let Self::Refused(Refused::Twice | Refused::Many(_)) | Self::Stopping = self {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
        }
        response
    }
}

/// Takes an upload of `user`.
pub async fn put(name: &str, caller: UserInfo, headers: &HeaderMap, body: Body, service: &Service) -> Response {
    let Service { slots, stop, .. } = service;
    let user = caller.username.clone().unwrap_or_default();
    let mut body = body.into_data_stream();
    let refused = |error: Error, body: BodyDataStream| {
        super::discard(body);
        tracing::warn!(bundle = name, user, error = %Chain(&error), "upload refused");
        error.into_response()
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let bundle = match admit(name, &caller, length.unwrap_or(0), service).await {
        Ok(bundle) => bundle,
        Err(error) => return refused(error, body),
    };
    let uid = bundle.uid().unwrap_or_default();
    let _slot = match slots.take(&uid) {
        Ok(slot) => slot,
        Err(error) => return refused(error.into(), body),
    };
    let taken = tokio::select! {
        biased;
        // Somebody else may write from now on.
        () = stop.cancelled() => Err(Error::Stopping),
        taken = take(name, &uid, &mut body, service) => taken,
    };
    match taken {
        Ok(status) => {
            tracing::info!(bundle = name, user, status = status.as_u16(), "upload answered");
            status.into_response()
        }
        Err(error) => refused(error, body),
    }
}

/// Sends what was uploaded.
pub async fn get(name: &str, method: &Method, headers: &HeaderMap, service: &Service) -> Response {
    let bundle = match find(name, &service.context).await {
        Ok(bundle) => bundle,
        // Upstream knows files, not Bundles.
        Err(Error::Type(_)) => return super::not_found(),
        Err(error) => return error.into_response(),
    };
    let (uid, unpacked) =
        (bundle.uid().unwrap_or_default(), unpacked(&bundle).filter(|_| service.context.store.is_shared()));
    let (depot, method, headers) = (Arc::clone(&service.depot), method.clone(), headers.clone());
    let opened = spawn_blocking(move || -> io::Result<Option<Response>> {
        let Some(mut file) = depot.find(&uid)? else { return Ok(None) };
        if let Some(unpacked) = unpacked {
            if depot::digest(&mut file)?.to_string() != unpacked {
                // Another replica took an upload while this one was unpacked, and refused it too late.
                return Ok(None);
            }
            file.rewind()?;
        }
        let metadata = file.metadata()?;
        let tag = format!("{uid}-{}-{}-{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if reply::is_known(&headers, &tag) {
            return Ok(Some(reply::known(&tag)));
        }
        reply::file(Content { file, tag, media_type: GZIP, modified: None }, &method, &headers).map(Some)
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

/// Everything that is known before the body comes.
async fn admit(name: &str, caller: &UserInfo, size_bytes: u64, service: &Service) -> Result<Arc<Bundle>, Error> {
    let Service { context, depot, gate, .. } = service;
    let bundle = find(name, context).await?;
    access::check_upload(gate, caller, &owner(&bundle, context).await?).await?;
    check_size(name, size_bytes, context)?;
    depot.check_room(size_bytes)?;
    Ok(bundle)
}

/// Finds whose content an upload for the Bundle is: that of the BundleDeployment which installs it, else the Bundle's own.
async fn owner(bundle: &Bundle, context: &Context) -> Result<UploadOwner, Error> {
    let references = bundle.owner_references().iter();
    let mut owners = references.filter(|reference| BundleDeployment::is_controller(reference));
    let Some(reference) = owners.next() else {
        return Ok(UploadOwner { resource: "bundles", name: bundle.name_any(), installed_by: InstalledBy::Unasked });
    };
    let deployments: Api<BundleDeployment> = Api::all(context.client.clone());
    let found = deployments.get_opt(&reference.name).await.map_err(|error| Error::Owner(error.into()))?;
    let installed_by = match found.and_then(|deployment| deployment.spec.service_account) {
        Some(account) => InstalledBy::Account(account),
        None if context.require_service_account => InstalledBy::Controller,
        None => InstalledBy::Unasked,
    };
    Ok(UploadOwner { resource: "bundledeployments", name: reference.name.clone(), installed_by })
}

fn check_size(name: &str, size_bytes: u64, context: &Context) -> Result<(), Error> {
    let maximum = context.limits.download_bytes;
    Ok(Limit::DownloadBytes.check(size_bytes, maximum, || format!("upload of {name}"))?)
}

async fn take(name: &str, uid: &str, body: &mut BodyDataStream, service: &Service) -> Result<StatusCode, Error> {
    let Service { context, depot, .. } = service;
    let received = receive(name, body, service).await?;
    // From here on nobody else looks at the upload, so that what is unpacked is what was said to be taken.
    let _turn = depot.turn(uid).await;
    if stored(uid, service).await?.as_ref() == Some(&received.digest) {
        return Ok(StatusCode::NO_CONTENT);
    }
    // It may have been unpacked, or deleted, while the body came.
    let bundle = find(name, context).await?;
    if bundle.is_in(BundlePhase::Unpacked) || bundle.uid().as_deref() != Some(uid) {
        return Err(Error::Unpacked);
    }
    let uid = uid.to_owned();
    let (owner, digest) = (uid.clone(), received.digest.clone());
    on_disk(service, move |depot| depot.keep(&owner, received)).await?.map_err(Error::Store)?;
    // The replica that leads may have unpacked another upload meanwhile.
    let bundle = if context.store.is_shared() { find(name, context).await? } else { bundle };
    if bundle.is_in(BundlePhase::Unpacked) || bundle.uid().as_deref() != Some(&uid) {
        return if unpacked(&bundle) == Some(digest.to_string()) {
            Ok(StatusCode::CREATED)
        } else {
            Err(Error::Unpacked)
        };
    }
    bundle::on_upload(&bundle, context).await.map_err(Error::Status)?;
    Ok(StatusCode::CREATED)
}

/// The digest of the archive that was unpacked, if one was.
fn unpacked(bundle: &Bundle) -> Option<String> {
    bundle.status.as_ref()?.pin.as_ref()?.archive_digest.clone()
}

async fn stored(uid: &str, service: &Service) -> Result<Option<Digest>, Error> {
    let uid = uid.to_owned();
    let read = move |depot: &Depot| depot.find(&uid)?.map(|mut file| depot::digest(&mut file)).transpose();
    on_disk(service, read).await?.map_err(Error::Store)
}

/// Works on the disk. Few uploads do at once, and whoever stops waiting stops nothing that has begun.
async fn on_disk<T: Send + 'static>(
    Service { depot, slots, .. }: &Service,
    work: impl FnOnce(&Depot) -> T + Send + 'static,
) -> Result<T, JoinError> {
    // Never closed.
    let permit = Arc::clone(&slots.writers).acquire_owned().await;
    let depot = Arc::clone(depot);
    spawn_blocking(move || {
        let _permit = permit;
        work(&depot)
    })
    .await
}

/// Writes the body to disk as it comes.
async fn receive(name: &str, body: &mut BodyDataStream, service: &Service) -> Result<Received, Error> {
    let pace = service.slots.pace();
    let mut receiving = on_disk(service, Depot::receive).await?.map_err(Error::Store)?;
    let (mut size_bytes, mut batch) = (0, Vec::new());
    while let Some(chunk) = next(body, pace, size_bytes).await? {
        size_bytes += chunk.len() as u64;
        check_size(name, size_bytes, &service.context)?;
        batch.extend_from_slice(&chunk);
        if batch.len() >= BATCH_BYTES {
            (receiving, batch) = write(receiving, batch, service).await?;
        }
    }
    let (receiving, _) = write(receiving, batch, service).await?;
    Ok(receiving.finish())
}

async fn next(body: &mut BodyDataStream, pace: Pace, size_bytes: u64) -> Result<Option<Bytes>, Error> {
    let (at, refused) = pace.deadline(size_bytes, Instant::now());
    let chunk = timeout_at(at, body.next()).await.map_err(|_| Error::Refused(refused))?;
    chunk.transpose().map_err(Error::Read)
}

/// Returns the batch empty, to be filled again.
async fn write(mut receiving: Receiving, mut batch: Vec<u8>, service: &Service) -> Result<(Receiving, Vec<u8>), Error> {
    let work = move |depot: &Depot| {
        depot.write(&mut receiving, &batch)?;
        batch.clear();
        Ok((receiving, batch))
    };
    on_disk(service, work).await?
}
