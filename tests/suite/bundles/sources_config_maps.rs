//! Content in ConfigMaps: unpacked, pinned and refused as by RukPak, with its rules on paths and duplicates.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::verbs::{self, Target, unique_name};
use serde_json::{Value, json};

use crate::bundles::hands::{self, Bare, Hands, Scene, manifest};

const NAMESPACE: &str = "rukpak-system";

fn source(entries: &[(&str, &str)]) -> Value {
    let entry = |(name, path): &(&str, &str)| json!({"configMap": {"name": name}, "path": path});
    json!({"type": "configMaps", "configMaps": entries.iter().map(entry).collect::<Vec<_>>()})
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
           "metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
}

async fn begin() -> (Hands, String) {
    (Scene::shared().await.hands().await, unique_name("maps"))
}

#[tokio::test]
async fn config_maps_are_unpacked_and_pinned() {
    let (hands, name) = begin().await;
    let second = format!("{name}-2");
    hands.create(&config_map(&name, &json!({"object.yaml": manifest(&name)}))).await;
    let mut binary = config_map(&second, &json!({"notes": "hello"}));
    binary["binaryData"] = json!({"more.yaml": BASE64_STANDARD.encode(manifest(&second))});
    hands.create(&binary).await;
    // The second one's keys are files of two folders; only one of them is for manifests.
    let source = source(&[(&name, "manifests"), (&second, "./docs/../docs/")]);
    hands.bundle(&name, source.clone()).await;
    let bundle = hands.unpacked(&name).await;
    assert_eq!(hands::message(&bundle, "Unpacked"), "Successfully unpacked the configMaps Bundle");
    let status = &bundle.data["status"];
    assert_eq!(status["resolvedSource"], source);
    assert!(status["pin"]["contentDigest"].as_str().unwrap().starts_with("sha256:"));
    let files = hands.content(&name);
    let expected = ["docs/more.yaml", "docs/notes", "manifests/object.yaml"];
    assert_eq!(files.keys().collect::<Vec<_>>(), expected);
    assert_eq!(files["manifests/object.yaml"], manifest(&name));
    assert_eq!(files["docs/more.yaml"], manifest(&second));
}

/// Without the webhook, which would not let anybody delete a ConfigMap that is in use.
#[tokio::test]
async fn what_was_unpacked_is_pinned() {
    let hands = Bare::shared().await.hands().await;
    let (name, second) = (unique_name("maps"), unique_name("maps"));
    let notes = config_map(&second, &json!({"notes": "hello"}));
    hands.create(&config_map(&name, &json!({"object.yaml": manifest(&name)}))).await;
    hands.create(&notes).await;
    hands.bundle(&name, source(&[(&name, "manifests"), (&second, "docs")])).await;
    let status = &hands.unpacked(&name).await.data["status"];

    // Gone or replaced, the ConfigMap changes nothing; and other content does not take the place of what was lost.
    let target = Target::namespaced("v1", "ConfigMap", NAMESPACE, &second);
    verbs::delete(&hands.client, &target).await.unwrap();
    std::fs::remove_file(hands.content_file(&name).unwrap()).unwrap();
    hands.touch(&name).await;
    let text = format!("get configmap rukpak-system/{second}: ConfigMap \"{second}\" not found");
    let failed = verbs::Expected::is_false("Unpacked", "UnpackFailed");
    hands.condition(&name, failed.saying(&text)).await;
    hands.create(&config_map(&second, &json!({"notes": "other"}))).await;
    hands.condition(&name, failed.saying("the set of ConfigMaps now holds other content")).await;
    verbs::delete(&hands.client, &target).await.unwrap();
    hands.create(&notes).await;
    assert_eq!(hands.unpacked(&name).await.data["status"]["pin"], status["pin"]);
}

#[tokio::test]
async fn a_missing_config_map_is_named_and_taken_when_it_comes() {
    let (hands, name) = begin().await;
    hands.bundle(&name, source(&[(&name, "manifests")])).await;
    let text = format!("source bundle content: get configmap rukpak-system/{name}: ConfigMap \"{name}\" not found");
    assert_eq!(hands.failing(&name, "get configmap").await, text);
    hands.create(&config_map(&name, &json!({"object.yaml": manifest(&name)}))).await;
    hands.unpacked(&name).await;
}

/// Each that comes wakes the Bundle: by itself it would look again after 5 s, then 10 s and so on, for all of them after more
/// than five minutes.
#[tokio::test]
async fn config_maps_that_come_one_by_one_are_each_seen_when_they_come() {
    let (hands, name) = begin().await;
    let names: Vec<String> = (0..6).map(|index| format!("{name}-{index}")).collect();
    let entries: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "manifests")).collect();
    hands.bundle(&name, source(&entries)).await;
    let began = tokio::time::Instant::now();
    for missing in &names {
        hands.failing(&name, &format!("ConfigMap \"{missing}\" not found")).await;
        hands.create(&config_map(missing, &json!({format!("{missing}.yaml"): manifest(missing)}))).await;
    }
    hands.unpacked(&name).await;
    assert!(began.elapsed() < hands::PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_file_that_is_no_manifest_is_refused() {
    let (hands, name) = begin().await;
    let data = json!({"object.yaml": manifest(&name), ".gitignore": "target/\n"});
    hands.create(&config_map(&name, &data)).await;
    hands.bundle(&name, source(&[(&name, "manifests")])).await;
    hands.failing(&name, "json: cannot unmarshal string into Go value").await;
}

#[tokio::test]
async fn the_same_path_twice_is_refused_in_upstreams_words() {
    let (hands, name) = begin().await;
    let (one, two) = (format!("{name}-b"), format!("{name}-a"));
    for config_map_name in [&one, &two] {
        hands.create(&config_map(config_map_name, &json!({"object.yaml": manifest(config_map_name)}))).await;
    }
    hands.bundle(&name, source(&[(&one, "manifests"), (&two, "./manifests")])).await;
    let text =
        format!("source bundle content: duplicate path \"manifests/object.yaml\" found in configmaps [{two} {one}]");
    assert_eq!(hands.failing(&name, "duplicate path").await, text);
}

#[tokio::test]
async fn without_a_path_plain_bundles_have_no_manifests() {
    let (hands, name) = begin().await;
    hands.create(&config_map(&name, &json!({"object.yaml": manifest(&name)}))).await;
    let source = json!({"type": "configMaps", "configMaps": [{"configMap": {"name": name}}]});
    hands.bundle(&name, source).await;
    hands.failing(&name, "readdir manifests: file does not exist").await;
}
