//! `GET /bundles/<name>.tgz`: the content of a Bundle as a `plain+v0` bundle. A plain Bundle's is sent as it lies in the store; of
//! a `registry+v1` Bundle, what it renders to without any settings; with `?form=source` as it lies in the store, too. A chart is always
//! sent as it lies in the store. Reads the disk, and the Bundle as it is now: another one may have had its name.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use kube::Api;
use rukpak_content::Digest;
use rukpak_crds::Bundle;
use rukpak_format::{self as format, BundleFormat as _, Format, Settings};
use rukpak_plain::Object;
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use rukpak_runtime::reply::{self, Content};
use rukpak_store::{RefKind, Store};
use tempfile::NamedTempFile;
use tokio::task::{JoinError, spawn_blocking};

use super::uploads::RETRY_AFTER;
use super::{GZIP, Service};
use crate::context::Context;

/// The one file of a rendered bundle, as upstream names it.
const MANIFEST: &str = "manifests/manifest.yaml";

/// The query that asks for the files of a Bundle, whatever its format.
const SOURCE_FORM: &str = "form=source";

/// Why content is not sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The Bundle cannot be looked up.
    #[error("look up the bundle; try again")]
    Bundle(#[source] api::Error),
    /// The store does not have it, or not yet: another process led before, or it was lost.
    #[error("its content is not here at the moment; the status of the bundle says more; try again later")]
    Missing,
    /// The store cannot be read.
    #[error("read the content")]
    Store(#[from] rukpak_store::Error),
    /// It has no plain form without settings.
    #[error(transparent)]
    Render(Box<format::Error>),
    /// The rendered form cannot be written down.
    #[error("write down what was rendered")]
    Write(#[from] io::Error),
    /// A thread was lost.
    #[error("the worker thread ended early")]
    Worker(#[from] JoinError),
}

pub async fn get(name: &str, query: Option<&str>, method: &Method, headers: &HeaderMap, service: &Service) -> Response {
    let is_source = query == Some(SOURCE_FORM);
    match answer(name, is_source, method, headers, service).await {
        Ok(Some(response)) => response,
        Ok(None) => super::not_found(),
        Err(error) => {
            let status = match &error {
                Error::Bundle(_) | Error::Missing => StatusCode::SERVICE_UNAVAILABLE,
                Error::Render(_) => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let mut response = (status, format!("{}\n", Chain(&error))).into_response();
            if matches!(error, Error::Missing) {
                // Clients ask again and again; that content was lost is logged where it is noticed.
                tracing::debug!(bundle = name, error = %Chain(&error), "cannot send the content of a Bundle");
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
            } else {
                tracing::warn!(bundle = name, error = %Chain(&error), "cannot send the content of a Bundle");
            }
            response
        }
    }
}

async fn answer(
    name: &str,
    is_source: bool,
    method: &Method,
    headers: &HeaderMap,
    service: &Service,
) -> Result<Option<Response>, Error> {
    let context = &service.context;
    let bundles: Api<Bundle> = Api::all(context.client.clone());
    let found = bundles.get_opt(name).await.map_err(|error| Error::Bundle(error.into()))?;
    let Some(bundle) = found else { return Ok(None) };
    let Some(format) = Format::of_class(&bundle.spec.provisioner_class_name) else { return Ok(None) };
    let Some(digest) = digest_of(name, &bundle, context).await? else { return Ok(None) };
    // The digest is of what is compressed; the bytes depend on who compressed and rendered it, too.
    let form = if is_source { "source".to_owned() } else { format.renderer().replace('/', "-") };
    let tag = format!("{}-{form}-{}", digest.hex(), env!("CARGO_PKG_VERSION"));
    if reply::is_known(headers, &tag) {
        return Ok(Some(reply::known(&tag)));
    }
    let opened = match format {
        Format::Registry if !is_source => {
            let context = Arc::clone(context);
            service.renders.get(&tag, move || rendered(&digest, &context)).await??
        }
        Format::Plain | Format::Registry | Format::Helm => open(digest, context).await?,
    };
    let file = opened.ok_or(Error::Missing)?;
    reply::file(Content { file, tag, media_type: GZIP, modified: None }, method, headers)
        .map(Some)
        .map_err(Error::Write)
}

/// The content that this very Bundle was unpacked to. What the store has under the name alone may be what another Bundle left
/// that bore it before; what the pin alone names may be any content at all. `None` where it has not been unpacked.
async fn digest_of(name: &str, bundle: &Bundle, context: &Context) -> Result<Option<Digest>, Error> {
    let pin = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
    let Some(pinned) = pin.and_then(|pin| pin.content_digest.parse::<Digest>().ok()) else { return Ok(None) };
    let (store, name) = (Arc::clone(&context.store), name.to_owned());
    let found = spawn_blocking(move || store.get_ref(RefKind::Bundle, &name)).await??;
    let found = found.map(|found| found.content).filter(|content| *content == pinned);
    found.map(Some).ok_or(Error::Missing)
}

async fn open(digest: Digest, context: &Context) -> Result<Option<File>, Error> {
    let store = Arc::clone(&context.store);
    spawn_blocking(move || present(store.open_content(&digest))).await?
}

fn rendered(digest: &Digest, context: &Context) -> Result<Option<NamedTempFile>, Error> {
    let Context { store, limits, bundle_certificates: certificates, .. } = context;
    let settings = Settings { certificates: *certificates, ignores_dependencies: true, ..Settings::default() };
    let loaded = store.load(digest, &|path| Format::Registry.has_part(path), limits);
    let Some(tree) = present(loaded)? else { return Ok(None) };
    let rendered = Format::Registry.render(&tree, limits, &settings).map_err(|error| Error::Render(Box::new(error)))?;
    let mut file = NamedTempFile::new_in(store.stage_dir())?;
    archive(&rendered.objects, file.as_file_mut(), store)?;
    Ok(Some(file))
}

/// What the store has; content that is lost is on its way back.
fn present<T>(found: Result<T, rukpak_store::Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(rukpak_store::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A tar.gz with all objects in one file. The same objects make the same bytes.
fn archive(objects: &[Object], file: &mut File, store: &Store) -> io::Result<()> {
    let mut manifest = tempfile::tempfile_in(store.stage_dir())?;
    let mut text = io::BufWriter::new(&mut manifest);
    for object in objects {
        let yaml = serde_saphyr::to_string(object).map_err(io::Error::other)?;
        write!(text, "---\n{yaml}")?;
    }
    text.flush()?;
    drop(text);
    let size = manifest.stream_position()?;
    manifest.rewind()?;
    let mut builder = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    append(&mut builder, "manifests/", tar::EntryType::Directory, 0, &mut io::empty())?;
    append(&mut builder, MANIFEST, tar::EntryType::Regular, size, &mut manifest)?;
    builder.into_inner()?.finish().map(|_| ())
}

fn append(
    builder: &mut tar::Builder<GzEncoder<&mut File>>,
    path: &str,
    kind: tar::EntryType,
    size: u64,
    body: &mut dyn io::Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(if kind.is_dir() { 0o755 } else { 0o644 });
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    builder.append_data(&mut header, path, body)
}
