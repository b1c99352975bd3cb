use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::Builder;

/// All of one file, a line each.
fn read(documents: &[Value]) -> Vec<Located> {
    let located = |(index, value)| {
        let place = Position { file: Arc::from("all.json"), document: index + 1, line: index + 1 };
        Located { place, document: Document::from_value(value).unwrap() }
    };
    documents.iter().enumerate().map(located).collect()
}

fn messages(documents: &[Value]) -> Vec<String> {
    validate(&read(documents)).into_iter().map(|finding| finding.message).collect()
}

fn bundle(name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "package": "p", "name": name, "image": "quay.io/p:v1",
        "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
}

/// A package `p` with a channel `c` of `p.v1` and `p.v2`, changed here and there.
struct Sample {
    documents: Vec<Value>,
}

const PACKAGE: usize = 0;
const CHANNEL: usize = 1;
const V1: usize = 2;
const V2: usize = 3;

impl Sample {
    fn new() -> Self {
        let entries = json!([{"name": "p.v1", "skipRange": "<1.0.0"}, {"name": "p.v2", "replaces": "p.v1"}]);
        let documents = vec![
            json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
            json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": entries}),
            bundle("p.v1", "1.0.0"),
            bundle("p.v2", "2.0.0"),
        ];
        Self { documents }
    }

    fn with(document: Value) -> Self {
        let mut sample = Self::new();
        sample.documents.push(document);
        sample
    }

    /// The document with `value` at the path; null removes.
    fn set(mut self, document: usize, path: &str, value: Value) -> Self {
        *self.documents[document].pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        self
    }

    fn without(mut self, document: usize) -> Self {
        self.documents.remove(document);
        self
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn deprecations(package: &str, entries: Value) -> Value {
    json!({"schema": "olm.deprecations", "package": package, "entries": entries})
}

fn deprecate(schema: &str, name: &str, message: &str) -> Value {
    json!({"reference": {"schema": schema, "name": name}, "message": message})
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tables read better")]
fn finds(sample: Sample, expected: &[&str]) {
    assert_eq!(messages(&sample.documents), expected);
}

#[test]
fn a_valid_catalog_has_no_findings() {
    finds(Sample::new(), &[]);
    finds(Sample::with(json!({"schema": "custom", "package": "unknown", "name": ""})), &[]);
    finds(Sample::with(json!({"schema": "olm.template.basic"})), &[]);
    let entries = json!([
        deprecate("olm.package", "", "a"),
        deprecate("olm.channel", "c", "b"),
        deprecate("olm.bundle", "p.v1", "c\nd"),
    ]);
    finds(Sample::with(deprecations("p", entries)), &[]);
    assert_eq!(
        messages(&[json!({"schema": "olm.semver"})]),
        ["olm.semver is a template and no catalog: render it first"]
    );
    let build = Sample::new().set(V1, "/properties/0/value/version", json!("2.0.0+1"));
    finds(build.set(V2, "/properties/0/value/version", json!("2.0.0+2")), &[]);
    let inline = json!([{"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
        {"type": "olm.bundle.object", "value": {"data": "e30="}}]);
    finds(Sample::new().set(V1, "/image", json!("")).set(V1, "/properties", inline), &[]);
    let edges = json!([{"name": "p.v1", "replaces": "gone"}, {"name": "p.v2", "skips": ["p.v1", "unknown"]}]);
    finds(Sample::new().set(CHANNEL, "/entries", edges), &[]);
}

#[test]
fn packages_are_checked() {
    finds(
        Sample::with(json!({"schema": "olm.package", "defaultChannel": "c"})),
        &["config contains package with no name"],
    );
    finds(Sample::with(Sample::new().documents[PACKAGE].clone()), &["duplicate package \"p\""]);
    let no_label = |name: &str| {
        let documents = [json!({"schema": "olm.package", "name": name, "defaultChannel": "c"})];
        messages(&documents).remove(0)
    };
    assert!(
        no_label("P_").starts_with("invalid package \"P_\": invalid channel \"c\": channel must contain at least one")
    );
    let all = messages(&[json!({"schema": "olm.package", "name": "a".repeat(64) + "."})]);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].ends_with("default channel must be set"), "{all:?}");
    assert!(all[1].ends_with("package must contain at least one channel"), "{all:?}");
    let words = "[must be no more than 63 characters a lowercase RFC 1123 label must consist of";
    assert!(all[2].starts_with("invalid package name \"aaa") && all[2].contains(words), "{all:?}");
    finds(
        Sample::new().set(PACKAGE, "/defaultChannel", json!("")),
        &["invalid package \"p\": default channel must be set"],
    );
    finds(
        Sample::new().set(PACKAGE, "/defaultChannel", json!("d")),
        &["invalid package \"p\": invalid channel \"d\": channel must contain at least one bundle: it is the default \
           channel and is not in the catalog"],
    );
    finds(
        Sample::new().without(PACKAGE),
        &[
            "unknown package \"p\" for bundle \"p.v1\"",
            "unknown package \"p\" for bundle \"p.v2\"",
            "unknown package \"p\" for channel \"c\"",
        ],
    );
}

#[test]
fn channels_are_checked() {
    let channel = |name: &str, entries: Value| {
        Sample::with(json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries}))
    };
    let v1 = json!([{"name": "p.v1"}]);
    finds(channel("c", v1.clone()), &["package \"p\" has duplicate channel \"c\""]);
    finds(channel("", v1), &["package \"p\" contains channel with no name"]);
    let place = "invalid package \"p\": invalid channel \"d\": ";
    for (entries, problem) in [
        (json!([]), "channel must contain at least one bundle"),
        (json!([{"name": "p.v1", "replaces": "p.v1"}]), "no channel head found in graph"),
        (json!([{"name": "p.v2"}, {"name": "p.v1"}]), "multiple channel heads found in graph: p.v1, p.v2"),
        (json!([{"name": "p.v1", "skips": [""]}]), "invalid bundle \"p.v1\": skip[0] is empty"),
    ] {
        finds(channel("d", entries), &[&format!("{place}{problem}")]);
    }
    let ranged = messages(&channel("d", json!([{"name": "p.v1", "skipRange": "^1.0"}])).documents);
    assert_eq!(ranged.len(), 1);
    assert!(
        ranged[0].starts_with(&format!("{place}invalid bundle \"p.v1\": invalid skipRange \"^1.0\": ")),
        "{ranged:?}"
    );
    finds(
        channel("d", json!([{"name": "p.v1"}, {"name": "p.v1"}])),
        &["invalid package \"p\", channel \"d\": duplicate entry \"p.v1\""],
    );
    finds(
        channel("d", json!([{"name": "p.v9"}, {"name": "p.v8", "replaces": "p.v9"}])),
        &["no olm.bundle blobs found in package \"p\" for olm.channel entries [p.v8 p.v9]"],
    );
}

#[test]
fn bundles_are_checked() {
    finds(Sample::with(bundle("p.v3", "3.0.0")), &["package \"p\", bundle \"p.v3\" not found in any channel entries"]);
    finds(Sample::with(bundle("p.v1", "1.0.0")), &["package \"p\" has duplicate bundle \"p.v1\""]);
    finds(
        Sample::new().set(V2, "/properties/0/value/version", json!("1.0.0")),
        &["invalid package \"p\": duplicate versions found in bundles: [{1.0.0: [p.v1, p.v2]}]"],
    );
    finds(
        Sample::new().set(V1, "/properties/0/value/packageName", json!("q")),
        &["bundle \"p.v1\": package \"p\" does not match \"olm.package\" property \"q\""],
    );
    finds(
        Sample::new().set(V1, "/image", json!("")),
        &["invalid package \"p\": invalid bundle \"p.v1\": bundle image must be set"],
    );
    finds(
        Sample::new().set(V1, "/image", json!("quay.io/a b")),
        &["package \"p\", bundle \"p.v1\": invalid image pull spec \"quay.io/a b\": invalid reference format"],
    );
    let exactly = |count: usize| {
        format!("package \"p\" bundle \"p.v1\" must have exactly 1 \"olm.package\" property, found {count}")
    };
    finds(Sample::new().set(V1, "/properties", json!([])), &[&exactly(0)]);
    let property = json!({"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}});
    finds(Sample::new().set(V1, "/properties", json!([property, property])), &[&exactly(2)]);
    finds(
        Sample::new().set(V1, "/properties/0/type", json!("olm.gvk")).set(V1, "/properties/0/value", json!(1)),
        &[
            &exactly(0),
            "parse properties for bundle \"p.v1\": properties[0] (olm.gvk): expected an object, got a number",
        ],
    );
    let nameless = messages(&Sample::new().set(V1, "/package", json!("")).documents);
    assert!(nameless.contains(&"package name must be set for bundle \"p.v1\"".to_owned()), "{nameless:?}");
    for version in ["v1.0.0", "1.0", ""] {
        let found = messages(&Sample::new().set(V1, "/properties/0/value/version", json!(version)).documents);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("error parsing bundle \"p.v1\" version {version:?}: ")), "{found:?}");
    }
}

#[test]
fn releases_are_checked() {
    let released = |name: &str, version: &str, release: &str| {
        let value = json!({"packageName": "p", "version": version, "release": release});
        let entries = json!([{"name": name}, {"name": "p.v2", "replaces": name}]);
        Sample::new()
            .set(V1, "/name", json!(name))
            .set(V1, "/properties/0/value", value)
            .set(CHANNEL, "/entries", entries)
    };
    finds(released("p-v1.0.0-2", "1.0.0", "2"), &[]);
    finds(
        released("p.v1", "1.0.0", "2"),
        &[
            "invalid package \"p\": invalid bundle \"p.v1\": name \"p.v1\" does not match normalized name \"p-v1.0.0-2\"",
        ],
    );
    finds(
        released("p-v1.0.0+1-2", "1.0.0+1", "2"),
        &[
            "invalid package \"p\": invalid bundle \"p-v1.0.0+1-2\": cannot use build metadata in version with a release \
           version",
        ],
    );
    for release in ["01", "a.b.c.d.e.f.g.h.i.j.k", "a_b"] {
        let found = messages(&released("p.v1", "1.0.0", release).documents);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("error parsing bundle \"p.v1\" release {release:?}: ")), "{found:?}");
    }
}

#[test]
fn deprecations_are_checked() {
    let entries = |entries: Value| Sample::with(deprecations("p", entries));
    finds(Sample::with(deprecations("", json!([]))), &["package name must be set for deprecation item 0"]);
    finds(Sample::with(deprecations("q", json!([]))), &["cannot apply deprecations to an unknown package \"q\""]);
    let mut twice = entries(json!([]));
    twice.documents.push(deprecations("p", json!([])));
    finds(twice, &["expected a maximum of one deprecation per package: \"p\""]);
    for (entry, message) in [
        (json!({"message": "m"}), "schema must be set for deprecation entry [0] for package \"p\""),
        (
            deprecate("olm.package", "p", "m"),
            "package name must be empty for deprecated package \"p\" (specified \"p\")",
        ),
        (deprecate("olm.channel", "x", "m"), "cannot deprecate channel \"x\" for package \"p\": channel not found"),
        (deprecate("olm.bundle", "x", "m"), "cannot deprecate bundle \"x\" for package \"p\": bundle not found"),
        (
            deprecate("olm.icon", "x", "m"),
            "cannot deprecate object \"olm.icon\" \"x\" referenced by entry [0] for package \"p\": object schema unknown",
        ),
        (deprecate("olm.package", "", ""), "invalid package \"p\": invalid deprecation: message must be set"),
        (
            deprecate("olm.channel", "c", ""),
            "invalid package \"p\": invalid channel \"c\": invalid deprecation: message must be set",
        ),
        (
            deprecate("olm.bundle", "p.v1", ""),
            "invalid package \"p\": invalid bundle \"p.v1\": invalid deprecation: message must be set",
        ),
    ] {
        finds(entries(json!([entry])), &[message]);
    }
    let same = deprecate("olm.channel", "c", "m");
    finds(entries(json!([same, same])), &["duplicate deprecation entry [1] for package \"p\""]);
}

#[test]
fn all_findings_come_at_once_sorted_by_package() {
    let mut documents =
        Sample::new().set(V1, "/image", json!("")).set(PACKAGE, "/defaultChannel", json!("d")).documents;
    documents.push(json!({"schema": "olm.package", "name": ""}));
    documents.push(json!({"schema": "olm.package", "name": "a"}));
    let findings = validate(&read(&documents));
    let packages: Vec<Option<&str>> = findings.iter().map(|finding| finding.package.as_deref()).collect();
    assert_eq!(packages, [None, Some("a"), Some("a"), Some("p"), Some("p")], "{findings:#?}");
}

/// `message: documents` of each finding that names some.
fn placed(documents: &[Value]) -> Vec<String> {
    let findings = validate(&read(documents)).into_iter().filter(|finding| !finding.places.is_empty());
    let numbers = |finding: &Finding| finding.places.iter().map(|place| place.document).collect::<Vec<_>>();
    findings.map(|finding| format!("{}: {:?}", finding.message, numbers(&finding))).collect()
}

#[test]
fn what_stands_under_one_name_or_none_is_told_with_its_places() {
    let twice = |index: usize| Sample::with(Sample::new().documents[index].clone()).documents;
    for (documents, expected) in [
        (Sample::new().documents, None),
        (twice(PACKAGE), Some("duplicate package \"p\": [1, 5]")),
        (twice(CHANNEL), Some("package \"p\" has duplicate channel \"c\": [2, 5]")),
        (twice(V1), Some("package \"p\" has duplicate bundle \"p.v1\": [3, 5]")),
        (
            Sample::with(json!({"schema": "olm.package", "name": ""})).documents,
            Some("config contains package with no name: [5]"),
        ),
        (
            Sample::with(json!({"schema": "olm.deprecations", "entries": []})).documents,
            Some("package name must be set for deprecation item 0: [5]"),
        ),
        (
            vec![json!({"schema": "x"}), json!({"schema": "olm.semver"}), json!({"schema": "olm.semver"})],
            Some("olm.semver is a template and no catalog: render it first: [2, 3]"),
        ),
    ] {
        assert_eq!(placed(&documents), Vec::from_iter(expected));
    }
    let mut twice = Sample::with(deprecations("p", json!([]))).documents;
    twice.push(deprecations("p", json!([])));
    assert_eq!(placed(&twice), ["expected a maximum of one deprecation per package: \"p\": [5, 6]"]);
}

/// Whoever has the catalog alone finds in it what is wrong with the graph in its documents.
#[test]
fn the_graph_of_a_catalog_has_the_findings_of_its_documents() {
    let mut count = 0;
    for sample in [
        Sample::new(),
        Sample::new().set(CHANNEL, "/entries", json!([{"name": "p.v1"}, {"name": "p.v2"}])),
        Sample::new().set(
            CHANNEL,
            "/entries",
            json!([{"name": "p.v1", "skipRange": "x"}, {"name": "p.v2", "replaces": "p.v1"}]),
        ),
        Sample::new().set(PACKAGE, "/defaultChannel", json!("d")),
        Sample::new().without(V1),
        Sample::with(json!({"schema": "olm.channel", "package": "p", "name": "empty", "entries": []})),
    ] {
        let mut builder = Builder::default();
        let documents = read(&sample.documents);
        for located in &documents {
            builder.add(located.document.clone());
        }
        let (catalog, _) = builder.finish();
        let found = graph(&catalog.packages["p"]);
        assert_eq!(found, validate(&documents));
        let of_channels: Vec<Finding> =
            catalog.packages["p"].channels.values().flat_map(|of| channel("p", of)).collect();
        assert!(of_channels.iter().all(|finding| found.contains(finding)), "{of_channels:?}");
        count += found.len();
    }
    assert_eq!(count, 5);
}

proptest! {
    #[test]
    fn the_order_of_documents_does_not_matter(
        shuffled in Just({
            let mut sample = Sample::new().set(V1, "/image", json!("a b")).set(PACKAGE, "/defaultChannel", json!("d"));
            sample.documents.push(bundle("p.v2", "2.0.0"));
            sample.documents.push(bundle("p.v3", "x"));
            sample.documents.push(deprecations("p", json!([deprecate("olm.bundle", "x", "")])));
            sample.documents
        }).prop_shuffle()
    ) {
        let mut sorted = shuffled.clone();
        sorted.sort_by_key(Value::to_string);
        let findings = messages(&sorted);
        prop_assert!(findings.len() > 5);
        prop_assert_eq!(messages(&shuffled), findings);
    }
}
