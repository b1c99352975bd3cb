//! Reads manifests, and builds overlays without kustomize.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use rukpak_webhook::options::Options;
use serde_json::{Value, json};

/// Objects by kind and name.
pub type Objects = BTreeMap<(String, String), Value>;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

pub fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn keyed(objects: impl IntoIterator<Item = Value>) -> Objects {
    let mut keyed = Objects::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&object["kind"]), text(&object["metadata"]["name"]));
        assert!(keyed.insert(key.clone(), object).is_none(), "{key:?} is there twice");
    }
    keyed
}

/// What kustomize makes of a folder, for the fields that ours use: resources, patches of operations, and transformers that
/// add annotations. Patches that are files merge, which the tests of their overlays look at.
pub fn build(folder: &Path) -> Objects {
    let [kustomization] = documents(&folder.join("kustomization.yaml")).try_into().expect("because it is one document");
    let known = ["apiVersion", "kind", "resources", "patches", "transformers"];
    assert!(kustomization.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{kustomization}");
    let mut objects = Vec::new();
    for resource in items(&kustomization["resources"]) {
        let path = folder.join(resource.as_str().unwrap());
        if path.is_dir() {
            objects.extend(build(&path).into_values());
        } else {
            objects.extend(documents(&path));
        }
    }
    for patch in items(&kustomization["patches"]).filter(|patch| patch.get("patch").is_some()) {
        let target = |object: &&mut Value| {
            object["kind"] == patch["target"]["kind"] && object["metadata"]["name"] == patch["target"]["name"]
        };
        let object = objects.iter_mut().find(target).unwrap_or_else(|| panic!("nothing to patch: {patch}"));
        let operations: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        for operation in items(&operations) {
            append(object, operation);
        }
    }
    for transformer in items(&kustomization["transformers"]) {
        let [transformer] = documents(&folder.join(transformer.as_str().unwrap())).try_into().unwrap();
        assert_eq!(transformer["kind"], "AnnotationsTransformer");
        assert_eq!(transformer["fieldSpecs"], json!([{"path": "metadata/annotations", "create": true}]));
        for object in &mut objects {
            annotate(object, &transformer["annotations"]);
        }
    }
    keyed(objects)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Takes the one kind of operation that ours use: something more at the end of a list.
fn append(object: &mut Value, operation: &Value) {
    assert_eq!(operation["op"], "add", "{operation}");
    let list =
        operation["path"].as_str().and_then(|path| path.strip_suffix("/-")).unwrap_or_else(|| panic!("{operation}"));
    object.pointer_mut(list).and_then(Value::as_array_mut).unwrap().push(operation["value"].clone());
}

fn annotate(object: &mut Value, annotations: &Value) {
    for (name, value) in annotations.as_object().unwrap() {
        object["metadata"]["annotations"][name] = value.clone();
    }
}

/// kustomize writes 0.0 as 0.
pub fn whole(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), whole(value))).collect(),
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Number(number) => number.as_f64().map_or(Value::Null, |number| json!(number)),
        other => other.clone(),
    }
}

pub fn get<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    objects.get(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("no {kind} {name}"))
}

pub fn manager(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|container| container["name"] == "manager").unwrap()
}

/// The webhook's own reading of the arguments in its Deployment.
pub fn options(deployment: &Value) -> Options {
    let arguments = manager(deployment)["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    Options::try_parse_from(std::iter::once("rukpak-webhook").chain(arguments))
        .unwrap_or_else(|error| panic!("{error}"))
}
