//! The controller with a fleet: nothing to do, a restart, and hands that change objects.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::chatty;
use super::fleet::{Fleet, OBJECTS};
use super::site::Site;
use crate::report::{Row, Target, Unit};

/// Until what was begun has come to rest.
const REST: Duration = Duration::from_secs(10);
/// Until the statuses have the proof of what was repaired, which they get ten seconds later. A restart before would apply it again.
const NOTED: Duration = Duration::from_secs(15);
/// Edits that are repaired, one after the other; of each object one, for who edits again and again is left alone.
const EDITS: usize = 500;
/// Longest wait for one repair.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn measure(site: &Site, fleet: &Fleet, idle: Duration) -> Result<Vec<Row>> {
    let mut rows = vec![self::idle(site, fleet, idle).await?, chatty::measure(site, idle).await?];
    rows.extend(drift(site, fleet).await?);
    rows.extend(restart(site, fleet).await?);
    Ok(rows)
}

async fn idle(site: &Site, fleet: &Fleet, time: Duration) -> Result<Row> {
    eprintln!("bench: idle for {} s", time.as_secs());
    tokio::time::sleep(REST).await;
    let before = site.usage().await?;
    tokio::time::sleep(time).await; // the very thing that is asked for
    let usage = site.usage().await?.since(&before);
    Ok(Row {
        what: format!("idle, {} deployments, part of a core", fleet.count()),
        measured: usage.seconds_of("controller") / time.as_secs_f64() * 100.0,
        unit: Unit::Percent,
        target: Some(Target::AtMost(0.1)),
        note: format!("for {} s, renewals of the Lease among it; {usage}", time.as_secs()),
    })
}

async fn drift(site: &Site, fleet: &Fleet) -> Result<Vec<Row>> {
    let edits = EDITS.min(fleet.count() * OBJECTS);
    eprintln!("bench: {edits} hand edits");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let api: Api<DynamicObject> = Api::namespaced_with(site.admin.clone(), &site.namespace, &resource);
    let mut seen = pin!(watcher(api.clone(), watcher::Config::default()).default_backoff());
    while !matches!(seen.try_next().await.context("watch")?, Some(watcher::Event::InitDone)) {}
    let before = site.usage().await?;
    let names: Vec<&str> = fleet.names().collect();
    let mut times = Vec::with_capacity(edits);
    for index in 0..edits {
        let name = format!("{}-{:05}", names[index % names.len()], index / names.len());
        let edit = Patch::Merge(json!({"data": {"value": format!("by hand {index}")}}));
        let start = Instant::now();
        api.patch(&name, &PatchParams::default(), &edit).await.context("edit")?;
        let repaired = async {
            let mut is_edited = false;
            while let Some(event) = seen.try_next().await.context("watch")? {
                let watcher::Event::Apply(object) = event else { continue };
                if object.name_any() != name {
                    continue;
                }
                let is_by_hand = object.data["data"]["value"].as_str().is_some_and(|text| text.starts_with("by hand"));
                if is_edited && !is_by_hand {
                    break;
                }
                is_edited |= is_by_hand;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, repaired).await.with_context(|| format!("{name} was not repaired"))??;
        times.push(start.elapsed());
    }
    let usage = site.usage().await?.since(&before);
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    let row = |what: &str, percent, most| Row {
        what: format!("drift repaired, {what} of {edits} edits"),
        measured: at(percent),
        unit: Unit::Milliseconds,
        target: Some(Target::AtMost(most)),
        note: format!("from the edit to the watch that shows it undone; {usage}"),
    };
    Ok(vec![row("p50", 50, 50.0), row("p99", 99, 500.0)])
}

async fn restart(site: &Site, fleet: &Fleet) -> Result<Vec<Row>> {
    eprintln!("bench: restart");
    tokio::time::sleep(NOTED).await;
    site.world.controller.terminate().await?;
    let start = Instant::now();
    site.world.controller.restart().await?;
    let recording = site.record("restart")?;
    site.world.controller.wait_ready().await?;
    let ready = start.elapsed();
    let resting = site.usage().await?;
    let mut one = Fleet::push(site, 1).await?;
    one.install(site).await?;
    let installed = start.elapsed();
    recording.end().await?;
    one.remove(site, DeleteParams::foreground()).await?;
    Ok(vec![Row {
        what: format!("restart with {} deployments, until a new one is installed", fleet.count()),
        measured: installed.as_secs_f64(),
        unit: Unit::Seconds,
        target: Some(Target::AtMost(3.0)),
        note: format!(
            "ready after {:.2} s, with {:.0} requests, {:.0} of them writes, the Lease's among them, and {:.1} s of CPU time",
            ready.as_secs_f64(),
            resting.requests(),
            resting.writes(),
            resting.seconds_of("controller")
        ),
    }])
}
