use serde_json::json;

use super::*;

fn definition(schema: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.b.io", "creationTimestamp": null},
        "spec": {"group": "b.io", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
}

fn read(value: Value) -> Result<Crd, Error> {
    let limits = rukpak_content::Limits::default();
    Crd::read(value, Origin::made_from("crd.yaml"), &mut Budget::new(&limits))
}

#[test]
fn unknown_fields_are_left_out_and_named_and_data_is_kept() {
    let schema = json!({"type": "object", "optional": true, "default": {"optional": null}, "properties": {
        "optional": {"type": "string", "format": null}, "a.b": {"items": {"kind": 1}}, "none": null}});
    let limits = rukpak_content::Limits::default();
    let mut budget = Budget::new(&limits);
    let crd = Crd::read(definition(&schema), Origin::made_from("crd.yaml"), &mut budget).unwrap();
    let place = "spec.versions[0].schema.openAPIV3Schema";
    let unknown = ["optional", "properties.a.b.items.kind"];
    let expected =
        unknown.map(|field| format!("crd.yaml, {place}.{field}: Kubernetes does not know this field: it is left out"));
    assert_eq!(budget.take_warnings().lines(), expected);
    let kept = &crd.object.as_value()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let expected = json!({"type": "object", "default": {"optional": null}, "properties": {
        "optional": {"type": "string"}, "a.b": {"items": {}}, "none": {}}});
    assert_eq!(kept, &expected);
}

#[test]
fn a_wrong_type_is_refused_with_its_path() {
    let place = "spec.versions[0].schema.openAPIV3Schema";
    for (schema, text) in [
        (json!({"required": {"a": 1}}), ".required: a mapping, not a list"),
        (json!({"properties": {"a": {"type": ["string"]}}}), ".properties.a.type: a list, not a string"),
        (json!({"additionalProperties": "yes"}), ".additionalProperties: a string, not a schema or a boolean"),
        (json!({"not": []}), ".not: a list, not a schema"),
        (json!({"items": [{"maxLength": 1.5}]}), ".items[0].maxLength: a number, not an integer"),
    ] {
        assert_eq!(read(definition(&schema)).unwrap_err().to_string(), format!("{place}{text}"));
    }
}

#[test]
fn older_versions_are_left_as_they_are() {
    let old = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.b.io"}, "spec": {"version": "v1", "validation": {}}});
    assert_eq!(read(old.clone()).unwrap().object.as_value(), old);
}
