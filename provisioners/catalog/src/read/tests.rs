use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Gives few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.len().min(self.1).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

/// `schema/name` of each document. However the bytes come, the answer must be the same.
fn documents(name: &str, text: &str) -> Result<Vec<String>, String> {
    let read = |step: usize| {
        let mut found = Vec::new();
        let mut visit = |document: Document| {
            if let Document::Other { schema, name, .. } = document {
                found.push(format!("{schema}/{}", name.unwrap_or_default()));
            }
        };
        let result = stream(name, &mut Slow(text.as_bytes(), step), &Limits::default(), &mut visit);
        result.map(|()| found).map_err(|error| chain(&error))
    };
    let whole = read(usize::MAX);
    for step in [1, 7, 64] {
        assert_eq!(read(step), whole, "{step} bytes at a time: {text}");
    }
    whole
}

fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map_or_else(String::new, |source| format!(": {}", chain(source)));
    format!("{error}{source}")
}

#[test]
fn streams_of_both_formats_are_read() {
    for text in [
        r#"{"schema": "x", "name": "a"}{"schema": "x", "name": "b"}"#,
        "\n  {\"schema\": \"x\", \"name\": \"a\"}\n\n\t{\"schema\": \"x\",\n \"name\": \"b\"}\n\n",
        "\u{feff}{\"schema\": \"x\", \"name\": \"a\"} {\"schema\": \"x\", \"name\": \"b\"}",
        "schema: x\nname: a\n---\nschema: x\nname: b\n",
        "---\n---\n# licence\n---\nschema: x\nname: a\n---\n---\nSchema: x\nNAME: b\n---\n",
        "\u{feff}\r\n---\r\nschema: x\r\nname: a\r\n---\r\nschema: x\r\nname: b",
        "  schema: x\n  name: a\n---\n{schema: x, name: b}",
        "{schema: x, name: a}\n---\nschema: x\nname: b",
        "{schema: x,\n name: 'a'}\n--- {schema: x, name: b}\n",
        "{\"schema\": \"x\", \"name\": \"a\"}\n---\n{\"schema\": \"x\", \"name\": \"b\"}\n",
        "{\"schema\": \"x\", \"name\": \"a\"}\n---\nschema: x\nname: b\n",
        "{schema: x, name: a, other: {b: [\"}\", {}]}}\n---\n{\"schema\": \"x\", \"name\": \"b\"}",
        "%YAML 1.1\n---\nschema: x\nname: a\n---\nschema: x\nname: b\n",
    ] {
        assert_eq!(documents("catalog", text), Ok(vec!["x/a".to_owned(), "x/b".to_owned()]), "{text}");
    }
    for empty in ["", "\n \n", "# nothing\n", "---\n", "\u{feff}"] {
        assert_eq!(documents("catalog", empty), Ok(Vec::new()), "{empty:?}");
    }
}

#[test]
fn what_is_malformed_is_refused_with_its_place() {
    let good = "{\"schema\": \"x\",\n \"name\": \"a\"}\n";
    let deep = |depth: usize| format!("{{\"schema\": \"x\", \"a\": {}1{}}}", "[".repeat(depth), "]".repeat(depth));
    for (name, text, words) in [
        ("a.json", format!("{good}{{\"schema\": }}"), "a.json, document 2 (line 3), column 12: expected value"),
        ("a", format!("{good}\n{{\"schema\": \"y\""), "a, document 2 (line 4), column 14: EOF while parsing"),
        (
            "a",
            format!("{good}[{{\"schema\": \"x\"}}]"),
            "a, document 2 (line 3): expected an object with a schema, found a list",
        ),
        ("a", "[]".to_owned(), "a, document 1 (line 1): expected an object with a schema, found a list"),
        ("a", "# Read me\nThis is a catalog.".to_owned(), "a, document 1 (line 2): expected an object"),
        ("a", format!("{good}garbage"), "a, document 2 (line 3): expected an object with a schema, found a string"),
        ("a", format!("{good}{{\"name\": \"x\"}}"), "a, document 2 (line 3): object '{\"name\": \"x\"}' is missing"),
        ("a.yaml", "schema: x\n---\nschema: z\n---\n\na: [\n".to_owned(), "a.yaml, document 3 (line "),
        ("a.yaml", "schema: x\n---\nschema: z\nb: *c\n".to_owned(), "a.yaml, document 2 (line 4)"),
        ("a.yaml", "schema: x\n---\n\nnot a schema: y\n".to_owned(), "a.yaml, document 2 (line 4): object"),
        ("a.yaml", "{schema: x, name: [}\n".to_owned(), "a.yaml, document 1 (line 1), column "),
        ("a", "\u{1}".to_owned(), "a (line 1): control characters are not allowed"),
        ("a", format!("{good}{}", deep(100)), "a, document 2 (line 3): nested deeper than 100 levels"),
        ("a", format!("{{\"schema\": \"x\", \"a\": {}", "[".repeat(100_000)), "nested deeper than 100 levels"),
    ] {
        let error = documents(name, &text).expect_err(words);
        assert!(error.contains(words), "{error}\n{words}");
    }
    assert!(documents("a", &deep(99)).is_ok());
    let utf16: Vec<u8> = "\u{feff}schema: x".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = stream("a", &mut utf16.as_slice(), &Limits::default(), &mut |_| {}).expect_err("UTF-16");
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

#[test]
fn one_document_may_be_as_large_as_a_manifest_and_a_stream_larger() {
    let limits = Limits { manifest_bytes: 1000, ..Limits::default() };
    let read = |text: &str| {
        let mut count = 0;
        stream("a", &mut Slow(text.as_bytes(), 100), &limits, &mut |_| count += 1).map(|()| count)
    };
    let json = |length: usize| format!("{{\"schema\":\"x\",\"a\":\"{}\"}}", "a".repeat(length - 21));
    assert_eq!(json(1000).len(), 1000);
    assert_eq!(read(&json(1000).repeat(20)).ok(), Some(20));
    assert!(matches!(read(&json(1001)), Err(Error::Limit(_))));
    assert!(matches!(read("{\"a\": \"never ends").map_err(|e| e.to_string()), Err(text) if text.contains("EOF")));
    assert!(matches!(read(&format!("{{\"a\": \"{}", "never ends".repeat(1000))), Err(Error::Limit(_))));
    let yaml = |length: usize| format!("---\nschema: x\na: {}\n", "a".repeat(length - 18));
    assert_eq!(yaml(1000).len(), 1000);
    assert_eq!(read(&yaml(1000).repeat(20)).ok(), Some(20));
    let error = read(&format!("{}{}", yaml(100), yaml(1001))).expect_err("too large");
    assert!(error.to_string().contains("a, document 2 (line 4): more than the limit of 1000 bytes"), "{error}");
}

#[test]
fn documents_are_counted_over_the_catalog() {
    let text = "{\"schema\":\"x\"}".repeat(usize::try_from(MAX_DOCUMENTS).unwrap() + 1);
    let mut count = 0;
    let error = stream("a", &mut text.as_bytes(), &Limits::default(), &mut |_| count += 1).expect_err("too many");
    assert!(error.to_string().contains("a: more than 200000 documents"), "{error}");
    assert_eq!(count, MAX_DOCUMENTS);
}

/// A folder with these files; a text that begins with `->` is a link.
fn catalog_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(target) => symlink(target, path).unwrap(),
            None => fs::write(path, text).unwrap(),
        }
    }
    folder
}

fn names(files: &[(&str, &str)], limits: &Limits) -> Result<Vec<String>, String> {
    let root = catalog_folder(files);
    let mut found = Vec::new();
    let result = folder(&root.path().join("root"), limits, &mut |document| match document {
        Document::Other { name, .. } => found.push(name.unwrap_or_default()),
        other => panic!("{other:?}"),
    });
    found.sort();
    result.map(|()| found).map_err(|error| chain(&error))
}

const A: &str = "{schema: x, name: a}";
const B: &str = "{\"schema\": \"x\", \"name\": \"b\"}";
const C: &str = "schema: x\nname: c\n";

#[test]
fn every_file_counts_unless_it_is_ignored() {
    let all = |files: &[(&str, &str)]| names(files, &Limits::default());
    let found = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for (files, expected) in [
        (&[("README", A), ("p/.hidden", B), ("p/q/r/c.txt", C)][..], found(&["a", "b", "c"])),
        (&[("a.md", "Hello"), ("b", B), (".indexignore", "# comment\n\n*.md\n")], found(&["b"])),
        (&[("a", A), ("p/a", B), (".indexignore", "/a")], found(&["b"])),
        (&[("a", A), ("p/a", B), (".indexignore", "a\n!/p/a")], found(&["b"])),
        (&[("p/a", A), ("p/b", B), ("q/a", C), ("p/.indexignore", "a")], found(&["b", "c"])),
        (&[("p/a", A), ("q/a", C), (".indexignore", "a"), ("p/.indexignore", "!a")], found(&["a"])),
        (&[("p/a", A), ("b", B), (".indexignore", "p/")], found(&["b"])),
        (&[("p/q/a", "bad: ["), ("b", B), (".indexignore", "p")], found(&["b"])),
        (&[("p/a", A), ("p/b", B), ("c", C), (".indexignore", "p/\n!p/a")], found(&["a", "c"])),
        (&[("p/a", A), ("c", C), (".indexignore", "*\n!c")], found(&["c"])),
        (&[("p/a", A), ("c", C), (".indexignore", "**/a")], found(&["c"])),
        (&[("c", C), (".indexignore", "")], found(&["c"])),
        (&[("README.md", "# Comments alone are no document"), ("b", B)], found(&["b"])),
    ] {
        assert_eq!(all(files), expected, "{files:?}");
    }
    for (files, words) in [
        (&[("README.md", "Hello")][..], "README.md is read as a part of the catalog, whatever its name"),
        (&[("a.yaml", "Hello")], "a.yaml, document 1 (line 1): expected an object"),
        (&[(".indexignore", "[z-a]")], ".indexignore (line 1): "),
        (&[("p/.indexignore", "ok\n[z-a]")], "p/.indexignore (line 2): "),
    ] {
        let error = all(files).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_first_bad_file_is_told_whichever_is_read_first() {
    let mut files: Vec<(String, &str)> = (0..50).map(|index| (format!("{index:02}.yaml"), "Hello")).collect();
    files[0].1 = B;
    files[3].1 = "{";
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    for _ in 0..5 {
        let error = names(&files, &Limits::default()).expect_err("bad files");
        assert!(error.contains("01.yaml, document 1"), "{error}");
    }
}

#[test]
fn links_stay_in_the_folder() {
    let limits = Limits::default();
    let found = |files: &[(&str, &str)]| names(files, &limits);
    let once = Ok(vec!["a".to_owned()]);
    assert_eq!(found(&[("a", A), ("b", "->a"), ("p/c", "->../a")]), once, "each file is read once");
    assert_eq!(found(&[("..data", "->..2026"), ("..2026/a", A), ("a", "->..data/a")]), once, "as kubelets mount them");
    assert_eq!(found(&[("p/a", A), ("q", "->p"), ("p/r", "->..")]), once, "folders are found in their own place");
    assert_eq!(found(&[("p/a", A), ("b", "->p/a"), (".indexignore", "p/")]), once, "b is not ignored");
    let out = found(&[("a", A), ("p/b", "->../../outside")]).expect_err("dangling");
    assert!(out.contains("cannot read p/b"), "{out}");
    for target in ["->/etc/hostname", "->/etc", "->../../.."] {
        let out = found(&[("a", A), ("p/b", target)]).expect_err(target);
        assert!(out.contains("p/b is a link that leads out of the catalog"), "{out}");
        assert_eq!(found(&[("a", A), ("p/b", target), (".indexignore", "/p/b")]), once, "{target}");
    }
    let root = catalog_folder(&[("a", A)]);
    let socket = std::os::unix::net::UnixListener::bind(root.path().join("root/socket")).unwrap();
    let error = folder(&root.path().join("root"), &limits, &mut |_| {}).expect_err("a socket");
    assert!(error.to_string().contains("socket is neither a file nor a folder"), "{error}");
    drop(socket);
    symlink(root.path().join("root"), root.path().join("link")).unwrap();
    fs::remove_file(root.path().join("root/socket")).unwrap();
    assert!(folder(&root.path().join("link"), &limits, &mut |_| {}).is_ok(), "the catalog itself may be a link");
}

#[test]
fn folders_have_limits() {
    let files = [("p/q/a", A), ("p/b", B), ("c", C)];
    let with = |limits: Limits| names(&files, &limits).map(|found| found.len());
    assert_eq!(with(Limits { entries: 5, depth: 3, path_bytes: 5, ..Limits::default() }), Ok(3));
    for (limits, words) in [
        (Limits { entries: 4, ..Limits::default() }, "more than the limit of 4 files and folders"),
        (Limits { depth: 2, ..Limits::default() }, "p/q: more than the limit of 2 levels"),
        (Limits { path_bytes: 4, ..Limits::default() }, "p/q/a: more than the limit of 4 bytes in a path"),
    ] {
        let error = with(limits).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let root = catalog_folder(&[("a", A)]);
    let file = folder(&root.path().join("root/a"), &Limits::default(), &mut |_| {}).expect_err("a file");
    assert!(file.to_string().ends_with("/a\" is not a directory"), "{file}");
    let missing = folder(&root.path().join("none"), &Limits::default(), &mut |_| {}).expect_err("missing");
    assert!(missing.to_string().starts_with("cannot read /"), "{missing}");
}

#[test]
fn templates_alone_are_no_catalog() {
    let template = "schema: olm.template.basic\nentries: []\n";
    let package = "schema: olm.package\nname: p\n";
    let load = |files: &[(&str, &str)]| catalog(&catalog_folder(files).path().join("root"), &Limits::default());
    assert!(matches!(load(&[("t", template)]), Err(Error::Template { schema, .. }) if schema == "olm.template.basic"));
    assert_eq!(load(&[("t", template), ("p", package)]).unwrap().packages.len(), 1);
    assert_eq!(load(&[("o", "schema: other")]).unwrap().packages.len(), 0);
    let error = catalog_of_stream("s", &mut "Schema: olm.semver".as_bytes(), &Limits::default()).expect_err("template");
    assert!(error.to_string().starts_with("s holds a template (olm.semver) and no catalog"), "{error}");
}

/// Documents of few names, so that they contradict each other now and then.
fn document() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c", ""]);
    let package = || prop::sample::select(vec!["p", "q"]);
    let entry = (name(), name(), prop::collection::vec(name(), 0..2))
        .prop_map(|(name, replaces, skips)| json!({"name": name, "replaces": replaces, "skips": skips}));
    let deprecation = (prop::sample::select(vec!["olm.package", "olm.channel", "olm.bundle", "x"]), name(), name());
    let deprecation = deprecation
        .prop_map(|(schema, name, message)| json!({"reference": {"schema": schema, "name": name}, "message": message}));
    let version = prop::sample::select(vec!["1.0.0", "2.0.0", "v1"]);
    prop_oneof![
        (package(), name()).prop_map(|(name, channel)| json!({"schema": "olm.package", "name": name, "defaultChannel": channel})),
        (package(), name(), prop::collection::vec(entry, 0..3)).prop_map(|(package, name, entries)|
            json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})),
        (package(), name(), version, package()).prop_map(|(package, name, version, other)| json!({
            "schema": "olm.bundle", "package": package, "name": name, "image": "quay.io/a: b --- {}\n---\nx",
            "properties": [{"type": "olm.package", "value": {"packageName": other, "version": version}}]})),
        (package(), prop::collection::vec(deprecation, 0..3)).prop_map(|(package, entries)|
            json!({"schema": "olm.deprecations", "package": package, "entries": entries})),
        package().prop_map(|package| json!({"schema": "other", "package": package, "data": [1, {"a": null}]})),
    ]
}

fn load(text: &str) -> Catalog {
    catalog_of_stream("a", &mut text.as_bytes(), &Limits::default()).unwrap()
}

proptest! {
    #[test]
    fn neither_order_nor_format_nor_files_matter(
        (documents, shuffled) in prop::collection::vec(document(), 0..12)
            .prop_flat_map(|documents| (Just(documents.clone()), Just(documents).prop_shuffle())),
        cut in 0usize..12,
    ) {
        let join = |documents: &[Value], between: &str| {
            documents.iter().map(Value::to_string).collect::<Vec<_>>().join(between)
        };
        let expected = load(&join(&documents, ""));
        prop_assert_eq!(&load(&join(&shuffled, "\n ")), &expected, "another order");
        prop_assert_eq!(&load(&format!("--- {}", join(&shuffled, "\n--- "))), &expected, "YAML");
        let pretty: Vec<String> = documents.iter().map(|value| serde_json::to_string_pretty(value).unwrap()).collect();
        prop_assert_eq!(&load(&pretty.join("\n---\n")), &expected, "JSON between markers");
        let (head, tail) = shuffled.split_at(cut.min(shuffled.len()));
        let root = catalog_folder(&[("x/a.json", &join(head, "")), ("b", &join(tail, "\n---\n"))]);
        prop_assert_eq!(&catalog(&root.path().join("root"), &Limits::default()).unwrap(), &expected, "two files");
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in r#"(\PC|[\n{}\[\]":,\\-]|---\n|\{"schema": "x"\}){0,60}"#, step in 1usize..20) {
        let _ = stream("a", &mut Slow(text.as_bytes(), step), &Limits::default(), &mut |_| {});
    }
}

#[test]
fn a_catalog_that_takes_too_much_memory_is_refused() {
    let mut builder = Builder::with_maximum(1_000);
    let document = r#"{"schema": "olm.bundle", "package": "p", "name": "b"}"#;
    stream("s", &mut document.as_bytes(), &Limits::default(), &mut |document| builder.add(document)).unwrap();
    let error = finish(builder, || "c".to_owned()).unwrap_err();
    let message = "c: more than 268435456 bytes of memory, and no catalog is that large: check where it comes from";
    assert_eq!(error.to_string(), message);
}
