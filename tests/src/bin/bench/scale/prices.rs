//! What one request of each kind that the controller sends costs the API server and etcd, in CPU time.

use std::pin::pin;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use rukpak_tests::verbs::{self, unique_name};
use rukpak_tests::world;
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::site::Site;
use crate::bare::CLASS;
use crate::created;
use crate::report::{Row, Unit};

/// Requests of each kind: CPU time is counted in hundredths of a second.
const COUNT: usize = 500;
/// Requests under way at once.
const IN_FLIGHT: usize = 8;
/// Watches that see the same event.
const WATCHES: usize = 10;
/// Text in each ConfigMap.
const TEXT_BYTES: usize = 200;

/// Measures one kind after the other.
pub async fn measure(site: &Site) -> Result<Vec<Row>> {
    let namespace = verbs::namespace(&site.admin, "prices").await?;
    let mut rows = Vec::new();
    objects(site, &namespace, &mut rows).await?;
    own_kinds(site, &mut rows).await?;
    companions(site, &namespace, &mut rows).await?;
    Ok(rows)
}

/// Objects of bundles.
async fn objects(site: &Site, namespace: &str, rows: &mut Vec<Row>) -> Result<()> {
    let api = namespaced(site, namespace, "", "ConfigMap");
    let (apply, merge) = (PatchParams::apply("prices.bench.rukpak.io").force(), PatchParams::default());
    let dry = PatchParams { dry_run: true, ..apply.clone() };
    let body = |index: usize, value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("c{index}"), "labels": {"bench.rukpak.io/prices": "yes"}},
            "data": {"text": "x".repeat(TEXT_BYTES), "value": value}})
    };
    let send = async |index: usize, parameters: &PatchParams, value: &str| {
        let patch = Patch::Apply(body(index, value));
        api.patch(&format!("c{index}"), parameters, &patch).await.map(drop)
    };

    rows.push(price(site, "apply a new ConfigMap", |index| send(index, &apply, "1")).await?);
    rows.push(price(site, "apply a changed ConfigMap as a dry run", |index| send(index, &dry, "2")).await?);
    let unwatched = price(site, "apply a changed ConfigMap", |index| send(index, &apply, "2")).await?;
    let seen = watched(&api, price(site, "", |index| send(index, &apply, "3"))).await?;
    #[expect(clippy::cast_precision_loss, reason = "ten")]
    let each = (seen.measured - unwatched.measured) / WATCHES as f64;
    rows.push(unwatched);
    rows.push(Row {
        what: "a change is sent to one watch".to_owned(),
        measured: each,
        note: format!("of {WATCHES} that see {COUNT} changes"),
        ..seen
    });
    rows.push(price(site, "apply an unchanged ConfigMap", |index| send(index, &apply, "3")).await?);
    let patch = |index: usize| {
        let (api, merge) = (&api, &merge);
        async move {
            let patch = Patch::Merge(json!({"data": {"value": "4"}}));
            api.patch(&format!("c{index}"), merge, &patch).await.map(drop)
        }
    };
    rows.push(price(site, "merge a patch into a ConfigMap", patch).await?);
    Ok(())
}

/// Our kinds: with the statuses of a real installation, and of a class that nobody serves.
async fn own_kinds(site: &Site, rows: &mut Vec<Row>) -> Result<()> {
    let mut fleet = Fleet::push(site, 1).await?;
    fleet.install(site).await?;
    let installed = fleet.names().next().context("one")?;
    let deployments = created::api(&site.admin, "BundleDeployment");
    let bundles = created::api(&site.account, "Bundle");
    let deployment = deployments.get(installed).await?;
    let active = deployment.data["status"]["activeBundle"].as_str().context("it is installed")?;
    let bundle = bundles.get(active).await?;

    let name = unique_name("prices");
    let one = |index: usize| format!("{name}-{index}");
    let source = world::image("localhost:1/prices:v1");
    for (api, what, body, status) in [
        (&deployments, "BundleDeployment", world::deployment(&name, source.clone()), &deployment.data["status"]),
        (&bundles, "Bundle", world::bundle(&name, source.clone()), &bundle.data["status"]),
    ] {
        let create = |index: usize| {
            let mut body = body.clone();
            body["metadata"]["name"] = json!(one(index));
            for pointer in ["/spec/provisionerClassName", "/spec/template/spec/provisionerClassName"] {
                if let Some(class) = body.pointer_mut(pointer) {
                    *class = json!(CLASS);
                }
            }
            async move {
                api.create(&PostParams::default(), &serde_json::from_value(body)?)
                    .await
                    .map(drop)
                    .map_err(anyhow::Error::from)
            }
        };
        rows.push(price(site, &format!("create a {what}"), create).await?);
        let write = |index: usize, value: u8| {
            let status = said(status, value);
            let name = one(index);
            async move {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
            }
        };
        rows.push(price(site, &format!("write the first status of a {what}"), |index| write(index, 1)).await?);
        rows.push(price(site, &format!("merge a patch into the status of a {what}"), |index| write(index, 2)).await?);
        let delete = |index: usize| {
            let name = one(index);
            async move { api.delete(&name, &DeleteParams::background()).await.map(drop) }
        };
        rows.push(price(site, &format!("delete a {what}"), delete).await?);
    }
    fleet.remove(site, DeleteParams::foreground()).await?;
    Ok(())
}

/// `status` with another message, else the API server would store nothing.
fn said(status: &Value, value: u8) -> Value {
    let mut status = status.clone();
    if let Some(message) = status.pointer_mut("/conditions/0/message") {
        *message = json!(format!("{} ({value})", message.as_str().unwrap_or_default()));
    }
    status
}

/// What goes with an installation: its record, an Event, and what is read.
async fn companions(site: &Site, namespace: &str, rows: &mut Vec<Row>) -> Result<()> {
    let records = namespaced(site, namespace, "apps", "ControllerRevision");
    let record = |index: usize| {
        let records = &records;
        async move {
            let name = format!("r{index}");
            let body = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name},
                "revision": 1, "data": {"objects": "x".repeat(TEXT_BYTES)}});
            let parameters = PatchParams::apply("prices.bench.rukpak.io").force();
            records.patch(&name, &parameters, &Patch::Apply(body)).await.map(drop)
        }
    };
    rows.push(price(site, "apply a new ControllerRevision", record).await?);

    let events = namespaced(site, namespace, "", "Event");
    let event = |index: usize| {
        let events = &events;
        async move {
            let body = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{index}")},
                "involvedObject": {"kind": "ConfigMap", "namespace": namespace, "name": "c0"}, "type": "Normal",
                "reason": "Priced", "message": "x".repeat(TEXT_BYTES), "count": 1});
            events
                .create(&PostParams::default(), &serde_json::from_value(body)?)
                .await
                .map(drop)
                .map_err(anyhow::Error::from)
        }
    };
    rows.push(price(site, "create an Event", event).await?);

    let accounts = namespaced(site, namespace, "", "ServiceAccount");
    rows.push(price(site, "get a ServiceAccount", |_| async { accounts.get_opt("none").await.map(drop) }).await?);
    let secrets = namespaced(site, namespace, "", "Secret");
    let list = |_| async { secrets.list(&ListParams::default().labels("owner=helm,name=none")).await.map(drop) };
    rows.push(price(site, "list Secrets by label, none is there", list).await?);
    Ok(())
}

fn namespaced(site: &Site, namespace: &str, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(site.admin.clone(), namespace, &resource)
}

/// Sends requests of one kind, one for each index.
async fn price<F, E>(site: &Site, what: &str, send: impl Fn(usize) -> F) -> Result<Row>
where
    F: Future<Output = Result<(), E>>,
    anyhow::Error: From<E>,
{
    let before = site.usage().await?;
    let all = futures::stream::iter(0..COUNT).map(|index| {
        let request = send(index);
        async move { request.await.map_err(anyhow::Error::from) }
    });
    all.buffer_unordered(IN_FLIGHT).try_collect::<()>().await.with_context(|| what.to_owned())?;
    let usage = site.usage().await?.since(&before);
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let each = |process| usage.seconds_of(process) * 1e6 / COUNT as f64;
    let (server, etcd) = (each("kube-apiserver"), each("etcd"));
    Ok(Row {
        what: what.to_owned(),
        measured: server + etcd,
        unit: Unit::Microseconds,
        target: None,
        note: format!("CPU time: kube-apiserver {server:.0} µs, etcd {etcd:.0} µs; of {COUNT} requests"),
    })
}

/// Does something while [`WATCHES`] watches see it.
async fn watched(api: &Api<DynamicObject>, act: impl Future<Output = Result<Row>>) -> Result<Row> {
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let mut seen = Box::pin(watcher(api.clone(), watcher::Config::default()).default_backoff());
        while !matches!(seen.try_next().await.context("watch")?, Some(watcher::Event::InitDone)) {}
        watches.push(seen);
    }
    let drain = futures::future::join_all(watches.into_iter().map(|seen| seen.for_each(|_| std::future::ready(()))));
    tokio::select! {
        row = pin!(act) => row,
        _ = drain => unreachable!("a watch does not end"),
    }
}
