//! From one version to the next, or back: as a whole or not at all.

use std::path::PathBuf;

use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};

#[tokio::test]
async fn a_pivot_adds_changes_and_prunes() {
    let case = Case::new("pivot").await;
    let first = case
        .install(&[
            case.config_map("same", json!({"x": "1"})),
            case.config_map("changed", json!({"x": "1"})),
            case.config_map("gone", json!({"x": "1"})),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gone", "namespace": case.namespace}}),
        ])
        .await;
    let same = case.get(&case.config_map_target("same")).await.unwrap();
    let bystander = case.foreign(&case.config_map("foreign", json!({}))).await;
    let second = case
        .pivot(
            "v2",
            &[
                case.config_map("same", json!({"x": "1"})),
                case.config_map("changed", json!({"x": "2"})),
                case.config_map("new", json!({"x": "2"})),
            ],
        )
        .await;
    let stands = |name: &str| {
        let target = case.config_map_target(name);
        let case = &case;
        async move { case.get(&target).await }
    };
    assert_eq!(stands("same").await.unwrap().metadata.resource_version, same.metadata.resource_version, "not touched");
    assert_eq!(stands("changed").await.unwrap().data["data"]["x"], "2");
    assert_eq!(stands("new").await.unwrap().data["data"]["x"], "2");
    assert!(stands("gone").await.is_none(), "pruned before it is reported as installed");
    assert!(case.get(&case.in_namespace("v1", "ServiceAccount", "gone")).await.is_none());
    assert_eq!(stands("foreign").await.unwrap().metadata.resource_version, bystander.metadata.resource_version);
    assert_ne!(first.data["status"]["activeBundle"], second.data["status"]["activeBundle"]);
    let kinds = second.data["status"]["inventory"]["kinds"].as_array().unwrap().clone();
    assert_eq!(kinds, [json!({"version": "v1", "kind": "ConfigMap"})], "kinds of which nothing is left are not listed");
    case.ready().await;
    let old = Target::bundle(first.data["status"]["activeBundle"].as_str().unwrap());
    case.until_gone(&old).await;
}

fn invalid(case: &Case<'_>) -> Value {
    let mut workload = case.workload("w", 0);
    workload["spec"]["template"]["metadata"]["labels"]["app"] = json!("another");
    workload
}

#[tokio::test]
async fn a_pivot_that_the_dry_run_refuses_leaves_everything() {
    let case = Case::new("dry").await;
    let v1 = [case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"})), case.workload("w", 0)];
    let before = case.ready_after(&v1).await;
    let versions = case.versions(&["a", "b"]).await;
    let v3 = [case.config_map("a", json!({"x": "3"})), case.config_map("new", json!({})), invalid(&case)];
    case.change("v3", &v3).await;
    let message = case.refused("ErrorGettingReleaseState", "selector").await;
    assert!(message.contains("Deployment \"w\""), "{message}");
    assert!(message.contains("manifests/002-deployment.yaml"), "{message}");
    assert_eq!(case.versions(&["a", "b"]).await, versions, "nothing was written");
    assert!(case.get(&case.config_map_target("new")).await.is_none());
    let status = case.status().await;
    assert_eq!(status["activeBundle"], before.data["status"]["activeBundle"]);
    assert_eq!(status["inventory"]["contentDigest"], before.data["status"]["inventory"]["contentDigest"]);
    until(&case.client, &case.name, Expected::is_false("Healthy", "InstallationStatusFalse")).await;
    until(&case.client, &case.name, Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
    until(&case.client, &case.name, Expected { kind: "Stalled", status: "True", reason: None, message: "selector" })
        .await;

    // The old version is guarded meanwhile, again and again.
    for _ in 0..2 {
        case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drifted"}})).await;
        case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
        case.delete(&case.config_map_target("b")).await;
        case.until_owned(&case.config_map_target("b")).await;
    }
    let status = case.status().await;
    assert_eq!(status["activeBundle"], before.data["status"]["activeBundle"]);
    assert!(case.get(&case.config_map_target("new")).await.is_none());
    case.refused("ErrorGettingReleaseState", "selector").await;

    case.pivot("v4", &[case.config_map("a", json!({"x": "4"})), case.workload("w", 0)]).await;
    case.until_gone(&case.config_map_target("b")).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "4");
}

#[tokio::test]
async fn a_pivot_that_fails_halfway_is_undone() {
    let case = Case::new("undo").await;
    let v1 = [case.config_map("a", json!({"x": "1", "y": "1"})), case.config_map("dropped", json!({"x": "1"}))];
    let before = case.ready_after(&v1).await;
    let (crd, group) = definition("undo");
    // Nobody can tell before the definition is there that its own validation refuses the object.
    let v2 = |size: i64| {
        [
            case.config_map("a", json!({"x": "2"})),
            case.config_map("new", json!({"x": "2"})),
            crd.clone(),
            gadget(&group, &case.namespace, "g", size),
        ]
    };
    case.change("v2", &v2(0)).await;
    let message = case.refused("UpgradeFailed", "spec.size").await;
    assert!(message.contains("Gadget \"g\""), "{message}");
    let a = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(a.data["data"], json!({"x": "1", "y": "1"}), "put back with all its fields");
    assert!(case.get(&case.config_map_target("dropped")).await.is_some());
    assert!(case.get(&case.config_map_target("new")).await.is_none(), "what is new goes");
    case.until_gone(&definition_target(&group)).await;
    let status = case.status().await;
    assert_eq!(status["activeBundle"], before.data["status"]["activeBundle"]);
    assert_eq!(status["inventory"]["contentDigest"], before.data["status"]["inventory"]["contentDigest"]);
    assert!(status["inventory"].get("pending").is_none(), "{status}");
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"y": null}})).await;
    case.until_value(&case.config_map_target("a"), "/data/y", &json!("1")).await;

    case.pivot("v3", &v2(1)).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"], json!({"x": "2"}));
    case.until_gone(&case.config_map_target("dropped")).await;
    let g = Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap();
    case.until_owned(&g).await;
}

#[tokio::test]
async fn going_back_by_the_template_heals_a_failed_pivot() {
    let case = Case::new("back").await;
    let v1 = [case.config_map("a", json!({"x": "1"})), case.workload("w", 0)];
    let reference = case.push("v1", &v1).await;
    case.ready_after(&v1).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), invalid(&case)]).await;
    case.refused("ErrorGettingReleaseState", "selector").await;
    case.edit(
        "user",
        &case.target(),
        json!({"spec": {"template": {"spec": {"source": {"image": {"ref": reference}}}}}}),
    )
    .await;
    case.installed().await;
    let selector = format!("core.rukpak.io/owner-name={}", case.name);
    case.ready().await;
    let active = case.status().await["activeBundle"].clone();
    let others = verbs::list(&case.client, "core.rukpak.io/v1alpha1", "Bundle", &selector).await.unwrap();
    for other in others.iter().filter_map(|bundle| bundle.metadata.name.as_deref()).filter(|name| active != *name) {
        case.until_gone(&Target::bundle(other)).await;
    }
}

#[tokio::test]
async fn a_pivot_onto_a_foreign_object_is_refused_before_anything_is_written() {
    let case = Case::new("onto").await;
    let before = case.ready_after(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.foreign(&case.config_map("theirs", json!({"x": "foreign"}))).await;
    let versions = case.versions(&["a", "theirs"]).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), case.config_map("theirs", json!({"x": "ours"}))])
        .await;
    let words = "Unable to continue with update: ConfigMap \"theirs\"";
    case.refused("ErrorGettingReleaseState", words).await;
    assert_eq!(case.versions(&["a", "theirs"]).await, versions);
    assert_eq!(case.status().await["activeBundle"], before.data["status"]["activeBundle"]);
}

#[tokio::test]
async fn a_pivot_to_a_kind_that_is_missing_waits_for_it_and_guards_the_old_version() {
    let case = Case::new("wait").await;
    let before = case.ready_after(&[case.config_map("a", json!({"x": "1"}))]).await;
    let (crd, group) = definition("wait");
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), gadget(&group, &case.namespace, "g", 1)]).await;
    case.refused("ErrorGettingReleaseState", "no matches for kind \"Gadget\"").await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drifted"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    assert_eq!(case.status().await["activeBundle"], before.data["status"]["activeBundle"]);
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.until_owned(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await;
    case.installed().await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "2");
    case.delete(&definition_target(&group)).await;
}

#[tokio::test]
async fn nothing_of_a_new_version_is_written_while_the_installed_content_cannot_be_read() {
    let case = Case::new("unread").await;
    let before = case.ready_after(&[case.config_map("a", json!({"x": "1"}))]).await;
    let versions = case.versions(&["a"]).await;
    let file = case.content_file(&before);
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).unwrap();
    // What leads to itself can be opened by nobody, whatever their rights.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), case.config_map("new", json!({}))]).await;
    let message = case.refused("ReconcileFailed", "the store cannot be read").await;
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    assert_eq!(case.versions(&["a"]).await, versions, "nothing was written");
    assert!(case.get(&case.config_map_target("new")).await.is_none());
    let status = case.status().await;
    assert_eq!(status["activeBundle"], before.data["status"]["activeBundle"]);
    assert_eq!(status["inventory"], before.data["status"]["inventory"]);

    std::fs::rename(&aside, &file).unwrap();
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    case.installed().await;
}

#[tokio::test]
async fn damaged_content_is_fetched_again_before_a_pivot_may_need_it() {
    let case = Case::new("damaged").await;
    let before = case.ready_after(&[case.config_map("a", json!({"x": "1", "y": "1"}))]).await;
    let file = case.content_file(&before);
    let bytes = std::fs::read(&file).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let (crd, group) = definition("damaged");
    let object = gadget(&group, &case.namespace, "g", 0);
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), crd, object]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let a = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(a.data["data"], json!({"x": "1", "y": "1"}), "put back with all its fields");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

impl Case<'_> {
    /// Installs and waits until all is well; returns the deployment then.
    async fn ready_after(&self, objects: &[Value]) -> kube::api::DynamicObject {
        self.create(objects).await;
        self.ready().await
    }

    /// Where the store keeps what the deployment has installed.
    fn content_file(&self, deployment: &kube::api::DynamicObject) -> PathBuf {
        let digest = deployment.data["status"]["inventory"]["contentDigest"].as_str().expect("it is installed");
        let digest = digest.strip_prefix("sha256:").expect("it is a digest");
        self.world.controller.storage.join("v1/content/sha256").join(&digest[..2]).join(&digest[2..])
    }

    async fn versions(&self, names: &[&str]) -> Vec<Option<String>> {
        let mut versions = Vec::new();
        for name in names {
            let object = self.get(&self.config_map_target(name)).await;
            versions.push(object.and_then(|object| object.metadata.resource_version));
        }
        versions
    }
}
