//! The floor: the objects alone, by a client that does nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use rukpak_tests::plane::yaml;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::{fixtures, verbs};
use serde_json::Value;

use super::site::Site;

/// Requests under way at once: more serve it no better.
const IN_FLIGHT: usize = 16;
const TEXT_BYTES: usize = 200;

/// Applies so many ConfigMaps as the controller's account, and removes them again when the clock has stopped.
pub async fn apply(site: &Site, count: usize) -> Result<Duration> {
    let namespace = verbs::namespace(&site.admin, "floor").await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let all = |client: &Client| Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
    let mut objects = Vec::with_capacity(count);
    for (_, text) in fixtures::config_maps(&namespace, &unique_name("floor"), count, TEXT_BYTES) {
        objects.extend(yaml::objects(&text)?);
    }
    let time = timed(&all(&site.account), &objects).await?;
    let (all_of_them, any) = (DeleteParams::default(), ListParams::default());
    all(&site.admin).delete_collection(&all_of_them, &any).await.context("remove the floor")?;
    Ok(time)
}

/// The same with CRDs.
pub async fn definitions(site: &Site, definitions: &[Value]) -> Result<Duration> {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let all = |client: &Client| Api::<DynamicObject>::all_with(client.clone(), &resource);
    let objects = definitions.iter().map(|one| Ok(serde_json::from_value(one.clone())?)).collect::<Result<Vec<_>>>()?;
    let time = timed(&all(&site.account), &objects).await?;
    for object in &objects {
        let delete = all(&site.admin).delete(&object.name_any(), &DeleteParams::default()).await;
        delete.context("remove the floor")?;
    }
    Ok(time)
}

async fn timed(api: &Api<DynamicObject>, objects: &[DynamicObject]) -> Result<Duration> {
    let parameters = PatchParams::apply("floor.bench.rukpak.io").force();
    let start = Instant::now();
    futures::stream::iter(objects)
        .map(|object| {
            let (api, parameters) = (api, &parameters);
            async move { api.patch(&object.name_any(), parameters, &Patch::Apply(object)).await.map(drop) }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await
        .context("apply the floor")?;
    Ok(start.elapsed())
}
