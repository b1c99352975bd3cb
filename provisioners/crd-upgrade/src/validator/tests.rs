use serde_json::{Value, json};

use super::{Constraint, MAX_VIOLATIONS, ObjectValidator, validate_object};

fn said(schema: &Value, object: &Value) -> Vec<String> {
    validate_object(schema, object).iter().map(ToString::to_string).collect()
}

/// The schema is that of field `x`.
fn of_field(schema: &Value, value: &Value) -> Vec<String> {
    said(&json!({"type": "object", "properties": {"x": schema}}), &json!({"x": value}))
}

/// Rows of a schema of a field, a value that fits, one that does not, and what is said of it.
fn each_accepts_and_refuses(table: &[(Value, Value, Value, &str)]) {
    for (schema, good, bad, message) in table {
        assert_eq!(of_field(schema, good), [""; 0], "{schema} takes {good}");
        assert_eq!(of_field(schema, bad), [format!("x: {message}")], "{schema} refuses {bad}");
    }
}

#[test]
fn types_accept_and_refuse() {
    each_accepts_and_refuses(&[
        (
            json!({"type": "string"}),
            json!("a"),
            json!(1),
            r#"Invalid value: "integer": x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.0),
            json!(1.5),
            r#"Invalid value: "number": x in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "number"}),
            json!(1),
            json!("1"),
            r#"Invalid value: "string": x in body must be of type number: "string""#,
        ),
        (
            json!({"type": "boolean"}),
            json!(true),
            json!("true"),
            r#"Invalid value: "string": x in body must be of type boolean: "string""#,
        ),
        (
            json!({"type": "object"}),
            json!({}),
            json!([]),
            r#"Invalid value: "array": x in body must be of type object: "array""#,
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            json!(true),
            r#"Invalid value: "boolean": x in body must be of type string: "boolean""#,
        ),
        (
            json!({"type": "string"}),
            json!(""),
            json!(null),
            r#"Invalid value: "null": x in body must be of type string: "null""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("1"),
            json!(1.5),
            r#"Invalid value: "number": x in body must be of type integer,string: "number""#,
        ),
    ]);
}

#[test]
fn values_and_numbers_accept_and_refuse() {
    each_accepts_and_refuses(&[
        (json!({"enum": ["a", 1]}), json!(1.0), json!("b"), r#"Unsupported value: supported values: "a", 1"#),
        (json!({"maximum": 3}), json!(3), json!(4), "Invalid value: x in body should be less than or equal to 3"),
        (
            json!({"maximum": 3, "exclusiveMaximum": true}),
            json!(2),
            json!(3),
            "Invalid value: x in body should be less than 3",
        ),
        (json!({"minimum": 3}), json!(3), json!(2.5), "Invalid value: x in body should be greater than or equal to 3"),
        (
            json!({"minimum": 3, "exclusiveMinimum": true}),
            json!(4),
            json!(3),
            "Invalid value: x in body should be greater than 3",
        ),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35), "Invalid value: x in body should be a multiple of 0.1"),
    ]);
}

#[test]
fn texts_accept_and_refuse() {
    each_accepts_and_refuses(&[
        (json!({"minLength": 2}), json!("äö"), json!("ä"), "Invalid value: x in body should be at least 2 chars long"),
        (json!({"maxLength": 2}), json!("äö"), json!("äöü"), "Invalid value: x in body should be at most 2 chars long"),
        (json!({"pattern": "^a+$"}), json!("aa"), json!("ab"), "Invalid value: x in body should match '^a+$'"),
        (
            json!({"format": "ipv4"}),
            json!("10.0.0.1"),
            json!("10.0.0"),
            "Invalid value: x in body must be of type ipv4",
        ),
    ]);
}

#[test]
fn lists_and_maps_accept_and_refuse() {
    each_accepts_and_refuses(&[
        (json!({"minItems": 1}), json!([1]), json!([]), "Invalid value: x in body should have at least 1 items"),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "Invalid value: x in body should have at most 1 items"),
        (
            json!({"uniqueItems": true}),
            json!([1, 2]),
            json!([1, 1]),
            "Invalid value: x in body shouldn't contain duplicates",
        ),
        (
            json!({"x-kubernetes-list-type": "set"}),
            json!(["a"]),
            json!(["a", "a"]),
            "Duplicate value: items of a set must differ",
        ),
        (
            json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            json!([{"a": 1, "b": 1}, {"a": 2, "b": 1}]),
            json!([{"a": 1}, {"a": 1, "b": 1}]),
            "Duplicate value: items must differ in a",
        ),
        (
            json!({"minProperties": 1}),
            json!({"a": 1}),
            json!({}),
            "Invalid value: x in body should have at least 1 properties",
        ),
        (
            json!({"maxProperties": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            "Invalid value: x in body should have at most 1 properties",
        ),
    ]);
}

#[test]
fn alternatives_accept_and_refuse() {
    each_accepts_and_refuses(&[
        (
            json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
            json!(3),
            json!(2),
            "Invalid value: x in body must validate at least one schema (anyOf)",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"maximum": 1}]}),
            json!(2),
            json!(1),
            "Invalid value: x in body must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        (
            json!({"oneOf": [{"type": "string"}]}),
            json!("a"),
            json!(1),
            "Invalid value: x in body must validate one and only one schema (oneOf). Found none valid",
        ),
        (
            json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}),
            json!(2),
            json!(3),
            "Invalid value: x in body should be less than or equal to 2",
        ),
        (
            json!({"not": {"type": "string"}}),
            json!(1),
            json!("a"),
            "Invalid value: x in body must not validate the schema (not)",
        ),
    ]);
}

#[test]
fn fields_are_required_forbidden_or_described() {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["a"], "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "integer"}}},
            "closed": {"type": "object", "additionalProperties": false},
            "list": {"type": "array", "items": {"type": "object", "required": ["a"]}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }
    });
    let template = json!({"apiVersion": "v1", "kind": "Pod", "spec": {}});
    let good =
        json!({"spec": {"a": 1, "b": "x"}, "list": [{"a": 1}], "template": template, "free": {"x": 1}, "unknown": 1});
    assert_eq!(said(&schema, &good), [""; 0]);
    assert_eq!(said(&schema, &json!({})), ["spec: Required value"]);
    let bad = json!({"spec": {"b": 1}, "closed": {"c": 1}, "list": [{"a": 1}, {}], "template": {"kind": ""}});
    let mut found = said(&schema, &bad);
    found.sort();
    assert_eq!(
        found,
        [
            "closed.c: Forbidden: not a field of the schema",
            "list[1].a: Required value",
            "spec.a: Required value",
            r#"spec.b: Invalid value: "integer": spec.b in body must be of type string: "integer""#,
            "template.apiVersion: Required value: must not be empty",
            "template.kind: Required value: must not be empty",
        ]
    );
    assert_eq!(
        said(&schema, &json!(1)),
        [r#"<object>: Invalid value: "integer": body must be of type object: "integer""#]
    );
}

#[test]
fn defaults_are_filled_in_as_the_server_does() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "default": {}, "required": ["replicas", "mode"],
        "properties": {"replicas": {"type": "integer", "default": 1}, "mode": {"type": "string", "default": "a"}}
    }}});
    for object in [json!({}), json!({"spec": {}}), json!({"spec": {"replicas": null}})] {
        assert_eq!(said(&schema, &object), [""; 0], "{object}");
    }
    assert_eq!(said(&schema, &json!({"spec": {"replicas": "1"}})).len(), 1);
    let listed = json!({"type": "array", "items": {"required": ["a"], "properties": {"a": {"default": 1}}}});
    assert_eq!(of_field(&listed, &json!([{}, {}])), [""; 0]);
    let mapped = json!({"additionalProperties": {"required": ["a"], "properties": {"a": {"default": 1}}}});
    assert_eq!(of_field(&mapped, &json!({"b": {}})), [""; 0]);
}

#[test]
fn formats_are_the_servers() {
    // The format, texts that have it, texts that have not.
    let table: [(&str, &[&str], &[&str]); 16] = [
        (
            "date-time",
            &["2024-02-29T23:59:59Z", "2024-01-01t00:00:00.123+01:00"],
            &["2023-02-29T00:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", "é"],
        ),
        ("datetime", &["2024-01-01T00:00:00Z"], &["2024-13-01T00:00:00Z"]),
        ("date", &["2000-02-29"], &["1900-02-29", "2024-1-1", "2024-04-31"]),
        ("duration", &["1h30m", "-1.5s", "0", "3 days"], &["", "h", "12"]),
        ("ipv4", &["10.0.0.1"], &["::1", "10.0.0.256", ""]),
        ("ipv6", &["::1", "fe80::1"], &["10.0.0.1", "g::1"]),
        ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/"]),
        (
            "mac",
            &["00:00:5e:00:53:01", "0000.5e00.5301", "02-00-5e-10-00-00-00-01"],
            &["00:00:5e:00:53", "0g:00:5e:00:53:01"],
        ),
        (
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
            &["123e4567", "123e4567-e89b-12d3-a456-42661417400g", "ä23e4567-e89b-12d3-a456-42661417400"],
        ),
        (
            "uuid4",
            &["123e4567-e89b-42d3-a456-426614174000"],
            &["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
        ),
        ("byte", &["YQ==", "YWJj", "YWI="], &["", "YQ=", "Y-==", "Y==="]),
        ("hostname", &["a.example.com", "a"], &["", "a b", "a..b"]),
        ("uri", &["https://example.com/a", "/a", "mailto:a@b"], &["", "example", "1:a"]),
        ("email", &["a@example.com"], &["a", "@b"]),
        ("hexcolor", &["#fff", "00ff00"], &["#ff", "ggg"]),
        ("int32", &["anything"], &[]),
    ];
    for (format, good, bad) in table {
        let schema = json!({"type": "string", "format": format});
        for text in good {
            assert_eq!(of_field(&schema, &json!(text)), [""; 0], "{format}: {text:?}");
        }
        for text in bad {
            assert_eq!(of_field(&schema, &json!(text)).len(), 1, "{format}: {text:?}");
        }
    }
}

#[test]
fn what_is_not_checked_is_said() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]}},
        "b": {"type": "string", "format": "isbn", "pattern": "("},
        "c": {"type": "string", "format": "int32", "pattern": "^c$"}
    }});
    let validator = ObjectValidator::new(&schema);
    let mut constraints: Vec<_> = validator.unchecked().iter().map(|it| (it.path.as_str(), &it.constraint)).collect();
    constraints.sort_by_key(|(path, constraint)| (*path, format!("{constraint:?}")));
    assert_eq!(
        constraints,
        [
            ("a[]", &Constraint::CelRules(1)),
            ("b", &Constraint::Format("isbn".to_owned())),
            ("b", &Constraint::Pattern("(".to_owned())),
        ]
    );
    assert_eq!(validator.validate(&json!({"a": [""], "b": "x", "c": "c"})), []);
}

#[test]
fn violations_end_somewhere_and_name_no_values() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "string", "pattern": "^a$", "enum": ["a"]}});
    let object: Value =
        (0..1_000).map(|index| (index.to_string(), json!("hunter2"))).collect::<serde_json::Map<_, _>>().into();
    let found = validate_object(&schema, &object);
    assert_eq!(found.len(), MAX_VIOLATIONS);
    assert!(!format!("{found:?}").contains("hunter2"));
}
