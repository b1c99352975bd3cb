//! The bare client: the writes of an installation, and nothing else. No watch, no waiting for anybody, no decision.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use rukpak_tests::plane::yaml;
use rukpak_tests::world;
use serde_json::{Value, json};

use super::created;

/// So many objects are under way at once, as in the controller.
const IN_FLIGHT: usize = 16;
/// About as many as the record of a release with ten objects has.
const RECORD_BYTES: usize = 400;
/// A class that no provisioner serves: the controller leaves these objects alone.
pub(crate) const CLASS: &str = "bench-rukpak-io-bare";

/// What the controller was seen to write for an installation like it.
#[derive(Clone)]
pub(crate) struct Pattern {
    /// Status of the Bundle at the end.
    pub bundle_status: Value,
    /// How often it was written.
    pub bundle_writes: usize,
    /// Status of the BundleDeployment at the end.
    pub deployment_status: Value,
    /// How often it was written.
    pub deployment_writes: usize,
}

/// Writes the BundleDeployment, its Bundle, both statuses as often as the controller does, the ConfigMaps of `files` by server-side
/// apply, the record of the release, and an Event. `client` shall be the controller's account, with connections that are up.
pub(crate) async fn install(
    client: &Client,
    name: &str,
    namespace: &str,
    source: &Value,
    files: &[(String, String)],
    pattern: &Pattern,
) -> Result<Duration> {
    let of_class = |mut object: Value| -> Result<DynamicObject> {
        for pointer in ["/spec/provisionerClassName", "/spec/template/spec/provisionerClassName"] {
            if let Some(class) = object.pointer_mut(pointer) {
                *class = json!(CLASS);
            }
        }
        Ok(serde_json::from_value(object)?)
    };
    let deployment = of_class(world::deployment(name, source.clone()))?;
    let mut bundle = of_class(world::bundle(&format!("{name}-1a2b3c4d5e"), source.clone()))?;
    bundle.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
    let objects = files.iter().map(|(_, text)| object(text, name)).collect::<Result<Vec<_>>>()?;
    let (all_deployments, all_bundles) = (created::api(client, "BundleDeployment"), created::api(client, "Bundle"));
    let config_maps = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let config_maps: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &config_maps);

    let start = Instant::now();
    let owner = all_deployments.create(&PostParams::default(), &deployment).await.context("create")?;
    let uid = owner.metadata.uid.context("no UID")?;
    bundle.metadata.owner_references = serde_json::from_value(references(name, &uid))?;
    let bundle_name = bundle.metadata.name.clone().unwrap_or_default();
    all_bundles.create(&PostParams::default(), &bundle).await.context("create a Bundle")?;
    for count in 0..pattern.bundle_writes {
        write_status(&all_bundles, &bundle_name, &pattern.bundle_status, count).await?;
    }
    // All but the last say that it is under way; the last comes when the objects are there.
    for count in 1..pattern.deployment_writes {
        write_status(&all_deployments, name, &pattern.deployment_status, count).await?;
    }
    apply(&config_maps, objects, name, &uid).await?;
    write_status(&all_deployments, name, &pattern.deployment_status, 0).await?;
    tell(client, namespace, name, &uid).await?;
    Ok(start.elapsed())
}

/// Writes the record of the release, and the Event about it.
async fn tell(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<()> {
    let of = |group: &str, kind: &str| -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(client.clone(), namespace, &resource)
    };
    let record = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"objects": "x".repeat(RECORD_BYTES)},
        "metadata": {"name": name, "ownerReferences": references(name, uid)}});
    let parameters = PatchParams::apply("bare.bench.rukpak.io").force();
    of("apps", "ControllerRevision")
        .patch(name, &parameters, &Patch::Apply(record))
        .await
        .context("write the record")?;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "bare-"}, "type": "Normal", "count": 1,
        "involvedObject": {"kind": "BundleDeployment", "namespace": namespace, "name": name, "uid": uid},
        "reason": "InstallationSucceeded", "message": format!("Instantiated bundle {name} successfully")});
    of("", "Event").create(&PostParams::default(), &serde_json::from_value(event)?).await.context("write the Event")?;
    Ok(())
}

async fn apply(api: &Api<DynamicObject>, objects: Vec<(String, Value)>, owner: &str, uid: &str) -> Result<()> {
    let parameters = PatchParams::apply("bare.bench.rukpak.io").force();
    futures::stream::iter(objects)
        .map(|(name, mut object)| {
            let parameters = &parameters;
            async move {
                object["metadata"]["ownerReferences"] = references(owner, uid);
                api.patch(&name, parameters, &Patch::Apply(object)).await.with_context(|| format!("apply {name}"))
            }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
}

/// Each write has another message, else the API server would store nothing.
async fn write_status(api: &Api<DynamicObject>, name: &str, status: &Value, count: usize) -> Result<()> {
    let mut status = status.clone();
    if let Some(message) = status.pointer_mut("/conditions/0/message") {
        *message = json!(format!("{} ({count})", message.as_str().unwrap_or_default()));
    }
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.with_context(|| format!("status of {name}"))?;
    Ok(())
}

fn references(name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": name, "uid": uid,
             "controller": true, "blockOwnerDeletion": true }])
}

/// One manifest with labels as long as the controller's: it must not see these objects as its own.
fn object(text: &str, owner: &str) -> Result<(String, Value)> {
    let object = yaml::objects(text)?.into_iter().next().context("no object in a manifest")?;
    let name = object.metadata.name.clone().context("an object without a name")?;
    let mut object = serde_json::to_value(object)?;
    object["metadata"]["labels"] =
        json!({ "bare.rukpak.io/owner-kind": "BundleDeployment", "bare.rukpak.io/owner-name": owner });
    Ok((name, object))
}
