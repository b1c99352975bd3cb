//! Our own objects: from what their watches see to requests for a reconcile.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::ResourceExt;
use rukpak_crds::{Bundle, BundleDeployment, Plan, names};
use rukpak_runtime::watch::{Change, Streams};

use crate::context::Context;
use crate::deployment;

/// Notes whom a Bundle is of. Before anybody is told of the change.
pub fn note_bundle(change: &Change<Bundle>, context: &Context) {
    match change {
        Change::Present(bundle) => context.reads.index.bundle(bundle),
        Change::Gone(bundle) => context.reads.index.bundle_gone(&bundle.name_any()),
        Change::Listed { .. } => context.reads.index.bundles(&context.reads.bundles.state()),
    }
}

/// Enqueues the BundleDeployment that a Bundle was generated for; after a list, all of them.
pub fn enqueue_owners(change: &Change<Bundle>, context: &Context) {
    match change {
        Change::Present(bundle) | Change::Gone(bundle) => {
            let owners = bundle.owner_references().iter().filter(|owner| owner.kind == names::OWNER_KIND_VALUE);
            for owner in owners {
                context.deployment_queue.add(&owner.name);
            }
        }
        Change::Listed { .. } => {
            for deployment in context.reads.deployments.state() {
                context.deployment_queue.add(&deployment.name_any());
            }
        }
    }
}

/// Follows BundleDeployments, endlessly.
pub async fn deployments(streams: Streams<BundleDeployment>, context: Arc<Context>) -> &'static str {
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
pub async fn plans(streams: Streams<Plan>, context: Arc<Context>) -> &'static str {
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

/// Waits until all is known without which nothing is installed: what there is, what was asked, and what operators are to be told.
pub async fn known(context: &Context) {
    context.reads.index.listed().await;
    // The writer lives as long as the process.
    let _ = context.reads.plans.wait_until_ready().await;
    context.reads.proxy.known().await;
}

fn enqueue_asking(context: &Context, plan: &Plan, is_answered: bool) {
    let name = &plan.spec.deployment.name;
    if is_answered {
        context.reads.trackers.end_wait(name);
    }
    context.deployment_queue.add(name);
}

fn forget(context: &Arc<Context>, object: &BundleDeployment) {
    let uid = object.uid().unwrap_or_default();
    context.written.forget(&uid);
    context.failures.clear(&uid);
    deployment::gone(context, &object.name_any());
}
