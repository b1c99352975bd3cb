//! Many PlatformOperators on a catalog of real size: from their creation until each has its BundleDeployment.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rukpak_tests::plane::install::InstallOptions;
use rukpak_tests::{Plane, PlaneOptions, PlatformOptions, tools, verbs, world};
use serde_json::json;

use super::synthetic;
use crate::created;
use crate::memory;
use crate::report::{Row, Unit};

const OPERATORS: usize = 300;
/// Requests under way at once.
const IN_FLIGHT: usize = 16;
/// Longest wait for all.
const PATIENCE: Duration = Duration::from_mins(5);

/// In a cluster without `rukpak-controller`: nobody unpacks the images, which do not exist.
pub(crate) async fn measure() -> Result<Vec<Row>> {
    eprintln!("bench: {OPERATORS} PlatformOperators");
    let folder = tools::temp_folder("operators")?;
    synthetic::make(folder.path()).context("write the catalog")?;
    let plane = Plane::start_with(PlaneOptions::default()).await?;
    plane.install(&InstallOptions { without_webhooks: true, ..InstallOptions::with_platform() }).await?;
    let arguments = vec![format!("--catalog=large=dir:{}", folder.path().join("catalog").display())];
    let manager = plane.start_platform(PlatformOptions { arguments, ..PlatformOptions::default() }).await?;
    manager.wait_ready().await?;
    let client = plane.admin().await?;
    let floor = floor(&client).await?;
    let time = until_chosen(&client).await?;
    let pid = manager.pid().context("the manager does not run")?;
    let bundles = synthetic::PACKAGES * synthetic::BUNDLES;
    let time = Row {
        what: format!("{OPERATORS} PlatformOperators, until each has its BundleDeployment"),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: None,
        note: format!(
            "a catalog of {} packages and {bundles} bundles; a bare client creates as many BundleDeployments in {:.2} s",
            synthetic::PACKAGES,
            floor.as_secs_f64()
        ),
    };
    let memory = Row {
        what: format!("memory of rukpak-platform, {OPERATORS} PlatformOperators"),
        measured: memory::peak(pid)?,
        unit: Unit::Mebibytes,
        target: None,
        note: "peak of resident memory, the catalog loaded from a folder".to_owned(),
    };
    Ok(vec![time, memory])
}

/// Creates as many BundleDeployments, and removes them when the clock has stopped.
async fn floor(client: &Client) -> Result<Duration> {
    let api = created::api(client, "BundleDeployment");
    let start = Instant::now();
    futures::stream::iter(0..OPERATORS)
        .map(|index| {
            let api = &api;
            let object = world::deployment(&format!("floor-{index}"), world::image("registry.example.com/none:1"));
            async move { api.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("create") }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let time = start.elapsed();
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.context("delete")?;
    for index in 0..OPERATORS {
        let gone = verbs::Target::bundle_deployment(&format!("floor-{index}"));
        verbs::await_deleted(client, &gone, PATIENCE).await?;
    }
    Ok(time)
}

async fn until_chosen(client: &Client) -> Result<Duration> {
    let kind = GroupVersionKind::gvk("platform.openshift.io", "v1alpha1", "PlatformOperator");
    let operators: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let deployments = created::api(client, "BundleDeployment");
    let mut seen = pin!(watcher(deployments, watcher::Config::default()).default_backoff());
    while !matches!(seen.try_next().await.context("watch")?, Some(watcher::Event::InitDone)) {}
    let start = Instant::now();
    let create =
        futures::stream::iter(0..OPERATORS)
            .map(|index| {
                let (name, operators) = (format!("package-{index:03}"), &operators);
                let object = json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
                "metadata": {"name": name}, "spec": {"package": {"name": name}}});
                async move {
                    operators.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("create")
                }
            })
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(|_| std::future::ready(Ok(())));
    let chosen = async {
        let mut names = std::collections::BTreeSet::new();
        while names.len() < OPERATORS {
            if let watcher::Event::Apply(object) = seen.try_next().await.context("watch")?.context("the watch ended")? {
                names.insert(object.metadata.name);
            }
        }
        anyhow::Ok(start.elapsed())
    };
    let Ok(done) = tokio::time::timeout(PATIENCE, futures::future::try_join(create, chosen)).await else {
        bail!("not every PlatformOperator has a BundleDeployment after {PATIENCE:?}")
    };
    Ok(done?.1)
}
