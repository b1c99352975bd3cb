//! The conditions at the right moments: RukPak's reasons and messages, and the summary that kstatus reads.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use rukpak_tests::fixtures;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{deployment, image};
use serde_json::json;

use super::case::{Case, active, installed, message, name};

#[tokio::test]
async fn a_valid_image_is_installed() {
    let case = Case::new("p29").await;
    let suffix = case.name.clone();
    let source = case.push_image("v1", &fixtures::renamed_image("plain/valid", &suffix).unwrap()).await;
    case.deploy(source).await;
    let deployment = case.until(Expected::is_true("Ready", "Succeeded")).await;
    let bundle = name(&case.only_bundle().await);
    for (condition, reason, text) in [
        ("HasValidBundle", "UnpackSuccessful", format!("Successfully unpacked the {bundle} Bundle")),
        ("Installed", "InstallationSucceeded", format!("Instantiated bundle {bundle} successfully")),
        ("Healthy", "Healthy", "BundleDeployment is healthy".to_owned()),
        ("Ready", "Succeeded", "4 objects are installed".to_owned()),
    ] {
        assert!(Expected::is_true(condition, reason).met_by(&deployment), "{condition}: {:#}", deployment.data);
        assert_eq!(message(&deployment, condition), text);
    }
    assert_eq!(active(&deployment), Some(bundle.as_str()));
    for absent in ["Reconciling", "Stalled"] {
        assert!(verbs::condition(&deployment, absent).is_none(), "{absent}: {:#}", deployment.data);
    }
    case.delete(&case.target()).await;
}

#[tokio::test]
async fn while_the_bundle_is_not_unpacked_it_counts_as_valid() {
    let case = Case::new("waiting").await;
    let nowhere = format!("{}/bundles/not-there:v1", case.world.registry.host());
    case.deploy(image(&nowhere)).await;
    let waiting = Expected::is_true("HasValidBundle", "UnpackPending");
    let first = case
        .until_object(&case.target(), "a Bundle that waits for its image", |now| {
            waiting.met_by(now) && verbs::condition(now, "Reconciling").is_some()
        })
        .await;
    let bundle = name(&case.only_bundle().await);
    let text = format!("Waiting for the {bundle} Bundle to be unpacked");
    assert_eq!(message(&first, "HasValidBundle"), text);
    for absent in ["Installed", "Healthy", "Stalled"] {
        assert!(verbs::condition(&first, absent).is_none(), "{absent}: {:#}", first.data);
    }
    assert_eq!(active(&first), None);
    // Why it is not unpacked is said here too, and in upstream's condition only what upstream says.
    let text = format!("{text}: Back-off pulling image {nowhere:?}: ");
    let first = case.until(Expected { kind: "Ready", status: "Unknown", reason: None, message: &text }).await;
    for condition in ["Ready", "Reconciling"] {
        assert!(message(&first, condition).contains("the registry answered 404 Not Found: "), "{:#}", first.data);
    }
    let version = &first.metadata.resource_version;
    case.holds_for(&case.target(), "silence", std::time::Duration::from_secs(5), |now| {
        now.is_some_and(|now| now.metadata.resource_version == *version)
    })
    .await;
    let unknown = Expected { kind: "Ready", status: "Unknown", reason: Some("UnpackPending"), message: &text };
    assert!(unknown.met_by(&first), "{:#}", first.data);
    assert!(Expected::is_true("Reconciling", "Progressing").met_by(&first), "{:#}", first.data);

    // During a pivot everything else stays as it was.
    let good = case.push("v1", &[case.config_map("a")]).await;
    case.change_source(&good).await;
    let before = case.until(Expected::is_true("Ready", "Succeeded")).await;
    case.change_source(&image(&nowhere)).await;
    let pivoting = case.until(waiting).await;
    assert!(installed().met_by(&pivoting), "{:#}", pivoting.data);
    assert!(Expected::is_true("Healthy", "Healthy").met_by(&pivoting), "{:#}", pivoting.data);
    assert_eq!(active(&pivoting), active(&before));
    assert_eq!(
        verbs::condition(&pivoting, "HasValidBundle").map(|condition| &condition["lastTransitionTime"]),
        verbs::condition(&before, "HasValidBundle").map(|condition| &condition["lastTransitionTime"]),
        "True to True is no transition"
    );
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_reported_with_its_cause() {
    let case = Case::new("p31").await;
    let source = case.push_image("v1", &fixtures::image("plain/subdir").unwrap()).await;
    case.deploy(source).await;
    let failed = case.until(Expected::is_false("HasValidBundle", "UnpackFailed")).await;
    let bundle = name(&case.only_bundle().await);
    let text = message(&failed, "HasValidBundle");
    let start = format!("Failed to unpack the {bundle} Bundle: ");
    let inner = "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
                 found \"manifests/emptydir\"";
    assert!(text.starts_with(&start) && text.contains(inner), "{text}");
    assert_eq!(text, start + &message(&case.get(&Target::bundle(&bundle)).await, "Unpacked"));
    for absent in ["Installed", "Healthy", "Reconciling"] {
        assert!(verbs::condition(&failed, absent).is_none(), "{absent}: {:#}", failed.data);
    }
    assert!(Expected::is_true("Stalled", "UnpackFailed").saying(inner).met_by(&failed), "{:#}", failed.data);
    assert!(Expected::is_false("Ready", "UnpackFailed").saying(inner).met_by(&failed), "{:#}", failed.data);
    assert_eq!(active(&failed), None);
}

#[tokio::test]
async fn the_observed_generation_follows_the_spec() {
    let case = Case::new("generation").await;
    let first = case.install(&[case.config_map("a")]).await;
    assert_eq!(first.metadata.generation, Some(1));
    assert_eq!(first.data["status"]["observedGeneration"], 1);
    case.merge(&json!({"metadata": {"labels": {"a": "b"}}})).await;
    case.merge(&json!({"spec": {"config": {"nothing": null}}})).await;
    let object = case.get(&case.config_map_target("a")).await;
    let second = case
        .until_object(&case.target(), "generation 2", |now| now.data["status"]["observedGeneration"] == json!(2))
        .await;
    assert!(installed().met_by(&second), "{:#}", second.data);
    assert_eq!(active(&second), active(&first));
    assert_eq!(case.bundles().await.len(), 1);
    let now = case.get(&case.config_map_target("a")).await;
    assert_eq!(now.metadata.resource_version, object.metadata.resource_version);

    // Also where the pass ends early.
    case.change_source(&super::case::broken_git(case.world, "nothing")).await;
    let third = case.until(Expected::is_false("HasValidBundle", "UnpackFailed")).await;
    assert_eq!(third.data["status"]["observedGeneration"], 3);
}

#[tokio::test]
async fn settings_of_a_plain_bundle_are_refused_and_change_nothing() {
    let case = Case::new("settings").await;
    let before = case.install(&[case.config_map("a")]).await;
    case.merge(&json!({"spec": {"config": {"values": "a: b\n", "any": {"thing": [1, true]}}}})).await;
    let text =
        "spec.config: unknown fields \"any\", \"values\": a plain+v0 bundle takes no settings; remove spec.config";
    let refused = case.until(Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(text)).await;
    assert_eq!(active(&refused), active(&before));
    case.merge(&json!({"spec": {"config": null}})).await;
    let after = case.until(Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
    assert!(installed().met_by(&after), "{:#}", after.data);
}

#[tokio::test]
async fn a_deployment_of_an_unknown_class_is_left_alone() {
    let case = Case::new("class").await;
    let source = case.push("v1", &[case.config_map("a")]).await;
    let mut object = deployment(&case.name, source);
    object["spec"]["provisionerClassName"] = json!("somebody-else");
    case.create(&object).await;
    case.holds_for(&case.target(), "no status", Duration::from_secs(10), |now| {
        now.is_some_and(|now| {
            now.data.get("status").is_none() && now.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
        })
    })
    .await;
    assert_eq!(case.bundles().await.len(), 0);
    assert!(verbs::get(&case.client, &case.config_map_target("a")).await.unwrap().is_none());
}

#[tokio::test]
async fn an_installed_object_that_is_not_healthy_is_named() {
    let case = Case::new("unhealthy").await;
    let labels = json!({"app": case.name});
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": case.name},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.test/none:v1"}]}}},
    });
    case.install(&[workload]).await;
    let line = format!("(apps/v1, Kind=Deployment)({}/w): object InProgress: ", case.name);
    let unhealthy = case.until(Expected::is_false("Healthy", "Unhealthy").saying(&line)).await;
    assert!(installed().met_by(&unhealthy), "{:#}", unhealthy.data);
    assert!(message(&unhealthy, "Healthy").starts_with(&line));
    assert!(Expected::is_true("Reconciling", "Progressing").met_by(&unhealthy), "{:#}", unhealthy.data);

    // What the kubelet says of a Pod later on changes nothing of the Deployment, and is told all the same.
    case.until(Expected::is_false("Healthy", "Unhealthy").saying("Available: 0/1")).await;
    let mut pods = verbs::list(&case.client, "v1", "Pod", &format!("app={}", case.name)).await.unwrap();
    let pod = pods.remove(0).metadata.name.expect("it has a name");
    let target = Target::namespaced("v1", "Pod", &case.name, &pod);
    let waiting = json!({"reason": "ErrImagePull", "message": "no such image"});
    let container = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                           "state": {"waiting": waiting}});
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [container]}});
    let api = target.api(&case.client).await.unwrap();
    api.patch_status(&pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let why = format!("; pod {pod:?}, container \"c\": ErrImagePull: no such image");
    case.until(Expected::is_false("Healthy", "Unhealthy").saying(&why)).await;
}
