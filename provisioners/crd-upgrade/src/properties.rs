use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{NAME, definition, strict, with};
use super::{Options, Report, check, refusal, schema_of, validate_object};

/// Any JSON, with the words of schemas among its keys.
fn anything() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "additionalProperties",
            "enum",
            "default",
            "required",
            "oneOf",
            "anyOf",
            "not",
            "allOf",
            "pattern",
            "format",
            "maximum",
            "minLength",
            "multipleOf",
            "nullable",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-validations",
            "x-kubernetes-embedded-resource",
            "uniqueItems",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,2}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "integer",
            "map",
            "date-time",
            "uuid",
            "(",
            "^a$",
            "[a"
        ])
        .prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn some_definition() -> impl Strategy<Value = Value> {
    let of = |(name, served, schema): (String, bool, Value)| json!({"name": name, "served": served, "schema": {"openAPIV3Schema": {"properties": {"spec": schema}}}});
    let version = ("v[12](beta1)?", any::<bool>(), anything()).prop_map(of);
    prop::collection::vec(version, 0..4).prop_map(|versions| definition(&Value::from(versions)))
}

proptest! {
    #[test]
    fn a_definition_is_safe_against_itself(crd in some_definition()) {
        let stored = crd["spec"]["versions"].as_array().into_iter().flatten().map(|version| version["name"].clone());
        let crd = with(crd.clone(), "/status/storedVersions", stored.collect());
        let served = |crd: &Value| {
            let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
            versions.map(|version| version["name"].to_string()).collect::<Vec<_>>()
        };
        let mut names = served(&crd);
        names.sort();
        names.dedup();
        prop_assume!(names.len() == served(&crd).len());
        prop_assert_eq!(strict(&crd, &crd), Report::default());
    }

    #[test]
    fn nothing_panics(left in anything(), right in anything(), old in some_definition(), new in some_definition()) {
        let _ = check(&left, &right, Options { strict: true });
        let report = strict(&old, &new);
        let _ = refusal(NAME, &report.changes);
        let _ = validate_object(&left, &right);
        for wanted in &report.object_checks {
            let violations = validate_object(schema_of(&new, &wanted.schema_version).unwrap_or(&Value::Null), &right);
            let _ = wanted.change(&right, &violations);
        }
        let mangled = with(new, "/spec/versions", right);
        let _ = check(&old, &mangled, Options::default());
    }
}
