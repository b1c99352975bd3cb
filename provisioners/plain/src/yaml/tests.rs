use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;

use rukpak_content::Limits;

use super::*;

fn read_with(text: &[u8], limits: &Limits) -> Result<(Vec<Document>, Vec<String>), Error> {
    let mut budget = Budget::new(limits);
    let documents = parse(&Arc::from("a.yaml"), text, &mut budget)?;
    Ok((documents, budget.take_warnings().lines()))
}

fn read(text: &str) -> (Vec<Value>, Vec<String>) {
    let (documents, warnings) = read_with(text.as_bytes(), &Limits::default()).unwrap();
    (documents.into_iter().map(|document| document.value).collect(), warnings)
}

fn one(text: &str) -> Value {
    let (documents, warnings) = read(text);
    assert_eq!(warnings, [""; 0], "{text}");
    assert_eq!(documents.len(), 1, "{text}");
    documents.into_iter().next().unwrap()
}

fn refusal(text: &str) -> String {
    read_with(text.as_bytes(), &Limits::default()).unwrap_err().to_string()
}

#[test]
fn values_have_yaml_1_1_types() {
    let text =
        "a: y\nb: off\nc: 0755\nd: 2001-01-01\ne: ~\nf:\ng: 1.0\nh: 1.5\ni: 'yes'\nj: 1_000\nk: 08\nl: |\n  no\n";
    let expected = json!({"a": true, "b": false, "c": 493, "d": "2001-01-01", "e": null, "f": null, "g": 1, "h": 1.5,
        "i": "yes", "j": 1000, "k": 8, "l": "no\n"});
    assert_eq!(one(text), expected);
    assert!(one(text)["g"].is_i64(), "an API type that holds an integer does not take 1.0");
}

#[test]
fn keys_are_strings() {
    let text = "{1: a, true: b, 1.5: c, 0x10: d, 1e10: e, off: f, 2001-01-01: g}";
    let expected = json!({"1": "a", "true": "b", "1.5": "c", "16": "d", "1e+10": "e", "false": "f", "2001-01-01": "g"});
    assert_eq!(one(&format!("---\n{text}")), expected);
    assert_eq!(one("a: &x yes\nb: {*x : c}\n"), json!({"a": true, "b": {"true": "c"}}));
    for (bad, problem) in [
        ("a: {~: b}", "null is not a key"),
        ("a: {18446744073709551615: b}", "too large for a key"),
        ("a: {[b]: c}", "not a key"),
        ("? {a: b}\n: c", "not a key"),
        ("a: &x [1]\nb: {*x : c}", "not a key"),
    ] {
        assert!(refusal(bad).contains(problem), "{bad}: {}", refusal(bad));
    }
}

#[test]
fn templates_are_told_from_other_mistakes() {
    let hint = "templates are not rendered: render it first, or quote the value";
    for template in [
        "metadata:\n  name: {{ .Values.name }}\n",
        "a: b\nc:\n{{- if .Values.c }}\n  d: e\n{{- end }}\n",
        "a: b\n---\nlabels:\n  {{- include \"x\" . | nindent 4 }}\n",
        "{{/* a remark */}}\na: b\n",
        "a: {{ .Values.a }}-b\n",
    ] {
        assert!(refusal(template).contains(hint), "{template}: {}", refusal(template));
    }
    let name = refusal("metadata:\n  name: {{ .Values.name }}\n");
    let start = "a.yaml, document 1 (line 2), metadata.name: a mapping or sequence is not a key: use a string; ";
    assert_eq!(name, format!("{start}{hint}"));
    for other in ["a: {[b]: c}", "a: '{{ .b }}'\nc: {[d]: e}", "a: [\n"] {
        assert!(!refusal(other).contains("template"), "{other}: {}", refusal(other));
    }
    assert_eq!(one("a: x-{{ .b }}\n"), json!({"a": "x-{{ .b }}"}), "it is text where YAML takes it for text");
}

#[test]
fn explicit_tags() {
    let text = "a: !foo 12\nb: ! 12\nc: !!binary aGVsbG8=\nd: !!float 3\ne: !!str 3\nf: !!int \"0x10\"\ng: !foo {a: b}\n\
                h: !!set {a, b}\n";
    let expected = json!({"a": "12", "b": "12", "c": "hello", "d": 3, "e": "3", "f": 16, "g": {"a": "b"},
        "h": {"a": null, "b": null}});
    assert_eq!(one(text), expected);
    assert_eq!(refusal("a:\n  b: !!int foo"), "a.yaml, document 1 (line 2), a.b: cannot decode !!str as a !!int");
}

#[test]
fn aliases_and_merges() {
    let anchors = "x: &x {a: 1, b: 2}\nz: &z {a: 5, c: 7}\n";
    for (text, expected) in [
        ("w: *x", json!({"a": 1, "b": 2})),
        ("w: {<<: *x, a: 9}", json!({"a": 9, "b": 2})),
        ("w: {<<: [*x, *z]}", json!({"a": 1, "b": 2, "c": 7})),
        ("w: {<<: [{d: 1}, *z]}", json!({"a": 5, "c": 7, "d": 1})),
        ("w: {!!merge <<: {a: b}}", json!({"a": "b"})),
        ("w: {\"<<\": {a: b}}", json!({"<<": {"a": "b"}})),
        ("w: {<<: *x, <<: *z}", json!({"a": 5, "b": 2, "c": 7})),
    ] {
        assert_eq!(one(&format!("{anchors}{text}"))["w"], expected, "{text}");
    }
    for bad in ["a: {<<: 1}", "a: {<<: [1]}", "a: &a [*a]", "a: *b", "a: &a {b: *a}"] {
        assert!(refusal(bad).starts_with("a.yaml, document 1 (line 1)"), "{bad}: {}", refusal(bad));
    }
}

#[test]
fn a_merge_replaces_what_stands_before_it_and_says_so() {
    let (documents, warnings) = read("x: &x {a: 1}\nw:\n  a: 9\n  <<: *x\n");
    assert_eq!(documents[0]["w"], json!({"a": 1}));
    assert_eq!(warnings, ["a.yaml (line 4): `<<` replaces w.a: put `<<` before the keys that override it"]);
}

#[test]
fn the_last_of_equal_keys_counts_with_a_warning() {
    let (documents, warnings) = read("a: 1\n---\n\nspec:\n  ports:\n  - name: x\n    b.c/d: 1\n    b.c/d: 2\n");
    assert_eq!(documents[1], json!({"spec": {"ports": [{"name": "x", "b.c/d": 2}]}}));
    assert_eq!(warnings, ["a.yaml (line 8): spec.ports[0][\"b.c/d\"] is set twice: the last value counts"]);

    let (documents, warnings) = read("\n{\"a\": {\"b\": 1, \"b\": 2}}");
    assert_eq!(documents, [json!({"a": {"b": 2}})]);
    assert_eq!(warnings, ["a.yaml (line 2): a.b is set twice: the last value counts"]);
}

#[test]
fn places_count_documents_and_lines_of_the_file() {
    let text = "# licence\n---\na: 1\n---\n# nothing\n---\n---\n\n# c\nb: 1\n--- # d\nc: 1";
    let (documents, _) = read_with(text.as_bytes(), &Limits::default()).unwrap();
    let places: Vec<_> = documents.iter().map(|document| document.place.to_string()).collect();
    assert_eq!(places, ["a.yaml, document 1 (line 3)", "a.yaml, document 2 (line 10)", "a.yaml, document 3 (line 12)"]);
    assert_eq!(refusal("a: 1\n---\nb:\n\t- c\n").split(", column").next(), Some("a.yaml, document 2 (line 4)"));
}

#[test]
fn documents_that_kubectl_does_not_read_are_not_read() {
    let (documents, warnings) = read("a: 1\n...\nb: 2\n");
    assert_eq!(documents, [json!({"a": 1})]);
    assert_eq!(warnings, ["a.yaml (line 3): not read: put `---` on a line of its own before it"]);
    assert_eq!(read("a: 1\n...\n---\nb: 2\n").0.len(), 2);
    assert_eq!(read("a: 1\n--- {b: 2}\n").0, [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(read("%YAML 1.1\n---\na: 1\n").0, [json!({"a": 1})]);
}

#[test]
fn encodings_and_line_ends() {
    let expected = json!({"a": ["b", "c\nd\n"]});
    let text = "a:\r\n- b\r\n- |\r\n  c\r\n  d\r\n";
    assert_eq!(one(text), expected);
    assert_eq!(one(&format!("\u{feff}{text}")), expected);
    let mut utf16: Vec<u8> = vec![0xff, 0xfe];
    utf16.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(read_with(&utf16, &Limits::default()).unwrap().0[0].value, expected);
    utf16.pop();
    assert!(read_with(&utf16, &Limits::default()).unwrap_err().to_string().contains("not UTF-8"));
    let error = read_with(b"a: b\nc: \xff\n", &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "a.yaml (line 2): not UTF-8 text: save the file as UTF-8");
    assert!(refusal("a: b\nc: \0\nd: e").starts_with("a.yaml (line 2): control characters are not allowed"));
}

#[test]
fn json_streams() {
    assert_eq!(
        read(" {\"a\": 1}{\"b\": 1.50}\n\n{\"c\": \"\\/\\ud83d\\ude00\"}").0,
        [json!({"a": 1}), json!({"b": 1.5}), json!({"c": "/\u{1f600}"})]
    );
    assert_eq!(one("{apiVersion: v1, on: off}"), json!({"apiVersion": "v1", "true": false}));
    assert_eq!(read("{\"a\": 1}\n---\nb: 2\n").0, [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(one("{\"a\": 18446744073709551615}")["a"], json!(u64::MAX));
    let limits = Limits::default();
    let error = parse(&Arc::from("a.json"), b"{\"a\": 1,\n\"b\": ]}", &mut Budget::new(&limits)).unwrap_err();
    assert_eq!(error.to_string(), "a.json, document 1 (line 2), column 6: expected value");
}

#[test]
fn quoted_text_may_stand_left_of_its_key() {
    let text = "a:\n  - b:\n      c: 'it''s\n    one\n\n  line'\n      d: \"e\\\n\tf\n g\\\"\" # 'h\n    i: 'j'\n";
    let expected = json!({"a": [{"b": {"c": "it's one\nline", "d": "ef g\""}, "i": "j"}]});
    assert_eq!(one(text), expected);
    // What only looks like quoted text is never moved: the value would change.
    for bad in [
        "a:\n  b: 'c\n d'\n  e: |\n    f: 'g\n   h\n  i: 'j'\n",
        "a:\n  b: 'c\n d'\n  e: |\n     f: 'g\n   h'\n",
        "a:\n  e: |1\n     f: 'g\n    h'\n  b: 'c\n d'\n",
    ] {
        let error = refusal(bad);
        assert!(error.contains("quoted") || error.contains("block scalar"), "{bad}: {error}");
    }
    assert!(refusal("a:\n  b: 'c\n d'\n  e: {\n").starts_with("a.yaml, document 1 (line 5)"));
}

#[test]
fn infinities_are_not_json() {
    for text in ["a: .inf", "a: -.inf", "a: .nan"] {
        assert!(refusal(text).contains("document 1 (line 1), a: JSON has no infinity"), "{}", refusal(text));
    }
}

#[test]
fn nesting_is_bounded() {
    let flow = |depth| format!("a: {}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(read_with(flow(MAX_DEPTH).as_bytes(), &Limits::default()).is_ok());
    assert_eq!(refusal(&flow(MAX_DEPTH + 1)), "a.yaml, document 1 (line 1): nested deeper than 100 levels");
    let json = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    assert!(read_with(json(MAX_DEPTH).as_bytes(), &Limits::default()).is_ok());
    assert!(refusal(&json(MAX_DEPTH + 1)).contains("nested deeper than 100 levels"));
    let mut by_alias = "a0: &a0 [1]\n".to_owned();
    for level in 1..200 {
        writeln!(by_alias, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert!(refusal(&by_alias).contains("nested deeper"));
    for hostile in ["[".repeat(100_000), "{".repeat(100_000), "- ".repeat(100_000), "{\"a\":".repeat(100_000)] {
        assert!(read_with(hostile.as_bytes(), &Limits::default()).is_err());
    }
}

#[test]
fn alias_bombs_hit_a_limit_before_memory() {
    let mut nodes = "a0: &a0 [lol, lol, lol]\n".to_owned();
    let mut bytes = format!("a0: &a0 {}\n", "x".repeat(1 << 20));
    for level in 1..30 {
        let previous = format!("*a{}", level - 1);
        writeln!(nodes, "a{level}: &a{level} [{}]", [previous.as_str(); 10].join(", ")).unwrap();
        writeln!(bytes, "a{level}: &a{level} [{previous}, {previous}]").unwrap();
    }
    assert!(refusal(&nodes).contains("more than the limit of 2000000 YAML and JSON nodes"), "{}", refusal(&nodes));
    assert!(refusal(&bytes).contains("--limit=text-bytes"), "{}", refusal(&bytes));
}

#[test]
fn the_node_limit_is_the_last_accepted() {
    let limits = Limits { yaml_nodes: 4, ..Limits::default() };
    assert!(
        read_with(b"{\"a\":1}", &Limits { yaml_nodes: 3, ..Limits::default() }).is_ok(),
        "a mapping, a key, a value"
    );
    for (accepted, refused) in [("- a\n- b\n- c", "- a\n- b\n- c\n- d"), ("{\"a\":[1]}", "{\"a\":[1,2]}")] {
        assert!(read_with(accepted.as_bytes(), &limits).is_ok(), "{accepted}");
        let error = read_with(refused.as_bytes(), &limits).unwrap_err();
        assert!(matches!(error, Error::Limit(_)), "{error}");
    }
}

#[test]
fn a_copy_that_is_kept_for_aliases_counts_as_well() {
    let read = |text: &str, yaml_nodes| read_with(text.as_bytes(), &Limits { yaml_nodes, ..Limits::default() });
    assert!(read("- [1, 2]", 4).is_ok(), "two lists and two numbers");
    assert!(read("- &a [1, 2]", 7).is_ok(), "the inner list and its numbers again");
    assert!(matches!(read("- &a [1, 2]", 6), Err(Error::Limit(_))));
}

fn any_json() -> impl Strategy<Value = Value> {
    let text =
        prop_oneof!["[ -~]{0,12}", "\\PC{0,6}", "(y|no|0[0-7]{1,3}|1_0|~|<<|- a|a: b|#c| x |---|\\.inf|[0-9]e[0-9])"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(|float: f64| Value::from(float + 0.5)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_means_the_same_read_as_yaml_and_as_json(value in any_json()) {
        let value = json!({"a": value});
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(&read(&text).0, std::slice::from_ref(&value));
            prop_assert_eq!(&read(&format!("---\n{text}")).0, std::slice::from_ref(&value), "{}", text);
        }
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_with(&bytes, &Limits::default());
    }

    #[test]
    fn anything_that_looks_like_yaml_ends(text in "([ \n\t:,\\-\\[\\]{}#&*!|>'\"%@?a0~<.]|---|\\.\\.\\.|&a|\\*a|<<: |!!int |\n  ){0,60}") {
        let _ = read_with(text.as_bytes(), &Limits::default());
    }
}
