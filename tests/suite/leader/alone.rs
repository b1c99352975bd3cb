//! A controller without a bucket, whose disk is lost: what was uploaded is gone, and the statuses say what is known.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, until, until_bundle};
use serde_json::json;

use crate::leader::Stage;
use crate::leader::clients::{BRIEF, Caller, account, create};
use crate::leader::replicas::{archive, config_map, generated_bundle, lose, put, target};

/// Waits for an Event about an object.
async fn until_told(stage: &Stage, name: &str, reason: &str, text: &str) {
    let events = Target::namespaced("v1", "Event", "default", "").api(&stage.client).await.expect("served");
    let fields = format!("involvedObject.name={name},reason={reason}");
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let found = events.list(&kube::api::ListParams::default().fields(&fields)).await.expect("readable");
        if found.items.iter().any(|event| event.data["message"].as_str().is_some_and(|told| told.contains(text))) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "no Event {reason} about {name}: {:?}", found.items);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await; // Events are written behind, and may be counted up
    }
}

fn status<'a>(object: &'a DynamicObject, kind: &str) -> &'a str {
    verbs::condition(object, kind).and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn what_was_lost_and_what_was_not_looked_at_is_not_said_to_be_there() {
    let stage = Stage::set().await;
    let process = stage.start("alone", BRIEF).await;
    let caller = Caller::new(&stage.client, &process, &account(&stage.client).await).await;
    let (client, name) = (&stage.client, unique_name("lost"));
    let second = format!("{name}-2");
    let manifest = format!("{}---\n{}", config_map(&name, "a"), config_map(&second, "b"));
    create(client, &deployment(&name, json!({"type": "upload", "upload": {}}))).await;
    let bundle = generated_bundle(client, &name).await;
    put(&caller, &bundle, archive(&manifest)).await;
    until(client, &name, Expected::is_true("Healthy", "Healthy")).await;

    // Everything is as it was left, but the content is gone: that is seen without it, and said.
    lose(&process).await;
    process.restart().await.expect("it starts");
    let lost = "its content was lost with the controller's storage: send it again";
    let found = until_bundle(client, &bundle, Expected::is_false("Ready", "UnpackPending").saying(lost)).await;
    assert!(verbs::condition(&found, "Stalled").is_some());
    until_told(&stage, &bundle, "ContentLost", lost).await;
    let found = until(client, &name, Expected::is_false("Ready", "UnpackPending").saying(lost)).await;
    assert_eq!((status(&found, "Installed"), status(&found, "Healthy")), ("True", "True"));

    // Somebody deletes an object while nobody looks.
    lose(&process).await;
    verbs::delete(client, &target(&second)).await.expect("deleted");
    process.restart().await.expect("it starts");
    let missing = Expected::is_false("Healthy", "Unhealthy").saying("1 of 2 objects are in the cluster");
    let found = until(client, &name, missing).await;
    assert_eq!((status(&found, "Installed"), status(&found, "Ready")), ("Unknown", "False"));
    let ready = verbs::condition(&found, "Ready").expect("a condition");
    assert!(ready["message"].as_str().is_some_and(|message| message.contains(lost)), "{ready}");

    // Sent again, all is well.
    process.wait_ready().await.expect("it is ready");
    put(&caller, &bundle, archive(&manifest)).await;
    until(client, &name, Expected::is_true("Healthy", "Healthy")).await;
    until(client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    until(client, &name, Expected::is_true("Ready", "Succeeded")).await;
    assert!(verbs::get(client, &target(&second)).await.expect("readable").is_some());
    process.terminate().await.expect("it runs");
}
