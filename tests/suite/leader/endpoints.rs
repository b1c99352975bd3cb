//! The Service of the content service: it selects the Pod whose process leads, and no other.

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::json;

use crate::leader::{SHORT, Stage};

const LEADER: &str = "core.rukpak.io/leader";

async fn installed(stage: &Stage, api_version: &str, kind: &str) -> DynamicObject {
    let target = Target::namespaced(api_version, kind, SYSTEM_NAMESPACE, "core");
    verbs::get(&stage.client, &target).await.expect("readable").expect("it is installed")
}

/// A Pod of Deployment core. What runs in it is a process that the test starts.
async fn pod(stage: &Stage, name: &str) -> Target {
    let deployment = installed(stage, "apps/v1", "Deployment").await;
    let template = &deployment.data["spec"]["template"];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                     "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": template["metadata"]["labels"]}});
    verbs::create(&stage.client, &pod).await.expect("created");
    Target::namespaced("v1", "Pod", SYSTEM_NAMESPACE, name)
}

/// The names of the Pods that the Service selects.
async fn selected(stage: &Stage) -> Vec<String> {
    let service = installed(stage, "v1", "Service").await;
    let selector = service.data["spec"]["selector"].as_object().expect("it has one").iter();
    let selector: Vec<_> = selector.map(|(key, value)| format!("{key}={}", value.as_str().expect("text"))).collect();
    let pods: Api<DynamicObject> =
        Target::namespaced("v1", "Pod", SYSTEM_NAMESPACE, "").api(&stage.client).await.expect("served");
    let pods = pods.list(&ListParams::default().labels(&selector.join(","))).await.expect("readable");
    pods.iter().map(ResourceExt::name_any).collect()
}

fn label(pod: &DynamicObject) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(LEADER).map(String::as_str)
}

async fn until_labelled(stage: &Stage, pod: &Target, value: Option<&str>) {
    let is_so = |object: Option<&DynamicObject>| object.is_some_and(|object| label(object) == value);
    let found = verbs::await_object(&stage.client, pod, &format!("label {value:?}"), SOON, is_so).await;
    found.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn set_label(stage: &Stage, pod: &Target, value: Option<&str>) {
    let api = pod.api(&stage.client).await.expect("served");
    let patch = json!({"metadata": {"labels": {LEADER: value}}});
    api.patch(&pod.name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("written");
}

#[tokio::test]
async fn the_service_of_the_content_selects_the_pod_that_leads() {
    let stage = Stage::set().await;
    let (one, two) = (pod(&stage, "one").await, pod(&stage, "two").await);
    assert_eq!(selected(&stage).await, [""; 0], "nobody leads");
    let first = stage.start("one", SHORT).await;
    until_labelled(&stage, &one, Some("true")).await;
    let second = stage.start("two", SHORT).await;
    assert_eq!(selected(&stage).await, ["one"], "who stands by is ready, but has no content");

    // Whatever somebody does to the labels, who leads puts it right.
    set_label(&stage, &two, Some("true")).await;
    until_labelled(&stage, &two, None).await;
    set_label(&stage, &one, None).await;
    until_labelled(&stage, &one, Some("true")).await;

    // Killed, it cannot take its label off: who leads next does.
    first.kill().await.unwrap();
    until_labelled(&stage, &two, Some("true")).await;
    until_labelled(&stage, &one, None).await;
    assert_eq!(selected(&stage).await, ["two"]);
    second.terminate().await.unwrap();
    for pod in [one, two] {
        verbs::delete(&stage.client, &pod).await.expect("the administrator may");
    }
}
