//! Many deployments, large ones and bad neighbours: what they cost, each beside its floor from the same run.
//!
//! ```text
//! site         a cluster of its own, the controller as it is shipped; CPU time, memory and requests of each process
//! fleet        BundleDeployments of ten objects: installed, upgraded and removed together, seen by one watch
//! floor        a bare client that applies the same objects and does nothing else
//! life         the controller alone with all of them: idle, restarted, and hand edits repaired
//! chatty       a custom resource that reports every second
//! large        one bundle of many objects, and one of large CRDs
//! prices       what one request of each kind costs the API server
//! profile      stacks of the controller, for flame graphs, and the API server's profile
//! neighbours   one image for many; small installations beside what holds others up
//! unlistable   the same beside deployments whose kind cannot be listed
//! webhook      admission reviews, as fast as they are answered
//! ```

mod chatty;
mod fleet;
mod floor;
mod large;
mod life;
mod neighbours;
mod prices;
mod profile;
mod site;
mod unlistable;
mod webhook;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use kube::api::DeleteParams;

use self::fleet::{Fleet, OBJECTS};
use self::site::Site;
use super::report::{Row, Target, Unit};

/// Sizes before the largest, which the caller chooses.
const SIZES: [usize; 3] = [1, 20, 100];
/// Deployments that bring most of what a size costs; below, a fixed part counts most.
const MANY: usize = 100;
/// Resident memory of the controller with a thousand deployments.
const MEBIBYTES: f64 = 64.0;
/// Requests for one deployment.
const REQUESTS: f64 = 14.0;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Deployments of ten objects.
    pub deployments: usize,
    /// Objects of the largest bundle.
    pub objects: usize,
    /// How long the controller is watched doing nothing.
    pub idle: Duration,
}

/// Measures in a world of its own, one thing after the other. `perf` is where stacks of the controller are kept.
pub(crate) async fn measure(wanted: Size, perf: Option<PathBuf>) -> Result<Vec<Row>> {
    let site = Site::start(perf).await?;
    let mut rows = Vec::new();
    for count in SIZES.into_iter().filter(|count| *count < wanted.deployments) {
        let (fleet, figures) = grow(&site, count).await?;
        rows.extend(figures);
        if count == MANY {
            rows.push(orphan(&site, &fleet).await?);
        } else {
            fleet.remove(&site, DeleteParams::foreground()).await?;
        }
    }
    let (fleet, figures) = grow(&site, wanted.deployments).await?;
    rows.extend(figures);
    rows.extend(life::measure(&site, &fleet, wanted.idle).await?);
    let (time, usage) = fleet.remove(&site, DeleteParams::foreground()).await?;
    rows.push(Row {
        what: format!("delete {} x {OBJECTS}", fleet.count()),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: None,
        note: format!("objects are deleted by Kubernetes' garbage collector; {usage}"),
    });
    rows.extend(large::measure(&site, wanted.objects).await?);
    rows.extend(neighbours::measure(&site).await?);
    rows.extend(webhook::measure(&site).await?);
    Ok(rows)
}

/// Measures what requests cost, in a world of its own.
pub(crate) async fn prices() -> Result<Vec<Row>> {
    prices::measure(&Site::start(None).await?).await
}

/// Deletes a fleet and leaves its objects.
async fn orphan(site: &Site, fleet: &Fleet) -> Result<Row> {
    let (time, usage) = fleet.remove(site, DeleteParams::orphan()).await?;
    Ok(Row {
        what: format!("delete {} x {OBJECTS}, orphaning", fleet.count()),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: None,
        note: format!("owner references are taken off by Kubernetes' garbage collector; {usage}"),
    })
}

/// A number of things; far fewer than a float can tell apart.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn number(count: usize) -> f64 {
    count as f64
}

/// Installs and upgrades a fleet, each beside its floor.
async fn grow(site: &Site, count: usize) -> Result<(Fleet, Vec<Row>)> {
    eprintln!("bench: {count} x {OBJECTS}");
    let mut fleet = Fleet::push(site, count).await?;
    let floor = floor::apply(site, count * OBJECTS).await?;
    let recording = site.record(&format!("install-{count}"))?;
    let (time, usage) = fleet.install(site).await?;
    recording.end().await?;
    let is_many = count >= MANY;
    let writes = fleet.bare(site).await?;
    let requests = usage.requests() / number(count);
    let install = Row {
        what: format!("install {count} x {OBJECTS}"),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: is_many.then_some(Target::AtMost(2.0 * writes.as_secs_f64())),
        note: format!(
            "2 x the same writes by a bare client, {:.2} s; its objects alone {:.2} s; {usage}",
            writes.as_secs_f64(),
            floor.as_secs_f64()
        ),
    };
    let asked = Row {
        what: format!("requests, install {count} x {OBJECTS}, each"),
        measured: requests,
        unit: Unit::Count,
        target: is_many.then_some(Target::AtMost(REQUESTS)),
        note: format!("{OBJECTS} of them are its objects"),
    };
    let memory = Row {
        what: format!("memory, {count} x {OBJECTS}"),
        measured: site.peak_mebibytes()?,
        unit: Unit::Mebibytes,
        target: is_many.then_some(Target::AtMost(MEBIBYTES)),
        note: "peak of resident memory so far".to_owned(),
    };
    let floor = floor::apply(site, count).await?;
    let recording = site.record(&format!("upgrade-{count}"))?;
    let (time, usage) = fleet.upgrade(site).await?;
    recording.end().await?;
    let requests = usage.requests() / number(count);
    let upgrade = Row {
        what: format!("upgrade {count} x {OBJECTS}, one object changes"),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: is_many.then_some(Target::AtMost(6.0 * floor.as_secs_f64())),
        note: format!(
            "6 x the changed objects alone by a bare client, which takes {:.2} s; {requests:.0} requests each; {usage}",
            floor.as_secs_f64()
        ),
    };
    Ok((fleet, vec![install, asked, memory, upgrade]))
}
