//! The CatalogSource reconciler: observe -> read (network) -> report (pure). What was read is kept in memory; a restart reads it again.
//!
//! No Pod serves an image: its file-based content is read here, and served by [`registry`](super::registry). A server is asked by its
//! address.

pub(super) mod known;
mod place;
mod report;
mod service;
pub(super) mod shown;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use rukpak_catalog::registry::server::{self, Stage};
use rukpak_catalog::{Catalog, origin};
use rukpak_content::Limits;
use rukpak_crds::olmv0::CatalogSource;
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::clock;
use rukpak_runtime::error::Chain;
use rukpak_runtime::status::StatusWriter;
use rukpak_source::image::Credentials;
use tokio::time::Instant;

use self::known::{Asked, Catalogs, Content, State};
use self::place::{Place, interval, place};
use super::context::Context;
use crate::catalogs::Server;
use crate::outcome::Error;

/// Until it is tried again to make a Service.
const NAME_AGAIN: Duration = Duration::from_mins(1);

/// One pass over a CatalogSource.
pub(super) async fn reconcile(source: Arc<CatalogSource>, context: Arc<Context>) -> Result<Action, Error> {
    let is_over = source.meta().deletion_timestamp.is_some() || !context.gate.is_open();
    if is_over || context.written.is_stale(&*source) {
        return Ok(Action::await_change());
    }
    let asked = Asked { uid: source.uid().unwrap_or_default(), place: place(&source.spec) };
    let (known, key) = (&context.catalogs.known, (source.namespace().unwrap_or_default(), source.name_any()));
    if known.is_due(&key, &asked, Instant::now()) {
        let (before, is_server) = (known.health(&key), matches!(asked.place, Ok(Place::Server(_))));
        read(&source, asked, &key, &context).await;
        let health = known.health(&key);
        // A server may tell something else of a bundle without listing other ones.
        if health != before || (is_server && health.is_ready()) {
            wake(&key.0, &context);
        }
    }
    let is_named = name(&source, &key, &context).await;
    let status = report::status(&source, &known.health(&key), known.named(&key), clock::now());
    let mut writer = StatusWriter::within(&context.client, &*source, source.status.as_ref());
    if writer.write(&status, &context.written).await.map_err(Error::Status)? {
        wake(&key.0, &context);
    }
    let due = known.due_at(&key).map(|due| due.saturating_duration_since(Instant::now()));
    let again = (!is_named).then_some(NAME_AGAIN);
    Ok(due.into_iter().chain(again).min().map_or_else(Action::await_change, Action::requeue))
}

/// Has the Service be there by which clients read what is served. Returns whether it is, or need not be.
async fn name(source: &CatalogSource, key: &(String, String), context: &Context) -> bool {
    let Catalogs { known, shown, .. } = &context.catalogs;
    let Some(shown) = shown.as_ref().filter(|_| known.is_unnamed(key)) else { return true };
    match service::ensure(source, &shown.host, context).await {
        Ok(since) => known.name(key, since),
        Err(error) => {
            let (namespace, name) = key;
            tracing::warn!(namespace, name, error, "cannot make the Service of a CatalogSource");
            return false;
        }
    }
    true
}

/// Whoever may name it looks again.
fn wake(namespace: &str, context: &Context) {
    for subscription in context.subscriptions.state() {
        if namespace == context.global || subscription.meta().namespace.as_deref() == Some(namespace) {
            context.wake.subscription(&subscription);
        }
    }
}

/// Reads the content, and notes what came of it, and when to look again.
async fn read(source: &CatalogSource, asked: Asked, key: &(String, String), context: &Context) {
    let Catalogs { known, interval: every, .. } = &context.catalogs;
    let Ok(place) = asked.place.clone() else {
        known.put(key, State::nothing(asked));
        return;
    };
    let before = known.get(key).filter(|before| before.asked.place == asked.place);
    let old = before.as_ref().and_then(|before| before.content.clone());
    let (poll, read) = match &place {
        Place::Image(reference) => (interval(&source.spec), image(reference, old.as_ref(), key, context).await),
        Place::Server(address) => (Some(*every), server(address, key).await),
    };
    let failures = if read.is_err() { before.as_ref().map_or(0, |before| before.failures) + 1 } else { 0 };
    let wait = if failures > 0 { Some(retry::delay(Class::Transient, failures)) } else { poll };
    let (fresh, failure) = match read {
        Ok(fresh) => (fresh, None),
        Err(error) => {
            let (namespace, name) = key;
            tracing::warn!(namespace, name, error, "cannot read a CatalogSource");
            (None, Some(error))
        }
    };
    let is_new = fresh.as_ref().is_some_and(|fresh| old.as_ref().is_none_or(|old| !old.is_same(fresh)));
    let read_at = if is_new { Some(clock::now()) } else { before.and_then(|before| before.read_at) };
    let due = wait.map(|wait| Instant::now() + wait);
    // It may have been deleted meanwhile, and forgotten.
    let is_there = context.sources.get(&ObjectRef::new(&key.1).within(&key.0));
    if is_there.is_none_or(|there| there.uid() != source.uid()) {
        return;
    }
    // What was read once is true of what it held, whoever cannot be reached now. Its Service is looked for as often: somebody may have
    // deleted it.
    known.put(key, State { asked, content: fresh.or(old), failure, read_at, due, failures, named: None });
}

/// What the image has; `None` if it is what is known.
async fn image(
    reference: &str,
    known: Option<&Content>,
    (namespace, name): &(String, String),
    context: &Context,
) -> Result<Option<Content>, String> {
    let revision = match known {
        Some(Content::Image { revision, .. }) => Some(revision),
        _ => None,
    };
    // The logins are the administrator's: whoever may write a CatalogSource elsewhere gets none of what they open.
    let is_global = *namespace == context.global;
    let credentials = if is_global { context.catalogs.logins.current().await } else { Credentials::anonymous() };
    let shown = context.catalogs.shown.as_ref();
    let stage = shown.map(|shown| if is_global { shown.global.clone() } else { shown.others.clone() });
    let read = move |root: &Path, limits: &Limits| files(root, limits, stage.as_ref());
    match context.catalogs.loader.image(reference, revision, &credentials, read).await {
        Ok(None) => Ok(None),
        Ok(Some(((catalog, shown), revision))) => {
            let packages = catalog.packages.len();
            let is_served = shown.is_some();
            tracing::info!(namespace, name, packages, revision = revision.0, is_served, "CatalogSource read");
            Ok(Some(Content::Image { catalog, revision, shown }))
        }
        Err(error) => Err(words(&error)),
    }
}

/// What is chosen from, and what other clients read, where that is served.
type Read = (Arc<Catalog>, Option<Arc<server::Content>>);

/// The catalog in the files below `root`, to be served from `stage`. Where that is full it is read all the same. Blocks.
fn files(root: &Path, limits: &Limits, stage: Option<&Stage>) -> Result<Read, rukpak_catalog::read::Error> {
    if let Some(stage) = stage {
        match server::Content::read(root, limits, stage).map(Arc::new) {
            Ok(content) => return Ok((content.catalog().clone(), Some(content))),
            Err(rukpak_catalog::read::Error::Io { source, .. }) if source.kind() == ErrorKind::StorageFull => {
                tracing::warn!(error = %source, "no room to serve a catalog");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((Arc::new(rukpak_catalog::read::catalog(root, limits)?), None))
}

fn words(error: &origin::Error) -> String {
    Chain(error).to_string()
}

/// What the server lists.
async fn server(address: &str, (namespace, name): &(String, String)) -> Result<Option<Content>, String> {
    let server = Server::at(format!("{name}/{namespace}"), address.to_owned());
    match server.list().await {
        Ok(listed) => Ok(Some(Content::Server { listed: Arc::new(listed), server })),
        Err(error) => Err(Chain(&error).to_string()),
    }
}
