//! Everything that a cluster holds, to be compared before and after.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::discovery::{ApiCapabilities, ApiGroup, ApiResource, verbs};
use kube::{Api, Client, Discovery};
use rukpak_tests::world::SOON;

/// Kinds that the control plane writes by itself, at any time.
const RESTLESS: [&str; 4] = ["Event", "Lease", "Endpoints", "EndpointSlice"];
/// Between two listings while something is still being collected. A whole cluster cannot be watched.
const AGAIN: Duration = Duration::from_millis(500);

/// Every object of every kind: `kind.group namespace/name`.
pub async fn everything(client: &Client) -> BTreeSet<String> {
    let lists = kinds(client).await.into_iter().map(|resource| async move {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let listed = api.list_metadata(&ListParams::default()).await;
        // A kind may go between discovery and the list.
        let objects = listed.map(|listed| listed.items).unwrap_or_default();
        let line = move |metadata: kube::core::ObjectMeta| {
            let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
            format!("{}.{} {namespace}/{name}", resource.kind, resource.group)
        };
        objects.into_iter().map(|object| line(object.metadata)).collect::<Vec<_>>()
    });
    futures::stream::iter(lists).buffer_unordered(16).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

/// Every kind that can be listed. A group may go while it is asked for: then all is asked again.
async fn kinds(client: &Client) -> Vec<ApiResource> {
    let end = tokio::time::Instant::now() + SOON;
    let discovery = loop {
        match Discovery::new(client.clone()).run().await {
            Ok(discovery) => break discovery,
            Err(error) if tokio::time::Instant::now() > end => panic!("discovery: {error}"),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    };
    let resources = discovery.groups().flat_map(ApiGroup::recommended_resources);
    let is_listed = |(resource, capabilities): &(ApiResource, ApiCapabilities)| {
        capabilities.supports_operation(verbs::LIST) && !RESTLESS.contains(&resource.kind.as_str())
    };
    resources.filter(is_listed).map(|(resource, _)| resource).collect()
}

/// Waits until nothing is there that was not there `before`; returns what is left after `deadline`.
pub async fn left_over(client: &Client, before: &BTreeSet<String>, deadline: Duration) -> BTreeSet<String> {
    until_none(client, deadline, |line| !before.contains(line)).await
}

/// Waits until nothing is there whose name, or whose namespace's name, has `part` in it; returns what is left.
pub async fn left_over_of(client: &Client, part: &str, deadline: Duration) -> BTreeSet<String> {
    until_none(client, deadline, |line| line.contains(part)).await
}

async fn until_none(client: &Client, deadline: Duration, is_left: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let end = tokio::time::Instant::now() + deadline;
    loop {
        let left: BTreeSet<String> = everything(client).await.into_iter().filter(|line| is_left(line)).collect();
        if left.is_empty() || tokio::time::Instant::now() > end {
            return left;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
