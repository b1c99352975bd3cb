//! Refusals that advise something: whoever follows them to the end has installed what they wanted, and lost nothing.

use kube::api::DynamicObject;
use regex::Regex;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{deployment, image, until};
use serde_json::json;

use crate::engine::case::{Case, definition, definition_target, gadget};

/// Collisions one behind the other, of which each is told once the one before is out of the way.
const STEPS: usize = 3;

fn found(pattern: &str, message: &str) -> Option<String> {
    Regex::new(pattern).expect("a good pattern").captures(message).map(|found| found[1].to_owned())
}

/// Does to `target` what the message advises, and nothing else.
async fn follow(case: &Case<'_>, target: &Target, message: &str) {
    if let Some(name) = found(r#"with the annotation core\.rukpak\.io/adopt-by="([^"]+)""#, message) {
        case.edit("user", target, json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": name}}})).await;
        return;
    }
    let give_up = r#"To give BundleDeployment "([^"]+)" up and keep what it installed, set its spec\.deletionPolicy to Orphan and wait until it is Ready before it is deleted"#;
    let name = found(give_up, message).unwrap_or_else(|| panic!("nothing is advised that this test can do: {message}"));
    let deployment = Target::bundle_deployment(&name);
    let asked = case.edit("user", &deployment, json!({"spec": {"deletionPolicy": "Orphan"}})).await;
    let is_ready = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            let ready = verbs::condition(object, "Ready").is_some_and(|ready| ready["status"] == "True");
            ready && object.data["status"]["observedGeneration"] == json!(asked.metadata.generation)
        })
    };
    case.until(&deployment, "Ready with its new policy", is_ready).await;
    case.delete(&deployment).await;
    case.until_gone(&deployment).await;
}

/// Follows what is advised about `target`, whatever it is, until `case` is installed.
async fn follow_to_the_end(case: &Case<'_>, target: &Target) {
    let mut before = String::new();
    for _ in 0..STEPS {
        let is_new = |object: Option<&DynamicObject>| {
            let installed = object.and_then(|object| verbs::condition(object, "Installed"));
            installed.is_some_and(|installed| installed["status"] == "True" || installed["message"] != before.as_str())
        };
        let object = case.until(&case.target(), "another word", is_new).await.expect("it is there");
        let installed = verbs::condition(&object, "Installed").expect("it has been waited for");
        if installed["status"] == "True" {
            return;
        }
        before = installed["message"].as_str().expect("text").to_owned();
        follow(case, target, &before).await;
    }
    case.installed().await;
}

#[tokio::test]
async fn whoever_takes_over_an_object_as_advised_keeps_it() {
    let case = Case::new("advised").await;
    let target = case.config_map_target("taken");
    let before = case.foreign(&case.config_map("taken", json!({"theirs": "1"}))).await;
    case.create(&[case.config_map("taken", json!({"ours": "1"}))]).await;
    case.refused("InstallFailed", "already exists").await;

    follow_to_the_end(&case, &target).await;

    let after = case.until_owned(&target).await;
    assert_eq!(after.metadata.uid, before.metadata.uid, "it is the same object");
}

/// The data that hangs on a CRD is lost with it.
#[tokio::test]
async fn whoever_gives_a_deployment_up_as_advised_keeps_its_custom_resources() {
    let (crd, group) = definition("advised");
    let one = Case::new("given-up").await;
    let two = one.sibling();
    one.install(std::slice::from_ref(&crd)).await;
    let target = definition_target(&group);
    let before = one.get(&target).await.expect("it is installed");
    let precious = one.foreign(&gadget(&group, &one.namespace, "precious", 3)).await;
    // Whoever wants to keep it cannot share it.
    let mut keeps = deployment(&two.name, image(&two.push("v1", &[crd]).await));
    keeps["spec"]["deletionPolicy"] = json!("KeepCRDs");
    verbs::create(&two.client, &keeps).await.expect("the API server agrees");
    until(&two.client, &two.name, Expected::is_false("Installed", "InstallFailed").saying("already exists")).await;

    follow_to_the_end(&two, &target).await;

    let after = two.get(&target).await.expect("it is kept");
    assert_eq!(after.metadata.uid, before.metadata.uid, "it is the same definition");
    let kept = one.get(&Target::of(&gadget(&group, &one.namespace, "precious", 3)).unwrap()).await;
    assert_eq!(kept.expect("it is kept").metadata.uid, precious.metadata.uid);
}

/// What another BundleDeployment keeps is not advised to be taken over, which could delete it with that one's custom resources.
#[tokio::test]
async fn whoever_gives_up_a_deployment_that_keeps_its_definition_keeps_it() {
    let (crd, group) = definition("kept");
    let one = Case::new("keeper").await;
    let two = one.sibling();
    let reference = one.push("v1", std::slice::from_ref(&crd)).await;
    let mut keeping = deployment(&one.name, image(&reference));
    keeping["spec"]["deletionPolicy"] = json!("KeepCRDs");
    one.foreign(&keeping).await;
    one.installed().await;
    let target = definition_target(&group);
    let before = one.get(&target).await.expect("it is installed");
    let precious = one.foreign(&gadget(&group, &one.namespace, "precious", 3)).await;
    two.create(&[crd]).await;
    let message = two.refused("InstallFailed", "already exists").await;
    assert!(message.contains(&one.name) && !message.contains("adopt-by"), "{message}");

    follow_to_the_end(&two, &target).await;

    assert_eq!(two.get(&target).await.expect("it is there").metadata.uid, before.metadata.uid);
    let kept = one.get(&Target::of(&gadget(&group, &one.namespace, "precious", 3)).unwrap()).await;
    assert_eq!(kept.expect("it is kept").metadata.uid, precious.metadata.uid);
}
