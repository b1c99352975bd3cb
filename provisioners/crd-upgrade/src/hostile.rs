//! CRDs and objects that are made to cost more than they look like.

use serde_json::{Map, Value, json};

use super::{Effort, ObjectValidator, Options, check, check_within, validate_object};

/// Steps that are soon done without optimisation.
const FEW: u64 = 1_000_000;

fn definition(versions: &[Value]) -> Value {
    json!({"metadata": {"name": "as.example.com"},
           "spec": {"group": "example.com", "names": {"plural": "as", "kind": "A"}, "versions": versions}})
}

fn version(name: &str, schema: &Value) -> Value {
    json!({"name": name, "served": true, "schema": {"openAPIV3Schema": schema}})
}

#[test]
fn versions_are_counted() {
    let many: Vec<_> = (0..101).map(|index| version(&format!("v{index}"), &json!({"type": "object"}))).collect();
    let (few, many) = (definition(&many[..100]), definition(&many));
    assert!(check(&few, &few, Options::default()).is_ok());
    let error = check(&few, &many, Options::default()).expect_err("there are too many");
    assert_eq!(
        error.to_string(),
        "failed to decode CRD \"as.example.com\": spec.versions is not a list of at most 100 versions"
    );
    let mut stored = few.clone();
    stored["status"] = json!({"storedVersions": vec!["v1"; 101]});
    let error = check(&stored, &few, Options::default()).expect_err("there are too many");
    assert_eq!(error.field, "status.storedVersions");
}

#[test]
fn comparing_alternatives_ends() {
    let schema = |offset: usize| -> Value {
        let alternatives: Vec<_> = (0..20_000).map(|index| json!({"maxLength": index + offset})).collect();
        json!({"type": "string", "oneOf": alternatives})
    };
    let (old, new) = (definition(&[version("v1", &schema(0))]), definition(&[version("v1", &schema(20_000))]));
    let effort = Effort::of(FEW);
    let error = check_within(&old, &new, Options::default(), &effort).expect_err("it is too complex");
    assert!(error.to_string().contains("within 20,000,000 steps"), "{error}");
}

#[test]
fn whoever_stops_a_comparison_is_heard() {
    let fields: Map<String, Value> = (0..10_000).map(|index| (index.to_string(), json!({"type": "string"}))).collect();
    let old = definition(&[version("v1", &json!({"type": "object", "properties": fields}))]);
    let mut new = old.clone();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["1"]["type"] = json!("integer");
    assert!(check(&old, &new, Options::default()).is_ok());
    let effort = Effort::until(&|| true);
    assert!(check_within(&old, &new, Options::default(), &effort).is_err());
    assert!(effort.is_stopped());
}

#[test]
fn long_names_do_not_multiply() {
    // A path names each of its fields, and each finding has a path.
    let fields = |kind: &str| -> Map<String, Value> {
        (0..5_000).map(|index| (index.to_string(), json!({"type": kind, "enum": [index]}))).collect()
    };
    let schema = |kind: &str| json!({"properties": {"a".repeat(200_000): {"properties": fields(kind)}}});
    let (old, new) =
        (definition(&[version("v1", &schema("string"))]), definition(&[version("v1", &schema("integer"))]));
    let report = check(&old, &new, Options { strict: true }).expect("they can be read");
    let bytes: usize = report.changes.iter().map(|change| change.path.len()).sum();
    assert!(report.changes.len() >= 1_000 && bytes < 3_000_000, "{} findings, {bytes}", report.changes.len());
    let object = json!({"a".repeat(200_000): fields("x")});
    let violations = validate_object(&schema("string"), &object);
    assert!(violations.iter().all(|violation| violation.to_string().len() < 5_000));
}

#[test]
fn a_list_under_many_alternatives_is_not_looked_at_for_ever() {
    let alternatives: Vec<_> = (0..5_000).map(|index| json!({"not": {"maximum": -index - 1}})).collect();
    let schema = json!({"type": "array", "items": {"allOf": alternatives}});
    let (validator, list) = (ObjectValidator::new(&schema), json!(vec![1; 50_000]));
    let violations = validator.validate_within(&list, &Effort::of(FEW));
    assert_eq!(violations.len(), 1);
    assert!(violations[0].message.starts_with("Too complex: "), "{violations:?}");
}

#[test]
fn a_slow_pattern_on_a_long_text_is_not_tried() {
    let schema = json!({"type": "string", "pattern": "(.{50}){20}1"});
    let violations = validate_object(&schema, &json!("0".repeat(1_500_000)));
    assert!(violations.iter().any(|violation| violation.message.starts_with("Too complex: ")), "{violations:?}");
    assert!(!validate_object(&schema, &json!("0".repeat(900))).is_empty());
    assert!(validate_object(&schema, &json!(format!("{}1", "0".repeat(1_000)))).is_empty());
}

#[test]
fn defaults_are_not_filled_in_without_end() {
    let schema =
        json!({"type": "array", "items": {"type": "object", "properties": {"a": {"default": "x".repeat(100_000)}}}});
    let violations = validate_object(&schema, &json!(vec![json!({}); 10_000]));
    assert!(violations[0].message.starts_with("Too complex: "), "{violations:?}");
    assert!(validate_object(&schema, &json!(vec![json!({}); 100])).is_empty());
}

#[test]
fn what_is_told_of_an_enum_ends() {
    let allowed: Vec<_> = (0..100_000).map(|index| format!("value-{index}")).collect();
    let violations = validate_object(&json!({"type": "string", "enum": allowed}), &json!("other"));
    assert!(violations[0].message.len() < 15_000 && violations[0].message.ends_with(", …"));
}

#[test]
fn a_bomb_of_patterns_is_not_checked_and_that_is_said() {
    let fields: Map<String, Value> = (0..5_000)
        .map(|index| (index.to_string(), json!({"type": "string", "pattern": format!("(.{{50}}){{50}}{index}")})))
        .collect();
    let schema = json!({"type": "object", "properties": fields});
    let validator = ObjectValidator::new(&schema);
    assert_eq!(validator.unchecked().len(), super::validator::MAX_UNCHECKED);
    assert!(validator.validate(&json!({"1": "a", "2": 1})).iter().any(|violation| violation.path == "2"));
}
