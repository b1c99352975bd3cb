//! The ClusterOperator `platform-operators-aggregated`: all PlatformOperators in one status, where the cluster has the kind, and
//! whether what they and ClusterExtensions have installed supports the cluster's next version.

mod aggregate;
mod upgradeable;

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::watch_object;
use kube::{Api, ResourceExt};
use rukpak_runtime::clock;
use rukpak_runtime::served::while_defined;
use rukpak_runtime::warn_first;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::aggregate::{UPGRADEABLE, aggregate};
use super::context::Context;
use super::dependencies::{Dependent, Release};
use super::follow::Optional;
use super::foreign::{CLUSTER_OPERATORS, CLUSTER_VERSIONS, ClusterOperator, ClusterVersion};
use super::metrics;

const NAME: &str = "platform-operators-aggregated";
/// The only ClusterVersion.
const CLUSTER_VERSION: &str = "version";
/// Who writes its status.
const FIELD_MANAGER: &str = "platformoperator";

/// How long a write that failed is not tried again, unless something happens.
const RETRY: Duration = Duration::from_secs(30);

/// What `Upgradeable` is decided by: the version of the cluster, and a token that is cancelled when all ClusterExtensions are known.
type Upgrades<'a> = (&'a Store<ClusterVersion>, &'a CancellationToken);

/// What the status says of this program.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// Version of the release.
    pub version: String,
    /// Where the program runs.
    pub namespace: String,
}

/// Keeps the metric, and the status while the cluster has the kind; endlessly. `extensions` is cancelled when it is known which
/// ClusterExtensions there are: before, `Upgradeable` stays as it is.
pub(super) async fn keep(context: Arc<Context>, about: About, extensions: CancellationToken) -> &'static str {
    context.filled.cancelled().await;
    let client = context.client.clone();
    let follow = while_defined(
        client,
        CLUSTER_OPERATORS,
        || follow(&context, &about, &extensions),
        || (),
        |error| {
            tracing::debug!(%error, "watch over the definition of ClusterOperators interrupted; resuming");
        },
    );
    tokio::join!(follow, count(&context));
    "the ClusterOperator"
}

/// Keeps the metric, endlessly.
async fn count(context: &Context) {
    loop {
        context.wake.counted.notified().await;
        let operators = context.operators.state();
        let failing = operators.iter().filter(|operator| operator.failing_reason().is_some()).count();
        metrics::set_platform_operators(operators.len() - failing, failing);
    }
}

/// Keeps the status, endlessly, with the version of the cluster as last seen.
async fn follow(context: &Context, about: &About, extensions: &CancellationToken) {
    let versions = Optional::<ClusterVersion>::new(context.client.clone(), CLUSTER_VERSIONS);
    let (store, wake) = (versions.store.clone(), context.wake.cluster_operator.clone());
    let watched = versions.follow(CancellationToken::new(), move |_| wake.notify_one());
    tokio::select! {
        () = watched => {}
        () = keep_status(context, about, (&store, extensions)) => {}
    }
}

/// Keeps the status, endlessly.
async fn keep_status(context: &Context, about: &About, (versions, extensions): Upgrades<'_>) {
    let api: Api<ClusterOperator> = Api::all(context.client.clone());
    let mut changes = pin!(watch_object(api.clone(), NAME).default_backoff());
    let mut object = None;
    let mut retry = None;
    let mut are_known = extensions.is_cancelled();
    loop {
        let again = async {
            match retry {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(seen)) => object = seen,
                Some(Err(error)) => tracing::debug!(%error, "watch over the ClusterOperator interrupted; resuming"),
                None => return,
            },
            () = context.wake.cluster_operator.notified() => {}
            () = extensions.cancelled(), if !are_known => are_known = true,
            () = again => {}
        }
        let is_first = retry.take().is_none();
        if let Some(seen) = &object {
            match write(&api, seen, context, about, (versions, extensions)).await {
                Ok(written) => object = written.or(object),
                // The watch shows the newer one.
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
                Err(error) => {
                    warn_first!(is_first, %error, "cannot write the status of the ClusterOperator; will retry");
                    retry = Some(Instant::now() + RETRY);
                }
            }
        }
    }
}

/// Writes the status if it is another one. Returns the object as it is then.
async fn write(
    api: &Api<ClusterOperator>,
    object: &ClusterOperator,
    context: &Context,
    about: &About,
    (versions, extensions): Upgrades<'_>,
) -> Result<Option<ClusterOperator>, kube::Error> {
    let old = object.status.clone().unwrap_or_default();
    let version = versions.get(&ObjectRef::new(CLUSTER_VERSION)).and_then(|version| upgradeable::current(&version));
    let stated = newest_supported(context);
    let supported = match version {
        _ if !extensions.is_cancelled() => None,
        Some(version) => Some(upgradeable::check_next(&stated, version)),
        // Nothing is left that could object.
        None if stated.is_empty() && old.conditions.iter().any(|known| known.type_ == UPGRADEABLE) => Some(Ok(())),
        None => None,
    };
    let status = aggregate(&context.operators.state(), &old, about, supported, clock::now());
    if status == old {
        return Ok(None);
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(NAME, &params, &Patch::Merge(patch)).await.map(Some)
}

/// The newest OpenShift that each installed bundle says to support, by who has it installed: PlatformOperators, ClusterExtensions and
/// Subscriptions. Whoever may make a BundleDeployment, or a Subscription whose OperatorGroup names a ServiceAccount, must not be able to
/// block the cluster by it.
fn newest_supported(context: &Context) -> BTreeMap<String, Vec<Value>> {
    let mut supported = BTreeMap::new();
    for deployment in context.deployments.state() {
        let inventory = deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
        let properties = inventory.iter().flat_map(|inventory| &inventory.properties);
        let stated = properties.filter(|property| property.type_ == upgradeable::PROPERTY);
        let values: Vec<Value> = stated.map(|property| property.value["version"].clone()).collect();
        if values.is_empty() {
            continue;
        }
        let Some(Release { holder, bundle, .. }) = context.dependencies.release(&deployment) else { continue };
        let is_trusted = match holder {
            Dependent::Operator(_) | Dependent::Extension(_) => true,
            Dependent::Subscription(..) => deployment.spec.service_account.is_none(),
            Dependent::Deployment(_) => false,
        };
        if is_trusted {
            supported.insert(format!("{holder} ({bundle})"), values);
        }
    }
    supported
}
