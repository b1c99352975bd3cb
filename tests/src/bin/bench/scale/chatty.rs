//! A custom resource of a bundle that reports every second.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target as Object, unique_name};
use rukpak_tests::world;
use serde_json::json;

use super::site::Site;
use crate::created;
use crate::report::{Row, Target, Unit};

/// Between two reports.
const EVERY: Duration = Duration::from_secs(1);
/// Part of a core, in hundredths.
const PERCENT: f64 = 1.0;

/// What the controller does for it in `time`.
pub async fn measure(site: &Site, time: Duration) -> Result<Row> {
    eprintln!("bench: a resource that reports every second, for {} s", time.as_secs());
    let name = unique_name("chatty");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "reporters.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced",
                 "names": {"plural": "reporters", "singular": "reporter", "kind": "Reporter"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let reporter = json!({
        "apiVersion": "bench.example.com/v1", "kind": "Reporter",
        "metadata": {"name": name, "namespace": site.namespace}, "spec": {},
    });
    let files =
        [("manifests/definition.yaml", definition.to_string()), ("manifests/reporter.yaml", reporter.to_string())];
    let reference = site.world.push(&name, &ImageBuilder::of_files(files)).await;
    let deployment = world::deployment(&name, world::image(&reference));
    let installed = Expected::is_true("Ready", "Succeeded");
    created::until(&site.admin, &deployment, installed).await?;
    let before = site.usage().await?;
    let reports = report(&site.admin, &site.namespace, &name, time).await?;
    let usage = site.usage().await?.since(&before);
    let object = Object::bundle_deployment(&name);
    verbs::delete(&site.admin, &object).await?;
    verbs::await_deleted(&site.admin, &object, Duration::from_mins(1)).await?;
    Ok(Row {
        what: "a resource that reports every second, part of a core".to_owned(),
        measured: usage.seconds_of("controller") / time.as_secs_f64() * 100.0,
        unit: Unit::Percent,
        target: Some(Target::AtMost(PERCENT)),
        note: format!("{reports} reports in {} s; {usage}", time.as_secs()),
    })
}

/// Reports until the time is over. Returns how often.
async fn report(client: &Client, namespace: &str, name: &str, time: Duration) -> Result<usize> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("bench.example.com", "v1", "Reporter"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let end = tokio::time::Instant::now() + time;
    let mut ticks = tokio::time::interval(EVERY);
    let mut reports = 0;
    while ticks.tick().await < end {
        let ready =
            json!({"type": "Ready", "status": "True", "reason": "Reports", "message": format!("report {reports}")});
        let patch = Patch::Merge(json!({"status": {"observed": reports, "conditions": [ready]}}));
        api.patch_status(name, &PatchParams::default(), &patch).await.context("report")?;
        reports += 1;
    }
    Ok(reports)
}
