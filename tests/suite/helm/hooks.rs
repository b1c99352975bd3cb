//! Hooks of charts: Jobs that are run once for a release, in their order, and that an installation waits for. The control plane runs
//! Jobs; the test plays the node on which their Pods end.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::case::{Chart, Charts as _, own_world, world};
use crate::cli::hands::{Hands, folder, text};
use crate::engine::case::Case;
use crate::plans::case::Asked as _;

/// A hook with the name of the release before its own.
fn hook(case: &Case<'_>, name: &str, annotations: &Value) -> Value {
    let metadata =
        json!({"name": format!("{}-{name}", case.name), "namespace": case.namespace, "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// A Job at these events.
fn job(case: &Case<'_>, name: &str, events: &str, policy: &str) -> String {
    let mut job = hook(case, name, &json!({"helm.sh/hook": events, "helm.sh/hook-delete-policy": policy}));
    (job["apiVersion"], job["kind"]) = (json!("batch/v1"), json!("Job"));
    let containers = json!([{"name": "main", "image": "example.com/none:1"}]);
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    job["spec"] = json!({"backoffLimit": 0, "template": pod});
    job.to_string()
}

fn target(case: &Case<'_>, kind: &str, name: &str) -> Target {
    let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
    case.in_namespace(api_version, kind, &format!("{}-{name}", case.name))
}

/// Waits until the Job has a Pod.
async fn begun(case: &Case<'_>, name: &str) -> DynamicObject {
    case.until_value(&target(case, "Job", name), "/status/active", &json!(1)).await
}

/// Ends the Pod of a Job.
async fn end(case: &Case<'_>, job: &DynamicObject, phase: &str) {
    let of_job = format!("batch.kubernetes.io/controller-uid={}", job.uid().expect("it has one"));
    let pods = verbs::list(&case.client, "v1", "Pod", &of_job).await.expect("the API server agrees");
    assert_eq!(pods.len(), 1, "{pods:?}");
    let pod = case.in_namespace("v1", "Pod", &pods[0].name_any());
    case.edit_sub("status", "kubelet", &pod, json!({"status": {"phase": phase}})).await;
}

/// Waits until people are told which hook is waited for.
async fn until_told(case: &Case<'_>, text: &str) {
    let says = |object: &DynamicObject| {
        verbs::condition(object, "Ready").is_some_and(|ready| {
            ready["reason"] == "Progressing" && ready["message"].as_str().is_some_and(|message| message.contains(text))
        })
    };
    case.until(&case.target(), text, |object| object.is_some_and(says)).await;
}

/// Proof that all before was seen: what drifts after it is repaired.
async fn until_repaired(case: &Case<'_>) {
    let settings = case.system("ConfigMap", "settings");
    let size = case.settings().await["size"].clone();
    case.edit("intruder", &settings, json!({"data": {"size": "drifted"}})).await;
    case.until_value(&settings, "/data/size", &size).await;
}

#[tokio::test]
async fn runs_hooks_of_an_installation_in_their_order_and_deletes_them_by_their_policy() {
    let case = Case::in_world(world().await, "chart-hooks").await;
    let succeeded = "before-hook-creation,hook-succeeded";
    let first =
        json!({"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "-1", "helm.sh/hook-delete-policy": succeeded});
    let chart = Chart::new()
        .with("templates/first.yaml", &hook(&case, "first", &first).to_string())
        .with("templates/before.yaml", &job(&case, "before", "pre-install", succeeded))
        .with("templates/after.yaml", &job(&case, "after", "post-install,pre-delete", ""))
        .with("templates/upgrade.yaml", &job(&case, "upgrade", "pre-upgrade", ""))
        .with("templates/test.yaml", &job(&case, "test", "test", ""));
    case.deploy_chart(&chart, json!({})).await;

    let before = begun(&case, "before").await;
    until_told(&case, "waiting until pre-install hook Job").await;
    assert!(case.get(&target(&case, "ConfigMap", "first")).await.is_some(), "its weight is less");
    assert!(case.get(&case.system("ConfigMap", "settings")).await.is_none(), "nothing of the release is written");
    end(&case, &before, "Succeeded").await;

    let after = begun(&case, "after").await;
    until_told(&case, "waiting until post-install hook Job").await;
    assert_eq!(case.settings().await["size"], "1");
    for (kind, name) in [("Job", "before"), ("ConfigMap", "first")] {
        case.until_gone(&target(&case, kind, name)).await;
    }
    end(&case, &after, "Succeeded").await;
    case.until_size("1").await;
    case.ready().await;

    for name in ["test", "upgrade"] {
        assert!(case.get(&target(&case, "Job", name)).await.is_none(), "{name} is not for an installation");
    }
    let (log, name) = (case.world.controller.log(), format!("{}-after", case.name));
    let is_told = |line: &str| line.contains(&name) && line.contains("is a hook that is never run here at pre-delete");
    assert!(log.lines().any(is_told), "{log}");
    assert_eq!(after.owner_references()[0].uid, case.uid().await);
    case.delete(&target(&case, "Job", "after")).await;
    case.until_gone(&target(&case, "Job", "after")).await;
    until_repaired(&case).await;
    assert!(case.get(&target(&case, "Job", "after")).await.is_none(), "it is no part of the release");
}

#[tokio::test]
async fn runs_hook_of_an_upgrade_once_though_the_controller_is_killed() {
    let world = own_world().await;
    let case = Case::in_world(&world, "chart-hook-once").await;
    let chart = Chart::new().with("templates/job.yaml", &job(&case, "job", "pre-upgrade,post-upgrade", ""));
    case.deploy_chart(&chart, json!({})).await;
    case.until_size("1").await;
    assert!(case.get(&target(&case, "Job", "job")).await.is_none(), "it is not for an installation");

    let restart = async || {
        world.controller.kill().await.expect("the controller obeys");
        world.controller.restart().await.expect("the controller starts");
        world.controller.wait_ready().await.expect("the controller is ready");
    };
    case.change_chart("v2", &chart.with("values.yaml", "size: 2")).await;
    let first = begun(&case, "job").await;
    restart().await;
    until_told(&case, "waiting until pre-upgrade hook Job").await;
    assert_eq!(case.settings().await["size"], "1");
    end(&case, &first, "Succeeded").await;

    // Its own object for each event.
    let is_second =
        |job: &DynamicObject| job.uid() != first.uid() && job.data.pointer("/status/active") == Some(&json!(1));
    let second = case.until(&target(&case, "Job", "job"), "another Job", |job| job.is_some_and(is_second)).await;
    let second = second.expect("it is there");
    until_told(&case, "waiting until post-upgrade hook Job").await;
    assert_eq!(case.settings().await["size"], "2");
    restart().await;
    end(&case, &second, "Succeeded").await;
    case.until_size("2").await;
    restart().await;
    until_repaired(&case).await;
    let job = case.get(&target(&case, "Job", "job")).await.expect("its policy lets it stay");
    assert_eq!(job.uid(), second.uid(), "it was run again");
}

#[tokio::test]
async fn leaves_the_version_before_where_a_hook_fails() {
    let case = Case::in_world(world().await, "chart-hook-fails").await;
    case.deploy_chart(&Chart::new(), json!({})).await;
    case.until_size("1").await;
    let next = Chart::new()
        .with("values.yaml", "size: 2")
        .with("templates/job.yaml", &job(&case, "job", "pre-upgrade", "hook-failed"));
    case.change_chart("v2", &next).await;
    let job = begun(&case, "job").await;
    end(&case, &job, "Failed").await;
    let message = case.refused("UpgradeFailed", "pre-upgrade hook Job").await;
    assert!(message.contains("failed: BackoffLimitExceeded"), "{message}");
    case.until_gone(&target(&case, "Job", "job")).await;
    assert_eq!(case.settings().await["size"], "1");
}

/// `rukpakctl diff` names them, and whoever approves a Plan knows of them.
#[tokio::test]
async fn tells_of_hooks_before_they_are_run() {
    let case = Case::in_world(world().await, "chart-hook-plan").await;
    case.deploy_chart(&Chart::new(), json!({})).await;
    case.until_size("1").await;
    let next =
        Chart::new().with("values.yaml", "size: 2").with("templates/job.yaml", &job(&case, "job", "pre-upgrade", ""));
    let (name, files) = (format!("{}-job", case.name), folder(&next.files("")));
    let helm = format!("--helm={}", tools::helm().expect("Helm is built").display());
    let did = Hands::admin_of(case.world).await.run(&["diff", &case.name, text(files.path()), &helm]).await;
    let said = format!("{}{}", did.out, did.err);
    assert!(said.contains(&format!("pre-upgrade hook Job {name:?}")) && said.contains("would be run"), "{did:?}");

    case.edit("user", &case.target(), json!({"spec": {"approval": "Upgrades"}})).await;
    case.change_chart("v2", &next).await;
    let plan = case.asked().await;
    let created = plan.data["status"]["created"]["items"].as_array().expect("a list");
    let hook = created.iter().find(|item| item["name"] == name).expect("it is listed");
    assert_eq!((&hook["kind"], &hook["note"]), (&json!("Job"), &json!("run as a hook: pre-upgrade")));
    assert!(case.get(&target(&case, "Job", "job")).await.is_none(), "nobody has approved it");

    case.answer(&plan, "Approved").await;
    let job = begun(&case, "job").await;
    end(&case, &job, "Succeeded").await;
    case.until_size("2").await;
    case.until_phase(&plan, "Applied").await;
}
