//! What others cost: many Bundles of one image; and small installations beside what holds others up, a large bundle, a webhook
//! and registries that do not answer.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::verbs::{self, Expected, Target as Object, unique_name};
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
/// Images that a registry sends a few bytes at a time.
const DRIPPING: usize = 100;
/// Objects of the large bundle.
const LARGE: usize = 5_000;
/// Small installations, alone and beside others.
const SMALL: usize = 50;
const AT_ONCE: usize = 16;
const TEXT_BYTES: usize = 200;
/// Longest wait for a deletion.
const PATIENCE: Duration = Duration::from_mins(5);

pub async fn measure(site: &Site) -> Result<Vec<Row>> {
    let mut rows = vec![one_image(site).await?];
    let alone = small(site).await?;
    rows.push(large_bundle(site, &alone).await?);
    rows.push(hung_webhook(site, &alone).await?);
    rows.push(dripping_registry(site, &alone).await?);
    rows.push(hung_registry(site, &alone).await?);
    rows.push(super::unlistable::measure(site, &alone).await?);
    Ok(rows)
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

/// Beside a bundle of many objects that is being installed, and one that is installed next when it is over.
async fn large_bundle(site: &Site, alone: &[Duration]) -> Result<Row> {
    eprintln!("bench: beside a bundle of {LARGE} objects");
    let name = unique_name("neighbour");
    let texts = fixtures::config_maps(&site.namespace, &name, LARGE, TEXT_BYTES).into_iter().map(|(_, text)| text);
    let file = texts.collect::<Vec<_>>().join("---\n");
    let reference = site.world.push(&name, &ImageBuilder::of_files([("manifests/all.yaml", file)])).await;
    let api = created::api(&site.admin, "BundleDeployment");
    let deployment = world::deployment(&name, world::image(&reference));
    api.create(&PostParams::default(), &serde_json::from_value(deployment)?).await.context("create")?;
    let beside = small(site).await?;
    remove(site, &[name]).await?;
    Ok(row(&format!("a bundle of {LARGE} objects"), alone, &beside))
}

/// Beside a deployment whose objects a webhook is asked about that never answers.
async fn hung_webhook(site: &Site, alone: &[Duration]) -> Result<Row> {
    eprintln!("bench: beside a webhook that hangs");
    let (server, name) = (FaultyServer::alone(&site.ca)?, unique_name("held"));
    server.add(Rule::on("/", Fault::Hang));
    let held = verbs::namespace(&site.admin, "held").await?;
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "hangs.bench.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 30,
            "clientConfig": {"url": format!("{}/hang", server.url()), "caBundle": BASE64_STANDARD.encode(site.ca.pem())},
            "namespaceSelector": {"matchLabels": {"held": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }],
    });
    verbs::create(&site.admin, &webhook).await?;
    let labels = json!({"metadata": {"labels": {"held": name}}});
    let namespaces: Api<Namespace> = Api::all(site.admin.clone());
    namespaces.patch(&held, &PatchParams::default(), &Patch::Merge(labels)).await.context("label")?;
    let files = fixtures::config_maps(&held, &name, super::OBJECTS, TEXT_BYTES);
    let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
    let api = created::api(&site.admin, "BundleDeployment");
    let deployment = world::deployment(&name, world::image(&reference));
    api.create(&PostParams::default(), &serde_json::from_value(deployment)?).await.context("create")?;
    server.asked("/hang", 1, Duration::from_mins(1)).await?;
    let beside = small(site).await?;
    verbs::delete(&site.admin, &Object::of(&webhook)?).await?;
    remove(site, &[name]).await?;
    Ok(row("a webhook that hangs", alone, &beside))
}

/// Beside many Bundles whose registry sends a few bytes at a time.
async fn dripping_registry(site: &Site, alone: &[Duration]) -> Result<Row> {
    eprintln!("bench: beside {DRIPPING} Bundles of a registry that drips");
    let registry = &site.world.registry;
    let server = FaultyServer::before(&site.ca, &registry.url(), &registry.ca_pem())?;
    server.add(Rule::on("/blobs/", Fault::Slow(16, Duration::from_millis(500))));
    let label = unique_name("dripping");
    let mut references = Vec::with_capacity(DRIPPING);
    for index in 0..DRIPPING {
        let name = format!("{label}-{index}");
        let files = fixtures::config_maps(&site.namespace, &name, super::OBJECTS, TEXT_BYTES);
        site.world.push(&name, &ImageBuilder::of_files(files)).await;
        references.push(format!("{}/bundles/{name}:v1", server.host().replace("localhost", "127.0.0.1")));
    }
    bundles(site, &label, &references).await?;
    let beside = small(site).await?;
    remove_bundles(site, &label).await?;
    Ok(row(&format!("{DRIPPING} Bundles of a registry that drips"), alone, &beside))
}

/// Beside many Bundles whose registry never answers.
async fn hung_registry(site: &Site, alone: &[Duration]) -> Result<Row> {
    eprintln!("bench: beside {WAITING} Bundles of a registry that hangs");
    let server = FaultyServer::alone(&site.ca)?;
    server.add(Rule::on("/", Fault::Hang));
    // Another host than that of the registry that answers: fetches from one host share its permits.
    let host = server.host().replace("localhost", "127.0.0.1");
    let label = unique_name("hung");
    let references: Vec<String> = (0..WAITING).map(|index| format!("{host}/a:v{index}")).collect();
    bundles(site, &label, &references).await?;
    let beside = small(site).await?;
    remove_bundles(site, &label).await?;
    Ok(row(&format!("{WAITING} Bundles of a registry that hangs"), alone, &beside))
}

/// Creates a Bundle of each image.
async fn bundles(site: &Site, label: &str, references: &[String]) -> Result<()> {
    let api = created::api(&site.admin, "Bundle");
    futures::stream::iter(references.iter().enumerate())
        .map(|(index, reference)| {
            let mut bundle = world::bundle(&format!("{label}-{index}"), world::image(reference));
            bundle["metadata"]["labels"] = json!({"bench": label});
            let api = &api;
            async move { api.create(&PostParams::default(), &serde_json::from_value(bundle)?).await.context("create") }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
}

async fn remove_bundles(site: &Site, label: &str) -> Result<()> {
    let labelled = ListParams::default().labels(&format!("bench={label}"));
    let api = created::api(&site.admin, "Bundle");
    api.delete_collection(&DeleteParams::default(), &labelled).await.context("delete")?;
    Ok(())
}

/// Installs a small bundle again and again: how long each took.
pub(super) async fn small(site: &Site) -> Result<Vec<Duration>> {
    let (mut times, mut names) = (Vec::with_capacity(SMALL), Vec::with_capacity(SMALL));
    for _ in 0..SMALL {
        let name = unique_name("small");
        let files = fixtures::config_maps(&site.namespace, &name, super::OBJECTS, TEXT_BYTES);
        let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
        let deployment = world::deployment(&name, world::image(&reference));
        let installed = Expected::is_true("Installed", "InstallationSucceeded");
        times.push(created::until(&site.admin, &deployment, installed).await?);
        names.push(name);
    }
    remove(site, &names).await?;
    Ok(times)
}

pub(super) async fn remove(site: &Site, names: &[String]) -> Result<()> {
    for name in names {
        verbs::delete(&site.admin, &Object::bundle_deployment(name)).await?;
    }
    for name in names {
        verbs::await_deleted(&site.admin, &Object::bundle_deployment(name), PATIENCE).await?;
    }
    Ok(())
}

/// The slowest hundredth, which is the slowest of these.
pub(super) fn row(beside_what: &str, alone: &[Duration], beside: &[Duration]) -> Row {
    let p99 = |times: &[Duration]| times.iter().max().map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    let mut slowest: Vec<(usize, Duration)> = beside.iter().copied().enumerate().collect();
    slowest.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let slowest: Vec<String> =
        slowest.iter().take(3).map(|(index, time)| format!("no. {} {} ms", index + 1, time.as_millis())).collect();
    Row {
        what: format!("install 1 x 10 beside {beside_what}, p99"),
        measured: p99(beside),
        unit: Unit::Milliseconds,
        target: Some(Target::AtMost(2.0 * p99(alone))),
        note: format!(
            "2 x p99 alone; alone {:.0} ms; medians {:.0} and {:.0} ms; the slowest of {SMALL}: {}",
            p99(alone),
            median(beside),
            median(alone),
            slowest.join(", ")
        ),
    }
}
