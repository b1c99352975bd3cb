//! Resident memory of the controller: with nothing to do, with a hundred deployments, and after a restart with them.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::{self, World};
use rukpak_tests::{ImageBuilder, fixtures};

use super::created;
use super::report::{Row, Target, Unit};

/// Deployments of the loaded case.
const DEPLOYMENTS: usize = 100;
/// Objects of each.
const OBJECTS: usize = 10;
/// Text in each object.
const TEXT_BYTES: usize = 200;
/// Deployments that are made at once.
const AT_ONCE: usize = 8;
/// Until threads that wait for more work have ended and connections have gone quiet.
pub(crate) const REST: Duration = Duration::from_secs(5);
/// What an idle controller may hold.
const IDLE_MEBIBYTES: f64 = 24.0;

/// Measures in a world of its own.
pub(crate) async fn measure() -> Result<Vec<Row>> {
    eprintln!("bench: memory");
    let world = World::start(Vec::new()).await?;
    let idle = resident(&world, "memory, idle").await?;
    let peak = load(&world).await?;
    let loaded = resident(&world, &format!("memory, {DEPLOYMENTS} deployments of {OBJECTS} objects")).await?;
    world.controller.restart().await?;
    world.controller.wait_ready().await?;
    let restarted = resident(&world, &format!("memory, {DEPLOYMENTS} deployments, after a restart")).await?;
    let idle = Row { target: Some(Target::AtMost(IDLE_MEBIBYTES)), ..idle };
    let loaded = Row { note: format!("{}; peak {peak:.1} MiB", loaded.note), ..loaded };
    Ok(vec![idle, loaded, restarted])
}

/// Installs all deployments; returns the peak of resident memory, in mebibytes.
async fn load(world: &World) -> Result<f64> {
    let client = world.plane.admin().await?;
    let namespace = verbs::namespace(&client, "bench").await?;
    futures::stream::iter(0..DEPLOYMENTS)
        .map(|_| async {
            let name = unique_name("memory");
            let files = fixtures::config_maps(&namespace, &name, OBJECTS, TEXT_BYTES);
            let reference = world.push(&name, &ImageBuilder::of_files(files)).await;
            let deployment = world::deployment(&name, world::image(&reference));
            created::until(&client, &deployment, Expected::is_true("Installed", "InstallationSucceeded")).await
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    status(world, "VmHWM")
}

async fn resident(world: &World, what: &str) -> Result<Row> {
    tokio::time::sleep(REST).await;
    let (anonymous, file) = (status(world, "RssAnon")?, status(world, "RssFile")?);
    Ok(Row {
        what: what.to_owned(),
        measured: status(world, "VmRSS")?,
        unit: Unit::Mebibytes,
        target: None,
        note: format!("{anonymous:.1} MiB of its own, {file:.1} MiB of the program file"),
    })
}

/// A field of the controller's `/proc/<pid>/status`, in mebibytes.
pub(crate) fn status(world: &World, field: &str) -> Result<f64> {
    of_process(world.controller.pid().context("the controller does not run")?, field)
}

/// The peak of a process's resident memory, in mebibytes.
pub(crate) fn peak(pid: u32) -> Result<f64> {
    of_process(pid, "VmHWM")
}

fn of_process(pid: u32, field: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = value.with_context(|| format!("no {field} in {path}"))?;
    let kibibytes: f64 = value.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("read {field}"))?;
    Ok(kibibytes / 1024.0)
}
