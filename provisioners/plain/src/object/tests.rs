use serde_json::json;

use super::*;
use crate::Warning;

fn object(value: Value) -> Object {
    Object::new(value, Origin::made_from("test")).unwrap()
}

fn refusal(value: Value) -> String {
    Object::new(value, Origin::made_from("test")).unwrap_err().to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where json! makes it")]
fn config_map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

#[test]
fn says_what_it_is() {
    let object = object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2},
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}, "annotations": {"c": null}},
    }));
    assert_eq!((object.group(), object.version(), object.kind()), ("apps", "v1", "Deployment"));
    assert_eq!((object.name(), object.namespace()), ("web", Some("shop")));
    assert_eq!(object.gvk().to_string(), "apps/v1, Kind=Deployment");
    assert_eq!(object.key().to_string(), "Deployment.apps \"shop/web\"");
    assert_eq!(object.labels().collect::<Vec<_>>(), [("a", "b")]);
    assert_eq!(object.annotation("c"), Some(""));
    assert_eq!(object.field(&["spec", "replicas"]), Some(&json!(2)));
    assert_eq!(object.clone().into_value(), object.as_value());
}

#[test]
fn the_core_group_is_empty_and_so_is_an_empty_namespace() {
    let object = object(config_map(json!({"name": "a", "namespace": ""})));
    assert_eq!((object.group(), object.version(), object.namespace()), ("", "v1", None));
    assert_eq!(object.key().to_string(), "ConfigMap \"a\"");
}

#[test]
fn debug_shows_no_content() {
    let secret =
        object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "c2Vj"}}));
    assert_eq!(format!("{secret:?}"), "Object(Secret \"s\", test)");
}

#[test]
fn origins_name_file_document_line_and_item() {
    let origin = Origin { file: "manifests/a.yaml".into(), document: Some((2, 14)), item: Some("items[3]".into()) };
    assert_eq!(origin.to_string(), "manifests/a.yaml, document 2 (line 14), items[3]");
}

#[test]
fn refusals_name_the_field_and_the_way_out() {
    for (value, text) in [
        (json!("bin/"), "json: cannot unmarshal string into Go value of type"),
        (json!([1]), "json: cannot unmarshal array into Go value of type"),
        (json!(1), "json: cannot unmarshal number into Go value of type"),
        (json!({"a": "b"}), "Object 'Kind' is missing"),
        (json!({"kind": "A"}), "Object 'apiVersion' is missing"),
        (json!({"kind": "A", "apiVersion": ""}), "Object 'apiVersion' is missing"),
        (json!({"kind": true, "apiVersion": "v1"}), "kind is a boolean, not a string: quote the value"),
        (json!({"kind": "A", "apiVersion": "a/b/c"}), "\"a/b/c\" is neither"),
        (json!({"kind": "A", "apiVersion": "/v1"}), "\"/v1\" is neither"),
        (json!({"kind": "A", "apiVersion": "../v1"}), "apiVersion \"..\" is not a name"),
        (json!({"kind": "A", "apiVersion": "v1"}), "metadata.name is missing: set it"),
        (json!({"kind": "A", "apiVersion": "v1", "metadata": "x"}), "metadata is a string, not a mapping"),
        (config_map(json!({"generateName": "a-"})), "generateName would make a new object"),
        (config_map(json!({"name": 1})), "metadata.name is a number, not a string: quote the value"),
        (config_map(json!({"name": "../a"})), "metadata.name \"../a\" is not a name"),
        (config_map(json!({"name": "a", "namespace": ".."})), "metadata.namespace \"..\" is not a name"),
        (
            config_map(json!({"name": "a?b"})),
            "metadata.name \"a?b\" is not a name: it contains a character that cannot",
        ),
        (config_map(json!({"name": "a#b"})), "metadata.name \"a#b\" is not a name"),
        (config_map(json!({"name": "a b"})), "metadata.name \"a b\" is not a name"),
        (config_map(json!({"name": "a\u{1b}[2J"})), r#"metadata.name "a\u{1b}[2J" is not a name"#),
        (config_map(json!({"name": "\u{e4}"})), "is not a name"),
        (config_map(json!({"name": "a".repeat(1025)})), "is not a name: it has more than 1024 bytes"),
        (config_map(json!({"name": "a", "namespace": "a?b"})), "metadata.namespace \"a?b\" is not a name"),
        (json!({"kind": "A?b", "apiVersion": "v1", "metadata": {"name": "a"}}), "kind \"A?b\" is not a name"),
        (json!({"kind": "A", "apiVersion": "v 1"}), "apiVersion \"v 1\" is not a name: it is made of"),
        (json!({"kind": "A", "apiVersion": "a%2f/v1"}), "apiVersion \"a%2f\" is not a name"),
        (json!({"kind": "A", "apiVersion": "a".repeat(254)}), "is not a name: it has more than 253 bytes"),
        (config_map(json!({"name": "a", "namespace": {}})), "metadata.namespace is a mapping, not a string"),
        (
            config_map(json!({"name": "a", "labels": {"b.c/d": true}})),
            "metadata.labels[\"b.c/d\"] is a boolean, not a string: quote the value",
        ),
        (config_map(json!({"name": "a", "annotations": ["b"]})), "metadata.annotations is a list, not a mapping"),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"port": 1}}),
            "stringData[\"port\"] is a number, not a string: quote the value",
        ),
    ] {
        let refusal = refusal(value);
        assert!(refusal.contains(text), "{refusal}");
    }
}

#[test]
fn names_of_rbac_may_be_long_and_hold_colons() {
    object(config_map(json!({"name": "a".repeat(1024)})));
    object(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:a"}}),
    );
}

#[test]
fn server_fields_are_taken_out() {
    let declared = object(json!({
        "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}, "spec": {"a": null},
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": null, "selfLink": "/",
            "managedFields": [], "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0, "ownerReferences": [{}],
            "namespace": null, "finalizers": ["f"],
        },
    }));
    let mut warnings = Vec::new();
    let clean = declared.without_server_fields(&mut warnings);
    assert_eq!(
        clean.into_value(),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": null}, "metadata": {"name": "a", "finalizers": ["f"]}})
    );
    assert!(matches!(&warnings[..], [Warning::OwnerReferences { key, .. }] if key.name == "a"));
}

#[test]
fn a_clean_object_is_not_copied() {
    let declared = object(config_map(json!({"name": "a"})));
    let clean = declared.without_server_fields(&mut Vec::new());
    assert!(Arc::ptr_eq(&declared.map, &clean.map));
}

#[test]
fn string_data_becomes_data_and_wins() {
    let secret = |data: Value| {
        let mut value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "stringData": {"a": "new", "n": null}});
        value["data"] = data;
        object(value).without_server_fields(&mut Vec::new()).into_value()
    };
    let clean = secret(json!({"a": "b2xk", "b": "b2xk"}));
    assert_eq!(clean.get("stringData"), None);
    assert_eq!(clean["data"], json!({"a": "bmV3", "b": "b2xk", "n": ""}));
    assert_eq!(secret(Value::Null)["data"], json!({"a": "bmV3", "n": ""}));
    let other = json!({"apiVersion": "x.io/v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": 1}});
    assert_eq!(object(other.clone()).without_server_fields(&mut Vec::new()).into_value(), other);
}

#[test]
fn parts_of_urls_that_a_definition_brings_are_checked() {
    let definition = |path: &str, text: &str| {
        let mut value = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.b.io"}, "spec": {"group": "b.io", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1"}]}});
        *value.pointer_mut(path).unwrap() = Value::from(text);
        value
    };
    object(definition("/spec/names/plural", "as"));
    for (path, text, field) in [
        ("/spec/group", "b.io/../x", "spec.group"),
        ("/spec/names/plural", "as?limit=1", "spec.names.plural"),
        ("/spec/names/plural", "..", "spec.names.plural"),
        ("/spec/names/kind", "A#", "spec.names.kind"),
        ("/spec/versions/0/name", "v1/as", "spec.versions[].name"),
    ] {
        let refusal = refusal(definition(path, text));
        assert!(refusal.starts_with(&format!("{field} {text:?} is not a name")), "{refusal}");
    }
}
