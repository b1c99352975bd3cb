//! From what the watches see to requests for a reconcile.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy, Plan, names};
use rukpak_install::deployment;
use rukpak_runtime::probes::{self, Readiness};
use rukpak_runtime::watch::{Change, Streams};
use rukpak_unpack::bundle;
use rukpak_unpack::watch::config_maps;

/// Follows Bundles, endlessly: each change is for the Bundle and for the BundleDeployment that it was generated for.
pub(super) async fn bundles(
    streams: Streams<Bundle>,
    unpack: Arc<rukpak_unpack::Context>,
    install: Arc<rukpak_install::Context>,
) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                install.reads.index.bundle(&object);
                unpack.bundle_queue.add(&object.name_any());
                config_maps::on_change(&object, &unpack);
                enqueue_owner(&object, &install);
            }
            Change::Gone(object) => {
                install.reads.index.bundle_gone(&object.name_any());
                config_maps::on_change(&object, &unpack);
                let uid = object.uid().unwrap_or_default();
                bundle::on_deleted(&object.name_any(), &uid, &unpack).await;
                enqueue_owner(&object, &install);
            }
            Change::Listed { since } => {
                let all = unpack.bundles.state();
                unpack.written.listed(since, &all);
                unpack.failures.keep(&all.iter().filter_map(|object| object.uid()).collect());
                install.reads.index.bundles(&all);

                let names: HashSet<String> = all.iter().map(|object| object.name_any()).collect();
                for name in &names {
                    unpack.bundle_queue.add(name);
                }
                unpack.config_maps.notify_one();
                bundle::sweep(names, &unpack).await;
                for deployment in install.reads.deployments.state() {
                    install.deployment_queue.add(&deployment.name_any());
                }
            }
        }
    }
    "the watch over Bundles"
}

fn enqueue_owner(bundle: &Bundle, install: &rukpak_install::Context) {
    for owner in bundle.owner_references().iter().filter(|owner| owner.kind == names::OWNER_KIND_VALUE) {
        install.deployment_queue.add(&owner.name);
    }
}

/// Follows BundleDeployments, endlessly.
pub(super) async fn deployments(
    streams: Streams<BundleDeployment>,
    context: Arc<rukpak_install::Context>,
) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                tracing::debug!(deployment = %object.name_any(), "BundleDeployment changed");
                context.reads.index.deployment(&object);
                context.deployment_queue.add(&object.name_any());
                deployment::enqueue_dependents(&context, &object.name_any());
            }
            Change::Gone(object) => {
                let word = if context.reads.settings.shard.id().is_some() {
                    "BundleDeployment deleted, or of another shard"
                } else {
                    "BundleDeployment deleted"
                };
                tracing::info!(deployment = %object.name_any(), "{word}");
                context.reads.index.deployment_gone(&object.name_any());
                forget(&context, &object);
                deployment::enqueue_dependents(&context, &object.name_any());
                deployment::enqueue_dependencies(&context, &object);
            }
            Change::Listed { since } => {
                let all = context.reads.deployments.state();
                context.written.listed(since, &all);
                context.failures.keep(&all.iter().filter_map(|object| object.uid()).collect());
                context.reads.index.deployments(&all);

                let names: BTreeSet<String> = all.iter().map(|object| object.name_any()).collect();
                for name in &names {
                    context.deployment_queue.add(name);
                }
                deployment::sweep(&context, &names);
            }
        }
    }
    "the watch over BundleDeployments"
}

/// Follows Plans, endlessly: an answer, or the end of a Plan, has its BundleDeployment tried again at once; what else changes in a Plan has
/// its status looked at.
pub(super) async fn plans(streams: Streams<Plan>, context: Arc<rukpak_install::Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(plan) => {
                let is_answered = context.reads.index.plan(&plan);
                enqueue_asking(&context, &plan, is_answered);
            }
            Change::Gone(plan) => {
                context.reads.index.plan_gone(&plan.name_any());
                let is_over = plan.status.as_ref().is_some_and(|status| status.phase.is_over());
                enqueue_asking(&context, &plan, !is_over);
            }
            Change::Listed { .. } => {
                let all = context.reads.plans.state();
                let answered = context.reads.index.plans(&all);
                for plan in &all {
                    enqueue_asking(&context, plan, answered.iter().any(|one| Arc::ptr_eq(one, plan)));
                }
            }
        }
    }
    "the watch over Plans"
}

fn enqueue_asking(context: &rukpak_install::Context, plan: &Plan, is_answered: bool) {
    let name = &plan.spec.deployment.name;
    if is_answered {
        context.reads.trackers.answered(name);
    }
    context.deployment_queue.add(name);
}

fn forget(context: &Arc<rukpak_install::Context>, object: &BundleDeployment) {
    let uid = object.uid().unwrap_or_default();
    context.written.forget(&uid);
    context.failures.clear(&uid);
    deployment::gone(context, &object.name_any());
}

/// Tells all who wait when the stores, and the index over them, are filled.
pub(super) async fn filled(unpack: Arc<rukpak_unpack::Context>, install: Arc<rukpak_install::Context>) -> &'static str {
    install.reads.index.listed().await;
    // Nothing is unpacked before it is known what is asked of it. The writer lives as long as the process.
    let _ = unpack.policies.wait_until_ready().await;
    // Nor is anything installed before it is known what was asked, and what operators are to be told.
    let _ = install.reads.plans.wait_until_ready().await;
    install.reads.proxy.known().await;
    unpack.filled.cancel();
    ""
}

/// Finds out whether the API types are served and the watches filled, for the readiness probe.
pub(super) async fn readiness(context: Arc<rukpak_unpack::Context>, readiness: Arc<Readiness>) -> &'static str {
    const HINT: &str = "apply the CustomResourceDefinitions: kubectl apply -f manifests/install.yaml";
    let ask = || async {
        let bundles: Api<Bundle> = Api::all(context.client.clone());
        let deployments: Api<BundleDeployment> = Api::all(context.client.clone());
        let one = kube::api::ListParams::default().limit(1);
        let policies: Api<ContentPolicy> = Api::all(context.client.clone());
        let plans: Api<Plan> = Api::all(context.client.clone());
        bundles.list_metadata(&one).await?;
        policies.list_metadata(&one).await?;
        plans.list_metadata(&one).await?;
        deployments.list_metadata(&one).await.map(|_| ())
    };
    probes::until_served(&readiness, HINT, ask).await;
    context.filled.cancelled().await;
    readiness.caches(Ok(()));
    tracing::info!("ready");
    ""
}
