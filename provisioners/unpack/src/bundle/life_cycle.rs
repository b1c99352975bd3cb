//! What is done for a Bundle between its reconciles: its content is lost, a client uploads, it is gone.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::Bundle;
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use tokio::task::spawn_blocking;

use super::report::Report;
use super::reporter::Reporter;
use super::{backoff, seal};
use crate::context::Context;

/// Verifies the content of the Bundle `name`, and fetches it again if it is damaged. Call it if loading the content failed with an error
/// that is [`mended_by_refill`](rukpak_store::Error::mended_by_refill). The owning BundleDeployment is enqueued when the content is there.
pub async fn verify_content(name: &str, context: &Context) {
    if let Err(failure) = seal::forget(name, context).await {
        tracing::warn!(bundle = name, error = %Chain(&failure), "cannot remove the reference of a Bundle from the store");
    }
    context.bundle_queue.add(name);
}

/// Retries a failed Bundle now: the cause of the failure is gone.
pub fn retry(bundle: &Bundle, context: &Context) {
    let uid = bundle.uid().unwrap_or_default();
    context.failures.clear(&uid);
    backoff::ATTEMPTS.clear(&uid);
    context.bundle_queue.add(&bundle.name_any());
}

/// Reports that a client has uploaded the content of a Bundle, and enqueues the Bundle. Call it in the Bundle's turn at the depot.
///
/// # Errors
/// The status could not be written; the Bundle is looked at all the same.
pub async fn on_upload(bundle: &Arc<Bundle>, context: &Arc<Context>) -> Result<(), api::Error> {
    let written = Reporter::new(bundle, context).end(&Report::Received).await;
    retry(bundle, context);
    written.map(|_| ())
}

/// Forgets a deleted Bundle: what only it named leaves the store.
pub async fn on_deleted(name: &str, uid: &str, context: &Context) {
    context.failures.clear(uid);
    context.written.forget(uid);
    backoff::ATTEMPTS.clear(uid);
    backoff::SEARCHES.clear(uid);
    if let Err(error) = context.attempts.forget(uid) {
        tracing::warn!(bundle = name, %error, "cannot remove the record of attempts to unpack a deleted Bundle");
    }
    discard_upload(uid, context).await;
    // Another Bundle may bear the name by now; the ref is its own, or will be.
    if context.bundles.get(&ObjectRef::new(name)).is_some_and(|other| other.uid().as_deref() != Some(uid)) {
        return;
    }
    release(name, context).await;
}

/// Nobody needs what the store keeps under the name of this Bundle.
pub async fn release(name: &str, context: &Context) {
    if let Err(failure) = seal::forget(name, context).await {
        tracing::warn!(bundle = name, error = %Chain(&failure), "cannot remove the reference of a deleted Bundle from the store");
    }
    context.collect.notify_one();
}

async fn discard_upload(uid: &str, context: &Context) {
    let Some(uploads) = context.uploads.clone() else { return };
    let uid = uid.to_owned();
    if let Ok(Err(error)) = spawn_blocking(move || uploads.remove(&uid)).await {
        tracing::warn!(%error, "cannot remove the upload of a deleted Bundle");
    }
}

/// Removes what Bundles left behind that went while nobody looked. `live` are the names of all Bundles.
pub async fn sweep<S: BuildHasher + Send + 'static>(live: HashSet<String, S>, context: &Context) {
    if let Err(failure) = seal::forget_others(move |name| live.contains(name), context).await {
        tracing::warn!(error = %Chain(&failure), "cannot remove references of deleted Bundles from the store");
    }
    let uids = context.bundles.state().iter().filter_map(|bundle| bundle.uid()).collect();
    if let Err(error) = context.attempts.sweep(&uids) {
        tracing::warn!(%error, "cannot remove records of attempts to unpack deleted Bundles");
    }
    context.collect.notify_one();
}
