//! What the process watches and looks at again by the clock, and whom each change wakes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use rukpak_crds::{BundleDeployment, ContentPolicy, Plan, PlatformOperator};
use rukpak_runtime::error::Chain;
use rukpak_runtime::probes::{self, Readiness};
use rukpak_runtime::process::Process;
use rukpak_runtime::served::while_defined;
use rukpak_runtime::watch::{Change, Streams, changes};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::args::Options;
use crate::context::Context;
use crate::dependencies::marks;
use crate::foreign::{CATALOG_SOURCES, CatalogSource};

/// Starts the watches, and what looks after catalogs.
pub(super) fn start(
    process: &mut Process,
    (operators, deployments, sources): (Streams<PlatformOperator>, Streams<BundleDeployment>, Writer<CatalogSource>),
    context: &Arc<Context>,
    options: &Options,
    readiness: Arc<Readiness>,
) {
    process.spawn(follow_operators(operators, context.clone()));
    process.spawn(follow_deployments(deployments, context.clone()));
    process.spawn(follow_sources(sources, context.clone()));
    process.spawn(poll(options.catalog_poll_interval, context.clone()));
    process.spawn(recovered(context.clone()));
    process.spawn(filled(context.clone(), readiness));
}

/// A change is news for the object itself; its end for those that wait for its package.
async fn follow_operators(streams: Streams<PlatformOperator>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                context.wake.operator(&object.name_any());
                // It may have given up a package, or be on its way out.
                context.wake.duplicates(&context.operators);
            }
            Change::Gone(object) => {
                let uid = object.uid().unwrap_or_default();
                context.written.forget(&uid);
                context.failures.clear(&uid);
                context.holds.clear(&uid);
                context.questions.forget(&uid);
                context.claims.give_up(&uid);
                context.unseen.remove(&uid);
                context.wake.all(&context.operators);
            }
            Change::Listed { since } => {
                context.written.listed(since, &context.operators.state());
                context.wake.all(&context.operators);
            }
        }
        context.dependencies.changed();
        context.seen.send_replace(());
        context.wake.aggregate();
    }
    "the watch over PlatformOperators"
}

/// A BundleDeployment is news for the PlatformOperator of its name: its owner, or one that it is in the way of.
async fn follow_deployments(streams: Streams<BundleDeployment>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                context.wake.operator(&object.name_any());
                context.wake.extensions.deployment(&object);
                context.wake.sets.deployment(&object);
                context.wake.subscribed.changed(&object);
            }
            Change::Gone(object) => {
                context.wake.extensions.deployment(&object);
                context.wake.sets.deployment(&object);
                context.wake.subscribed.gone(&object, &context.deployments.state());
                context.written.forget(&object.uid().unwrap_or_default());
                context.wake.operator(&object.name_any());
                // Its owner may have been on its way out, with others waiting for the package.
                context.wake.duplicates(&context.operators);
            }
            Change::Listed { since } => {
                context.written.listed(since, &context.deployments.state());
                context.wake.all(&context.operators);
                context.wake.extensions.all();
                context.wake.sets.all();
                context.wake.subscribed.listed(&context.deployments.state());
            }
        }
        context.dependencies.changed();
        context.seen.send_replace(());
        // Its bundle may state which version of the cluster it supports.
        context.wake.cluster_operator.notify_one();
    }
    "the watch over BundleDeployments"
}

/// Follows the Plans that ask for dependencies, and notes who needs whom once it is known which `extensions` there are.
pub(super) fn follow_dependencies(
    process: &mut Process,
    plans: Streams<Plan>,
    context: &Arc<Context>,
    extensions: CancellationToken,
) {
    process.spawn(follow_plans(plans, context.clone()));
    process.spawn(mark_dependents(context.clone(), extensions));
}

/// A Plan that asks for dependencies is news for the object that needs them.
async fn follow_plans(streams: Streams<Plan>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        context.dependencies.planned(&change);
    }
    "the watch over Plans"
}

/// Notes who needs whom, once it is known what there is.
async fn mark_dependents(context: Arc<Context>, extensions: CancellationToken) -> &'static str {
    context.filled.cancelled().await;
    extensions.cancelled().await;
    let Context { dependencies, catalogs, events, client, .. } = &*context;
    marks::keep(dependencies.clone(), catalogs.clone(), events.clone(), client.clone()).await;
    "the annotations of who needs whom"
}

/// Follows CatalogSources while the cluster has OLM.
async fn follow_sources(writer: Writer<CatalogSource>, context: Arc<Context>) -> &'static str {
    let sources = &context.catalogs.sources;
    let writer = Mutex::new(writer);
    let work = || watch_sources(&writer, &context);
    let absent = || {
        sources.set_served(false);
        sources.set_seen();
        sources.all_changed();
        context.wake.all(&context.operators);
    };
    // Once they are served, it is the watch over themselves that counts.
    let trouble = |error: &watcher::Error| {
        if !sources.are_served() {
            in_trouble(&context, error);
        }
    };
    while_defined(context.client.clone(), CATALOG_SOURCES, work, absent, trouble).await;
    "the watch over CatalogSources"
}

/// Whatever keeps CatalogSources from being seen must not keep the rest from being done.
fn in_trouble(context: &Context, error: &watcher::Error) {
    let text = Chain(error).to_string();
    tracing::warn!(error = text, "cannot watch CatalogSources; trying again");
    context.catalogs.sources.in_trouble(text);
}

async fn watch_sources(writer: &Mutex<Writer<CatalogSource>>, context: &Context) {
    let mut writer = writer.lock().await;
    let sources = &context.catalogs.sources;
    sources.set_served(true);
    let mut changes = pin!(changes(Api::all(context.client.clone()), watcher::Config::default(), &mut *writer));
    while let Some(change) = changes.next().await {
        let is_news = match change {
            Ok(Change::Present(object) | Change::Gone(object)) => sources.changed(&object),
            Ok(Change::Listed { .. }) => {
                sources.set_seen();
                sources.all_changed();
                true
            }
            Err(error) => {
                in_trouble(context, &error);
                false
            }
        };
        if is_news {
            context.catalogs.count();
            context.wake.all(&context.operators);
        }
    }
}

/// Tells all who wait when the stores are filled. They cannot each ask the stores: of several that wait for one store of
/// kube-runtime 5.0, only the last is woken.
async fn filled(context: Arc<Context>, readiness: Arc<Readiness>) -> &'static str {
    context.catalogs.sources.known.cancelled().await;
    context.catalogs.cluster.known.cancelled().await;
    if context.operators.wait_until_ready().await.is_ok() && context.deployments.wait_until_ready().await.is_ok() {
        context.filled.cancel();
        context.wake.aggregate();
        readiness.caches(Ok(()));
        tracing::info!("ready");
    }
    ""
}

/// Finds out whether the API types are served, for the readiness probe.
pub(super) async fn definitions(client: Client, readiness: Arc<Readiness>) -> &'static str {
    const HINT: &str = "apply the CustomResourceDefinitions of manifests/base/crds";
    let ask = || async {
        let operators: Api<PlatformOperator> = Api::all(client.clone());
        let deployments: Api<BundleDeployment> = Api::all(client.clone());
        let one = ListParams::default().limit(1);
        let policies: Api<ContentPolicy> = Api::all(client.clone());
        operators.list_metadata(&one).await?;
        policies.list_metadata(&one).await?;
        deployments.list_metadata(&one).await.map(|_| ())
    };
    probes::until_served(&readiness, HINT, ask).await;
    ""
}

/// Looks for new revisions of the catalogs that are read here.
async fn poll(interval: Duration, context: Arc<Context>) -> &'static str {
    context.catalogs.poll(interval, || context.wake.all(&context.operators)).await;
    ""
}

/// One who asked was answered: so can all be who asked in vain.
async fn recovered(context: Arc<Context>) -> &'static str {
    loop {
        context.catalogs.recovered().await;
        context.wake.all(&context.operators);
    }
}
