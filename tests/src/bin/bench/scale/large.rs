//! One bundle of many objects, and one of large CRDs.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use rukpak_tests::verbs::{Expected, Target as Object, unique_name};
use rukpak_tests::world;
use rukpak_tests::{ImageBuilder, fixtures, verbs};
use serde_json::{Value, json};

use super::floor;
use super::site::{Site, Usage};
use crate::created;
use crate::memory;
use crate::report::{Row, Target, Unit};

/// Sizes before the largest, which the caller chooses.
const SIZES: [usize; 2] = [500, 5_000];
/// Objects of one file: bundles have fewer files than objects.
const OF_A_FILE: usize = 100;
const TEXT_BYTES: usize = 200;
/// CRDs of one bundle, and the text in each.
const DEFINITIONS: usize = 20;
const DEFINITION_BYTES: usize = 600 << 10;
/// Resident memory of the controller with the largest, and when it is gone.
const MEBIBYTES: f64 = 128.0;
const MEBIBYTES_AFTERWARDS: f64 = 64.0;
/// Longest wait for an upgrade or a deletion.
const PATIENCE: Duration = Duration::from_mins(5);

pub async fn measure(site: &Site, largest: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for objects in SIZES.into_iter().filter(|objects| *objects < largest).chain([largest]) {
        rows.extend(config_maps(site, objects).await?);
    }
    rows.push(Row {
        what: format!("memory, 1 x {largest}"),
        measured: site.peak_mebibytes()?,
        unit: Unit::Mebibytes,
        target: Some(Target::AtMost(MEBIBYTES)),
        note: "peak of resident memory since the restart".to_owned(),
    });
    rows.push(afterwards(site, largest).await?);
    rows.push(definitions(site).await?);
    Ok(rows)
}

/// What the controller still holds when the largest is deleted.
async fn afterwards(site: &Site, largest: usize) -> Result<Row> {
    tokio::time::sleep(memory::REST).await;
    Ok(Row {
        what: format!("memory, 1 x {largest}, afterwards"),
        measured: memory::status(&site.world, "VmRSS")?,
        unit: Unit::Mebibytes,
        target: Some(Target::AtMost(MEBIBYTES_AFTERWARDS)),
        note: format!("resident, of which {:.1} MiB of its own", memory::status(&site.world, "RssAnon")?),
    })
}

/// Installs a bundle of so many ConfigMaps, and upgrades it to one where one of them is otherwise.
async fn config_maps(site: &Site, objects: usize) -> Result<Vec<Row>> {
    eprintln!("bench: 1 x {objects}");
    let name = unique_name("large");
    let mut files = fixtures::config_maps(&site.namespace, &name, objects, TEXT_BYTES);
    let one = site.world.push(&name, &ImageBuilder::of_files(in_few_files(&files))).await;
    if let Some((_, text)) = files.first_mut() {
        *text = text.replace("value: x", "value: y");
    }
    let two = site.world.push(&format!("{name}-next"), &ImageBuilder::of_files(in_few_files(&files))).await;
    let floor = floor::apply(site, objects).await?;
    let (before, recording) = (site.usage().await?, site.record(&format!("install-1x{objects}"))?);
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let time = created::until(&site.admin, &world::deployment(&name, world::image(&one)), installed).await?;
    recording.end().await?;
    let install = row(format!("install 1 x {objects}"), time, Some(floor), &site.usage().await?.since(&before));
    let before = site.usage().await?;
    let time = upgrade(site, &name, &two).await?;
    let usage = site.usage().await?.since(&before);
    remove(site, &name).await?;
    Ok(vec![install, row(format!("upgrade 1 x {objects}, one object changes"), time, None, &usage)])
}

fn in_few_files(files: &[(String, String)]) -> Vec<(String, String)> {
    let texts =
        |some: &[(String, String)]| some.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("---\n");
    let chunks = files.chunks(OF_A_FILE).enumerate();
    chunks.map(|(index, some)| (format!("manifests/{index}.yaml"), texts(some))).collect()
}

/// Until another Bundle is active and installed.
async fn upgrade(site: &Site, name: &str, reference: &str) -> Result<Duration> {
    let target = Object::bundle_deployment(name);
    let active = |status: &Value| status["activeBundle"].as_str().map(str::to_owned);
    let before = verbs::get(&site.admin, &target).await?.context("it is gone")?;
    let before = active(&before.data["status"]);
    let start = std::time::Instant::now();
    let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"source": world::image(reference)}}}}));
    created::api(&site.admin, "BundleDeployment")
        .patch(name, &PatchParams::default(), &patch)
        .await
        .context("patch")?;
    let is_there = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| {
            let is_other = active(&object.data["status"]) != before;
            is_other && Expected::is_true("Installed", "InstallationSucceeded").met_by(object)
        })
    };
    verbs::await_object(&site.admin, &target, "upgraded", PATIENCE, is_there).await?;
    Ok(start.elapsed())
}

/// One bundle of large CRDs.
async fn definitions(site: &Site) -> Result<Row> {
    eprintln!("bench: {DEFINITIONS} large CRDs");
    let (name, other) = (unique_name("crds"), unique_name("floor"));
    let of_group = |group: &str| (0..DEFINITIONS).map(|index| definition(group, index)).collect::<Vec<_>>();
    let floor = floor::definitions(site, &of_group(&other)).await?;
    let files = of_group(&name).into_iter().enumerate();
    let files = files.map(|(index, one)| (format!("manifests/{index}.yaml"), one.to_string()));
    let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
    let before = site.usage().await?;
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let time = created::until(&site.admin, &world::deployment(&name, world::image(&reference)), installed).await?;
    let usage = site.usage().await?.since(&before);
    remove(site, &name).await?;
    let what = format!("install 1 x {DEFINITIONS} CRDs of {} KiB", DEFINITION_BYTES >> 10);
    Ok(row(what, time, Some(floor), &usage))
}

fn definition(group: &str, index: usize) -> Value {
    let group = format!("{group}.example.com");
    let text = "Words that explain a field. ".repeat(DEFINITION_BYTES / 28);
    let properties =
        json!({"spec": {"type": "object", "description": text, "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("larges{index}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
                 "names": {"plural": format!("larges{index}"), "singular": format!("large{index}"), "kind": format!("Large{index}")},
                 "versions": [{"name": "v1", "served": true, "storage": true,
                     "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]},
    })
}

async fn remove(site: &Site, name: &str) -> Result<()> {
    let object = Object::bundle_deployment(name);
    verbs::delete(&site.admin, &object).await?;
    verbs::await_deleted(&site.admin, &object, PATIENCE).await
}

fn row(what: String, time: Duration, floor: Option<Duration>, usage: &Usage) -> Row {
    let target = floor.map(|floor| 1.3 * floor.as_secs_f64());
    let beside = floor.map(|floor| format!("1.3 x floor; floor {:.2} s; ", floor.as_secs_f64())).unwrap_or_default();
    Row {
        what,
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: target.map(Target::AtMost),
        note: format!("{beside}{usage}"),
    }
}
