//! `rukpakctl examples`: what a bundle shows, as kubectl takes it.

use crate::support::{Folder, plain, run};
use serde_json::json;

const EXAMPLES: &str = r#"[
  {"apiVersion": "pump.example.com/v1", "kind": "Pump", "metadata": {"name": "west", "namespace": "water"},
   "spec": {"mode": "on", "litres": 10}},
  {"apiVersion": "pump.example.com/v1", "kind": "Pump", "metadata": {"name": "station"}, "spec": {}},
  {"apiVersion": "valve.example.com/v1", "kind": "Valve", "metadata": {"generateName": "v-"}},
  {"apiVersion": "valve.example.com/v1", "kind": "Valve", "metadata": {"name": "main"}}
]"#;
const STATION: &str = r#"{"apiVersion": "pump.example.com/v1", "kind": "Pump", "metadata": {"name": "station"}, "spec": {"first": true}}"#;

/// A registry+v1 bundle whose ClusterServiceVersion has these annotations.
fn bundle(annotations: &[(&str, &str)]) -> Folder {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "pump.v1.0.0", "annotations": annotations}, "spec": {}});
    Folder::of(&[
        ("metadata/annotations.yaml", "annotations: {operators.operatorframework.io.bundle.package.v1: pump}\n"),
        ("manifests/csv.json", &csv.to_string()),
    ])
}

#[test]
fn examples_are_objects_with_the_one_to_begin_with_first() {
    let folder = bundle(&[("alm-examples", EXAMPLES), ("operatorframework.io/initialization-resource", STATION)]);
    let from = folder.join("");
    let answer = run(["examples", &from]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let objects = answer.yaml();
    let names: Vec<_> = objects.iter().map(|object| object["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["station", "west", "main"]);
    assert_eq!(objects[0]["spec"], json!({"first": true}));
    assert_eq!(objects[1]["spec"], json!({"mode": "on", "litres": 10}), "kubectl reads text as text");
    let place = "manifests/csv.json, document 1 (line 1), metadata.annotations[\"alm-examples\"][2]";
    assert_eq!(
        answer.err,
        format!(
            "warning: {place}: left out: metadata.name is missing: generateName would make a new object at every apply, \
             so give it a name\n{from}: 3 examples\n\
             note: the operator needs Pump.pump.example.com \"station\" first (operatorframework.io/initialization-resource)\n"
        )
    );
    assert_eq!(run(["examples", &from, "-ojson"]).json(), json!(objects));
}

#[test]
fn a_kind_is_chosen_in_any_case() {
    let folder = bundle(&[("alm-examples", EXAMPLES)]);
    let valves = run(["examples", &folder.join(""), "valve"]);
    assert_eq!((valves.code, valves.yaml().len()), (0, 1), "{valves:?}");
    let none = run(["examples", &folder.join(""), "Tap"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    assert!(none.err.ends_with("no example of kind \"Tap\": there are Pump, Valve\n"), "{}", none.err);
}

#[test]
fn a_bundle_without_examples_or_with_broken_ones_is_a_no() {
    let text = "the bundle has no examples (annotation alm-examples of its ClusterServiceVersion)";
    let broken = "metadata.annotations[\"alm-examples\"]: key must be a string at line 1 column 3";
    for (folder, text) in [
        (bundle(&[]), text),
        (bundle(&[("alm-examples", "")]), text),
        (bundle(&[("alm-examples", "[]")]), text),
        (bundle(&[("alm-examples", "[{x")]), broken),
        (plain(), "only registry+v1 bundles have examples"),
    ] {
        let answer = run(["examples", &folder.join("")]);
        assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{answer:?}");
        assert!(answer.err.ends_with(&format!("{text}\n")), "{}", answer.err);
    }
}
