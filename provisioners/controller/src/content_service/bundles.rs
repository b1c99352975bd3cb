//! `GET /bundles/<name>.tgz`: the content of a Bundle as a `plain+v0` bundle. A plain Bundle's is sent as it lies in the store; of
//! a `registry+v1` Bundle, what it renders to without any settings. Reads the disk.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use kube::runtime::reflector::ObjectRef;
use rukpak_content::{Digest, Limits};
use rukpak_plain::Object;
use rukpak_store::{RefKind, Store};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use super::reply::{self, Content};
use crate::context::Context;
use crate::error::Chain;
use crate::format::{self, Format, Settings};

/// The one file of a rendered bundle, as upstream names it.
const MANIFEST: &str = "manifests/manifest.yaml";
/// Bundles rendered at once: each is in memory meanwhile.
static RENDERS: Semaphore = Semaphore::const_new(2);

/// Why content is not sent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The store cannot be read.
    #[error("read the content")]
    Store(#[from] rukpak_store::Error),
    /// It has no plain form without settings.
    #[error(transparent)]
    Render(Box<format::Error>),
    /// The rendered form cannot be written down.
    #[error("write down what was rendered")]
    Write(#[source] io::Error),
    /// A thread was lost.
    #[error("the worker thread ended early")]
    Worker(#[from] JoinError),
}

/// Answers.
pub async fn get(name: &str, method: &Method, headers: &HeaderMap, context: &Arc<Context>) -> Response {
    match answer(name, method, headers, context).await {
        Ok(Some(response)) => response,
        Ok(None) => super::not_found(),
        Err(error) => {
            let status = match &error {
                Error::Render(_) => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            tracing::warn!(bundle = name, error = %Chain(&error), "content is not sent");
            (status, format!("{}\n", Chain(&error))).into_response()
        }
    }
}

async fn answer(
    name: &str,
    method: &Method,
    headers: &HeaderMap,
    context: &Arc<Context>,
) -> Result<Option<Response>, Error> {
    let Some(bundle) = context.bundles.get(&ObjectRef::new(name)) else { return Ok(None) };
    let Some(format) = Format::of_class(&bundle.spec.provisioner_class_name) else { return Ok(None) };
    let Some(digest) = digest_of(name, context).await? else { return Ok(None) };
    // The digest is of what is compressed; the bytes depend on who compressed and rendered it, too.
    let tag = format!("{}-{}-{}", digest.hex(), format.renderer().replace('/', "-"), env!("CARGO_PKG_VERSION"));
    if reply::is_known(headers, &tag) {
        return Ok(Some(reply::known(&tag)));
    }
    let opened = match format {
        Format::Plain => open(digest, context).await?,
        Format::Registry => render(digest, context).await?,
    };
    let Some(file) = opened else { return Ok(None) };
    reply::file(Content { file, tag }, method, headers).map(Some).map_err(Error::Write)
}

async fn digest_of(name: &str, context: &Context) -> Result<Option<Digest>, Error> {
    let (store, name) = (Arc::clone(&context.store), name.to_owned());
    let found = spawn_blocking(move || store.get_ref(RefKind::Bundle, &name)).await??;
    Ok(found.map(|found| found.content))
}

async fn open(digest: Digest, context: &Context) -> Result<Option<File>, Error> {
    let store = Arc::clone(&context.store);
    spawn_blocking(move || present(store.open_content(&digest))).await?
}

async fn render(digest: Digest, context: &Context) -> Result<Option<File>, Error> {
    // Never closed.
    let _permit = RENDERS.acquire().await;
    let (store, limits) = (Arc::clone(&context.store), context.limits.clone());
    let certificates = context.bundle_certificates;
    let settings = Settings { config: None, certificates, ignores_dependencies: true };
    spawn_blocking(move || rendered(&store, &digest, &limits, &settings)).await?
}

fn rendered(store: &Store, digest: &Digest, limits: &Limits, settings: &Settings) -> Result<Option<File>, Error> {
    let loaded = store.load(digest, &|path| Format::Registry.has_part(path), limits);
    let Some(tree) = present(loaded)? else { return Ok(None) };
    let rendered = Format::Registry.render(&tree, limits, settings).map_err(|error| Error::Render(Box::new(error)))?;
    let file = tempfile::tempfile_in(store.stage_dir()).map_err(Error::Write)?;
    archive(&rendered.objects, file, store).map(Some).map_err(Error::Write)
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
fn archive(objects: &[Object], file: File, store: &Store) -> io::Result<File> {
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
    builder.into_inner()?.finish()
}

fn append(
    builder: &mut tar::Builder<GzEncoder<File>>,
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
