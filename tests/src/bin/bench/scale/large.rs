//! One bundle of many objects.

use anyhow::Result;
use rukpak_tests::verbs::{Expected, Target as Object, unique_name};
use rukpak_tests::world;
use rukpak_tests::{ImageBuilder, fixtures, verbs};

use super::floor;
use super::site::Site;
use crate::created;
use crate::report::{Row, Target, Unit};

/// Sizes before the largest, which the caller chooses.
const SIZES: [usize; 2] = [500, 5_000];
/// Objects of one file: bundles have fewer files than objects.
const OF_A_FILE: usize = 100;
const TEXT_BYTES: usize = 200;
/// Resident memory of the controller with the largest.
const MEBIBYTES: f64 = 128.0;

pub async fn measure(site: &Site, largest: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for objects in SIZES.into_iter().filter(|objects| *objects < largest).chain([largest]) {
        rows.push(one(site, objects).await?);
    }
    rows.push(Row {
        what: format!("memory, 1 x {largest}"),
        measured: site.peak_mebibytes()?,
        unit: Unit::Mebibytes,
        target: Some(Target::AtMost(MEBIBYTES)),
        note: "peak of resident memory since the restart".to_owned(),
    });
    Ok(rows)
}

async fn one(site: &Site, objects: usize) -> Result<Row> {
    eprintln!("bench: 1 x {objects}");
    let name = unique_name("large");
    let files = fixtures::config_maps(&site.namespace, &name, objects, TEXT_BYTES);
    let files = files.chunks(OF_A_FILE).enumerate().map(|(index, some)| {
        let texts: Vec<&str> = some.iter().map(|(_, text)| text.as_str()).collect();
        (format!("manifests/{index}.yaml"), texts.join("---\n"))
    });
    let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
    let floor = floor::apply(site, objects).await?;
    let before = site.usage().await?;
    let deployment = world::deployment(&name, world::image(&reference));
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let time = created::until(&site.admin, &deployment, installed).await?;
    let usage = site.usage().await?.since(&before);
    let object = Object::bundle_deployment(&name);
    verbs::delete(&site.admin, &object).await?;
    verbs::await_deleted(&site.admin, &object, std::time::Duration::from_mins(5)).await?;
    Ok(Row {
        what: format!("install 1 x {objects}"),
        measured: time.as_secs_f64(),
        unit: Unit::Seconds,
        target: Some(Target::AtMost(1.3 * floor.as_secs_f64())),
        note: format!("1.3 x floor; floor {:.2} s; {usage}", floor.as_secs_f64()),
    })
}
