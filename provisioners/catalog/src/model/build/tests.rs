use serde_json::{Value, json};

use super::*;
use crate::Version;

fn build(documents: &[Value]) -> Catalog {
    let mut builder = Builder::default();
    for document in documents {
        builder.add(Document::from_value(document).unwrap());
    }
    builder.finish().0
}

fn package(name: &str, channel: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": channel})
}

fn channel(package: &str, name: &str, entries: &[&str]) -> Value {
    let entries: Vec<Value> = entries.iter().map(|name| json!({"name": name})).collect();
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

fn bundle(package: &str, name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("quay.io/{package}:{version}"),
        "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}]})
}

fn deprecate(package: &str, schema: &str, name: &str, message: &str) -> Value {
    json!({"schema": "olm.deprecations", "package": package,
        "entries": [{"reference": {"schema": schema, "name": name}, "message": message}]})
}

#[test]
fn a_package_is_put_together_from_its_documents() {
    let catalog = build(&[
        deprecate("a", "olm.bundle", "a.v1", "old\nvery old"),
        bundle("a", "a.v1", "1.0.0"),
        channel("a", "stable", &["a.v1", "a.v0"]),
        package("a", "stable"),
        deprecate("a", "olm.channel", "stable", "use fast"),
        deprecate("a", "olm.package", "", ""),
        json!({"schema": "custom", "package": "only-others", "name": "x"}),
    ]);
    assert_eq!(catalog.packages.keys().collect::<Vec<_>>(), ["a"]);
    let a = &catalog.packages["a"];
    assert_eq!((a.name.as_str(), a.default_channel.as_deref()), ("a", Some("stable")));
    assert_eq!(
        a.channels["stable"].entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
        ["a.v1", "a.v0"]
    );
    assert_eq!(a.bundles["a.v1"].version, Version::parse("1.0.0").ok());
    assert_eq!(a.bundles["a.v1"].image.as_deref(), Some("quay.io/a:1.0.0"));
    assert_eq!(a.bundles["a.v1"].deprecation.as_deref(), Some("old\nvery old"));
    assert_eq!(a.channels["stable"].deprecation.as_deref(), Some("use fast"));
    assert_eq!(a.deprecation.as_deref(), Some(""), "deprecated, even if nobody says why");
    assert!(a.remarks.is_empty(), "{:?}", a.remarks);
}

#[test]
fn what_is_wrong_in_one_package_leaves_the_others_alone() {
    let good = [package("good", "c"), channel("good", "c", &["good.v1"]), bundle("good", "good.v1", "1.0.0")];
    let alone = build(&good);
    for bad in [
        bundle("bad", "bad.v1", "v1.x"),
        bundle("", "nameless", "1.0.0"),
        json!({"schema": "olm.bundle", "package": "bad", "name": "", "properties": ["x"]}),
        channel("bad", "", &[]),
        channel("bad", "c", &["", ""]),
        package("", "c"),
        deprecate("pruned", "olm.bundle", "gone", "x"),
        deprecate("good", "olm.bundle", "gone", "pruned catalogs have such"),
        deprecate("good", "olm.channel", "gone", "x"),
        deprecate("good", "unknown", "c", "x"),
        deprecate("", "olm.package", "", "x"),
    ] {
        let mut documents = good.to_vec();
        documents.push(bad.clone());
        let catalog = build(&documents);
        assert_eq!(catalog.packages["good"], alone.packages["good"], "{bad}");
        assert!(catalog.packages.keys().all(|name| ["good", "bad"].contains(&name.as_str())), "{bad}");
    }
    let bad = build(&[bundle("bad", "bad.v1", "v1.x"), bundle("bad", "bad.v2", "2.0.0")]);
    let bad = &bad.packages["bad"];
    assert_eq!((&bad.bundles["bad.v1"].version, bad.bundles["bad.v1"].version_text.as_str()), (&None, "v1.x"));
    assert!(bad.bundles["bad.v2"].version.is_some());
    assert_eq!(bad.remarks, ["bundle \"bad.v1\": \"v1.x\" is no version: it cannot be chosen by it"]);
}

#[test]
fn of_contradicting_documents_none_is_taken() {
    let same = [package("a", "c"), channel("a", "c", &["x"]), bundle("a", "x", "1.0.0")];
    let mut twice = same.to_vec();
    twice.extend(same.clone());
    assert_eq!(build(&twice), build(&same), "repetitions say nothing new");
    let others = [package("a", "d"), channel("a", "c", &["y"]), bundle("a", "x", "2.0.0")];
    for (index, other) in others.iter().enumerate() {
        let mut documents = same.to_vec();
        documents.push(other.clone());
        documents.push(same[index].clone()); // the first again: two against one are no better
        let catalog = build(&documents);
        let a = &catalog.packages["a"];
        let kept = [a.default_channel.is_some(), a.channels.contains_key("c"), a.bundles.contains_key("x")];
        let expected: Vec<bool> = (0..3).map(|other| other != index).collect();
        assert_eq!(kept.to_vec(), expected, "{other}");
        assert_eq!(a.remarks.len(), 1, "{:?}", a.remarks);
        assert!(a.remarks[0].contains("none is used"), "{:?}", a.remarks);
    }
    let catalog = build(&[
        bundle("a", "x", "1.0.0"),
        deprecate("a", "olm.bundle", "x", "second"),
        deprecate("a", "olm.bundle", "x", "first"),
    ]);
    assert_eq!(catalog.packages["a"].bundles["x"].deprecation.as_deref(), Some("first"));
}

#[test]
fn remarks_name_the_bundle() {
    let mut odd = bundle("a", "x", "1.0.0");
    odd["properties"][0]["value"]["packageName"] = json!("b");
    odd["properties"].as_array_mut().unwrap().push(json!({"type": "olm.gvk", "value": 1}));
    let catalog = build(&[odd]);
    let remarks = &catalog.packages["a"].remarks;
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].starts_with("bundle \"x\": its property olm.package names the package \"b\""), "{remarks:?}");
    assert!(remarks[1].contains("properties[1] (olm.gvk): expected an object"), "{remarks:?}");
}

#[test]
fn a_catalog_that_takes_too_much_memory_is_not_kept() {
    // Each is small on disk. What it takes: a map's node for a bundle, an entry, a text.
    let bundles = (0..10_000).map(|number| bundle(&format!("p{number}"), "b", "1.0.0"));
    let entries = (0..10).map(|number| channel("p", &number.to_string(), &vec![""; 2_000]));
    let skips = json!({"name": "b", "skips": vec![""; 20_000]});
    let skips = (0..10)
        .map(|number| json!({"schema": "olm.channel", "package": "p", "name": number.to_string(), "entries": [skips]}));
    for (what, documents) in
        [("bundles", bundles.collect::<Vec<Value>>()), ("entries", entries.collect()), ("skips", skips.collect())]
    {
        let mut builder = Builder::with_maximum(1_000_000);
        for (number, document) in documents.iter().enumerate() {
            assert!(number > 0 || !builder.is_full(), "{what}");
            builder.add(Document::from_value(document).unwrap());
        }
        assert!(builder.is_full(), "{what}: {}", builder.kept_bytes);
        assert!(builder.finish().0.packages.len() < 300, "{what}");
    }
}

#[test]
fn a_large_catalog_takes_an_eighth_of_what_is_allowed() {
    // The size of the largest that are published, and twenty packages more.
    let mut builder = Builder::default();
    for number in 0..620 {
        let name = format!("package-{number}");
        for number in 0..20 {
            let gvk = |kind: usize| {
                let group = format!("{name}.example.com");
                json!({"type": "olm.gvk", "value": {"group": group, "kind": format!("Kind{kind}"), "version": "v1"}})
            };
            let version =
                json!({"type": "olm.package", "value": {"packageName": name, "version": format!("1.{number}.0")}});
            let image = format!("registry.example.com/{name}/bundle@sha256:{number:064x}");
            let properties: Vec<Value> = (0..4).map(gvk).chain([version]).collect();
            let document = json!({"schema": "olm.bundle", "package": name, "name": format!("{name}.v1.{number}.0"),
                "image": image, "properties": properties});
            builder.add(Document::from_value(&document).unwrap());
        }
        for channel in ["fast", "stable"] {
            let entry = |number: usize| {
                json!({"name": format!("{name}.v1.{number}.0"), "replaces": format!("{name}.v1.{}.0", number + 1),
                    "skipRange": format!(">=1.0.0 <1.{number}.0")})
            };
            let entries: Vec<Value> = (0..20).map(entry).collect();
            let document = json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries});
            builder.add(Document::from_value(&document).unwrap());
        }
    }
    let kept = builder.kept_bytes;
    assert!((MAX_KEPT_BYTES / 16..MAX_KEPT_BYTES / 6).contains(&kept), "{kept}");
}
