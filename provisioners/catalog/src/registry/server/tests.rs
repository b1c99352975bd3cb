use std::fs;

use futures::TryStreamExt as _;
use rukpak_content::Limits;
use serde_json::{Value, json};

use super::*;
use crate::registry::message::{ChannelEntry, Package, PackageName, Property};

/// The text of a manifest as it lies in a catalog.
fn encoded(text: &str) -> Value {
    use base64::Engine as _;
    json!({"data": base64::engine::general_purpose::STANDARD.encode(text)})
}

fn bundle(version: &str, image: &str, more: &[Value]) -> Value {
    let mut properties = vec![
        json!({"type": "olm.package", "value": {"packageName": "pump", "version": version}}),
        json!({"type": "olm.gvk", "value": {"group": "g.io", "version": "v1", "kind": "Pump"}}),
    ];
    properties.extend_from_slice(more);
    json!({"schema": "olm.bundle", "package": "pump", "name": format!("pump.v{version}"), "image": image,
           "properties": properties, "relatedImages": [{"name": "", "image": "r.example/pump:1"}]})
}

/// Package `pump`: three versions in `stable`, the newest in `fast`, too; the oldest lies in the catalog as a whole.
fn documents() -> Vec<Value> {
    let csv = r#"{"kind": "ClusterServiceVersion", "metadata": {"name": "pump.v1.0.0"}}"#;
    let manifests = [csv, "kind: ConfigMap\nmetadata: {name: m}\n"].map(encoded);
    let manifests = manifests.map(|value| json!({"type": "olm.bundle.object", "value": value}));
    let needed = [
        json!({"type": "olm.gvk.required", "value": {"group": "g.io", "version": "v1", "kind": "Pipe"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "pipe", "versionRange": ">=1.0.0"}}),
        json!({"type": "olm.csv.metadata", "value": {"displayName": "Pump", "annotations": {"a": "b"},
               "installModes": [{"type": "AllNamespaces", "supported": true}],
               "crdDescriptions": {"owned": [{"name": "pumps.g.io", "version": "v1", "kind": "Pump"}]}}}),
    ];
    let stable = json!([
        {"name": "pump.v1.0.0"},
        {"name": "pump.v1.1.0", "replaces": "pump.v1.0.0"},
        {"name": "pump.v2.0.0", "replaces": "pump.v1.1.0", "skips": ["pump.v1.0.0", "gone"], "skipRange": "<2.0.0"},
    ]);
    vec![
        json!({"schema": "olm.package", "name": "pump", "defaultChannel": "stable", "description": "It pumps.",
               "icon": {"base64data": "aWNvbg==", "mediatype": "image/png"}}),
        json!({"schema": "olm.channel", "package": "pump", "name": "stable", "entries": stable}),
        json!({"schema": "olm.channel", "package": "pump", "name": "fast", "entries": [{"name": "pump.v2.0.0"}]}),
        bundle("1.0.0", "", &manifests),
        bundle("1.1.0", "r.example/pump:1.1", &[]),
        bundle("2.0.0", "r.example/pump:2", &needed),
        json!({"schema": "olm.deprecations", "package": "pump", "entries":
               [{"reference": {"schema": "olm.bundle", "name": "pump.v1.0.0"}, "message": "too old"}]}),
    ]
}

/// The catalog as text.
fn text() -> String {
    let text: Vec<String> = documents().iter().map(Value::to_string).collect();
    text.join("\n")
}

fn asked() -> Asked {
    let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(root.path().join("catalog.json"), text()).unwrap();
    let stage = Stage::new(folder.path().to_owned(), u64::MAX);
    let content = Content::read(root.path(), &Limits::default(), &stage).unwrap();
    Asked { content: Arc::new(content), turn: Room::default().turn(|| ()) }
}

async fn listed() -> Vec<Bundle> {
    asked().bundles().try_collect().await.unwrap()
}

async fn got(channel: &str, name: &str) -> Result<Bundle, Status> {
    let (channel, name) = (channel.to_owned(), name.to_owned());
    let find = move |catalog: &Catalog, (): &()| place::named(catalog, "pump", &channel, &name);
    let mut bundles: Vec<Bundle> = asked().bundle((), find).await?.try_collect().await?;
    Ok(bundles.pop().expect("one bundle"))
}

fn pairs(properties: &[Property]) -> Vec<(&str, Value)> {
    properties.iter().map(|one| (one.r#type.as_str(), serde_json::from_str(&one.value).unwrap())).collect()
}

fn edges(entries: &[ChannelEntry]) -> Vec<(&str, &str, &str)> {
    assert!(entries.iter().all(|entry| entry.package_name == "pump"), "{entries:?}");
    entries
        .iter()
        .map(|entry| (entry.channel_name.as_str(), entry.bundle_name.as_str(), entry.replaces.as_str()))
        .collect()
}

#[tokio::test]
async fn lists_a_bundle_for_each_channel_without_what_its_image_has() {
    let bundles = listed().await;
    let names: Vec<_> = bundles.iter().map(|bundle| (bundle.channel_name.as_str(), bundle.csv_name.as_str())).collect();
    let expected =
        [("fast", "pump.v2.0.0"), ("stable", "pump.v1.0.0"), ("stable", "pump.v1.1.0"), ("stable", "pump.v2.0.0")];
    assert_eq!(names, expected);

    let newest = &bundles[3];
    assert_eq!((newest.csv_json.as_str(), newest.object.len()), ("", 0));
    assert_eq!((newest.bundle_path.as_str(), newest.version.as_str()), ("r.example/pump:2", "2.0.0"));
    assert_eq!((newest.replaces.as_str(), newest.skip_range.as_str()), ("pump.v1.1.0", "<2.0.0"));
    assert_eq!(newest.skips, ["pump.v1.0.0", "gone"]);
    let types: Vec<_> = pairs(&newest.properties).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(types, ["olm.package", "olm.gvk", "olm.gvk.required", "olm.package.required"]);
    let dependencies = [
        ("olm.gvk", json!({"group": "g.io", "kind": "Pipe", "version": "v1"})),
        ("olm.package", json!({"packageName": "pipe", "version": ">=1.0.0"})),
    ];
    assert_eq!(pairs(&newest.dependencies), dependencies);
    assert_eq!((newest.provided_apis[0].kind.as_str(), newest.required_apis[0].kind.as_str()), ("Pump", "Pipe"));
}

#[tokio::test]
async fn lists_a_bundle_that_lies_in_the_catalog_with_its_manifests_as_json() {
    let bundles = listed().await;
    let oldest = &bundles[1];
    assert!(oldest.csv_json.contains("\"name\": \"pump.v1.0.0\""), "{}", oldest.csv_json);
    let second: Value = serde_json::from_str(&oldest.object[1]).unwrap();
    assert_eq!((oldest.object.len(), second), (2, json!({"kind": "ConfigMap", "metadata": {"name": "m"}})));
    assert_eq!(oldest.deprecation.as_ref().map(|deprecation| deprecation.message.as_str()), Some("too old"));
}

#[tokio::test]
async fn gets_a_bundle_without_edges_and_with_a_version_made_of_what_the_catalog_says() {
    let bundle = got("stable", "pump.v2.0.0").await.unwrap();
    assert_eq!((bundle.replaces.as_str(), bundle.skips.len(), bundle.skip_range.as_str()), ("", 0, "<2.0.0"));
    assert_eq!(bundle.object, std::slice::from_ref(&bundle.csv_json));
    let csv: Value = serde_json::from_str(&bundle.csv_json).unwrap();
    let expected = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "pump.v2.0.0", "annotations": {"a": "b"}},
        "spec": {
            "displayName": "Pump", "description": "It pumps.", "version": "2.0.0",
            "icon": [{"base64data": "aWNvbg==", "mediatype": "image/png"}],
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "pumps.g.io", "version": "v1", "kind": "Pump"}]},
            "relatedImages": [{"name": "", "image": "r.example/pump:1"}],
            "install": {"strategy": "deployment", "spec": {"deployments": null}},
        },
    });
    assert_eq!(csv, expected);
    let refused = got("fast", "pump.v1.0.0").await.unwrap_err();
    assert_eq!(refused.message(), r#"package "pump", channel "fast", bundle "pump.v1.0.0" not found"#);
}

#[test]
fn finds_heads_and_what_replaces_a_bundle() {
    let asked = asked();
    let catalog = asked.content.catalog();
    let name = |place: Result<Place, Status>| {
        place::find(catalog, &place.unwrap()).map(|spot| spot.bundle.name.clone()).unwrap_or_default()
    };
    assert_eq!(name(place::head(catalog, "pump", "stable")), "pump.v2.0.0");
    assert_eq!(name(place::replacing(catalog, "pump", "stable", "pump.v1.1.0")), "pump.v2.0.0");
    let missing = place::replacing(catalog, "pump", "fast", "pump.v1.1.0").unwrap_err();
    assert_eq!(missing.message(), r#"no entry found for package "pump", channel "fast""#);
    assert_eq!(place::head(catalog, "pipe", "x").unwrap_err().message(), r#"package "pipe" not found"#);

    let replacements =
        |name: &str| entries::that_replace(catalog, &GetAllReplacementsRequest { csv_name: name.into() });
    let found = replacements("pump.v1.0.0").unwrap();
    let expected = [("stable", "pump.v1.1.0", "pump.v1.0.0"), ("stable", "pump.v2.0.0", "pump.v1.1.0")];
    assert_eq!(edges(&found), expected);
    assert_eq!(replacements("x").unwrap_err().message(), "no channel entries found that replace x");
}

#[test]
fn finds_what_provides_an_api() {
    let asked = asked();
    let catalog = asked.content.catalog();
    let [group, version, kind] = ["g.io", "v1", "Pump"].map(str::to_owned);
    let pump = GroupVersionKind { group, version, kind, plural: String::new() };
    let latest = entries::latest_that_provide(catalog, &pump).unwrap();
    // An edge from outside of the channel is none here.
    let expected = [
        ("fast", "pump.v2.0.0", ""),
        ("stable", "pump.v2.0.0", "pump.v1.1.0"),
        ("stable", "pump.v2.0.0", "pump.v1.0.0"),
    ];
    assert_eq!(edges(&latest), expected);
    assert_eq!(entries::that_provide(catalog, &pump).unwrap().len(), 6);
    let place = entries::default_provider(catalog, &pump).unwrap();
    assert_eq!((place.channel.as_str(), place.entry), ("stable", 2));
    let other = GroupVersionKind { kind: "Pipe".to_owned(), ..pump };
    let message = r#"no channel entries found that provide group:"g.io" version:"v1" kind:"Pipe""#;
    assert_eq!(entries::that_provide(catalog, &other).unwrap_err().message(), message);
}

#[tokio::test]
async fn gives_a_package_with_the_heads_of_its_channels() {
    let find = |catalog: &Catalog, name: &String| entries::package(catalog, name);
    let found = asked().list("pump".to_owned(), find).await.unwrap();
    let packages: Vec<Package> = found.try_collect().await.unwrap();
    let heads: Vec<_> =
        packages[0].channels.iter().map(|channel| (channel.name.as_str(), channel.csv_name.as_str())).collect();
    assert_eq!(heads, [("fast", "pump.v2.0.0"), ("stable", "pump.v2.0.0")]);
    assert_eq!(packages[0].default_channel_name, "stable");
    let found = asked().list((), |catalog: &Catalog, (): &()| entries::packages(catalog)).await.unwrap();
    let names: Vec<PackageName> = found.try_collect().await.unwrap();
    assert_eq!(names.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["pump"]);
}

#[test]
fn a_catalog_for_which_there_is_no_room_is_refused_until_another_goes() {
    let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(root.path().join("catalog.json"), text()).unwrap();
    // Enough for one: channels and deprecations are not kept.
    let stage = Stage::new(folder.path().to_owned(), text().len() as u64);
    let read = || Content::read(root.path(), &Limits::default(), &stage);
    let first = read().unwrap();
    let refused = read().unwrap_err();
    let is_full =
        matches!(&refused, crate::read::Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull);
    assert!(is_full, "{refused:?}");
    drop(first);
    assert!(read().is_ok(), "what was taken was given back");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_room_has_the_slowest_closed_and_is_refused_in_the_end() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let (room, closed) = (Room::default(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&closed);
    let slow = room.turn(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let (all, turn) = (slow.take(u64::MAX).await.unwrap(), room.turn(|| panic!("it holds nothing")));
    let refused = turn.take(0).await.err().map(|status| status.code());
    assert_eq!(refused, Some(tonic::Code::ResourceExhausted));
    assert!(closed.load(Ordering::Relaxed) > 0, "a connection that is slow is closed");
    let asked = Asked { turn, ..asked() };
    let listed = asked.list((), |catalog: &Catalog, (): &()| entries::packages(catalog)).await;
    assert_eq!(listed.err().map(|status| status.code()), refused, "lists wait for room, too");
    drop(all);
    assert!(room.turn(|| ()).take(0).await.is_ok());
}
