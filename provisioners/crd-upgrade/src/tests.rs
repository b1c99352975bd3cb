use serde_json::{Value, json};

use super::{
    CheckReason, Options, Report, Rule, Severity, UnsafeChange, check, denial, denial_for_extension, is_switched_off,
    refusal, schema_of, validate_object,
};

pub(super) const NAME: &str = "dogs.example.com";

pub(super) fn definition(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "dogs", "kind": "Dog"},
            "versions": versions
        },
        "status": {"storedVersions": ["v1"]}
    })
}

fn version(name: &str, x: &Value) -> Value {
    let spec = json!({"type": "object", "properties": {"x": x}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
}

pub(super) fn with(mut crd: Value, pointer: &str, value: Value) -> Value {
    *crd.pointer_mut(pointer).expect("the pointer leads somewhere") = value;
    crd
}

pub(super) fn strict(old: &Value, new: &Value) -> Report {
    check(old, new, Options { strict: true }).expect("both are definitions")
}

fn lines<'a>(changes: impl IntoIterator<Item = &'a UnsafeChange>) -> Vec<String> {
    changes.into_iter().map(ToString::to_string).collect()
}

/// What the rules say when the schema of `spec.x` changes in v1; and that they warn of the same without `strict`.
fn field_change(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (definition(&json!([version("v1", old)])), definition(&json!([version("v1", new)])));
    let report = strict(&old, &new);
    assert!(report.warnings().next().is_none(), "strict errs: {report:?}");
    let relaxed = check(&old, &new, Options::default()).expect("both are definitions");
    assert_eq!(lines(relaxed.warnings()), lines(report.errors()));
    assert_eq!(relaxed.errors().count(), 0);
    lines(&report.changes)
}

#[test]
fn each_rule_of_a_field_trips_and_does_not() {
    // The schema before and after, and the findings: none where the change is safe.
    let table: [(Value, Value, &[&str]); 34] = [
        (json!({"type": "string"}), json!({"type": "string", "description": "new"}), &[]),
        (json!({"type": "string"}), json!({"type": "integer"}), &[r#"type: type changed : "string" -> "integer""#]),
        (json!({}), json!({"default": "a"}), &[r#"default: default added when there was none previously : "\"a\"""#]),
        (json!({"default": 1}), json!({}), &["default: default value removed"]),
        (json!({"default": 1}), json!({"default": 2}), &[r#"default: default value changed : "1" -> "2""#]),
        (json!({"default": {"a": 1, "b": 2}}), json!({"default": {"b": 2, "a": 1}}), &[]),
        (
            json!({}),
            json!({"enum": ["b", "a"]}),
            &[r#"enum: enum constraint added when there was none previously : ["a" "b"]"#],
        ),
        (json!({"enum": ["a", "b"]}), json!({"enum": ["a", "c"]}), &[r#"enum: allowed enum values removed : ["b"]"#]),
        (json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), &[]),
        (json!({}), json!({"maximum": 3}), &["maximum: maximum constraint added when there was none previously : 3"]),
        (json!({"maximum": 3.5}), json!({"maximum": 3}), &["maximum: maximum decreased : 3.5 -> 3"]),
        (json!({"maximum": 3}), json!({"maximum": 4}), &[]),
        (json!({"maximum": 3, "minimum": 1}), json!({}), &[]),
        (json!({"maxItems": 3}), json!({"maxItems": 2}), &["maxItems: maximum decreased : 3 -> 2"]),
        (json!({"maxLength": 3}), json!({"maxLength": 2}), &["maxLength: maximum decreased : 3 -> 2"]),
        (json!({"maxProperties": 3}), json!({"maxProperties": 2}), &["maxProperties: maximum decreased : 3 -> 2"]),
        (json!({}), json!({"minimum": 0}), &["minimum: minimum constraint added when there was none previously : 0"]),
        (json!({"minimum": 1}), json!({"minimum": 2}), &["minimum: minimum increased : 1 -> 2"]),
        (json!({"minItems": 1}), json!({"minItems": 2}), &["minItems: minimum increased : 1 -> 2"]),
        (json!({"minLength": 1}), json!({"minLength": 2}), &["minLength: minimum increased : 1 -> 2"]),
        (json!({"minProperties": 1}), json!({"minProperties": 2}), &["minProperties: minimum increased : 1 -> 2"]),
        (json!({"minProperties": 2}), json!({"minProperties": 1}), &[]),
        (json!({}), json!({"nullable": true}), &["nullable: nullable added : false -> true"]),
        (json!({"nullable": true}), json!({"nullable": false}), &["nullable: nullable removed : true -> false"]),
        (json!({"nullable": false}), json!({}), &[]),
        (json!({}), json!({"pattern": "^a"}), &[r#"pattern: pattern added : "" -> "^a""#]),
        (json!({"pattern": "^a"}), json!({}), &[r#"pattern: pattern removed : "^a" -> """#]),
        (json!({"pattern": "^a"}), json!({"pattern": "^b"}), &[r#"pattern: pattern changed : "^a" -> "^b""#]),
        (json!({"required": ["a"]}), json!({"required": ["c", "a", "b"]}), &["required: new required fields: [b c]"]),
        (json!({"required": ["a", "b"]}), json!({"required": ["b"]}), &[]),
        (
            json!({}),
            json!({"oneOf": [{"required": ["a"]}]}),
            &[r#"oneOf: oneOf constraint added when there was none previously: [{"required":["a"]}]"#],
        ),
        (
            json!({"oneOf": [{"required": ["a"]}]}),
            json!({"oneOf": [{"required": ["b"]}]}),
            &[
                r#"oneOf: [allowed oneOf schemas removed: [{"required":["a"]}], allowed oneOf schemas added: [{"required":["b"]}]]"#,
            ],
        ),
        (json!({"oneOf": [{"required": ["a"], "description": "x"}]}), json!({"oneOf": [{"required": ["a"]}]}), &[]),
        (
            json!({"format": "date", "x-kubernetes-list-type": "set"}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}]}),
            &[
                r#"unhandled: unhandled changes found (AnyOf nil -> <complex value>; Format "date" -> ""; XIntOrString false -> true; XListType "set" -> "")"#,
            ],
        ),
    ];
    for (old, new, expected) in table {
        let expected: Vec<_> = expected.iter().map(|line| format!("v1: ^.spec.x: {line}")).collect();
        assert_eq!(field_change(&old, &new), expected, "{old} -> {new}");
    }
}

#[test]
fn fields_inside_lists_and_maps_are_compared_where_they_are() {
    let schema = |of: &str, kind: &str| {
        json!({"type": "array", "items": {"type": "object", "additionalProperties": {
            "type": "object", "properties": {of: {"type": kind, "description": kind}}
        }}})
    };
    assert_eq!(
        field_change(&schema("a", "string"), &schema("a", "integer")),
        [r#"v1: ^.spec.x.items.additionalProperties.a: type: type changed : "string" -> "integer""#]
    );
    assert_eq!(
        field_change(&schema("a", "string"), &schema("b", "string")),
        ["existingFieldRemoval: removed field : v1.^.spec.x.items.additionalProperties.a"]
    );
    // A property may have the name of a word of the schema language.
    assert_eq!(field_change(&schema("description", "string"), &schema("description", "integer")).len(), 1);
    // What was open may not be closed silently; a map of anything may get a schema only where nothing was said.
    let open = |value: Value| json!({"type": "object", "additionalProperties": value});
    assert_eq!(field_change(&open(json!(true)), &open(json!({"type": "string"}))).len(), 1);
    assert_eq!(field_change(&json!({"type": "object"}), &open(json!(false))).len(), 1);
    assert_eq!(field_change(&json!({"type": "object"}), &open(json!({"type": "string"}))), [""; 0]);
}

#[test]
fn stored_versions_stay() {
    let both = definition(&json!([version("v1", &json!({})), version("v2", &json!({}))]));
    let both = with(both, "/status/storedVersions", json!(["v2", "v1", "v0"]));
    let report = check(&both, &definition(&json!([version("v3", &json!({}))])), Options::default()).expect("read");
    assert_eq!(
        lines(report.errors()),
        [
            "cannot remove stored versions [v1 v2]",
            "new CRD removes version v0 that is listed as a stored version on the existing CRD",
        ]
    );
    assert_eq!(
        refusal(NAME, report.errors()),
        "error validating existing CRs against new CRD's schema for \"dogs.example.com\": cannot remove stored \
         versions [v1 v2]; risk of data loss updating \"dogs.example.com\": new CRD removes version v0 that is \
         listed as a stored version on the existing CRD"
    );
    // A version that stores nothing may go; that clients miss it is told, even strictly.
    let new = definition(&json!([version("v1", &json!({}))]));
    let report = strict(&with(both, "/status/storedVersions", json!(["v1"])), &new);
    assert_eq!(lines(report.warnings()), [r#"servedVersionRemoval: version no longer served : "v2""#]);
    assert_eq!(report.errors().count(), 0);
}

#[test]
fn a_version_that_is_kept_but_not_served_is_told() {
    let old = definition(&json!([version("v1", &json!({}))]));
    let new = with(old.clone(), "/spec/versions/0/served", json!(false));
    let changes = strict(&old, &new).changes;
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].rule, changes[0].severity), (Rule::ServedVersionRemoval, Severity::Warning));
    assert_eq!((changes[0].was.as_deref(), changes[0].now.as_deref()), (Some("served"), Some("not served")));
    assert!(strict(&new, &old).changes.is_empty());
}

#[test]
fn the_scope_stays_where_strict() {
    let old = definition(&json!([version("v1", &json!({}))]));
    let new = with(old.clone(), "/spec/scope", json!("Cluster"));
    assert_eq!(lines(strict(&old, &new).errors()), [r#"scope: scope changed : "Namespaced" -> "Cluster""#]);
    let relaxed = check(&old, &new, Options::default()).expect("both are definitions");
    assert_eq!((relaxed.errors().count(), relaxed.warnings().count()), (0, 1));
}

#[test]
fn versions_served_side_by_side_agree_unless_they_never_did() {
    let (string, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    let one = definition(&json!([version("v1beta1", &string)]));
    let two = definition(&json!([version("v1", &integer), version("v1beta1", &string)]));
    let found = r#"v1beta1 -> v1: ^.spec.x: type: type changed : "string" -> "integer""#;
    assert_eq!(lines(strict(&one, &two).errors().filter(|change| change.rule == Rule::Type)), [found]);
    assert_eq!(lines(&strict(&two, &two).changes), [""; 0]);
    // Not served, or converted by a webhook: nobody reads one as the other.
    let unserved = with(two.clone(), "/spec/versions/0/served", json!(false));
    let mut converted = two.clone();
    converted["spec"]["conversion"] = json!({"strategy": "Webhook"});
    for new in [unserved, converted] {
        assert!(!lines(&strict(&one, &new).changes).contains(&found.to_owned()));
    }
    // A field that only the older one has.
    let lacking = with(two, "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties", json!({}));
    let expected = r#"v1beta1 -> v1: ^.spec.x: type: type changed : "string" -> """#;
    assert_eq!(lines(strict(&one, &lacking).errors().filter(|change| change.rule == Rule::Type)), [expected]);
}

#[test]
fn objects_are_asked_for_where_schemas_change_or_versions_come() {
    let (open, short) = (json!({"type": "string"}), json!({"type": "string", "maxLength": 3}));
    let asked = |old: &Value, new: &Value| {
        let report = check(old, new, Options::default()).expect("both are definitions");
        let checks = report.object_checks.into_iter();
        checks.map(|check| (check.list_version, check.schema_version, check.reason)).collect::<Vec<_>>()
    };
    let one = definition(&json!([version("v1", &open)]));
    let documented = json!({"type": "string", "description": "a dog", "title": "Dog", "nullable": false, "enum": []});
    assert_eq!(asked(&one, &definition(&json!([version("v1", &documented)]))), []);

    let changed = ("v1".to_owned(), "v1".to_owned(), CheckReason::SchemaChanged);
    assert_eq!(asked(&one, &definition(&json!([version("v1", &short)]))), [changed]);
    let unserved = with(one.clone(), "/spec/versions/0/served", json!(false));
    assert_eq!(asked(&unserved, &definition(&json!([version("v1", &short)]))), []);

    let mut two = definition(&json!([version("v1", &open), version("v2", &short)]));
    let added = ("v1".to_owned(), "v2".to_owned(), CheckReason::VersionAdded);
    assert_eq!(asked(&one, &two), std::slice::from_ref(&added));
    two["spec"]["conversion"] = json!({"strategy": "None"});
    assert_eq!(asked(&one, &two), [added]);
    two["spec"]["conversion"] = json!({"strategy": "Webhook"});
    assert_eq!(asked(&one, &two), []);
}

#[test]
fn an_existing_object_that_becomes_invalid_is_named() {
    let old = definition(&json!([version("v1", &json!({"type": "string"}))]));
    let new = definition(&json!([version("v1", &json!({"type": "string", "maxLength": 3, "pattern": "^a"}))]));
    let checks = check(&old, &new, Options::default()).expect("both are definitions").object_checks;
    let schema = schema_of(&new, &checks[0].schema_version).expect("v1 has a schema");
    let dog = |x| json!({"metadata": {"namespace": "kennel", "name": "rex"}, "spec": {"x": x}});
    assert_eq!(checks[0].change(&dog("abc"), &validate_object(schema, &dog("abc"))), None);

    let change = checks[0].change(&dog("secret"), &validate_object(schema, &dog("secret"))).expect("too long");
    assert_eq!((change.rule, change.severity, change.path.as_str()), (Rule::ExistingObject, Severity::Error, "spec.x"));
    let reason = refusal(NAME, [&change]);
    assert_eq!(
        denial("UPDATE", NAME, &reason),
        "failed to validate safety of UPDATE for CRD \"dogs.example.com\" (NOTE: to disable this validation, set the \
         \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\" on the CRD): error validating existing CRs \
         against new CRD's schema for \"dogs.example.com\": existing custom object kennel/rex failed validation for \
         new schema version v1: [spec.x: Invalid value: spec.x in body should be at most 3 chars long, \
         spec.x: Invalid value: spec.x in body should match '^a']"
    );
    assert_eq!(
        denial_for_extension("UPDATE", NAME, "pump", "why"),
        "failed to validate safety of UPDATE for CRD \"dogs.example.com\" (NOTE: to disable this validation, set \
         spec.install.preflight.crdUpgradeSafety.enforcement of ClusterExtension \"pump\" to None): why"
    );
}

#[test]
fn the_annotation_switches_the_check_off_by_its_text() {
    let annotated =
        |value: Value| json!({"metadata": {"annotations": {"core.rukpak.io/safe-crd-upgrade-validation": value}}});
    assert!(is_switched_off(&annotated(json!("false"))));
    for value in [json!("true"), json!("False"), json!(""), json!(false)] {
        assert!(!is_switched_off(&annotated(value.clone())), "{value}");
    }
    assert!(!is_switched_off(&json!({"metadata": {"annotations": {"safe-upgrade-validation": "false"}}})));
}

#[test]
fn definitions_of_v1beta1_are_read() {
    let old = json!({
        "metadata": {"name": NAME},
        "spec": {"group": "example.com", "version": "v1", "validation": {"openAPIV3Schema": {"type": "object"}}}
    });
    let new = definition(&json!([version("v1", &json!({})), version("v2", &json!({}))]));
    assert_eq!(strict(&old, &new).object_checks.len(), 2);
}

#[test]
fn what_is_no_definition_is_an_error_that_names_the_field() {
    let good = definition(&json!([version("v1", &json!({}))]));
    let table = [
        ("/kind", json!("Service"), "kind is not CustomResourceDefinition"),
        ("/spec", json!([]), "spec is not an object"),
        ("/spec/versions", json!({}), "spec.versions is not a list"),
        ("/spec/versions/0", json!(1), "spec.versions[0].name is not a non-empty string"),
        ("/spec/versions/0/served", json!("yes"), "spec.versions[0].served is not a boolean"),
        (
            "/spec/versions/0/schema/openAPIV3Schema",
            json!("x"),
            "spec.versions[0].schema.openAPIV3Schema is not an object",
        ),
        ("/status/storedVersions", json!([1]), "status.storedVersions is not a list of strings"),
        ("/spec/scope", json!(1), "spec.scope is not a string"),
    ];
    for (pointer, value, expected) in table {
        let bad = with(good.clone(), pointer, value);
        for (old, new) in [(&bad, &good), (&good, &bad)] {
            let error = check(old, new, Options::default()).expect_err(pointer);
            assert_eq!(error.to_string(), format!("failed to decode CRD \"dogs.example.com\": {expected}"));
        }
    }
}

#[test]
fn long_findings_are_shortened_and_counted() {
    let long = Value::from((0..1000).map(|index| format!("value-{index}")).collect::<Vec<_>>());
    let text = field_change(&json!({}), &json!({"enum": long, "default": "ä".repeat(100_000)})).join("");
    assert!(text.len() < 3_000, "{}", text.len());
    let mut properties = serde_json::Map::new();
    for index in 0..2_000 {
        properties.insert(format!("field{index}"), json!({"type": "string"}));
    }
    let of =
        |properties: Value| definition(&json!([version("v1", &json!({"type": "object", "properties": properties}))]));
    let report = strict(&of(Value::Object(properties)), &of(json!({})));
    assert_eq!(report.changes.len(), 2_000);
    let text = refusal(NAME, report.errors());
    assert!(text.len() < 9_000 && text.ends_with(" more]"), "{text}");
}
