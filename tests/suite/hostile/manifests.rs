//! Manifests that are small until somebody reads them.

use std::fmt::Write as _;

use crate::hostile::content::{Case, REGISTRY, manifest, meets_the_command, meets_the_controller, noise};

const NODES: &str = "YAML and JSON nodes in a bundle, aliases expanded (--limit=yaml-nodes)";
const TEXT: &str = "bytes of manifests in a bundle, aliases expanded (--limit=text-bytes)";

fn plain(what: &'static str, text: impl Into<Vec<u8>>, refusal: impl Into<Option<&'static str>>) -> Case {
    Case::files(what, [("manifests/a.yaml", text.into())], refusal)
}

fn json(what: &'static str, text: impl Into<Vec<u8>>, refusal: impl Into<Option<&'static str>>) -> Case {
    Case::files(what, [("manifests/a.json", text.into())], refusal)
}

/// Each document stands for some 10,000 nodes or, with a long `text`, for many bytes.
fn documents_of_aliases(count: usize, text: &str) -> String {
    let mut all = String::new();
    for name in 0..count {
        let copies = ["*t"; 10].join(", ");
        let _ = write!(all, "---\n{}t: &t {text}\nx0: &x0 [{copies}]\n", manifest(&format!("a{name}")));
        for level in 1..4 {
            let copies = vec![format!("*x{}", level - 1); 10].join(", ");
            let _ = writeln!(all, "x{level}: &x{level} [{copies}]");
        }
    }
    all
}

/// Mappings of one key each, the largest that a node can be.
fn small_mappings(count: usize) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"a\"}},\"x\":[{}0]}}",
        "{\"\":0},".repeat(count)
    )
}

fn zeros(count: usize) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"a\"}},\"x\":[{}0]}}",
        "0,".repeat(count)
    )
}

fn objects(count: usize) -> String {
    (0..count).fold(String::new(), |text, index| {
        text + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a" + &index.to_string() + "}}\n"
    })
}

fn list(count: usize) -> String {
    let items = "{\"metadata\":{\"name\":\"a\"}},".repeat(count);
    format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMapList\",\"items\":[{items}{{}}]}}")
}

fn long_keys() -> String {
    format!("{}? {}\n:\n{}", manifest("a"), "k".repeat(220_000), "  a: 1\n".repeat(1000))
}

/// A typed list gives its version to each item.
fn long_version() -> String {
    list(1000).replace("\"v1\"", &format!("\"{}\"", "v".repeat(1_000_000)))
}

fn csv(spec: &str) -> Vec<(&'static str, String)> {
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: kite}\n";
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n";
    vec![("metadata/annotations.yaml", annotations.to_owned()), ("manifests/csv.yaml", format!("{csv}{spec}"))]
}

fn of_registry(what: &'static str, spec: &str, refusal: &'static str) -> Case {
    Case::files(what, csv(spec), refusal).class(REGISTRY)
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let containers = "{},".repeat(300_000);
    let strategy = |spec: &str| format!("metadata: {{name: kite.v1}}\nspec: {{install: {{spec: {spec}}}}}\n");
    let long = String::from_utf8(noise(30_000)).expect("digits are ASCII");
    let annotated = format!(
        "metadata: {{name: kite.v1, annotations: {{large: {:?}}}}}\nspec: {{installModes: [{{type: AllNamespaces, supported: true}}], install: {{spec: {{deployments: [{}]}}}}}}\n",
        "l".repeat(300_000),
        (0..1000).fold(String::new(), |all, index| all + "{name: a" + &index.to_string() + ", spec: {}},")
    );
    let properties = format!(
        "metadata: {{name: kite.v1, annotations: {{olm.properties: '[{{\"type\": \"a\", \"value\": [{}0]}}]'}}}}\n",
        "0,".repeat(2_500_000)
    );
    let quoted = format!("a:\n{}b: 'x\n{}'\n", " ".repeat(100_000), "y\n".repeat(200_000));
    let merges =
        format!("{}x0: &x0 {{{}}}\n{}", manifest("a"), keys(1000), "y: {<<: [*x0, *x0, *x0, *x0]}\n".repeat(1000));
    vec![
        plain("200 documents of aliases", documents_of_aliases(200, "0"), NODES),
        plain("aliases of long text", documents_of_aliases(5, &long), TEXT),
        plain("merges of aliases", merges, NODES),
        json("an array of zeros", zeros(2_500_000), NODES),
        json("many small mappings", small_mappings(1_000_000), NODES),
        // By the nodes, or first by the memory of the child that counts them.
        json("a million objects in a list", list(1_000_000), "more than the limit of"),
        plain(
            "30,000 objects",
            objects(30_000),
            "manifests/a.yaml: more than the limit of 20000 objects in a bundle (--limit=objects)",
        ),
        json("a list that gives a long version to each item", long_version(), "apiVersion \"vvv"),
        plain("YAML nested deeply", format!("a: {}", "[".repeat(1_000_000)), "recursion limit exceeded"),
        plain("YAML nested deeply in blocks", "- ".repeat(1_000_000), "nested deeper than 100 levels"),
        json(
            "JSON nested deeply",
            format!("{{\"a\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000)),
            "nested deeper than 100 levels",
        ),
        plain(
            "bytes that are not UTF-8",
            [b"a: ".as_slice(), &[0xff; 1_000_000]].concat(),
            "manifests/a.yaml (line 1): not UTF-8 text",
        ),
        plain("quoted text far left of its key", quoted, "invalid indentation in quoted scalar"),
        plain("a thousand duplicates below a long key", long_keys(), None),
        of_registry(
            "empty containers",
            &strategy(&format!(
                "{{deployments: [{{name: a, spec: {{template: {{spec: {{containers: [{containers}]}}}}}}}}]}}"
            )),
            NODES,
        ),
        of_registry("zeros in an annotation", &properties, NODES),
        of_registry("an annotation for a thousand Deployments", &annotated, TEXT),
        of_registry(
            "30,000 Deployments",
            &strategy(&format!("{{deployments: [{}]}}", "{},".repeat(30_000))),
            "objects in a bundle (--limit=objects)",
        ),
        of_registry(
            "a long name",
            &format!("metadata: {{name: {}}}\n", "n".repeat(1_000_000)),
            "is longer than 1024 bytes",
        ),
    ]
}

fn keys(count: usize) -> String {
    (0..count).fold(String::new(), |all, index| all + "k" + &index.to_string() + ": 0, ")
}

#[tokio::test]
async fn manifests_that_grow_are_refused_by_a_limit_and_harm_nobody() {
    let cases = cases();
    let small = cases.iter().find(|case| case.what == "200 documents of aliases").expect("it is there");
    assert!(small.archive.len() < 20_000, "{} bytes", small.archive.len());
    meets_the_controller(&cases).await;
}

#[test]
fn the_command_refuses_the_same_manifests_within_its_memory() {
    meets_the_command(&cases());
}
