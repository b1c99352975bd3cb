//! The rules of OLM v1's kinds: what the CEL of the definitions says, and what the check in Rust says, on the same tables.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use rukpak_crds::definition;
use rukpak_crds::olm::{ClusterCatalogSpec, ClusterExtensionSpec};
use serde_json::{Value, json};

/// The messages of the rules in a definition that an object breaks, as an API server finds them: a rule is asked where its field is.
fn broken(definition: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    walk(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], object, old, &mut found);
    found
}

fn walk(schema: &Value, value: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = rule["rule"].as_str().unwrap();
        if text.contains("oldSelf") && old.is_none() {
            continue;
        }
        // As the API server has it: fields whose names CEL reserves have others there.
        let text = &text.replace("__namespace__", "namespace");
        let program = cel::Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut context = cel::Context::default();
        context.add_variable("self", value).unwrap();
        context.add_variable("oldSelf", old).unwrap();
        let holds = program.execute(&context).unwrap_or_else(|error| panic!("{text}: {error}"));
        if holds != cel::Value::Bool(true) {
            found.push(rule["message"].as_str().unwrap().to_owned());
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        // Close to how the API server pairs the items of a map: the tests keep their order.
        walk(&schema["items"], item, old.and_then(|old| old.get(index)), found);
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            walk(schema, value, old.and_then(|old| old.get(name)), found);
        }
    }
}

fn catalog(reference: &str) -> Value {
    json!({"spec": {"source": {"type": "Image", "image": {"ref": reference}}}})
}

fn extension(package: &str, version: Option<&str>) -> Value {
    let mut catalog = json!({"packageName": package});
    if let Some(version) = version {
        catalog["version"] = json!(version);
    }
    json!({"spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": catalog}}})
}

/// What the Rust says of it: the first message.
fn of_catalog(object: &Value) -> Option<&'static str> {
    let spec: ClusterCatalogSpec = serde_json::from_value(object["spec"].clone()).unwrap();
    spec.image().err().map(|violation| violation.0)
}

fn of_extension(object: &Value) -> Option<&'static str> {
    let spec: ClusterExtensionSpec = serde_json::from_value(object["spec"].clone()).unwrap();
    spec.catalog().err().map(|violation| violation.0)
}

/// Both answer alike; the message begins with `expected`, or there is none.
fn assert_catalog(object: &Value, expected: Option<&str>) {
    let by_cel = broken(&definition::cluster_catalog().unwrap(), object, None);
    assert_eq!(by_cel.first().map(String::as_str), of_catalog(object), "{object}: {by_cel:?}");
    let fits = match (by_cel.first(), expected) {
        (Some(found), Some(expected)) => found.starts_with(expected),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    assert!(fits, "{object}: {by_cel:?}");
}

fn assert_extension(object: &Value, expected: Option<&str>) {
    let by_cel = broken(&definition::cluster_extension().unwrap(), object, None);
    assert_eq!(by_cel.first().map(String::as_str), of_extension(object), "{object}: {by_cel:?}");
    let fits = match (by_cel.first(), expected) {
        (Some(found), Some(expected)) => found.starts_with(expected),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    assert!(fits, "{object}: {by_cel:?}");
}

#[test]
fn references_of_catalog_images() {
    let digest = "a".repeat(64);
    let table = [
        ("quay.io/operatorhubio/catalog:latest".to_owned(), None),
        ("localhost:5000/a/b_c__d-e.f:v1.0_X".to_owned(), None),
        (format!("quay.io/a/b@sha256:{digest}"), None),
        (format!("quay.io:443/a/b:v1@sha256:{digest}"), None),
        ("-quay.io/a:v1".to_owned(), Some("must start with a valid domain")),
        ("quay.io:v1".to_owned(), Some("a valid name is required")),
        ("quay.io/A:v1".to_owned(), Some("a valid name is required")),
        ("quay.io/a".to_owned(), Some("must end with a digest or a tag")),
        // The first colon is the port's.
        ("localhost:5000/a".to_owned(), Some("tag is invalid. valid tags must begin")),
        (format!("quay.io/a:{}", "v".repeat(128)), Some("tag is invalid. the tag must not be more than 127")),
        (format!("quay.io/a:{}", "v".repeat(127)), None),
        ("quay.io/a:-v".to_owned(), Some("tag is invalid. valid tags must begin")),
        (format!("quay.io/a@1sha256:{digest}"), Some("digest algorithm is not valid")),
        ("quay.io/a@sha256:abc".to_owned(), Some("digest is not valid. the encoded string must be at least 32")),
        (format!("quay.io/a@sha256:{digest}g"), Some("digest is not valid. the encoded string must only contain hex")),
    ];
    for (reference, expected) in table {
        assert_catalog(&catalog(&reference), expected);
    }
}

#[test]
fn the_source_of_a_catalog_is_a_union_and_a_digest_is_not_polled() {
    assert_catalog(
        &json!({"spec": {"source": {"type": "Image"}}}),
        Some("image is required when source type is Image"),
    );
    let mut polled = catalog("quay.io/a:v1");
    polled["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(1);
    assert_catalog(&polled, None);
    polled["spec"]["source"]["image"]["ref"] = json!(format!("quay.io/a@sha256:{}", "a".repeat(64)));
    assert_catalog(&polled, Some("cannot specify pollIntervalMinutes while using digest-based image"));
}

#[test]
fn the_status_of_a_catalog_names_a_digest_and_a_url() {
    let definition = definition::cluster_catalog().unwrap();
    let status = |reference: &str, base: &str| json!({"status": {"resolvedSource": {"type": "Image", "image": {"ref": reference}}, "urls": {"base": base}}});
    let good = status("quay.io/a@sha256:00", "https://catalogs.example/catalogs/a");
    assert!(broken(&definition, &good, None).is_empty());
    let bad = status("quay.io/a:v1", "ftp://catalogs.example");
    assert_eq!(broken(&definition, &bad, None), ["must end with a digest", "scheme must be either http or https"]);
    assert!(broken(&definition, &status("a@b:c", "catalogs"), None).contains(&"must be a valid URL".to_owned()));
}

#[test]
fn the_status_of_an_extension_names_a_version_and_a_release() {
    let definition = definition::cluster_extension().unwrap();
    let status = |release: &str| json!({"status": {"install": {"bundle": {"name": "p", "version": "1.0.0", "release": release}}}});
    for release in ["", "1", "1.2.3", "a-b.0", "01a"] {
        assert_eq!(broken(&definition, &status(release), None), Vec::<String>::new(), "{release}");
    }
    for release in ["01", "1..2", "1.", "a_b", "1+2"] {
        let found = broken(&definition, &status(release), None);
        assert!(
            found.len() == 1 && found[0].starts_with("release must be empty or consist of"),
            "{release}: {found:?}"
        );
    }
}

#[test]
fn version_expressions() {
    let good = [
        "1.2.3",
        "v1.2.3",
        "=1.2.3",
        "1.2",
        "1.2.x",
        "1",
        "*",
        "x",
        "1.*",
        "1.x.x",
        "1.2.*",
        ">=1 <2",
        ">=1,<2",
        ">=1, <2",
        ">1.0 || 0.9",
        "=>1",
        "=<1",
        "~>1.2",
        "!=1.2",
        "~1",
        "^1.2",
        "1.0.0-rc.1+b.2",
        "> 1.0",
        "1.*.*",
        "1 || *",
    ];
    for version in good {
        assert_extension(&extension("p", Some(version)), None);
    }
    let bad = ["", "==1", "1.2.3.4", "01.2.3", "1,", "||1", "1.2 - 1.4", "|", "1.*]", "a", "1.2.3-", ">"];
    for version in bad {
        assert_extension(&extension("p", Some(version)), Some("invalid version expression"));
    }
}

#[test]
fn names_in_an_extension() {
    for package in ["a", "a-b.c", "0"] {
        assert_extension(&extension(package, None), None);
    }
    for package in ["", "A", "a_b", "-a", "a.", "a..b"] {
        assert_extension(
            &extension(package, None),
            Some("packageName must be a valid DNS1123 subdomain. It must contain"),
        );
    }
    let mut object = extension("p", None);
    object["spec"]["namespace"] = json!("a.b");
    assert_extension(&object, Some("namespace must be a valid DNS1123 label"));
    let mut object = extension("p", None);
    object["spec"]["source"]["catalog"]["channels"] = json!(["stable", "Beta"]);
    assert_extension(&object, Some("channels entries must be valid DNS1123 subdomains"));
}

#[test]
fn unions_of_an_extension() {
    let with = |field: &str, value: Value| {
        let mut object = extension("p", None);
        object["spec"][field] = value;
        object
    };
    let table = [
        (with("source", json!({"sourceType": "Catalog"})), Some("catalog is required when sourceType is Catalog")),
        (with("install", json!({})), Some("at least one of [preflight] are required")),
        (with("install", json!({"preflight": {}})), Some("at least one of [crdUpgradeSafety] are required")),
        (with("install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}})), None),
        (with("config", json!({"configType": "Inline"})), Some("inline is required when configType is Inline")),
        (with("config", json!({"configType": "Inline", "inline": {"watchNamespace": "a"}})), None),
    ];
    for (object, expected) in table {
        assert_extension(&object, expected);
    }
}

#[test]
fn what_never_changes() {
    let definition = definition::cluster_extension().unwrap();
    let mut old = extension("p", None);
    old["spec"]["serviceAccount"] = json!({"name": "a"});
    assert!(broken(&definition, &old, Some(&old)).is_empty());
    let mut new = extension("q", None);
    new["spec"]["namespace"] = json!("other");
    new["spec"]["serviceAccount"] = json!({"name": "b"});
    let expected =
        ["namespace is immutable", "name is immutable once set but may be cleared", "packageName is immutable"];
    let mut found = broken(&definition, &new, Some(&old));
    found.sort_unstable();
    let mut expected = expected.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(broken(&definition, &extension("p", None), Some(&old)).is_empty(), "it may be cleared");

    let named = extension("p", None);
    let mut managed = named.clone();
    managed["spec"].as_object_mut().unwrap().remove("namespace");
    assert_extension(&managed, None);
    assert!(broken(&definition, &managed, Some(&managed)).is_empty());
    let presence = ["namespace presence is immutable; it cannot be added or removed after creation"];
    for (old, new) in [(&named, &managed), (&managed, &named)] {
        assert_eq!(broken(&definition, new, Some(old)), presence);
    }
}

fn object_set(change: &Value) -> Value {
    let mut set = json!({"spec": {
        "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
        "phases": [{"name": "a-1", "objects": []}],
        "progressionProbes": [{
            "selector": {"type": "Label", "label": {"matchLabels": {"a": "b"}}},
            "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": "status.phase", "value": "Bound"}}],
        }],
    }});
    for (key, value) in change.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

#[test]
fn unions_and_names_of_an_object_set() {
    let definition = definition::cluster_object_set().unwrap();
    assert!(broken(&definition, &object_set(&json!({})), None).is_empty());
    let probe = |selector: Value, assertion: Value| json!({"progressionProbes": [{"selector": selector, "assertions": [assertion]}]});
    let (by_kind, by_label) =
        (json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Pod"}}), json!({"type": "Label"}));
    let equal = json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "a.b", "fieldB": "/c"}});
    for (change, message) in [
        (json!({"phases": [{"name": "A", "objects": []}]}), "the value must consist of only lowercase"),
        (probe(by_label, json!({"type": "ConditionEqual"})), "label is required when type is Label"),
        (probe(by_kind.clone(), json!({"type": "FieldValue"})), "fieldValue is required when type is FieldValue"),
        (probe(by_kind, equal), "must contain a valid field path."),
        (
            probe(json!({"type": "Label", "label": {}}), json!({"type": "ConditionEqual", "conditionEqual": {}})),
            "exactly one of matchLabels or matchExpressions must be set",
        ),
    ] {
        let found = broken(&definition, &object_set(&change), None);
        assert!(found.iter().any(|found| found.starts_with(message)), "{change}: {found:?}");
    }
}

#[test]
fn what_never_changes_in_an_object_set() {
    let definition = definition::cluster_object_set().unwrap();
    let old = object_set(&json!({}));
    for (change, message) in [
        (json!({"revision": 2}), "revision is immutable"),
        (json!({"phases": [{"name": "b", "objects": []}]}), "phases is immutable"),
        (json!({"collisionProtection": "None"}), "collisionProtection is immutable"),
    ] {
        assert_eq!(broken(&definition, &object_set(&change), Some(&old)), [message], "{change}");
    }
    let archived = object_set(&json!({"lifecycleState": "Archived"}));
    assert!(broken(&definition, &archived, Some(&old)).is_empty());
    assert_eq!(broken(&definition, &old, Some(&archived)), ["cannot un-archive"]);
    let empty = object_set(&json!({"phases": []}));
    assert!(broken(&definition, &old, Some(&empty)).is_empty(), "nothing was there before");
}

/// Shapes that people's manifests and tools rely on.
#[test]
fn the_definitions_are_those_of_upstream() {
    let catalogs = definition::cluster_catalog().unwrap();
    let extensions = definition::cluster_extension().unwrap();
    let sets = definition::cluster_object_set().unwrap();
    for (definition, plural, columns) in [
        (&catalogs, "clustercatalogs", &["LastUnpacked", "Serving", "Age"][..]),
        (&extensions, "clusterextensions", &["Installed Bundle", "Version", "Installed", "Progressing", "Age"]),
        (&sets, "clusterobjectsets", &["Available", "Progressing", "Age"]),
    ] {
        let spec = &definition["spec"];
        assert_eq!((&spec["scope"], &spec["names"]["plural"]), (&json!("Cluster"), &json!(plural)));
        assert!(spec["names"].get("shortNames").is_none() && spec["names"].get("categories").is_none());
        let version = &spec["versions"][0];
        assert_eq!((&version["name"], &version["subresources"]), (&json!("v1"), &json!({"status": {}})));
        let shown = version["additionalPrinterColumns"].as_array().unwrap();
        assert_eq!(shown.iter().map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>(), columns);
    }
    let field = |definition: &Value, path: &str| {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        path.split('.').fold(schema.clone(), |schema, name| schema["properties"][name].clone())
    };
    let defaults = [("spec.priority", json!(0)), ("spec.availabilityMode", json!("Available"))];
    for (path, default) in defaults {
        assert_eq!(field(&catalogs, path)["default"], default, "{path}");
    }
    assert_eq!(field(&extensions, "spec.source.catalog.upgradeConstraintPolicy")["default"], json!("CatalogProvided"));
    assert_eq!(field(&extensions, "spec.source.catalog.selector")["x-kubernetes-map-type"], json!("atomic"));
    assert_eq!(field(&extensions, "spec.serviceAccount")["minProperties"], json!(1));
    assert_eq!(field(&extensions, "spec.config.inline")["x-kubernetes-preserve-unknown-fields"], json!(true));
    let revisions = field(&extensions, "status.activeRevisions");
    assert_eq!(revisions["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(revisions["items"]["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(revisions["items"]["required"], json!(["name"]));
    let deadline = field(&extensions, "spec.progressDeadlineMinutes");
    assert_eq!((&deadline["type"], &deadline["format"]), (&json!("integer"), &json!("int32")));
    assert_eq!(["minimum", "maximum"].map(|key| deadline[key].as_f64()), [Some(10.0), Some(720.0)]);
    assert!(field(&extensions, "spec.install.preflight.crdUpgradeSafety.enforcement").get("default").is_none());
    let enforcement = field(&extensions, "spec.install.preflight.crdUpgradeSafety.enforcement");
    assert_eq!(enforcement["enum"], json!(["None", "Strict"]));
}
