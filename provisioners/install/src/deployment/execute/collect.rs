//! The roots of the store: the contents that a deployment may need. What no root names is collected in the background.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use rukpak_content::Digest;
use rukpak_crds::BundleDeploymentStatus;
use rukpak_runtime::error::Chain;
use rukpak_store::{Collected, Ref, RefKind, Store};
use tokio::time::Instant;

use super::approval;
use crate::context::{Context, Reads};
use crate::deployment::observe::Run;
use crate::metrics;

/// Between a deployment's name and the number of one of its contents, in the name of a ref. No name of an object has it.
const SEPARATOR: char = '~';

/// Least time between two collections of a bucket: each lists it, and reads every ref.
const BETWEEN: Duration = Duration::from_mins(10);
/// Of a folder: so many times as long as a collection took is the least time to the next. Each reads every ref, and a thousand deployments
/// that go one after the other would have it run all the time.
const REST: u32 = 9;
/// When a collection is tried again that failed.
const FAILED: Duration = Duration::from_mins(1);

/// Makes the store keep what the status says is installed, begun, or may be installed again, whatever becomes of the Bundles.
pub(in crate::deployment) async fn keep(
    run: &mut Run,
    status: &BundleDeploymentStatus,
) -> Result<(), rukpak_store::Error> {
    let mut wanted = contents(status);
    wanted.extend(approval::renderings(&run.view));
    if run.view.memory.keeps(&wanted) {
        return Ok(());
    }
    if set_refs(run, wanted.clone()).await? {
        run.view.memory.learn_kept(wanted);
    }
    Ok(())
}

/// Makes the store keep `content` as well, until a status names it.
pub(super) async fn keep_also(run: &Run, content: &Digest) -> Result<(), rukpak_store::Error> {
    let mut wanted = contents(&run.view.observed.status);
    wanted.extend(approval::renderings(&run.view));
    wanted.insert(content.clone());
    set_refs(run, wanted).await.map(|_| ())
}

/// Makes `contents` those that are kept for the deployment. Returns whether it did: not if the process ends.
async fn set_refs(run: &Run, contents: BTreeSet<Digest>) -> Result<bool, rukpak_store::Error> {
    let (store, name) = (run.view.reads.store.clone(), run.view.owner.name.clone());
    let kept = {
        let _shared = run.context.refs.read().await;
        tokio::task::spawn_blocking(move || keep_all(&store, &name, &contents)).await
    };
    let Ok(kept) = kept else { return Ok(false) };
    kept?;
    if run.view.reads.deployments.get(&ObjectRef::new(&run.view.owner.name)).is_none() {
        // It was deleted while this was written, and the event that lets its content go may have been before.
        forget_refs_of(&run.context, run.view.owner.name.clone()).await;
    }
    run.context.collect.notify_one();
    Ok(true)
}

/// What the status says is installed, begun, or may be installed again.
fn contents(status: &BundleDeploymentStatus) -> BTreeSet<Digest> {
    let inventory = status.inventory.as_ref();
    let installed = inventory.map(|inventory| [inventory.content_digest.as_ref(), inventory.rendering.as_ref()]);
    let pending = inventory.and_then(|inventory| inventory.pending.as_ref()).map(|pending| &pending.release);
    let history = status.history.iter().map(|revision| &revision.release);
    let releases = pending.into_iter().chain(history);
    let recorded = releases.map(|release| [Some(&release.content_digest), release.rendering.as_ref()]);
    installed.into_iter().chain(recorded).flatten().flatten().filter_map(|text| text.parse().ok()).collect()
}

/// One ref for each content. What the store does not have any more cannot be kept: it is fetched again when it is needed.
fn keep_all(store: &Store, deployment: &str, contents: &BTreeSet<Digest>) -> Result<(), rukpak_store::Error> {
    let had = refs_of(store, deployment)?;
    let missing = contents.iter().filter(|content| !had.values().any(|known| known == *content));
    let mut free =
        (0..).map(|number| format!("{deployment}{SEPARATOR}{number}")).filter(|name| !had.contains_key(name));
    for content in missing {
        if !store.contains(content)? {
            continue;
        }
        let Some(name) = free.next() else { break };
        store.set_ref(RefKind::Deployment, &name, &Ref { content: content.clone(), source: String::new() })?;
    }
    for (name, _) in had.iter().filter(|(_, content)| !contents.contains(content)) {
        store.remove_ref(RefKind::Deployment, name)?;
    }
    Ok(())
}

fn refs_of(store: &Store, deployment: &str) -> Result<BTreeMap<String, Digest>, rukpak_store::Error> {
    let mut own = BTreeMap::new();
    let names = store.ref_names(RefKind::Deployment, deployment)?;
    for name in names.into_iter().filter(|name| owner(name) == deployment) {
        if let Some(value) = store.get_ref(RefKind::Deployment, &name)? {
            own.insert(name, value.content);
        }
    }
    Ok(own)
}

/// The deployment that a ref is of. Earlier versions had one ref a deployment, of its name.
fn owner(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(name, |(owner, _)| owner)
}

/// A BundleDeployment is gone: garbage collection takes its objects, we forget what we know and let its content go. That may take a
/// while, as in a bucket, and whoever tells of it has more to tell.
pub fn gone(context: &Arc<Context>, name: &str) {
    context.reads.trackers.forget(name);
    context.reads.dependents.retain(&context.reads.trackers.kinds());
    let (context, name) = (context.clone(), name.to_owned());
    tokio::spawn(async move {
        // No other of that name is given content meanwhile. If there is one already, it removes what it does not need itself.
        let _alone = context.refs.write().await;
        if context.reads.deployments.get(&ObjectRef::new(&name)).is_none() {
            forget_refs_of(&context, name).await;
        }
    });
}

/// After a list: content of deployments that are not in `live` may go.
pub fn sweep(context: &Arc<Context>, live: &BTreeSet<String>) {
    context.reads.trackers.retain(live);
    context.reads.dependents.retain(&context.reads.trackers.kinds());
    let context = context.clone();
    tokio::spawn(async move {
        let _alone = context.refs.write().await;
        let live: HashSet<String> = context.reads.deployments.state().iter().map(|object| object.name_any()).collect();
        forget_refs(&context, String::new(), move |owner| !live.contains(owner)).await;
    });
}

async fn forget_refs_of(context: &Arc<Context>, deployment: String) {
    forget_refs(context, deployment.clone(), move |owner| owner == deployment).await;
}

/// Removes the refs whose names begin so, of the deployments that are gone.
async fn forget_refs(context: &Arc<Context>, begin: String, is_gone: impl Fn(&str) -> bool + Send + 'static) {
    let store = context.reads.store.clone();
    let work = move || {
        for name in store.ref_names(RefKind::Deployment, &begin)?.into_iter().filter(|name| is_gone(owner(name))) {
            store.remove_ref(RefKind::Deployment, &name)?;
        }
        Ok::<_, rukpak_store::Error>(())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => context.collect.notify_one(),
        Ok(Err(error)) => {
            tracing::warn!(error = %Chain(&error), "cannot release the content of a deleted BundleDeployment");
        }
        Err(error) => tracing::warn!(%error, "cannot release the content of a deleted BundleDeployment"),
    }
}

/// Collects in the background what no ref names any more, whenever one was removed; and what was too new then, later.
pub async fn collector(context: Arc<Context>) {
    let grace = context.reads.store.grace();
    let mut later = None;
    loop {
        tokio::select! {
            () = context.collect.notified() => {}
            () = at(later) => {}
        }
        let Some(grace) = grace else {
            let begin = Instant::now();
            collect(&context, HashSet::new()).await;
            tokio::time::sleep(begin.elapsed() * REST).await;
            continue;
        };
        // What the cluster names is known only then.
        context.filled.cancelled().await;
        let wait = match collect(&context, named(&context.reads)).await {
            Some(Collected { too_new: 0, .. }) => None,
            Some(_) => Some(grace),
            None => Some(FAILED),
        };
        later = wait.map(|wait| Instant::now() + wait);
        // Many go at once, and nothing can be removed at once.
        tokio::time::sleep(BETWEEN.min(grace / 4)).await;
    }
}

/// The contents that the cluster names.
fn named(reads: &Reads) -> HashSet<Digest> {
    let (bundles, deployments) = (reads.bundles.state(), reads.deployments.state());
    let pins = bundles.iter().filter_map(|bundle| bundle.status.as_ref()?.pin.as_ref()?.content_digest.parse().ok());
    let releases = deployments.iter().filter_map(|deployment| deployment.status.as_ref());
    let plans = reads.plans.state();
    let planned = plans.iter().filter_map(|plan| plan.spec.rendering.as_ref()?.parse().ok());
    pins.chain(releases.flat_map(contents)).chain(planned).collect()
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn collect(context: &Context, known: HashSet<Digest>) -> Option<Collected> {
    let store = context.reads.store.clone();
    match tokio::task::spawn_blocking(move || store.collect(&known)).await {
        Ok(Ok(collected)) => {
            metrics::set_store(collected);
            if collected.removed > 0 {
                tracing::info!(
                    removed = collected.removed,
                    freed_bytes = collected.freed_bytes,
                    "removed unreferenced content from the store"
                );
            }
            return Some(collected);
        }
        Ok(Err(error)) => {
            tracing::warn!(error = %Chain(&error), "cannot remove unreferenced content from the store");
        }
        Err(error) => tracing::warn!(%error, "cannot remove unreferenced content from the store"),
    }
    None
}
