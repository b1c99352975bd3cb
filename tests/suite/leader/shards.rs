//! Two controllers that share the work by labels: `--watch-label-selector`.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
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
        arguments.push(SHORT.to_owned());
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

/// So many objects that the first shard is in the middle of them for a while.
const MANY: usize = 600;

impl Stage {
    /// A bundle of many ConfigMaps in a namespace, all with this value.
    async fn many(&self, name: &str, namespace: &str, version: &str) -> String {
        let files = (0..MANY).map(|index| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"version": version},
                "metadata": {"name": format!("many-{index:04}"), "namespace": namespace}});
            (format!("manifests/{index:04}.yaml"), object.to_string())
        });
        let pushed = self.cluster.registry.push(name, version, &ImageBuilder::of_files(files)).await;
        pushed.expect("the registry takes it").reference
    }

    /// How many of them have the value.
    async fn with(&self, namespace: &str, version: &str) -> usize {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let all = api.list(&ListParams::default()).await.expect("the API server agrees").items;
        let has = |map: &&ConfigMap| {
            map.data.as_ref().is_some_and(|data| data.get("version").is_some_and(|is| is == version))
        };
        all.iter().filter(has).count()
    }
}

/// A paused machine, a throttled CPU, a slow webhook: the controller that had the deployment goes on when another one is done with a
/// newer version. None of its writes may stay.
#[tokio::test]
async fn a_controller_that_was_stopped_in_the_middle_writes_nothing_once_another_one_has_the_deployment() {
    let stage = Stage::set().await;
    let (one, two) = (stage.shard("stopped").await, stage.shard("other").await);
    let namespace = verbs::namespace(&stage.client, "stopped").await.expect("the API server agrees");
    let name = unique_name("stopped");
    let target = Target::bundle_deployment(&name);
    let mut object = deployment(&name, image(&stage.many(&name, &namespace, "v1").await));
    object["metadata"]["labels"] = json!({"shard": "stopped"});
    verbs::create(&stage.client, &object).await.expect("created");
    until(&stage.client, &name, Expected::is_true("Ready", "Succeeded")).await;

    let template = |reference: &str| json!({"spec": {"template": {"spec": {"source": {"image": {"ref": reference}}}}}});
    let v2 = stage.many(&name, &namespace, "v2").await;
    verbs::merge(&stage.client, &target, &template(&v2)).await.expect("changed");
    let begun = async {
        // Among that many a watch would say no more than a list.
        while stage.with(&namespace, "v2").await < 30 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, begun).await.expect("the upgrade begins");
    one.pause().unwrap();
    let written = stage.with(&namespace, "v2").await;
    assert!(written < MANY, "the upgrade was over before it could be stopped");

    let mut change = template(&stage.many(&name, &namespace, "v3").await);
    change["metadata"] = json!({"labels": {"shard": "other"}});
    verbs::merge(&stage.client, &target, &change).await.expect("changed");
    let generation = verbs::get(&stage.client, &target).await.unwrap().unwrap().metadata.generation;
    let is_done = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| {
            object.data["status"]["observedGeneration"] == json!(generation)
                && Expected::is_true("Ready", "Succeeded").met_by(object)
        })
    };
    let done = verbs::await_object(&stage.client, &target, "the third version", Duration::from_mins(2), is_done).await;
    done.unwrap_or_else(|error| panic!("{error:#}\n{}", two.log_tail(20)));
    assert_eq!(stage.with(&namespace, "v3").await, MANY);

    one.resume().unwrap();
    // The first one has nothing to do any more when it has said so, or when it has had the time for all it had begun.
    let end = Instant::now() + Duration::from_secs(15);
    while Instant::now() < end {
        let left = stage.with(&namespace, "v3").await;
        assert!(left + 16 >= MANY, "{left} of {MANY} objects are of the third version");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(stage.with(&namespace, "v3").await, MANY, "{}", one.log_tail(20));
    verbs::delete(&stage.client, &target).await.expect("deleted");
    // The first one may have ended by itself, as its Lease was over while it stood still.
    one.end();
    two.end();
}
