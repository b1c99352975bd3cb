use std::error::Error as _;

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
    assert_eq!(loaded.warnings[0].to_string(), expected);
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
    assert!(text.contains("manifests/a: more than the limit of") && text.contains("--limit-manifest-bytes"), "{text}");
    let text = refusal_within(&bundle, &Limits { objects: 1, ..limits });
    assert!(text.contains("manifests/b: more than the limit of 1 objects in a bundle (--limit-objects)"), "{text}");
}

#[test]
fn templates_are_plain_text() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '{{ .Values.x }}'}\n";
    let loaded = load(&tree(&[("manifests/a", text)]), &Limits::default()).unwrap();
    assert_eq!(loaded.objects[0].as_map()["data"]["a"], "{{ .Values.x }}");
}
