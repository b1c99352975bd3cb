//! From what the watches see to requests for a reconcile.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy, names};
use rukpak_runtime::probes::{self, Readiness};
use rukpak_runtime::watch::{Change, Streams};

use super::config_maps;
use crate::bundle;
use crate::context::Context;

/// Follows Bundles: each change is news for the Bundle and for the deployment that it was generated for.
pub(super) async fn bundles(streams: Streams<Bundle>, context: &Arc<Context>) {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                context.index.bundle(&object);
                context.wake.bundle(&object.name_any());
                config_maps::tell(&object, context);
                wake_owner(&object, context);
            }
            Change::Gone(object) => {
                context.index.bundle_gone(&object.name_any());
                config_maps::tell(&object, context);
                let uid = object.uid().unwrap_or_default();
                bundle::gone(&object.name_any(), &uid, context).await;
                wake_owner(&object, context);
            }
            Change::Listed { since } => {
                let all = context.bundles.state();
                context.written.listed(since, &all);
                context.failures.keep(&known(context));
                context.index.bundles(&all);
                let names: HashSet<String> = all.iter().map(|object| object.name_any()).collect();
                for name in &names {
                    context.wake.bundle(name);
                }
                context.config_maps.notify_one();
                bundle::sweep(names, context).await;
                for deployment in context.deployments.state() {
                    context.wake.deployment(&deployment.name_any());
                }
            }
        }
    }
}

/// The UIDs of all objects that are reconciled.
fn known(context: &Context) -> HashSet<String> {
    let (bundles, deployments) = (context.bundles.state(), context.deployments.state());
    let bundles = bundles.iter().filter_map(|object| object.uid());
    bundles.chain(deployments.iter().filter_map(|object| object.uid())).collect()
}

fn wake_owner(bundle: &Bundle, context: &Context) {
    for owner in bundle.owner_references().iter().filter(|owner| owner.kind == names::OWNER_KIND_VALUE) {
        context.wake.deployment(&owner.name);
    }
}

/// Follows BundleDeployments.
pub(super) async fn deployments(streams: Streams<BundleDeployment>, context: &Arc<Context>) {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                tracing::debug!(deployment = %object.name_any(), "BundleDeployment changed");
                context.index.deployment(&object);
                context.wake.deployment(&object.name_any());
                crate::deployment::wake_dependents(context, &object.name_any());
            }
            Change::Gone(object) => {
                let word = if context.shard.id().is_some() {
                    "BundleDeployment deleted, or of another shard"
                } else {
                    "BundleDeployment deleted"
                };
                tracing::info!(deployment = %object.name_any(), "{word}");
                context.index.deployment_gone(&object.name_any());
                forget(context, &object);
                crate::deployment::wake_dependents(context, &object.name_any());
                crate::deployment::wake_dependencies(context, &object);
            }
            Change::Listed { since } => {
                let all = context.deployments.state();
                context.written.listed(since, &all);
                context.failures.keep(&known(context));
                context.index.deployments(&all);
                let names: BTreeSet<String> = all.iter().map(|object| object.name_any()).collect();
                for name in &names {
                    context.wake.deployment(name);
                }
                crate::deployment::sweep(context, &names);
            }
        }
    }
}

fn forget(context: &Arc<Context>, object: &BundleDeployment) {
    let uid = object.uid().unwrap_or_default();
    context.written.forget(&uid);
    context.failures.clear(&uid);
    crate::deployment::gone(context, &object.name_any());
}

/// Tells all who wait when the stores, and the index over them, are filled.
pub(super) async fn filled(context: Arc<Context>) -> &'static str {
    context.index.listed().await;
    // Nothing is unpacked before it is known what is asked of it. The writer lives as long as the process.
    let _ = context.policies.wait_until_ready().await;
    context.filled.cancel();
    ""
}

/// Finds out whether the API types are served and the watches filled, for the readiness probe.
pub(super) async fn readiness(context: Arc<Context>, readiness: Arc<Readiness>) -> &'static str {
    const HINT: &str = "apply the CustomResourceDefinitions: kubectl apply -f manifests/install.yaml";
    let ask = || async {
        let bundles: Api<Bundle> = Api::all(context.client.clone());
        let deployments: Api<BundleDeployment> = Api::all(context.client.clone());
        let one = kube::api::ListParams::default().limit(1);
        let policies: Api<ContentPolicy> = Api::all(context.client.clone());
        bundles.list_metadata(&one).await?;
        policies.list_metadata(&one).await?;
        deployments.list_metadata(&one).await.map(|_| ())
    };
    probes::until_served(&readiness, HINT, ask).await;
    context.filled.cancelled().await;
    readiness.caches(Ok(()));
    tracing::info!("ready");
    ""
}
