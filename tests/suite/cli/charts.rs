//! Values of charts, as the flags of Helm say them: what is rendered with them, and what is installed.

use rukpak_tests::tools;
use serde_json::{Value, json};

use super::{Answer, answer};
use crate::cli::hands::{Did, Hands, folder, text, write};
use crate::engine::case::Case;
use crate::helm::case::{Chart, Charts as _, world};

/// Helm, as a flag.
fn helm() -> String {
    format!("--helm={}", tools::helm().expect("Helm is built").display())
}

/// Runs a verb that needs no cluster, with Helm.
fn run(arguments: &[&str]) -> Answer {
    let helm = helm();
    answer(&[], &[arguments, &[helm.as_str()]].concat())
}

/// A chart of one ConfigMap, whose template is told all values.
fn printer(values: &str) -> Chart {
    let template = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: values}
data: {values: {{ .Values | toJson | quote }}}
";
    Chart::new().with("values.yaml", values).with("templates/settings.yaml", template)
}

#[test]
fn renders_chart_with_values_that_helm_merges() {
    let folder = folder(&printer("{size: 1, name: pump, other: kept}").files("chart/"));
    let (chart, one, two) =
        (folder.path().join("chart"), folder.path().join("one.yaml"), folder.path().join("two.yaml"));
    write(
        folder.path(),
        &[
            ("one.yaml", "size: 2\nname: null\nkind: 5\nnested: {a: {b: 1, c: 1}}\ntext: |+\n  a\n  ---\n\n"),
            ("two.yaml", "size: 3\nnested: {a: {c: 2}}\n"),
        ],
    );
    let values = |flags: &[&str]| -> Value {
        let rendered = run(&[&["render", text(&chart), "-ojson"][..], flags].concat());
        assert_eq!(rendered.code, Some(0), "{}", rendered.err);
        let objects: Value = serde_json::from_str(&rendered.out).expect("JSON");
        serde_json::from_str(objects[0]["data"]["values"].as_str().expect("text")).expect("JSON")
    };

    assert_eq!(values(&[]), json!({"size": 1, "name": "pump", "other": "kept"}));
    let (one, two) = (format!("--values={}", text(&one)), format!("--values={}", text(&two)));
    let nested = json!({"a": {"b": 1, "c": 2}});
    let merged = json!({"size": 3, "other": "kept", "kind": 5, "nested": nested, "text": "a\n---\n\n"});
    assert_eq!(
        values(&[one.as_str(), two.as_str()]),
        merged,
        "the later file wins, and null takes out what the chart has"
    );
    let nested = json!({"a": {"b": "c", "c": 2}});
    let wanted = json!({"size": 5, "kind": 5, "nested": nested, "text": "a\n---\n\n", "items": ["x"]});
    let flags = ["--set=size=4,nested.a.b=c", &two, "--set", "items[0]=x", "--set=size=5", "--set=other=null"];
    assert_eq!(values(&[&[one.as_str()][..], &flags[..]].concat()), wanted, "--set wins, wherever it stands");
    assert_eq!(values(&["--set=name=null"]), json!({"size": 1, "other": "kept"}), "null is not lost");
}

#[test]
fn validates_chart_with_values_and_names_the_flag_that_is_wrong() {
    let template =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ required \"a name is needed\" .Values.name }}}}";
    let folder = folder(&Chart::new().with("templates/settings.yaml", template).files(""));
    let validate = |flag: &str| run(&["validate", text(folder.path()), flag]);
    let valid = validate("--set=name=a");
    assert!(valid.code == Some(0) && valid.err.contains(": valid, 1 object\n"), "{}", valid.err);
    let refused = validate("--set=other=a");
    assert!(refused.code == Some(1) && refused.out.contains("a name is needed"), "{}{}", refused.out, refused.err);
    let wrong = validate("--set=name");
    let words = "error: merge --values and --set: failed parsing --set data: key \"name\" has no value\n";
    assert_eq!((wrong.code, wrong.out.as_str(), wrong.err.as_str()), (Some(2), "", words));
}

fn assert_changes(did: &Did, before: &str, after: &str) {
    let fields = format!("\n  - .data.size: \"{before}\"\n  + .data.size: \"{after}\"\n1 to change, 0 unchanged\n");
    assert!(did.code == Some(1) && did.out.ends_with(&fields), "{did:?}");
}

#[tokio::test]
async fn installs_and_compares_chart_with_values_of_flags() {
    let case = Case::in_world(world().await, "chart-set").await;
    let (hands, helm) = (Hands::admin_of(case.world).await, helm());
    let chart = folder(&Chart::new().files(""));
    let (name, path) = (case.name.as_str(), text(chart.path()));
    let values = async |case: &Case<'_>| {
        let deployment = case.get(&case.target()).await.expect("it is there");
        deployment.data["spec"]["config"]["values"].clone()
    };

    let did = hands.run(&["run", name, path, "--set=size=5", &helm]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    case.until_size("5").await;
    assert_eq!(values(&case).await, "size: 5\n");
    let did = hands.run(&["diff", name, path, &helm]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(0), "1 unchanged\n"), "{did:?}");
    assert_changes(&hands.run(&["diff", name, path, "--set=size=6", &helm]).await, "5", "6");
    assert_changes(&hands.run(&["diff", name, "--set=size=7", &helm]).await, "5", "7");

    let other = case.sibling();
    let reference = other.push_chart("v1", &Chart::new(), "").await;
    let install = ["install", &other.name, &reference, "--format=helm+v3", "--set=size=5", &helm];
    let did = hands.run_alone(&install).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    other.until_size("5").await;
    assert_eq!(values(&other).await, "size: 5\n");
    let did = hands.run_alone(&["upgrade", &other.name, &reference, "--set=size=6", &helm]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    other.until_size("6").await;
}
