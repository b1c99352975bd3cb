//! From what the watches see to requests for a reconcile.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy, Plan};
use rukpak_install::watch;
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
        watch::note_bundle(&change, &install);
        match &change {
            Change::Present(object) => {
                unpack.bundle_queue.add(&object.name_any());
                config_maps::on_change(object, &unpack);
            }
            Change::Gone(object) => {
                config_maps::on_change(object, &unpack);
                let uid = object.uid().unwrap_or_default();
                bundle::on_deleted(&object.name_any(), &uid, &unpack).await;
            }
            Change::Listed { since } => {
                let all = unpack.bundles.state();
                unpack.written.listed(*since, &all);
                unpack.failures.keep(&all.iter().filter_map(|object| object.uid()).collect());

                let names: HashSet<String> = all.iter().map(|object| object.name_any()).collect();
                for name in &names {
                    unpack.bundle_queue.add(name);
                }
                unpack.config_maps.notify_one();
                bundle::sweep(names, &unpack).await;
            }
        }
        watch::enqueue_owners(&change, &install);
    }
    "the watch over Bundles"
}

/// Tells all who wait when the stores, and the index over them, are filled.
pub(super) async fn filled(unpack: Arc<rukpak_unpack::Context>, install: Arc<rukpak_install::Context>) -> &'static str {
    watch::known(&install).await;
    // Nothing is unpacked before it is known what is asked of it. The writer lives as long as the process.
    let _ = unpack.policies.wait_until_ready().await;
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
