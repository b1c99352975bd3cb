//! The ClusterOperator `platform-operators-aggregated`: all PlatformOperators in one status, where the cluster has the kind.

mod aggregate;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, ResourceExt};
use rukpak_runtime::served::while_defined;
use rukpak_runtime::warn_first;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use self::aggregate::aggregate;
use super::context::Context;
use super::foreign::{CLUSTER_OPERATORS, ClusterOperator};
use super::metrics;

const NAME: &str = "platform-operators-aggregated";
/// Who writes its status.
const FIELD_MANAGER: &str = "platformoperator";

/// How long a write that failed is not tried again, unless something happens.
const RETRY: Duration = Duration::from_secs(30);

/// What the status says of this program.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// Version of the release.
    pub version: String,
    /// Where the program runs.
    pub namespace: String,
}

/// Keeps the metric, and the status while the cluster has the kind; endlessly.
pub(super) async fn keep(context: Arc<Context>, about: About) -> &'static str {
    context.filled.cancelled().await;
    let client = context.client.clone();
    let follow = while_defined(
        client,
        CLUSTER_OPERATORS,
        || follow(&context, &about),
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

/// Keeps the status, endlessly.
async fn follow(context: &Context, about: &About) {
    let api: Api<ClusterOperator> = Api::all(context.client.clone());
    let mut changes = pin!(watch_object(api.clone(), NAME).default_backoff());
    let mut object = None;
    let mut retry = None;
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
            () = again => {}
        }
        let is_first = retry.take().is_none();
        if let Some(seen) = &object {
            match write(&api, seen, context, about).await {
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
) -> Result<Option<ClusterOperator>, kube::Error> {
    let old = object.status.clone().unwrap_or_default();
    let status = aggregate(&context.operators.state(), &old, about, Timestamp::now());
    if status == old {
        return Ok(None);
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(NAME, &params, &Patch::Merge(patch)).await.map(Some)
}
