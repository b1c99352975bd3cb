//! An upgrade of RukPak itself: the version before it runs and has installed something, the new manifests are applied over it, and
//! nothing of what is installed is written or started again.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rukpak_tests::fixtures;
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use crate::Clock;
use crate::node::{Node, until};
use crate::steps::{NAMESPACE, apply, pods};

/// The BundleDeployment that is there during the upgrade, and its namespace.
const KEPT: &str = "kept";
/// Its content: a ConfigMap, which no server is needed for.
const CONTENT: &str = "kept-content";
/// What is installed.
const OBJECTS: [(&str, &str); 3] = [("v1", "ConfigMap"), ("v1", "Service"), ("apps/v1", "Deployment")];

/// Installs the version before, something with it, and the version of now over it.
pub async fn all(node: &Node, before: &Path, clock: &Clock) -> Result<()> {
    let reference = node.load_image(&before.join("image")).await?;
    clock.say(&format!("containerd has {reference}, the version before"));
    apply(node, &before.join("manifests"), clock).await?;
    install(node).await?;
    let kept = seen(node).await?;
    clock.say(&format!("bundledeployment/{KEPT} is installed by the version before, and its Pod runs"));

    let reference = node.load_image(&node.image).await?;
    clock.say(&format!("containerd has {reference}"));
    let began = Instant::now();
    apply(node, &node.manifests, clock).await?;
    let leader = looked_at(node, &reference).await?;
    let now = seen(node).await?;
    ensure!(kept == now, "before the upgrade: {kept:#}\nafter it: {now:#}");
    clock.say(&format!(
        "pod/{leader} of the new version leads and has looked at everything {:.1} s after kubectl apply: no object of \
         bundledeployment/{KEPT} was written, and its container is the same",
        began.elapsed().as_secs_f64()
    ));
    changed(node, clock).await
}

/// A BundleDeployment whose operator runs.
async fn install(node: &Node) -> Result<()> {
    let files = fixtures::read("node/pump")?;
    let [(_, text)] = files.as_slice() else { anyhow::bail!("the fixture node/pump is not one file") };
    let text = text.replace("VERSION", "1").replace("pumps", KEPT);
    let content = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONTENT, "namespace": NAMESPACE},
        "immutable": true, "data": {"pump.yaml": text},
    });
    let source = json!({"type": "configMaps", "configMaps": [{"configMap": {"name": CONTENT}, "path": "manifests"}]});
    verbs::create(&node.client, &content).await?;
    verbs::create(&node.client, &rukpak_tests::world::deployment(KEPT, source)).await?;
    let target = Target::bundle_deployment(KEPT);
    verbs::await_condition(&node.client, &target, rukpak_tests::installation::installed(), PATIENCE).await?;
    node.hands.kubectl(&format!("-n {KEPT} rollout status deployment/pump --timeout=60s")).await?;
    verbs::await_condition(&node.client, &target, Expected::is_true("Healthy", "Healthy"), PATIENCE).await?;
    Ok(())
}

/// What a write or a restart would change: who wrote what and when, the spec's generation, and the containers. The status of a
/// Deployment is its controller's.
async fn seen(node: &Node) -> Result<Value> {
    let mut all = Vec::new();
    for (api_version, kind) in OBJECTS {
        let target = Target::namespaced(api_version, kind, KEPT, "pump");
        let object = verbs::get(&node.client, &target).await?.with_context(|| format!("{target} is gone"))?;
        let metadata = &object.metadata;
        let writers = metadata.managed_fields.iter().flatten();
        let writers: Vec<_> =
            writers.filter(|entry| entry.manager.as_deref() != Some("kube-controller-manager")).collect();
        ensure!(!writers.is_empty(), "{target} was written by nobody");
        let version = metadata.resource_version.as_ref().filter(|_| kind != "Deployment");
        all.push(json!({"object": target.to_string(), "uid": metadata.uid, "generation": metadata.generation,
            "resourceVersion": version, "written": writers}));
    }
    for pod in pods(node, KEPT, "app=pump").await? {
        let container = &pod["status"]["containerStatuses"][0];
        all.push(json!({"pod": pod["metadata"]["uid"], "container": container["containerID"], "restarts": container["restartCount"]}));
    }
    Ok(all.into())
}

/// Waits until a Pod with this image leads and has reconciled what is there; its name.
async fn looked_at(node: &Node, reference: &str) -> Result<String> {
    let lease = Target::namespaced("coordination.k8s.io/v1", "Lease", NAMESPACE, "core.rukpak.io");
    let new: Vec<String> = pods(node, NAMESPACE, "app=core")
        .await?
        .iter()
        .filter(|pod| pod["spec"]["containers"][0]["image"] == reference)
        .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let holder = |lease: &kube::api::DynamicObject| lease.data["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let is_new = |name: String| new.contains(&name);
    let held = verbs::await_object(&node.client, &lease, "a holder of the new version", PATIENCE * 2, |lease| {
        lease.and_then(holder).is_some_and(is_new)
    });
    let leader = held.await?.and_then(|lease| holder(&lease)).context("nobody leads")?;
    let question = format!("get --raw /api/v1/namespaces/{NAMESPACE}/pods/{leader}:8080/proxy/metrics");
    until("the new version has reconciled what is there", || async {
        let metrics = node.hands.kubectl(&question).await?;
        let value = |name: &str| {
            let line =
                metrics.lines().find_map(|line| line.strip_prefix(&format!("{name}{{kind=\"BundleDeployment\"}} ")));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        let done = value("rukpak_reconcile_duration_seconds_count");
        ensure!(done >= 1.0, "{done} reconciles");
        for name in ["rukpak_queue_depth", "rukpak_reconciles_running"] {
            ensure!(value(name) == 0.0, "{name} is {}", value(name));
        }
        Ok(())
    })
    .await?;
    let installed = rukpak_tests::installation::installed();
    verbs::await_condition(&node.client, &Target::bundle_deployment(KEPT), installed, PATIENCE).await?;
    Ok(leader)
}

/// The new version keeps it: what somebody deletes is back, and with the BundleDeployment it goes.
async fn changed(node: &Node, clock: &Clock) -> Result<()> {
    let object = Target::namespaced("v1", "ConfigMap", KEPT, "pump");
    let uid = verbs::get(&node.client, &object).await?.and_then(|object| object.metadata.uid);
    verbs::delete(&node.client, &object).await?;
    verbs::await_object(&node.client, &object, "another of that name", PATIENCE, |now| {
        now.is_some_and(|now| now.metadata.uid != uid)
    })
    .await?;
    verbs::delete(&node.client, &Target::bundle_deployment(KEPT)).await?;
    verbs::await_deleted(&node.client, &Target::cluster("v1", "Namespace", KEPT), PATIENCE * 2).await?;
    verbs::delete(&node.client, &Target::namespaced("v1", "ConfigMap", NAMESPACE, CONTENT)).await?;
    clock.say(&format!("the new version repairs bundledeployment/{KEPT}, and removes it with all that it brought"));
    Ok(())
}
