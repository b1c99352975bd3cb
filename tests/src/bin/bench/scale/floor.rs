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

use super::site::Site;

/// Requests under way at once: more serve it no better.
const IN_FLIGHT: usize = 16;
const TEXT_BYTES: usize = 200;

/// Applies so many ConfigMaps as the controller's account, and removes them again when the clock has stopped.
pub async fn apply(site: &Site, count: usize) -> Result<Duration> {
    let namespace = verbs::namespace(&site.admin, "floor").await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let all = |client: &Client| Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
    let api = all(&site.account);
    let mut objects = Vec::with_capacity(count);
    for (_, text) in fixtures::config_maps(&namespace, &unique_name("floor"), count, TEXT_BYTES) {
        objects.extend(yaml::objects(&text)?);
    }
    let parameters = PatchParams::apply("floor.bench.rukpak.io").force();
    let start = Instant::now();
    futures::stream::iter(&objects)
        .map(|object| {
            let (api, parameters) = (&api, &parameters);
            async move { api.patch(&object.name_any(), parameters, &Patch::Apply(object)).await.map(drop) }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await
        .context("apply the floor")?;
    let time = start.elapsed();
    all(&site.admin)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("remove the floor")?;
    Ok(time)
}
