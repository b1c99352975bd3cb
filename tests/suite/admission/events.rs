//! What was denied is an Event about the object, for `kubectl describe`: of what is there, and was meant.

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{SOON, World};
use serde_json::json;

use super::config_maps::{config_map, made_of, until_asked};
use super::helpers::{bundle, create, image, patch_refused, refused};

const SYSTEM: &str = "rukpak-system";

/// The first Event about the object with this UID, and how many there are.
async fn told(client: &Client, namespace: &str, uid: &str) -> (Event, usize) {
    let about = format!("involvedObject.uid={uid}");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let events = watcher(api.clone(), watcher::Config::default().fields(&about)).applied_objects();
    pin_mut!(events);
    let first = tokio::time::timeout(SOON, events.next()).await.expect("an Event comes").expect("the watch goes on");
    let all = api.list(&kube::api::ListParams::default().fields(&about)).await.expect("a list");
    (first.expect("the watch works"), all.items.len())
}

#[tokio::test]
async fn a_denial_is_an_event_about_the_object_that_was_not_changed() {
    // One that has denied nothing else.
    let world = World::start(Vec::new()).await.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let change = json!({"spec": {"source": {"image": {"ref": "example.test/bundle:v2"}}}});
    let [tried, denied, never] = ["tried", "denied", "never"].map(unique_name);
    let uid = |object: kube::api::DynamicObject| object.uid().expect("it has one");
    let tried_uid = uid(create(&client, &bundle(&tried, &image())).await);
    let denied_uid = uid(create(&client, &bundle(&denied, &image())).await);

    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let api = Target::bundle(&tried).api(&client).await.expect("Bundles are served");
    api.patch(&tried, &dry, &Patch::Merge(&change)).await.expect_err("a dry run is denied as well");
    let mut wrong = bundle(&never, &image());
    wrong["spec"]["source"] = json!({"type": "git", "git": {"repository": "https://example.test/r", "directory": "../x", "ref": {"tag": "v1"}}});
    refused(&client, &wrong).await;
    for _ in 0..3 {
        patch_refused(&client, &Target::bundle(&denied), &change).await;
    }

    let (event, count) = told(&client, "default", &denied_uid).await;
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("AdmissionDenied")));
    assert_eq!(event.message.as_deref(), Some("update denied: bundle.spec is immutable"));
    assert_eq!(
        (event.reporting_component.as_deref(), event.action.as_deref()),
        (Some("rukpak-webhook"), Some("Admit"))
    );
    assert_eq!(event.involved_object.kind.as_deref(), Some("Bundle"));
    assert_eq!(count, 1, "the same is told once");
    // They are written in the order of the denials: those before it were not told.
    let all: Api<Event> = Api::namespaced(client.clone(), "default");
    let others = all.list(&kube::api::ListParams::default()).await.expect("a list").items;
    let about = |event: &&Event| {
        event.involved_object.uid.as_deref() == Some(&tried_uid)
            || event.involved_object.name.as_deref() == Some(&never)
    };
    assert!(others.iter().all(|event| !about(&event)), "{others:#?}");

    // Of what has a namespace there.
    until_asked(&client, SYSTEM).await;
    let name = unique_name("used");
    let used_uid = uid(create(&client, &config_map(SYSTEM, &name, Some(true))).await);
    create(&client, &made_of(&unique_name("of"), &[&name])).await;
    let target = Target::namespaced("v1", "ConfigMap", SYSTEM, &name);
    verbs::delete(&client, &target).await.expect_err("it is used");
    let (event, _) = told(&client, SYSTEM, &used_uid).await;
    let message = event.message.unwrap_or_default();
    assert!(message.starts_with("delete denied: ") && message.contains(&name), "{message}");

    let log = world.webhook.log();
    let line = log.lines().find(|line| line.contains(&denied) && line.contains("\"denied\"")).expect("a line");
    assert!(line.contains("bundle.spec is immutable") && line.contains("\"user\""), "{line}");
}
