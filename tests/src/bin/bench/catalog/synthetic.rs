//! A catalog of the size of the largest published ones, the same every time.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rukpak_catalog::registry::message::{Bundle, Property};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

/// How many packages there are.
pub(super) const PACKAGES: usize = 600;
/// How many bundles each has.
pub(super) const BUNDLES: usize = 20;
/// Text that a ClusterServiceVersion repeats in the catalog: half of it is the description, a third examples.
const SENTENCE: &str = "The operator installs, upgrades and \"watches\" the things that it is named after.\n";

fn package(name: &str) -> Value {
    let icon = json!({"base64data": "PHN2Zy8+".repeat(500), "mediatype": "image/svg+xml"});
    json!({"schema": "olm.package", "name": name, "defaultChannel": "stable", "description": SENTENCE, "icon": icon})
}

fn channel(package: &str, name: &str) -> Value {
    let entry = |number: usize| match number {
        0 => json!({"name": format!("{package}.v1.0.0")}),
        _ => json!({"name": format!("{package}.v1.{number}.0"), "replaces": format!("{package}.v1.{}.0", number - 1),
            "skipRange": format!(">=1.0.0 <1.{number}.0")}),
    };
    let entries: Vec<Value> = (0..BUNDLES).map(entry).collect();
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

fn bundle(package: &str, number: usize) -> Value {
    let gvk = |kind: usize| json!({"group": format!("{package}.example.com"), "kind": format!("Kind{kind}"), "version": "v1"});
    let provided = (0..4).map(|kind| json!({"type": "olm.gvk", "value": gvk(kind)}));
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes = modes.map(|mode| json!({"type": mode, "supported": mode != "MultiNamespace"}));
    let definitions: Vec<Value> =
        (0..4).map(|kind| json!({"kind": format!("Kind{kind}"), "name": "x", "description": SENTENCE})).collect();
    let metadata = json!({
        "annotations": {"alm-examples": SENTENCE.repeat(30), "capabilities": "Full Lifecycle", "containerImage": "x",
            "olm.properties": "[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.20\"}]"},
        "apiServiceDefinitions": {}, "crdDescriptions": {"owned": definitions}, "description": SENTENCE.repeat(54),
        "displayName": package, "installModes": modes, "keywords": ["a", "b"], "minKubeVersion": "1.20.0",
        "maintainers": [{"email": "a@example.com", "name": "A"}], "provider": {"name": "Example"},
    });
    let version = format!("1.{number}.0");
    let own = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
    let properties = provided.chain([own, json!({"type": "olm.csv.metadata", "value": metadata})]);
    let image = |what: &str| format!("registry.example.com/{package}/{what}@sha256:{number:064x}");
    let related: Vec<Value> =
        (0..6).map(|index| json!({"name": format!("image-{index}"), "image": image("operand")})).collect();
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image("bundle"),
        "properties": properties.collect::<Vec<_>>(), "relatedImages": related})
}

/// Writes all documents of a package.
fn write(out: &mut dyn Write, index: usize) -> io::Result<()> {
    let name = format!("package-{index:03}");
    let channels = ["stable", "fast"].map(|channel_name| channel(&name, channel_name));
    let documents = [package(&name)].into_iter().chain(channels);
    for document in documents.chain((0..BUNDLES).map(|number| bundle(&name, number))) {
        document.serialize(&mut Serializer::with_formatter(&mut *out, PrettyFormatter::with_indent(b"    ")))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes the catalog as `folder/catalog/<package>/catalog.json` and again as the stream `folder/stream.json`. Returns the
/// length of the latter in bytes.
pub(super) fn make(folder: &Path) -> io::Result<u64> {
    let create = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
    let mut stream = create("stream.json")?;
    for index in 0..PACKAGES {
        let package = format!("catalog/package-{index:03}");
        fs::create_dir_all(folder.join(&package))?;
        write(&mut create(&format!("{package}/catalog.json"))?, index)?;
        write(&mut stream, index)?;
    }
    stream.flush()?;
    Ok(fs::metadata(folder.join("stream.json"))?.len())
}

/// The bundle as a registry server lists it: without its ClusterServiceVersion.
pub(super) fn message(index: usize) -> Bundle {
    let (package, number) = (format!("package-{:03}", index / BUNDLES), index % BUNDLES);
    let document = bundle(&package, number);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let properties = document["properties"].as_array().into_iter().flatten();
    let shown = properties.filter(|property| property["type"] != "olm.csv.metadata");
    let properties =
        shown.map(|property| Property { r#type: text(&property["type"]), value: property["value"].to_string() });
    Bundle {
        csv_name: text(&document["name"]),
        package_name: package.clone(),
        channel_name: "stable".to_owned(),
        bundle_path: text(&document["image"]),
        version: format!("1.{number}.0"),
        skip_range: format!(">=1.0.0 <1.{number}.0"),
        replaces: number.checked_sub(1).map(|before| format!("{package}.v1.{before}.0")).unwrap_or_default(),
        properties: properties.collect(),
        ..Bundle::default()
    }
}
