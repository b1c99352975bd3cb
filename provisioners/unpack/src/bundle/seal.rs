//! The content store, from a Bundle's point of view. Disk only; everything here leaves the runtime's threads.

use std::sync::Arc;

use rukpak_content::{Digest, Tree};
use rukpak_store::{Error, Ref, RefKind, Sealed, Store};
use tokio::task::{JoinError, spawn_blocking};

use super::failure::Failure;
use super::pin::Pinned;
use crate::context::Context;
use crate::images;

/// What the store has for a pinned Bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The content, under the Bundle's ref.
    Whole,
    /// Nothing, or something damaged.
    Lost,
}

/// Puts a tree into the store.
#[tracing::instrument(level = "debug", skip_all)]
pub async fn seal(tree: Arc<impl Tree + Send + Sync + 'static>, context: &Context) -> Result<Sealed, Failure> {
    blocking(context, move |store| store.seal(&*tree)).await
}

/// Content that an image was seen to hold, if it is still here.
pub async fn hold(image: &images::Content, context: &Context) -> Result<Option<Sealed>, Failure> {
    let images::Content { digest, size_bytes } = image.clone();
    blocking(context, move |store| store.hold(&digest, size_bytes)).await
}

/// Names the content after the Bundle, so that it is kept.
pub async fn name(bundle: &str, pinned: &Pinned, context: &Context) -> Result<(), Failure> {
    let (bundle, value) = (bundle.to_owned(), ref_of(pinned));
    blocking(context, move |store| store.set_ref(RefKind::Bundle, &bundle, &value)).await
}

/// Looks for the content of a pinned Bundle.
///
/// With its ref it is taken for whole: nothing but the file's existence is looked at, so that a reconcile of an unpacked
/// Bundle costs nothing. Without (see [`super::verify_content`]) all bytes are read and compared before the ref is set again.
pub async fn find(bundle: &str, pinned: &Pinned, context: &Context) -> Result<Kept, Failure> {
    let (bundle, value, limits) = (bundle.to_owned(), ref_of(pinned), context.limits.clone());
    let look = move |store: &Store| {
        if store.get_ref(RefKind::Bundle, &bundle)?.as_ref() == Some(&value) {
            return store.contains(&value.content);
        }
        if !store.contains(&value.content)? {
            return Ok(false);
        }
        store.load(&value.content, &|_| false, &limits)?;
        store.set_ref(RefKind::Bundle, &bundle, &value).map(|()| true)
    };
    let found = blocking(context, move |store| match look(store) {
        Err(error) if error.mended_by_refill() => Ok(false),
        other => other,
    });
    Ok(if found.await? { Kept::Whole } else { Kept::Lost })
}

/// Removes the Bundle's ref.
pub async fn forget(bundle: &str, context: &Context) -> Result<(), Failure> {
    let bundle = bundle.to_owned();
    blocking(context, move |store| store.remove_ref(RefKind::Bundle, &bundle)).await.map(|_| ())
}

/// Removes all refs of Bundles for which `is_live` is false.
pub async fn forget_others(is_live: impl Fn(&str) -> bool + Send + 'static, context: &Context) -> Result<(), Failure> {
    blocking(context, move |store| {
        for name in store.refs(RefKind::Bundle)?.into_keys().filter(|name| !is_live(name)) {
            store.remove_ref(RefKind::Bundle, &name)?;
        }
        Ok(())
    })
    .await
}

fn ref_of(pinned: &Pinned) -> Ref {
    let content: Digest = pinned.content.clone();
    Ref { content, source: pinned.revision.to_string() }
}

async fn blocking<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    let store = Arc::clone(&context.store);
    let done: Result<_, JoinError> = spawn_blocking(move || work(&store)).await;
    done.map_err(Failure::Worker)?.map_err(|source| Failure::Store(Box::new(source)))
}
