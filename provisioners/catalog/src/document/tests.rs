use proptest::prelude::*;
use serde_json::json;

use super::sieve::Keep;
use super::*;
use crate::Version;
use crate::model::{Gvk, RequiredPackage};

fn read(value: &Value) -> Result<Document, Error> {
    let from_value = Document::from_value(value);
    let from_json = Document::from_json(value.to_string().as_bytes()).expect("JSON");
    assert_eq!(from_value, from_json, "JSON and YAML are read alike");
    from_value
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn bundle(value: Value) -> BundleDocument {
    match read(&value) {
        Ok(Document::Bundle(document)) => *document,
        other => panic!("{value}: {other:?}"),
    }
}

#[test]
fn keeps_an_icon_that_is_not_too_large() {
    let kept = |icon: Value| match read(&json!({"schema": "olm.package", "name": "a", "icon": icon})) {
        Ok(Document::Package { icon, .. }) => icon.map(|icon| (icon.media_type.clone(), icon.bytes.clone())),
        other => panic!("{other:?}"),
    };
    let icon = |data: &str| json!({"base64data": data, "mediatype": "image/png"});
    assert_eq!(kept(icon("AAEC")), Some(("image/png".to_owned(), vec![0, 1, 2])));
    for unreadable in [json!("x"), icon(""), icon("?"), icon(&"A".repeat(MAX_ICON_BYTES * 2))] {
        assert_eq!(kept(unreadable), None);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn bundle_with(properties: Value) -> BundleDocument {
    bundle(json!({"schema": "olm.bundle", "name": "a.v1.0.0", "package": "a", "properties": properties}))
}

#[test]
fn keys_are_found_in_any_case() {
    let package = Document::Package { name: "a".into(), default_channel: Some("stable".into()), icon: None };
    for text in [
        r#"{"schema": "olm.package", "name": "a", "defaultChannel": "stable"}"#,
        r#"{"Schema": "olm.package", "NAME": "a", "DefaultChannel": "stable", "icon": {"base64data": 1}, "x": [1, {}]}"#,
        r#"{"ſchema": "olm.package", "name": "a", "defaultchannel": "stable"}"#,
        r#"{"defaultChannel": "x", "defaultChannel": "stable", "name": "a", "schema": "olm.package"}"#,
    ] {
        assert_eq!(Document::from_json(text.as_bytes()).expect(text), Ok(package.clone()), "{text}");
    }
    let other = read(&json!({"SCHEMA": "x.y", "pac\u{212a}age": "p", "Name": "n", "entries": "anything"}));
    assert_eq!(other, Ok(Document::Other { schema: "x.y".into(), package: Some("p".into()), name: Some("n".into()) }));
    let entry = read(&json!({"schema": "olm.channel", "package": "a", "name": "c",
        "Entries": [{"NAME": "e", "SkipRange": "<1", "Skips": ["s", null], "replaces": null, "unknown": {}}, null]}));
    let Ok(Document::Channel { channel, .. }) = entry else { panic!("{entry:?}") };
    assert_eq!(channel.entries.len(), 2);
    assert_eq!(channel.entries[0].skips, ["s", ""]);
    assert_eq!(channel.entries[0].skip_range.as_deref(), Some("<1"));
    assert_eq!(channel.entries[0].replaces, None);
}

#[test]
fn refusals_are_in_the_words_of_opm() {
    for (value, words) in [
        (json!([{"schema": "olm.package"}]), "expected an object with a schema, found a list"),
        (json!("text"), "found a string"),
        (
            json!({"name": "a", "entries": [1]}),
            "object '{\"entries\":[1],\"name\":\"a\"}' is missing root schema field",
        ),
        (json!({}), "object '{}' is missing root schema field"),
        (json!({"schema": ""}), "is missing root schema field"),
        (json!({"schema": "x", "Schema": "x"}), "duplicate keys for key \"schema\": [Schema schema]"),
        (json!({"schema": "x", "Foo": 1, "foo": 2, "FOO": 3}), "duplicate keys for key \"foo\": [FOO Foo foo]"),
        (json!({"schema": "x", "NAME": 5}), "expected value for key \"NAME\" to be a string, got a number: 5"),
        (json!({"schema": null}), "expected value for key \"schema\" to be a string, got null"),
        (json!({"schema": "x", "package": ["a"]}), "expected value for key \"package\" to be a string, got a list"),
        (json!({"schema": "olm.package", "defaultChannel": 1}), "parse package: defaultChannel: expected a string"),
        (json!({"schema": "olm.channel", "entries": {}}), "parse channel: entries: expected a list, got an object"),
        (json!({"schema": "olm.channel", "entries": ["a"]}), "parse channel: entries[0]: expected an object"),
        (json!({"schema": "olm.channel", "entries": [{"skips": [1]}]}), "parse channel: entries[0].skips[0]: expected"),
        (json!({"schema": "olm.bundle", "image": true}), "parse bundle: image: expected a string, got a boolean"),
        (json!({"schema": "olm.bundle", "properties": "x"}), "parse bundle: properties: expected a list"),
        (
            json!({"schema": "olm.deprecations", "entries": [{"reference": 1}]}),
            "parse deprecation: entries[0].reference:",
        ),
        (
            json!({"schema": "olm.channel", "entries": vec![1; MAX_ITEMS + 1]}),
            "entries: more than 20000 items are not read",
        ),
    ] {
        let is_object = value.is_object();
        let error = if is_object { read(&value) } else { Document::from_value(&value) };
        let text = error.expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    }
    let long = Document::from_value(&json!({"text": "\u{e9}".repeat(10_000)})).expect_err("no schema").to_string();
    assert!(long.len() < 500, "{long}");
}

#[test]
fn long_names_are_refused() {
    let (long, longest) = ("n".repeat(MAX_NAME + 1), "n".repeat(MAX_NAME));
    let told = |what: &str| format!("{what}: 1025 bytes, and more than 1024 are not read: nnn");
    let channel = |entry: Value| json!({"schema": "olm.channel", "package": "a", "name": "c", "entries": [entry]});
    let reference = |name: &str| json!({"reference": {"schema": "olm.bundle", "name": name}, "message": "m"});
    let deprecations = |name: &str| json!({"schema": "olm.deprecations", "package": "a", "entries": [reference(name)]});
    for (value, words) in [
        (json!({"schema": "olm.bundle", "name": long}), "key \"name\" to have at most 1024 bytes, got 1025: nnn"),
        (json!({"schema": "x", "Package": long}), "key \"Package\" to have at most 1024 bytes, got 1025: nnn"),
        (json!({"schema": "olm.package", "defaultChannel": long}), &told("parse package: defaultChannel")),
        (json!({"schema": "olm.bundle", "image": long}), &told("parse bundle: image")),
        (channel(json!({"name": long})), &told("parse channel: entries[0].name")),
        (channel(json!({"replaces": long})), &told("parse channel: entries[0].replaces")),
        (channel(json!({"skips": ["", long]})), &told("parse channel: entries[0].skips[1]")),
        (deprecations(&long), &told("parse deprecation: entries[0].reference.name")),
    ] {
        let error = read(&value).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.len() < 300, "{error}");
    }
    for value in [
        json!({"schema": "olm.bundle", "package": longest, "name": longest, "image": longest}),
        channel(json!({"name": longest, "replaces": longest, "skips": [longest]})),
        deprecations(&longest),
    ] {
        read(&value).unwrap();
    }
    // What is wrong with a property is the matter of its bundle alone.
    let document = bundle_with(json!([{"type": "olm.package", "value": {"packageName": "a", "version": long}}]));
    assert_eq!((document.bundle.version, document.bundle.version_text.as_str()), (None, ""));
    let fault = told("properties[0] (olm.package).version");
    assert!(document.faults.len() == 1 && document.faults[0].starts_with(&fault), "{:?}", document.faults);
}

#[test]
fn long_lists_are_not_held() {
    let sieved = |keep: Keep, json: &str| keep.of(&serde_json::from_str(json).expect("JSON"));
    let list = format!("[{}1]", "1,".repeat(MAX_ITEMS + 1));
    assert_eq!(sieved(Keep::TEXT, &list), json!([]));
    assert_eq!(sieved(Keep::TEXT, r#"{"a": 1}"#), json!({}));
    assert_eq!(sieved(Keep::TEXT, "1"), json!(1));
    let kept = sieved(Keep::Items(&Keep::TEXT), &list);
    assert_eq!(kept.as_array().map(Vec::len), Some(MAX_ITEMS + 1));
    for (field, path) in [("skips", "parse channel: entries[0].skips"), ("name", "parse channel: entries[0].name")] {
        let text = format!(r#"{{"schema": "olm.channel", "entries": [{{"{field}": {list}}}]}}"#);
        let error = Document::from_json(text.as_bytes()).expect("JSON").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
}

#[test]
fn facts_are_collected_from_properties() {
    let gvk = |kind: &str| json!({"group": "g", "version": "v1", "kind": kind});
    let document = bundle_with(json!([
        {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0-rc1+b"}},
        {"value": gvk("Late"), "type": "olm.gvk"},
        {"type": "olm.gvk.required", "value": gvk("Needed")},
        {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">=1"}},
        {"type": "olm.constraint", "value": {"failureMessage": "no", "cel": {"rule": "true"}}},
        {"type": "olm.GVK", "value": "types are compared exactly"},
        {"type": "olm.csv.metadata", "value": {
            "annotations": {"olm.properties": "[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.9\"}]", "b": {},
                "features.operators.openshift.io/disconnected": "true", "features.operators.openshift.io/cnf": "false",
                "features.operators.openshift.io/fips-compliant": "true", "features.operators.openshift.io/mine": "true",
                "features.operators.openshift.io/csi": true},
            "labels": {"operatorframework.io/arch.s390x": "supported", "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "unsupported", "operatorframework.io/os.linux": "supported",
                "operatorframework.io/arch.abacus": "supported"},
            "apiServiceDefinitions": {"owned": [{"group": "g", "version": "v1", "kind": "K", "name": "ks"}]},
            "displayName": "A", "description": "long", "minKubeVersion": "1.20.0", "provider": {"name": "Us", "url": 1},
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true},
                             {"type": "MultiNamespace", "supported": false}]}},
    ]));
    assert!(document.faults.is_empty(), "{:?}", document.faults);
    assert_eq!(document.identities.len(), 1);
    assert_eq!(document.bundle.version_text, "1.0.0-rc1+b");
    assert_eq!(document.bundle.version, Version::parse("1.0.0-rc1+b").ok());
    let facts = document.bundle.facts;
    let gvk = |kind: &str| Gvk { group: "g".into(), version: "v1".into(), kind: kind.into() };
    assert_eq!(facts.provides, [gvk("Late")]);
    assert_eq!(facts.requires, [gvk("Needed")]);
    assert_eq!(facts.requires_packages, [RequiredPackage { name: "b".into(), range: ">=1".into() }]);
    assert_eq!(facts.constraints, [r#"{"cel":{"rule":"true"},"failureMessage":"no"}"#]);
    assert_eq!(facts.install_modes, Some(vec!["AllNamespaces".into(), "OwnNamespace".into()]));
    assert_eq!(facts.owned_api_services, ["v1.g"]);
    assert_eq!(facts.min_kube_version.as_deref(), Some("1.20.0"));
    assert_eq!(facts.max_openshift_version.as_deref(), Some("4.9"));
    assert_eq!(facts.display_name.as_deref(), Some("A"));
    assert_eq!((facts.provider.as_deref(), facts.provider_url), (Some("Us"), None));
    assert_eq!(facts.architectures, ["amd64", "s390x"]);
    assert_eq!(facts.operating_systems, ["linux"]);
    assert_eq!(facts.features, ["disconnected", "fips-compliant"]);
}

#[test]
fn a_csv_in_the_catalog_says_the_same() {
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"labels": {"operatorframework.io/os.zos": "supported"},
        "annotations": {"features.operators.openshift.io/cni": "true", "olm.properties":
        "[{\"type\": \"x\"}, {\"type\": \"olm.maxOpenShiftVersion\", \"value\": 4.10}]"}},
        "spec": {"displayName": "A", "minKubeVersion": "1.19.0", "apiservicedefinitions": {"owned": [{"name": "svc"}]},
                 "installModes": [{"type": "AllNamespaces", "supported": true}]}});
    let yaml = "kind: ClusterServiceVersion\nspec:\n  displayName: A\n  minKubeVersion: 1.19.0\n  installModes:\n  - \
                {type: AllNamespaces, supported: true}\n  apiservicedefinitions: {owned: [{name: svc}]}\nmetadata:\n  \
                labels: {operatorframework.io/os.zos: supported}\n  \
                annotations:\n    features.operators.openshift.io/cni: 'true'\n    olm.properties: '[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": 4.1}]'\n";
    let mut broken = encode(yaml);
    broken.insert_str(10, "\r\n");
    for data in [encode(&csv.to_string()), encode(yaml), broken] {
        let crd = encode(r#"{"kind": "CustomResourceDefinition", "spec": {"displayName": "B"}}"#);
        let document = bundle_with(json!([
            {"type": "olm.bundle.object", "value": {"data": crd}},
            {"type": "olm.bundle.object", "value": {"data": data}},
        ]));
        assert!(document.faults.is_empty(), "{:?}", document.faults);
        let facts = document.bundle.facts;
        assert_eq!(facts.install_modes, Some(vec!["AllNamespaces".into()]));
        assert_eq!(facts.owned_api_services, ["svc"]);
        assert_eq!(facts.min_kube_version.as_deref(), Some("1.19.0"));
        assert_eq!(facts.display_name.as_deref(), Some("A"));
        assert_eq!(facts.max_openshift_version.as_deref(), Some("4.1"), "the last zero of a number is lost");
        assert_eq!((facts.operating_systems, facts.features), (vec!["zos"], vec!["cni"]));
    }
    let silent = encode(r#"{"kind": "ClusterServiceVersion", "spec": {}}"#);
    let document = bundle_with(json!([{"type": "olm.bundle.object", "value": {"data": silent}}]));
    assert_eq!(document.bundle.facts.install_modes, Some(Vec::new()), "a whole one that names none supports none");
    let document = bundle_with(json!([{"type": "olm.csv.metadata", "value": {"displayName": "A"}}]));
    assert_eq!(document.bundle.facts.install_modes, None, "metadata may be trimmed: nothing is said");
}

#[test]
fn odd_properties_are_noted_and_leave_the_others_alone() {
    for (property, fault) in [
        (json!("x"), "properties[0]: expected an object, got a string"),
        (json!({"value": 1}), "properties[0]: type must be set"),
        (json!({"type": 1}), "properties[0].type: expected a string, got a number"),
        (json!({"type": "olm.gvk"}), "properties[0] (olm.gvk): expected an object, got null"),
        (json!({"type": "olm.gvk", "value": {"group": 1}}), "properties[0] (olm.gvk).group: expected a string"),
        (
            json!({"type": "olm.package.required", "value": []}),
            "properties[0] (olm.package.required): expected an object",
        ),
        (
            json!({"type": "olm.package", "value": {"version": 1.5}}),
            "version: expected a string, got a number: write it in",
        ),
        (json!({"type": "olm.csv.metadata", "value": {"installModes": 1}}), "installModes: expected a list"),
        (json!({"type": "olm.csv.metadata", "value": "x"}), "(olm.csv.metadata): expected an object"),
        (json!({"type": "olm.bundle.object", "value": {"ref": "x", "data": "*"}}), "data: Invalid"),
        (json!({"type": "olm.constraint", "value": {"cell": 1}}), "unknown field \"cell\""),
        (
            json!({"type": "olm.constraint", "value": {"cel": {"rule": "x".repeat(131_072)}}}),
            "at most 131072 are allowed",
        ),
    ] {
        let good = json!({"type": "olm.gvk", "value": {"group": "g", "version": "v", "kind": "Good"}});
        let document = bundle_with(json!([property, good]));
        assert_eq!(document.faults.len(), 1, "{fault}: {:?}", document.faults);
        assert!(document.faults[0].contains(fault), "{fault}: {}", document.faults[0]);
        assert_eq!(document.bundle.facts.provides.len(), 1);
    }
    let odd = bundle_with(json!([{"type": "olm.constraint", "value": "x"}]));
    assert_eq!(odd.bundle.facts.constraints, ["\"x\""], "who asks for something unknown does not ask for nothing");
}

#[test]
fn the_newest_openshift_is_text_or_a_number() {
    for (value, text) in [
        (json!("4.9"), Some("4.9")),
        (json!("4.10"), Some("4.10")),
        (json!(4.10), Some("4.1")),
        (json!(5.0), Some("5")),
        (json!(5), Some("5")),
        (json!(["4.9"]), None),
        (json!(null), None),
    ] {
        let document = bundle_with(json!([{"type": "olm.maxOpenShiftVersion", "value": value}]));
        assert_eq!(document.bundle.facts.max_openshift_version.as_deref(), text, "{value}");
        assert!(document.faults.is_empty(), "upstream does not look at it");
    }
}

#[test]
fn a_bundle_is_what_all_its_properties_agree_on() {
    let package = |version: Value| json!({"type": "olm.package", "value": {"packageName": "a", "version": version}});
    let version = |properties: Value| bundle_with(properties).bundle.version_text;
    assert_eq!(version(json!([package(json!("1.0.0")), package(json!("1.0.0"))])), "1.0.0");
    assert_eq!(version(json!([package(json!("1.0.0")), package(json!("1.0.1"))])), "");
    assert_eq!(version(json!([package(json!(2))])), "2");
    let released = json!({"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0", "release": "2"}});
    let document = bundle_with(json!([released]));
    assert_eq!(document.bundle.version.and_then(|v| v.release().map(str::to_owned)).as_deref(), Some("2"));
    assert_eq!(bundle_with(json!([package(json!("v1.0"))])).bundle.version, None);
}

#[test]
fn templates_are_told_apart_by_their_schema() {
    for (schema, is_template) in
        [("olm.template.basic", true), ("olm.semver", true), ("olm.package", false), ("olm.templates", false)]
    {
        assert_eq!(
            read(&json!({"schema": schema})).map(|document| document.is_template()),
            Ok(is_template),
            "{schema}"
        );
    }
}

proptest! {
    /// Whatever stands in a document: it is read the same from JSON and from a value, and never panics.
    #[test]
    fn any_value_is_read_or_refused(
        schema in prop::sample::select(vec!["olm.package", "olm.channel", "olm.bundle", "olm.deprecations", "x"]),
        fields in prop::collection::btree_map(
            prop::sample::select(vec!["name", "package", "entries", "properties", "relatedImages", "image", "Image"]),
            value(), 0..5),
    ) {
        let mut map: serde_json::Map<String, Value> = fields.into_iter().map(|(key, value)| (key.into(), value)).collect();
        map.insert("schema".into(), schema.into());
        let _ = read(&Value::Object(map));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let keys =
        vec!["name", "type", "value", "image", "reference", "skips", "message", "version", "installModes", "data"];
    let words = vec!["olm.package", "olm.gvk", "olm.csv.metadata", "olm.bundle.object", "olm.constraint", "1.0.0", ""];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(keys.clone()), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}
