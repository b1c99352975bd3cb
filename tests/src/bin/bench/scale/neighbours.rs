//! What others cost: many Bundles of one image, and a registry that never answers.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, ListParams, PostParams};
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::verbs::{Expected, unique_name};
use rukpak_tests::world;
use rukpak_tests::{FaultyServer, ImageBuilder, fixtures};
use serde_json::json;

use super::site::Site;
use crate::created;
use crate::report::{Row, Target, Unit, median};

/// Bundles of one image.
const OF_ONE_IMAGE: usize = 100;
/// Bundles that wait for the registry that hangs.
const WAITING: usize = 1_000;
/// Small installations, alone and beside them.
const SMALL: usize = 20;
const AT_ONCE: usize = 16;
const TEXT_BYTES: usize = 200;

pub async fn measure(site: &Site) -> Result<Vec<Row>> {
    Ok(vec![one_image(site).await?, hung_registry(site).await?])
}

/// How often the layer of an image is fetched that many Bundles have.
async fn one_image(site: &Site) -> Result<Row> {
    eprintln!("bench: {OF_ONE_IMAGE} Bundles of one image");
    let registry = &site.world.registry;
    let server = FaultyServer::before(&site.ca, &registry.url(), &registry.ca_pem())?;
    let name = unique_name("one-image");
    let files = fixtures::config_maps(&site.namespace, &name, super::OBJECTS, TEXT_BYTES);
    site.world.push(&name, &ImageBuilder::of_files(files)).await;
    let reference = format!("{}/bundles/{name}:v1", server.host());
    futures::stream::iter(0..OF_ONE_IMAGE)
        .map(|index| {
            let bundle = world::bundle(&format!("{name}-{index}"), world::image(&reference));
            let failed = format!("{name}-{index} is not unpacked");
            async move {
                let expected = Expected::is_true("Unpacked", "UnpackSuccessful");
                created::until(&site.admin, &bundle, expected).await.context(failed)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let (layers, all) = (server.count("/blobs/"), server.seen().len());
    Ok(Row {
        what: format!("layers fetched for {OF_ONE_IMAGE} Bundles of one image"),
        measured: super::number(layers),
        unit: Unit::Count,
        target: Some(Target::AtMost(1.0)),
        note: format!("{all} requests of the registry in all"),
    })
}

/// Small installations beside many Bundles whose registry never answers.
async fn hung_registry(site: &Site) -> Result<Row> {
    eprintln!("bench: {WAITING} Bundles of a registry that hangs");
    let alone = small(site).await?;
    let server = FaultyServer::alone(&site.ca)?;
    server.add(Rule::on("/", Fault::Hang));
    // Another host than that of the registry that answers: fetches from one host share its permits.
    let host = server.host().replace("localhost", "127.0.0.1");
    let api = created::api(&site.admin, "Bundle");
    let label = unique_name("hung");
    futures::stream::iter(0..WAITING)
        .map(|index| {
            let mut bundle = world::bundle(&format!("{label}-{index}"), world::image(&format!("{host}/a:v{index}")));
            bundle["metadata"]["labels"] = json!({"bench": label});
            let api = &api;
            async move { api.create(&PostParams::default(), &serde_json::from_value(bundle)?).await.context("create") }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let beside = small(site).await?;
    let labelled = ListParams::default().labels(&format!("bench={label}"));
    api.delete_collection(&DeleteParams::default(), &labelled).await.context("delete")?;
    let (alone, beside) = (median(&alone), median(&beside));
    Ok(Row {
        what: format!("install 1 x 10 beside {WAITING} Bundles of a registry that hangs"),
        measured: beside,
        unit: Unit::Milliseconds,
        target: Some(Target::AtMost(2.0 * alone)),
        note: format!("2 x as long as alone; alone {alone:.0} ms; medians of {SMALL}"),
    })
}

async fn small(site: &Site) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(SMALL);
    for _ in 0..SMALL {
        let name = unique_name("small");
        let files = fixtures::config_maps(&site.namespace, &name, super::OBJECTS, TEXT_BYTES);
        let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
        let deployment = world::deployment(&name, world::image(&reference));
        let installed = Expected::is_true("Installed", "InstallationSucceeded");
        times.push(created::until(&site.admin, &deployment, installed).await?);
        let api = created::api(&site.admin, "BundleDeployment");
        api.delete(&name, &DeleteParams::background()).await.context("delete")?;
    }
    Ok(times)
}
