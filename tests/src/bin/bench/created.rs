//! The clock of the system's runs: from a creation to a condition, seen by a watch that was there before.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::Value;

/// Longest wait for one condition.
const PATIENCE: Duration = Duration::from_mins(2);

/// The API of one of our own kinds.
pub(crate) fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("core.rukpak.io", "v1alpha1", kind));
    Api::all_with(client.clone(), &resource)
}

/// Creates the Bundle or BundleDeployment `object` and returns how long it took until a watch showed the condition.
///
/// # Errors
/// With the object, its events and the logs, where that takes longer than two minutes.
pub(crate) async fn until(client: &Client, object: &Value, expected: Expected<'_>) -> Result<Duration> {
    let Ok(time) = tokio::time::timeout(PATIENCE, watched(client, object, expected)).await else {
        let target = Target::of(object)?;
        bail!("{target}: no {expected:?} after {PATIENCE:?}\n{}", verbs::diagnose(client, &target).await)
    };
    time
}

async fn watched(client: &Client, object: &Value, expected: Expected<'_>) -> Result<Duration> {
    let Target { kind, name, .. } = Target::of(object)?;
    let api = api(client, &kind);
    let new: DynamicObject = serde_json::from_value(object.clone())?;
    let mut seen = pin!(watcher::watch_object(api.clone(), &name).default_backoff());
    // Its absence: where the watch starts from is settled before the clock starts.
    seen.try_next().await.context("watch")?;
    let start = Instant::now();
    let create = async { api.create(&PostParams::default(), &new).await.context("create") };
    let wait = async {
        while let Some(object) = seen.next().await {
            if object.context("watch")?.is_some_and(|object| expected.met_by(&object)) {
                return Ok(start.elapsed());
            }
        }
        bail!("the watch ended")
    };
    Ok(futures::future::try_join(create, wait).await?.1)
}
