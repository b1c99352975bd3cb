//! ConfigMaps that Bundles are made of: what the webhook says of both sides, in either order.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use rukpak_tests::verbs::{self, Denial, Target, unique_name};
use rukpak_tests::world::{SOON, World};
use serde_json::{Value, json};

use super::helpers::{assert_denied, bundle, create, patch, refused};

const SYSTEM: &str = "rukpak-system";
/// What the API server puts before the webhook's words.
const PREFIX: &str = "admission webhook \"vconfigmaps.core.rukpak.io\" denied the request: ";
/// Between two questions whether the API server has noticed: its view of the configuration cannot be watched.
const INTERVAL: Duration = Duration::from_millis(50);

pub fn config_map(namespace: &str, name: &str, immutable: Option<bool>) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
           "immutable": immutable, "data": {"a.yaml": ""}})
}

fn target(name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", SYSTEM, name)
}

/// A Bundle of nobody's class that is made of ConfigMaps.
pub fn made_of(name: &str, config_maps: &[&str]) -> Value {
    let entries: Vec<_> =
        config_maps.iter().map(|name| json!({"configMap": {"name": name}, "path": "manifests"})).collect();
    bundle(name, &json!({"type": "configMaps", "configMaps": entries}))
}

/// Waits until the API server asks the webhook for ConfigMaps of the namespace.
pub async fn until_asked(client: &Client, namespace: &str) {
    let name = unique_name("asked");
    create(client, &made_of(&name, &[&name])).await;
    let api = Target::namespaced("v1", "ConfigMap", namespace, &name).api(client).await.unwrap();
    let object: DynamicObject = serde_json::from_value(config_map(namespace, &name, None)).unwrap();
    let end = tokio::time::Instant::now() + SOON;
    while api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await.is_ok() {
        assert!(tokio::time::Instant::now() < end, "nobody asks for ConfigMaps of {namespace}");
        tokio::time::sleep(INTERVAL).await;
    }
    verbs::delete(client, &Target::bundle(&name)).await.unwrap();
}

async fn world() -> Client {
    let client = World::shared().await.admin().await;
    until_asked(&client, SYSTEM).await;
    client
}

fn assert_words(denial: &Denial, text: &str) {
    assert_eq!(denial.message, format!("{PREFIX}{text}"));
    assert_eq!((denial.code, denial.reason.as_str()), (403, text));
}

async fn deletion(client: &Client, target: &Target) -> Option<Denial> {
    let error = verbs::delete(client, target).await.err()?;
    let Some(kube::Error::Api(status)) = error.downcast_ref() else { panic!("{error:#}") };
    Some(Denial { code: status.code, reason: status.reason.clone(), message: status.message.clone() })
}

fn not_immutable(index: usize, name: &str) -> String {
    format!(
        "bundle.spec.source.configmaps[{index}].configmap.name is invalid: configmap \"{name}\" is not immutable \
         (kubectl patch configmap {name} --type=merge -p '{{\"immutable\": true}}')"
    )
}

#[tokio::test]
async fn a_bundle_is_made_of_immutable_config_maps() {
    let client = world().await;
    let [mutable, false_, immutable, missing] = ["m", "f", "i", "x"].map(unique_name);
    create(&client, &config_map(SYSTEM, &mutable, None)).await;
    create(&client, &config_map(SYSTEM, &false_, Some(false))).await;
    create(&client, &config_map(SYSTEM, &immutable, Some(true))).await;
    let name = unique_name("made");
    for one in [&mutable, &false_] {
        assert_denied(&refused(&client, &made_of(&name, &[one])).await, &not_immutable(0, one));
    }
    let many = [&*mutable, &immutable, &missing, &false_];
    let text = format!("[{}, {}]", not_immutable(0, &mutable), not_immutable(3, &false_));
    assert_denied(&refused(&client, &made_of(&name, &many)).await, &text);
    let mut outside = made_of(&name, &[&mutable]);
    outside["spec"]["source"]["configMaps"][0]["path"] = json!("../x");
    let path = "bundle.spec.source.configmaps[0].path is invalid: \"../x\" is outside bundle root";
    let text = format!("[{path}, {}]", not_immutable(0, &mutable));
    assert_denied(&refused(&client, &outside).await, &text);

    // A missing one is taken, and what was taken can be labelled.
    create(&client, &made_of(&name, &[&immutable, &missing])).await;
    patch(&client, &Target::bundle(&name), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    // As good as in time.
    patch(&client, &target(&mutable), &json!({"immutable": true})).await;
    create(&client, &made_of(&unique_name("made"), &[&mutable])).await;
}

#[tokio::test]
async fn a_config_map_that_bundles_wait_for_is_immutable_and_stays() {
    let client = world().await;
    let (name, free) = (unique_name("late"), unique_name("free"));
    let (one, two) = (format!("{name}-1"), format!("{name}-2"));
    create(&client, &made_of(&two, &["other", &name])).await;
    create(&client, &made_of(&one, &[&name])).await;
    for immutable in [None, Some(false)] {
        let text = format!(
            "configmap \"{name}\" is referenced in .spec.source.configMaps[].configMap.name by bundles [{one} {two}]; \
             referenced configmaps must have .immutable == true"
        );
        assert_words(&refused(&client, &config_map(SYSTEM, &name, immutable)).await, &text);
    }
    // Only where Bundles look, and only what they name.
    create(&client, &config_map("default", &name, None)).await;
    assert!(deletion(&client, &Target::namespaced("v1", "ConfigMap", "default", &name)).await.is_none());
    create(&client, &config_map(SYSTEM, &free, None)).await;
    assert!(deletion(&client, &target(&free)).await.is_none());

    create(&client, &config_map(SYSTEM, &name, Some(true))).await;
    patch(&client, &target(&name), &json!({"metadata": {"labels": {"name": name}}})).await;
    let in_use = |bundle: &str| format!("configmap \"{name}\" is in-use by bundle \"{bundle}\"");
    assert_words(&deletion(&client, &target(&name)).await.expect("it is in use"), &in_use(&one));
    // Nor together with others.
    let api = target(&name).api(&client).await.unwrap();
    let labelled = ListParams::default().labels(&format!("name={name}"));
    let refused = api.delete_collection(&DeleteParams::default(), &labelled).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains(&in_use(&one)), "{refused}");
    assert!(verbs::get(&client, &target(&name)).await.unwrap().is_some());

    verbs::delete(&client, &Target::bundle(&one)).await.unwrap();
    verbs::await_deleted(&client, &Target::bundle(&one), SOON).await.unwrap();
    assert_words(&deletion(&client, &target(&name)).await.expect("it is in use"), &in_use(&two));
    verbs::delete(&client, &Target::bundle(&two)).await.unwrap();
    verbs::await_deleted(&client, &Target::bundle(&two), SOON).await.unwrap();
    assert!(deletion(&client, &target(&name)).await.is_none());
}
