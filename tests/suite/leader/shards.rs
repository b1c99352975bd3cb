//! Two controllers that share the work by labels: `--watch-label-selector`.

use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, image, until};
use rukpak_tests::{ControllerOptions, ImageBuilder, Process};
use serde_json::{Value, json};

use super::{SHORT, Stage, contents};

impl Stage {
    /// The controller of the shard `shard=<value>`.
    async fn shard(&self, value: &str) -> Process {
        let mut arguments = vec!["--leader-elect".to_owned(), format!("--watch-label-selector=shard={value}")];
        arguments.push(format!("--source-ca-file={}", self.cluster.folder.path().join("ca.pem").display()));
        // Each shard has certificates, or a content service, of its own.
        arguments.push(format!("--content-certificate-secret=core-cert-{value}"));
        arguments.extend(SHORT.map(str::to_owned));
        let environment = vec![("POD_NAME".to_owned(), format!("shard-{value}"))];
        let options = ControllerOptions { arguments, environment, ..ControllerOptions::default() };
        let process = self.cluster.plane.start_controller(options).await.expect("the controller starts");
        process.wait_ready().await.unwrap_or_else(|error| panic!("{value}: {error:#}"));
        process
    }

    /// A BundleDeployment of one Namespace, with these labels; its name and that of the Namespace.
    async fn labelled(&self, labels: Value) -> Target {
        let name = unique_name("shard");
        let manifest =
            format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{mine: \"yes\"}}\n");
        let bundle = ImageBuilder::of_files([("manifests/namespace.yaml", manifest)]);
        let pushed = self.cluster.registry.push(&name, "v1", &bundle).await.expect("the registry takes it");
        let mut deployment = deployment(&name, image(&pushed.reference));
        deployment["metadata"]["labels"] = labels;
        verbs::create(&self.client, &deployment).await.expect("created");
        Target::cluster("v1", "Namespace", &name)
    }

    async fn until_installed(&self, name: &str) -> Value {
        let installed = until(&self.client, name, Expected::is_true("Installed", "InstallationSucceeded")).await;
        installed.data["status"].clone()
    }
}

#[tokio::test]
async fn two_controllers_share_the_work_by_labels_and_a_deployment_moves_with_its_bundle() {
    let stage = Stage::set().await;
    let (one, two) = (stage.shard("one").await, stage.shard("two").await);
    let first = stage.labelled(json!({"shard": "one"})).await;
    let second = stage.labelled(json!({"shard": "two"})).await;
    let nobodys = stage.labelled(json!({})).await;
    let status = stage.until_installed(&first.name).await;
    stage.until_installed(&second.name).await;
    assert_eq!((contents(&one), contents(&two)), (1, 1), "each has the content of its own");

    // The Bundle has the label, so both are of the same shard.
    let bundle = Target::bundle(status["activeBundle"].as_str().expect("it is text"));
    let shard_of = |object: &kube::api::DynamicObject| {
        object.metadata.labels.as_ref().and_then(|labels| labels.get("shard")).cloned().unwrap_or_default()
    };
    let found = verbs::get(&stage.client, &bundle).await.expect("an answer").expect("it is there");
    assert_eq!(shard_of(&found), "one");

    // It moves. Who had it is not there any more: the other one guards the same object.
    let uid = verbs::get(&stage.client, &first).await.expect("an answer").expect("it is there").metadata.uid;
    let target = Target::bundle_deployment(&first.name);
    verbs::merge(&stage.client, &target, &json!({"metadata": {"labels": {"shard": "two"}}})).await.expect("labelled");
    let is_moved = |object: Option<&kube::api::DynamicObject>| object.is_some_and(|bundle| shard_of(bundle) == "two");
    verbs::await_object(&stage.client, &bundle, "the label of the other shard", SOON, is_moved)
        .await
        .expect("it moves");
    assert_eq!(one.terminate().await.unwrap(), "exit status: 0");
    verbs::merge(&stage.client, &first, &json!({"metadata": {"labels": {"mine": "no"}}})).await.expect("edited");
    let is_repaired = |object: Option<&kube::api::DynamicObject>| {
        let labels = object.and_then(|object| object.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get("mine")).is_some_and(|value| value == "yes")
    };
    let repaired = verbs::await_object(&stage.client, &first, "the repaired label", SOON, is_repaired).await;
    let repaired = repaired.unwrap_or_else(|error| panic!("{error:#}\n{}", two.log_tail(20))).expect("it is there");
    assert_eq!(repaired.metadata.uid, uid);

    // What no selector fits waits, and nobody touches it.
    let waiting = verbs::get(&stage.client, &Target::bundle_deployment(&nobodys.name)).await.expect("an answer");
    assert!(waiting.expect("it is there").data["status"].is_null());
    two.terminate().await.unwrap();
}
