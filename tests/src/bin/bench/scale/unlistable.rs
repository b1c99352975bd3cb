//! Small installations beside deployments whose kind cannot be listed: its conversion webhook fails.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::{StreamExt, TryStreamExt};
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::verbs::{self, Expected, Target as Object, unique_name};
use rukpak_tests::{FaultyServer, ImageBuilder, world};
use serde_json::{Value, json};

use super::neighbours;
use super::site::Site;
use crate::created;
use crate::report::Row;

/// Deployments with an object of the kind.
const DEPLOYMENTS: usize = 100;
const AT_ONCE: usize = 16;
/// Longest wait for the kind.
const PATIENCE: Duration = Duration::from_mins(1);

/// Beside deployments that a controller finds when it starts, and whose kind it cannot list.
pub async fn measure(site: &Site, alone: &[Duration]) -> Result<Row> {
    eprintln!("bench: beside {DEPLOYMENTS} deployments of a kind that cannot be listed");
    let group = format!("{}.example.com", unique_name("unlistable"));
    let crd = crd(&group);
    verbs::create(&site.admin, &crd).await?;
    verbs::await_served(&site.admin, &format!("{group}/v1"), "Gadget", PATIENCE).await?;
    let names = install(site, &group).await?;
    let server = FaultyServer::alone(&site.ca)?;
    server.add(Rule::on("/", Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "broken".to_owned())));
    let target = Object::of(&crd)?;
    let config = json!({"url": server.url(), "caBundle": BASE64_STANDARD.encode(site.ca.pem())});
    let broken =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}});
    verbs::merge(&site.admin, &target, &json!({"spec": {"conversion": broken}})).await?;
    site.world.controller.restart().await?;
    site.world.controller.wait_ready().await?;
    // It does try.
    server.asked("/", 1, PATIENCE).await?;
    let beside = neighbours::small(site).await?;
    let mended = json!({"strategy": "None", "webhook": null});
    verbs::merge(&site.admin, &target, &json!({"spec": {"conversion": mended}})).await?;
    neighbours::remove(site, &names).await?;
    verbs::delete(&site.admin, &target).await?;
    Ok(neighbours::row(&format!("{DEPLOYMENTS} deployments of a kind that cannot be listed"), alone, &beside))
}

/// Objects are stored as `v2` and installed as `v1`: whoever lists `v1` needs the conversion.
fn crd(group: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v2", "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version("v1"), version("v2")],
                 "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}},
    })
}

async fn install(site: &Site, group: &str) -> Result<Vec<String>> {
    futures::stream::iter(0..DEPLOYMENTS)
        .map(|_| async {
            let name = unique_name("unlistable");
            let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "spec": {"size": 1},
                "metadata": {"name": name, "namespace": site.namespace}});
            let image = ImageBuilder::of_files([("manifests/gadget.yaml", object.to_string())]);
            let reference = site.world.push(&name, &image).await;
            let deployment = world::deployment(&name, world::image(&reference));
            let installed = Expected::is_true("Installed", "InstallationSucceeded");
            created::until(&site.admin, &deployment, installed).await.context("install an object of the kind")?;
            anyhow::Ok(name)
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
