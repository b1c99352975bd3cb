//! What is tried on the node, in order. Each step says what it saw, or ends the test with what it saw instead.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rukpak_tests::tools::{self, PATIENCE};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{fixtures, installation};
use serde_json::Value;

use crate::node::{Node, ctr};
use crate::{Clock, extension, kernel, upgrade};

pub const NAMESPACE: &str = "rukpak-system";
/// The Deployments of `install-olm.yaml`, and what they may use: as in the manifests.
const DEPLOYMENTS: [(&str, &str, u64); 3] = [
    ("core", "app=core", 7 << 30),
    ("platform-operators-controller-manager", "app=platform-operators", 1 << 30),
    ("rukpak-webhooks", "app=webhooks", 512 << 20),
];
/// What is installed here: the fixture `node/pump`.
const PUMP: &str = "pump";

/// All steps; with the version before, an upgrade from it first.
pub async fn all(node: &mut Node, before: Option<&Path>, clock: &Clock) -> Result<()> {
    match before {
        Some(before) => upgrade::all(node, before, clock).await?,
        None => install(node, clock).await?,
    }
    containers(node, clock).await?;
    admission(node, clock).await?;
    run(node, clock, "1").await?;
    services(node, clock).await?;
    content(node, clock).await?;
    restart(node, clock).await?;
    run(node, clock, "2").await?;
    logs(node, clock).await?;
    hand_over(node, clock, 1).await?;
    hand_over(node, clock, 2).await?;
    extension::all(node, clock).await?;
    removal(node, clock).await
}

/// The image and the manifests.
async fn install(node: &Node, clock: &Clock) -> Result<()> {
    let reference = node.load_image(&node.image).await?;
    clock.say(&format!("containerd has {reference}"));
    apply(node, &node.manifests, clock).await
}

/// The manifests of a folder, and Pods that are ready: the kubelet has asked their probes.
pub async fn apply(node: &Node, manifests: &Path, clock: &Clock) -> Result<()> {
    let began = Instant::now();
    node.hands.kubectl(&format!("apply -f {}/install-olm.yaml", manifests.display())).await?;
    for (deployment, ..) in DEPLOYMENTS {
        rollout(node, deployment).await?;
        clock.say(&format!(
            "deployment/{deployment} rolled out {:.1} s after kubectl apply",
            began.elapsed().as_secs_f64()
        ));
    }
    Ok(())
}

/// Waits until a Deployment of the manifests is rolled out.
pub async fn rollout(node: &Node, deployment: &str) -> Result<()> {
    let status =
        node.hands.kubectl(&format!("-n {NAMESPACE} rollout status deployment/{deployment} --timeout=120s")).await;
    match status {
        Ok(_) => Ok(()),
        Err(error) => {
            let pods = node.hands.kubectl(&format!("-n {NAMESPACE} describe pods")).await.unwrap_or_default();
            Err(error.context(pods))
        }
    }
}

/// Pods that are to stay.
pub async fn pods(node: &Node, namespace: &str, labels: &str) -> Result<Vec<Value>> {
    let json = node.hands.kubectl(&format!("-n {namespace} get pods -l {labels} -o json")).await?;
    let mut list: Value = serde_json::from_str(&json)?;
    let mut pods = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(pods)
}

/// The container of a Pod, as containerd and its pid know it.
async fn process(node: &Node, pod: &Value) -> Result<(String, u32)> {
    let id =
        pod["status"]["containerStatuses"][0]["containerID"].as_str().and_then(|id| id.strip_prefix("containerd://"));
    let id = id.with_context(|| format!("no container: {}", pod["status"]))?;
    let tasks = ctr(&node.hands, &["tasks", "list"]).await?;
    let pid = tasks.lines().find_map(|line| line.strip_prefix(id)?.split_whitespace().next()?.parse().ok());
    Ok((id.to_owned(), pid.with_context(|| format!("containerd knows no process of {id}:\n{tasks}"))?))
}

/// What the kernel says of each process: user, capabilities, root, limits. And that none had to be started twice.
async fn containers(node: &Node, clock: &Clock) -> Result<()> {
    for (deployment, labels, memory) in DEPLOYMENTS {
        for pod in pods(node, NAMESPACE, labels).await? {
            let name = pod["metadata"]["name"].as_str().context("a Pod has a name")?;
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            ensure!(restarts == 0, "{name} was restarted {restarts} times");
            let (_, pid) = process(node, &pod).await?;
            kernel::check(pid, memory).with_context(|| format!("{name} of {deployment}, pid {pid}"))?;
            clock.say(&format!(
                "pod/{name}: user 65532, no capabilities, system calls filtered, root read-only, memory limit {} MiB",
                memory >> 20
            ));
        }
    }
    Ok(())
}

/// The API server calls the webhook through its Service.
async fn admission(node: &Node, clock: &Clock) -> Result<()> {
    let file = node.folder("refused")?.join("bundle.yaml");
    std::fs::write(
        &file,
        "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata:\n  name: refused\nspec:\n  \
         provisionerClassName: core-rukpak-io-plain\n  source:\n    type: git\n    git:\n      \
         repository: https://git.example.com/pump\n      directory: ../elsewhere\n      ref:\n        tag: v1\n",
    )?;
    let said = node.hands.kubectl_refused(&format!("create -f {}", file.display())).await?;
    ensure!(said.contains("admission webhook \"vbundles.core.rukpak.io\" denied the request"), "{said}");
    clock.say(&said);
    Ok(())
}

/// `rukpakctl run`, which forwards a port to the controller's Pod, and then the operator's own Pod.
async fn run(node: &Node, clock: &Clock, version: &str) -> Result<()> {
    let folder = node.folder(&format!("pump-{version}"))?;
    for (path, text) in fixtures::read("node/pump")? {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(&path, text.replace("VERSION", version))?;
    }
    let began = Instant::now();
    let program = tools::workspace_binary("rukpakctl")?;
    let folder = folder.to_str().context("the folder's path is no text")?;
    let said = node.hands.run(&program, ["run", PUMP, folder]).await?;
    clock.say(&format!(
        "rukpakctl run {PUMP}: {:.2} s: {}",
        began.elapsed().as_secs_f64(),
        said.lines().last().unwrap_or_default()
    ));

    let pump = Target::bundle_deployment(PUMP);
    let configured = Target::namespaced("v1", "ConfigMap", "pumps", "pump");
    verbs::await_object(&node.client, &configured, "the version", PATIENCE, |object| {
        object.is_some_and(|object| object.data["data"]["version"] == version)
    })
    .await?;
    verbs::await_condition(&node.client, &pump, installation::installed(), PATIENCE).await?;
    node.hands.kubectl("-n pumps rollout status deployment/pump --timeout=60s").await?;
    verbs::await_condition(&node.client, &pump, Expected::is_true("Healthy", "Healthy"), PATIENCE).await?;
    let pods = pods(node, "pumps", "app=pump").await?;
    let [pod] = pods.as_slice() else { bail!("not one Pod of the operator, but {}", pods.len()) };
    let pod = pod["metadata"]["name"].as_str().context("a Pod has a name")?;
    let logs = node.hands.kubectl(&format!("-n pumps logs {pod}")).await?;
    ensure!(logs.contains(&format!("pump {version} serves")), "the log of the operator's Pod: {logs}");
    clock.say(&format!(
        "the operator of version {version} runs after {:.1} s; kubectl logs: {}",
        began.elapsed().as_secs_f64(),
        logs.lines().next().unwrap_or_default()
    ));
    Ok(())
}

/// Services are reached from a Pod.
async fn services(node: &Node, clock: &Clock) -> Result<()> {
    let mut addresses = Vec::new();
    for (namespace, service) in
        [("default", "kubernetes"), (NAMESPACE, "core"), (NAMESPACE, "rukpak-webhook-service"), ("pumps", "pump")]
    {
        let path = "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}";
        addresses.push(node.hands.kubectl(&format!("-n {namespace} get service {service} -o {path}")).await?);
    }
    let image = crate::programs::POD_IMAGE;
    node.hands.kubectl(&format!("run client --image={image} --restart=Never -- reach {}", addresses.join(" "))).await?;
    let pod = Target::namespaced("v1", "Pod", "default", "client");
    let ended = verbs::await_object(&node.client, &pod, "its end", PATIENCE, |object| {
        object.is_some_and(|pod| ["Succeeded", "Failed"].iter().any(|phase| pod.data["status"]["phase"] == *phase))
    });
    let ended = ended.await?.context("the Pod is gone")?;
    let said = node.hands.kubectl("logs client").await?;
    ensure!(ended.data["status"]["phase"] == "Succeeded", "{said}");
    clock.say(&format!("from a Pod: {}", said.lines().collect::<Vec<_>>().join(", ")));
    node.hands.kubectl("delete pod client --grace-period=0").await.map(|_| ())
}

/// `rukpakctl content`, which forwards a port as well.
async fn content(node: &Node, clock: &Clock) -> Result<()> {
    let bundle =
        node.hands.kubectl(&format!("get bundledeployment {PUMP} -o jsonpath={{.status.activeBundle}}")).await?;
    let files = node.hands.run(&tools::workspace_binary("rukpakctl")?, ["content", &bundle]).await?;
    ensure!(files.lines().any(|file| file == "manifests/pump.yaml"), "{files}");
    clock.say(&format!("rukpakctl content {bundle}: {}", files.lines().collect::<Vec<_>>().join(" ")));
    Ok(())
}

/// kubelet and containerd start again; no container does.
async fn restart(node: &mut Node, clock: &Clock) -> Result<()> {
    let before = processes(node).await?;
    node.restart(before.len()).await?;
    let after = processes(node).await?;
    ensure!(before == after, "containers before kubelet and containerd were restarted: {before:?}, after: {after:?}");
    for (deployment, ..) in DEPLOYMENTS {
        rollout(node, deployment).await?;
    }
    clock.say(&format!("kubelet and containerd were restarted; all {} containers are the same processes", after.len()));
    Ok(())
}

async fn processes(node: &Node) -> Result<Vec<(String, u32)>> {
    let mut all = Vec::new();
    for (namespace, labels) in
        DEPLOYMENTS.map(|(_, labels, _)| (NAMESPACE, labels)).into_iter().chain([("pumps", "app=pump")])
    {
        for pod in pods(node, namespace, labels).await? {
            all.push(process(node, &pod).await?);
        }
    }
    Ok(all)
}

/// Each line of the programs' logs is JSON.
async fn logs(node: &Node, clock: &Clock) -> Result<()> {
    for (deployment, ..) in DEPLOYMENTS {
        let log = node.hands.kubectl(&format!("-n {NAMESPACE} logs deployment/{deployment}")).await?;
        ensure!(!log.is_empty(), "deployment/{deployment} has written nothing");
        for line in log.lines() {
            serde_json::from_str::<Value>(line).with_context(|| format!("deployment/{deployment} wrote {line}"))?;
        }
        clock.say(&format!("kubectl logs deployment/{deployment}: {} lines, all of them JSON", log.lines().count()));
    }
    Ok(())
}

/// The Pod that leads is deleted, with so many replicas; the next one leads, and what is installed runs on.
async fn hand_over(node: &Node, clock: &Clock, replicas: u32) -> Result<()> {
    node.hands.kubectl(&format!("-n {NAMESPACE} scale deployment/core --replicas={replicas}")).await?;
    rollout(node, "core").await?;
    let operator = pods(node, "pumps", "app=pump").await?;
    let lease = Target::namespaced("coordination.k8s.io/v1", "Lease", NAMESPACE, "core.rukpak.io");
    let holder = |lease: &kube::api::DynamicObject| lease.data["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let held = verbs::get(&node.client, &lease).await?.context("nobody leads")?;
    let leader = holder(&held).filter(|name| !name.is_empty()).context("the Lease has no holder")?;
    serves_content(node, &leader).await?;
    let began = Instant::now();
    node.hands.kubectl(&format!("-n {NAMESPACE} delete pod {leader} --wait=false")).await?;
    let next = verbs::await_object(&node.client, &lease, "another holder", PATIENCE * 2, |lease| {
        lease.and_then(holder).is_some_and(|name| !name.is_empty() && name != leader)
    });
    let next = next.await?.and_then(|lease| holder(&lease)).unwrap_or_default();
    let leads = began.elapsed().as_secs_f64();
    serves_content(node, &next).await?;
    let serves = began.elapsed().as_secs_f64();
    rollout(node, "core").await?;
    clock.say(&format!(
        "{replicas} replica(s), pod/{leader} deleted: {next} leads after {leads:.1} s, is behind service/core after \
         {serves:.1} s, rolled out after {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    let pump = Target::namespaced("apps/v1", "Deployment", "pumps", "pump");
    let runs = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["readyReplicas"] == 1)
    };
    verbs::holds_for(&node.client, &pump, "the operator runs", Duration::from_secs(5), runs).await?;
    let now = pods(node, "pumps", "app=pump").await?;
    ensure!(
        now.iter().map(|pod| &pod["metadata"]["uid"]).eq(operator.iter().map(|pod| &pod["metadata"]["uid"])),
        "the operator's Pods are others than before"
    );
    Ok(())
}

/// Waits until Service core leads to this Pod, and to no other.
async fn serves_content(node: &Node, pod: &str) -> Result<()> {
    let endpoints = Target::namespaced("v1", "Endpoints", NAMESPACE, "core");
    let only = |object: Option<&kube::api::DynamicObject>| {
        let subsets = object.and_then(|object| object.data["subsets"].as_array()).into_iter().flatten();
        let addresses = subsets.filter_map(|subset| subset["addresses"].as_array()).flatten();
        addresses.map(|address| address["targetRef"]["name"].as_str().unwrap_or_default()).eq([pod])
    };
    verbs::await_object(&node.client, &endpoints, &format!("only pod/{pod}"), PATIENCE, only).await.map(drop)
}

/// As docs/install.md says. Nothing is left.
async fn removal(node: &Node, clock: &Clock) -> Result<()> {
    let began = Instant::now();
    node.hands.kubectl("delete platformoperators --all").await?;
    node.hands.kubectl("delete bundledeployments,bundles --all").await?;
    for target in
        [Target::namespaced("apps/v1", "Deployment", "pumps", "pump"), Target::cluster("v1", "Namespace", "pumps")]
    {
        verbs::await_deleted(&node.client, &target, PATIENCE * 2).await?;
    }
    clock.say(&format!("what was installed is gone {:.1} s after kubectl delete", began.elapsed().as_secs_f64()));
    node.hands.kubectl(&format!("delete -f {}/install-olm.yaml", node.manifests.display())).await?;
    verbs::await_deleted(&node.client, &Target::cluster("v1", "Namespace", NAMESPACE), PATIENCE).await?;
    let words =
        "get customresourcedefinitions,clusterroles,clusterrolebindings,validatingwebhookconfigurations -o name";
    let left = node.hands.kubectl(words).await?;
    let left: Vec<&str> = left
        .lines()
        .filter(|name| ["rukpak", "platform", "operatorframework"].iter().any(|word| name.contains(word)))
        .collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    clock.say(&format!(
        "RukPak is gone {:.1} s after the first kubectl delete; nothing is left",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}
