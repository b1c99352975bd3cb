use std::error::Error as _;
use std::fmt::Write as _;

use bytes::Bytes;
use rukpak_content::RelativePath;

use super::*;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn tree(files: &[(&str, &str)]) -> BundleTree {
    let mut tree = BundleTree::new();
    for (path, body) in files {
        tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::copy_from_slice(body.as_bytes()));
    }
    tree
}

fn names(files: &[(&str, &str)]) -> Vec<String> {
    let loaded = load(&tree(files), &Limits::default()).unwrap();
    loaded.objects.iter().map(|object| object.key().to_string()).collect()
}

/// The chain of causes, printed as the edge prints it.
fn refusal_within(tree: &BundleTree, limits: &Limits) -> String {
    let error = load(tree, limits).unwrap_err();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn refusal(files: &[(&str, &str)]) -> String {
    refusal_within(&tree(files), &Limits::default())
}

#[test]
fn every_file_counts_whatever_its_extension_in_name_order() {
    let named = |name: &str| CONFIG_MAP.replace("name: a", &format!("name: {name}"));
    let loaded = names(&[
        ("manifests/b", &named("second")),
        ("manifests/a.yaml", &format!("# nothing\n---\n{}---\n---\n{}", named("first"), named("also-first"))),
        ("manifests/c.txt", &named("third")),
        ("manifests/d.yaml", "# only a comment\n"),
        ("README.md", "not looked at"),
        ("tests/junk", "\0"),
    ]);
    let expected = ["first", "also-first", "second", "third"].map(|name| format!("ConfigMap \"{name}\""));
    assert_eq!(loaded, expected);
}

#[test]
fn a_missing_folder() {
    let text = refusal(&[("a.yaml", CONFIG_MAP)]);
    assert!(text.starts_with("get objects from bundle manifests: readdir manifests: file does not exist"), "{text}");
    let text = refusal(&[("manifests", CONFIG_MAP)]);
    assert!(text.starts_with("get objects from bundle manifests: readdir manifests: not a directory"), "{text}");
}

#[test]
fn subdirectories_are_refused_empty_or_not() {
    let expected = "get objects from bundle manifests: subdirectories are not allowed within the \"manifests\" \
                    directory of the bundle image filesystem: found \"manifests/emptydir\"";
    let mut with_folders = tree(&[("manifests/a.yaml", CONFIG_MAP), ("manifests/subdir/b.yaml", CONFIG_MAP)]);
    with_folders.add_directory(RelativePath::new("manifests/emptydir").unwrap());
    assert_eq!(refusal_within(&with_folders, &Limits::default()), expected);
}

#[test]
fn the_first_fault_in_name_order_is_reported() {
    assert!(refusal(&[("manifests/a.yaml", "junk"), ("manifests/b/c", "")]).contains("json: cannot unmarshal string"));
    assert!(refusal(&[("manifests/b.yaml", "junk"), ("manifests/a/c", "")]).contains("found \"manifests/a\""));
}

#[test]
fn no_objects() {
    let expected = "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object";
    let mut empty = BundleTree::new();
    empty.add_directory(RelativePath::new("manifests").unwrap());
    assert_eq!(refusal_within(&empty, &Limits::default()), expected);
    for nothing in ["", "---\n# x\n", "null\n", "apiVersion: v1\nkind: List\n", "apiVersion: v1\nkind: List\nitems: []"]
    {
        assert_eq!(refusal(&[("manifests/a.yaml", nothing)]), expected, "{nothing:?}");
    }
}

#[test]
fn a_file_that_is_no_manifest() {
    let text = refusal(&[("manifests/.gitignore", "bin/\n"), ("manifests/a.yaml", CONFIG_MAP)]);
    assert!(text.starts_with("get objects from bundle manifests: manifests/.gitignore is not a manifest"), "{text}");
    assert!(text.contains("move it out of the folder"), "{text}");
    assert!(text.contains("manifests/.gitignore, document 1 (line 1): json: cannot unmarshal string into Go value"));
    let text = refusal(&[("manifests/a.yaml", &format!("{CONFIG_MAP}---\n\nkind: A\n"))]);
    let expected = "get objects from bundle manifests: manifests/a.yaml, document 2 (line 6): Object 'apiVersion' is \
                    missing: set apiVersion, such as v1 or apps/v1";
    assert_eq!(text, expected);
}

#[test]
fn lists_are_flattened() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "inner"}}]},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "outer"}}
    ]}"#;
    let loaded = load(&tree(&[("manifests/a.json", list)]), &Limits::default()).unwrap();
    let objects: Vec<_> =
        loaded.objects.iter().map(|object| (object.key().to_string(), object.origin().to_string())).collect();
    let expected = [
        ("ConfigMap \"inner\"", "manifests/a.json, document 1 (line 1), items[0].items[0]"),
        ("Deployment.apps \"outer\"", "manifests/a.json, document 1 (line 1), items[1]"),
    ];
    assert_eq!(objects, expected.map(|(key, origin)| (key.to_owned(), origin.to_owned())));
    assert_eq!(loaded.objects[0].api_version(), "v1");
}

#[test]
fn lists_with_wrong_items_name_the_item() {
    let text = refusal(&[("manifests/a.yaml", "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n")]);
    assert!(text.ends_with("document 1 (line 1), items[0]: Object 'Kind' is missing: set kind"), "{text}");
    let text = refusal(&[("manifests/a.yaml", "apiVersion: v1\nkind: List\nitems: x\n")]);
    assert!(text.ends_with("manifests/a.yaml, document 1 (line 1): items is not a list"), "{text}");
}

#[test]
fn a_kind_that_merely_ends_in_list_is_an_object() {
    let allow_list = "apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\n";
    assert_eq!(names(&[("manifests/a.yaml", allow_list)]), ["AllowList.x.io \"a\""]);
}

#[test]
fn an_object_twice() {
    let other = format!("{CONFIG_MAP}data: {{a: b}}\n");
    let loaded = load(&tree(&[("manifests/a", CONFIG_MAP), ("manifests/b", CONFIG_MAP)]), &Limits::default()).unwrap();
    assert_eq!(loaded.objects.len(), 1);
    let expected = "manifests/b, document 1 (line 1): ConfigMap \"a\" is in the bundle already, with the same content \
                    (manifests/a, document 1 (line 1))";
    assert_eq!(loaded.warnings.lines()[0], expected);
    let text = refusal(&[("manifests/a", CONFIG_MAP), ("manifests/b", &other)]);
    let expected = "get objects from bundle manifests: ConfigMap \"a\" is declared twice with different content: \
                    manifests/a, document 1 (line 1) and manifests/b, document 1 (line 1): remove one of them";
    assert_eq!(text, expected);
    let elsewhere = CONFIG_MAP.replace("name: a", "name: a, namespace: b");
    assert_eq!(names(&[("manifests/a", CONFIG_MAP), ("manifests/b", &elsewhere)]).len(), 2);
}

#[test]
fn limits_are_named() {
    let bundle = tree(&[("manifests/a", CONFIG_MAP), ("manifests/b", &CONFIG_MAP.replace("name: a", "name: b"))]);
    let size = CONFIG_MAP.len() as u64;
    let limits = Limits { manifest_bytes: size, objects: 2, ..Limits::default() };
    assert!(load(&bundle, &limits).is_ok());
    let text = refusal_within(&bundle, &Limits { manifest_bytes: size - 1, ..limits.clone() });
    assert!(text.contains("manifests/a: more than the limit of") && text.contains("--limit=manifest-bytes"), "{text}");
    let text = refusal_within(&bundle, &Limits { objects: 1, ..limits });
    assert!(text.contains("manifests/b: more than the limit of 1 objects in a bundle (--limit=objects)"), "{text}");
}

#[test]
fn templates_are_plain_text() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '{{ .Values.x }}'}\n";
    let loaded = load(&tree(&[("manifests/a", text)]), &Limits::default()).unwrap();
    assert_eq!(loaded.objects[0].as_map()["data"]["a"], "{{ .Values.x }}");
}

/// A document whose aliases stand for many nodes: 10^`levels` times as many as the document has.
fn alias_bomb(name: usize, levels: usize) -> String {
    let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{name}}}\nx0: &x0 [0, 0]\n");
    for level in 1..=levels {
        let copies = vec![format!("*x{}", level - 1); 10].join(", ");
        let _ = writeln!(text, "x{level}: &x{level} [{copies}]");
    }
    text
}

#[test]
fn one_budget_counts_all_documents_and_all_files() {
    let one = alias_bomb(0, 4);
    let within = Limits { yaml_nodes: 100_000, ..Limits::default() };
    assert!(load(&tree(&[("manifests/a", &one)]), &within).is_ok());
    let documents: Vec<String> = (0..10).map(|name| alias_bomb(name, 4)).collect();
    let files: Vec<(String, &str)> =
        documents.iter().enumerate().map(|(name, text)| (format!("manifests/{name}.yaml"), text.as_str())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    for files in [tree(&files), tree(&[("manifests/all.yaml", &documents.join("---\n"))])] {
        let text = refusal_within(&files, &within);
        assert!(
            text.contains("100000 YAML and JSON nodes in a bundle, aliases expanded (--limit=yaml-nodes)"),
            "{text}"
        );
    }
}

#[test]
fn json_counts_as_yaml_does() {
    let zeros = format!(r#"{{"apiVersion": "v1", "x": [{}0]}}"#, "0,".repeat(2_000_000));
    let text = refusal_within(&tree(&[("manifests/a.json", &zeros)]), &Limits::default());
    assert!(text.contains("manifests/a.json") && text.contains("--limit=yaml-nodes"), "{text}");
}

#[test]
fn what_aliases_copy_and_what_files_hold_is_bounded_by_text() {
    let limits = Limits { text_bytes: 10_000, ..Limits::default() };
    let text = "x".repeat(1000);
    let document = format!("x: &x {text}\ny: [*x, *x, *x, *x, *x, *x, *x, *x, *x]\n");
    let refused = refusal_within(&tree(&[("manifests/a.yaml", &document)]), &limits);
    assert!(
        refused.contains("10000 bytes of manifests in a bundle, aliases expanded (--limit=text-bytes)"),
        "{refused}"
    );
    let comment = format!("# {}\n", "x".repeat(6000));
    let refused = refusal_within(&tree(&[("manifests/a", &comment), ("manifests/b", &comment)]), &limits);
    assert!(refused.starts_with("get objects from bundle manifests: manifests/b: more than"), "{refused}");
}

#[test]
fn long_keys_and_many_warnings_are_cut() {
    let key = "k".repeat(200_000);
    let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n? {key}\n:\n");
    for _ in 0..1000 {
        text.push_str("  a: 1\n");
    }
    for (file, text) in [("manifests/a.yaml", text.clone()), ("manifests/a.json", as_json(&key))] {
        let loaded = load(&tree(&[(file, &text)]), &Limits::default()).unwrap();
        let lines = loaded.warnings.lines();
        assert_eq!(lines.len(), 21);
        assert_eq!(lines[20], "and 979 more warnings");
        assert!(lines.iter().all(|line| line.len() < 200), "{}", lines[0]);
        assert!(lines[0].contains(&format!("{}….a is set twice", "k".repeat(64))), "{}", lines[0]);
    }
}

fn as_json(key: &str) -> String {
    let members = vec![r#""a": 1"#; 1000].join(", ");
    format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "{key}": {{{members}}}}}"#)
}

#[test]
fn a_typed_list_does_not_copy_what_is_no_version() {
    let version = "v".repeat(100_000);
    let items = vec![r#"{"metadata": {"name": "a"}}"#; 1000].join(", ");
    for version in [format!("{version:?}"), "{}".to_owned()] {
        let list = format!(r#"{{"apiVersion": {version}, "kind": "ConfigMapList", "items": [{items}]}}"#);
        let text = refusal(&[("manifests/a.json", &list)]);
        assert!(text.contains("manifests/a.json, document 1 (line 1): apiVersion") && text.len() < 400, "{text}");
    }
}

#[test]
fn quoted_text_is_not_moved_without_bound() {
    let indent = " ".repeat(10_000);
    let text = format!("a:\n{indent}b: 'x\n{}'\n", "y\n".repeat(100_000));
    let refused = refusal(&[("manifests/a.yaml", &text)]);
    assert!(refused.contains("invalid indentation in quoted scalar"), "{refused}");
}

#[test]
fn a_long_prefix_of_tags_counts_for_each_node() {
    let tagged = "!e!x a, ".repeat(1000);
    let text = format!("%TAG !e! tag:{}\n---\n[{tagged}]\n", "p".repeat(200_000));
    let text = refusal(&[("manifests/a.yaml", &text)]);
    assert!(text.contains("--limit=text-bytes"), "{text}");
}
