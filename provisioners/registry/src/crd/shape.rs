//! The fields of apiextensions.k8s.io/v1 and their types, as a table: checked in place, in one pass, without copies.
//!
//! A definition can be megabytes of schema; typed structures for it would cost more than reading its YAML.

use rukpak_plain::Few;
use serde_json::{Map, Value};

use crate::FieldError;
use crate::decode::Path;

/// The type of a field.
pub(super) enum Shape {
    Any,
    Text,
    Flag,
    Integer,
    Number,
    List(&'static Shape),
    Map(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
    Schema,
    /// A schema or a list of schemas.
    SchemaOrList,
    /// A schema or a boolean.
    SchemaOrFlag,
    /// A schema or a list of names.
    SchemaOrNames,
}

use Shape::{Any, Fields, Flag, Integer, List, Number, Schema, SchemaOrFlag, SchemaOrList, SchemaOrNames, Text};

/// A whole definition, without its status, which only a server writes.
pub(super) static DEFINITION: Shape =
    Fields(&[("apiVersion", Text), ("kind", Text), ("metadata", METADATA), ("spec", SPEC), ("status", Any)]);

const TEXTS: Shape = List(&Text);

const METADATA: Shape = Fields(&[
    ("name", Text),
    ("labels", Shape::Map(&Text)),
    ("annotations", Shape::Map(&Text)),
    ("creationTimestamp", Any),
    ("namespace", Text),
    ("generateName", Text),
    ("finalizers", TEXTS),
    ("selfLink", Any),
    ("uid", Any),
    ("resourceVersion", Any),
    ("generation", Any),
    ("deletionTimestamp", Any),
    ("deletionGracePeriodSeconds", Any),
    ("ownerReferences", Any),
    ("managedFields", Any),
]);

const SPEC: Shape = Fields(&[
    ("group", Text),
    ("names", NAMES),
    ("scope", Text),
    ("versions", List(&VERSION)),
    ("conversion", CONVERSION),
    ("preserveUnknownFields", Flag),
]);

const NAMES: Shape = Fields(&[
    ("plural", Text),
    ("singular", Text),
    ("shortNames", TEXTS),
    ("kind", Text),
    ("listKind", Text),
    ("categories", TEXTS),
]);

static VERSION: Shape = Fields(&[
    ("name", Text),
    ("served", Flag),
    ("storage", Flag),
    ("schema", Fields(&[("openAPIV3Schema", Schema)])),
    ("subresources", SUBRESOURCES),
    ("additionalPrinterColumns", List(&COLUMN)),
    ("selectableFields", List(&Fields(&[("jsonPath", Text)]))),
    ("deprecated", Flag),
    ("deprecationWarning", Text),
]);

const SUBRESOURCES: Shape = Fields(&[
    ("status", Fields(&[])),
    ("scale", Fields(&[("specReplicasPath", Text), ("statusReplicasPath", Text), ("labelSelectorPath", Text)])),
]);

static COLUMN: Shape = Fields(&[
    ("name", Text),
    ("type", Text),
    ("jsonPath", Text),
    ("description", Text),
    ("format", Text),
    ("priority", Integer),
]);

const SERVICE: Shape = Fields(&[("namespace", Text), ("name", Text), ("path", Text), ("port", Integer)]);

const CONVERSION: Shape = Fields(&[
    ("strategy", Text),
    (
        "webhook",
        Fields(&[
            ("clientConfig", Fields(&[("service", SERVICE), ("url", Text), ("caBundle", Text)])),
            ("conversionReviewVersions", TEXTS),
        ]),
    ),
]);

/// The most frequent fields first: they are looked for in this order.
static SCHEMA: Shape = Fields(&[
    ("type", Text),
    ("description", Text),
    ("properties", Shape::Map(&Schema)),
    ("items", SchemaOrList),
    ("required", TEXTS),
    ("format", Text),
    ("enum", List(&Any)),
    ("default", Any),
    ("additionalProperties", SchemaOrFlag),
    ("x-kubernetes-int-or-string", Flag),
    ("anyOf", List(&Schema)),
    ("pattern", Text),
    ("nullable", Flag),
    ("minimum", Number),
    ("maximum", Number),
    ("x-kubernetes-preserve-unknown-fields", Flag),
    ("x-kubernetes-list-type", Text),
    ("x-kubernetes-list-map-keys", TEXTS),
    ("x-kubernetes-map-type", Text),
    ("x-kubernetes-validations", List(&RULE)),
    ("minLength", Integer),
    ("maxLength", Integer),
    ("minItems", Integer),
    ("maxItems", Integer),
    ("minProperties", Integer),
    ("maxProperties", Integer),
    ("oneOf", List(&Schema)),
    ("allOf", List(&Schema)),
    ("not", Schema),
    ("title", Text),
    ("example", Any),
    ("uniqueItems", Flag),
    ("exclusiveMinimum", Flag),
    ("exclusiveMaximum", Flag),
    ("multipleOf", Number),
    ("x-kubernetes-embedded-resource", Flag),
    ("additionalItems", SchemaOrFlag),
    ("patternProperties", Shape::Map(&Schema)),
    ("definitions", Shape::Map(&Schema)),
    ("dependencies", Shape::Map(&SchemaOrNames)),
    ("externalDocs", Fields(&[("description", Text), ("url", Text)])),
    ("id", Text),
    ("$schema", Text),
    ("$ref", Text),
]);

static RULE: Shape = Fields(&[
    ("rule", Text),
    ("message", Text),
    ("messageExpression", Text),
    ("reason", Text),
    ("fieldPath", Text),
    ("optionalOldSelf", Flag),
]);

/// Checks that `value` has this shape. Null fields and unknown ones are taken out; the paths of the latter go to
/// `unknown`. The depth of the recursion is that of the value, which its reader has bounded.
pub(super) fn fit(
    value: &mut Value,
    shape: &'static Shape,
    path: &Path<'_>,
    unknown: &mut Few<String>,
) -> Result<(), FieldError> {
    match (shape, &mut *value) {
        (Shape::Any, _) | (Shape::Text, Value::String(_)) | (Shape::Flag | Shape::SchemaOrFlag, Value::Bool(_)) => {
            Ok(())
        }
        (Shape::Number, Value::Number(_)) => Ok(()),
        (Shape::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
        (Shape::List(shape), Value::Array(items)) => fit_items(items, shape, path, unknown),
        (Shape::SchemaOrList, Value::Array(items)) => fit_items(items, &Schema, path, unknown),
        (Shape::SchemaOrNames, Value::Array(items)) => fit_items(items, &Text, path, unknown),
        (Shape::Map(shape), Value::Object(map)) => fit_map(map, shape, path, unknown),
        (Shape::Fields(fields), Value::Object(map)) => fit_fields(map, fields, path, unknown),
        (Shape::Schema | Shape::SchemaOrList | Shape::SchemaOrFlag | Shape::SchemaOrNames, Value::Object(_)) => {
            fit(value, &SCHEMA, path, unknown)
        }
        (shape, value) => Err(path.error(value, shape.in_words())),
    }
}

fn fit_items(
    items: &mut [Value],
    shape: &'static Shape,
    path: &Path<'_>,
    unknown: &mut Few<String>,
) -> Result<(), FieldError> {
    items.iter_mut().enumerate().try_for_each(|(index, item)| fit(item, shape, &Path::Index(path, index), unknown))
}

fn fit_map(
    map: &mut Map<String, Value>,
    shape: &'static Shape,
    path: &Path<'_>,
    unknown: &mut Few<String>,
) -> Result<(), FieldError> {
    for (key, value) in map {
        if value.is_null() {
            // A null member is an empty one, in Go and so in the API server.
            *value =
                if matches!(shape, Shape::Text) { Value::String(String::new()) } else { Value::Object(Map::new()) };
        }
        fit(value, shape, &Path::Field(path, key), unknown)?;
    }
    Ok(())
}

fn fit_fields(
    map: &mut Map<String, Value>,
    fields: &'static [(&'static str, Shape)],
    path: &Path<'_>,
    unknown: &mut Few<String>,
) -> Result<(), FieldError> {
    let mut outcome = Ok(());
    map.retain(|key, value| {
        let path = Path::Field(path, key);
        if outcome.is_err() || value.is_null() {
            return false;
        }
        let known = fields.iter().find(|(name, _)| name == key);
        match known {
            Some((_, shape)) => outcome = fit(value, shape, &path, unknown),
            None => unknown.push_with(|| path.to_string()),
        }
        known.is_some()
    });
    outcome
}

impl Shape {
    fn in_words(&self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Text => "a string",
            Self::Flag => "a boolean",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::List(_) => "a list",
            Self::Map(_) | Self::Fields(_) => "a mapping",
            Self::Schema => "a schema",
            Self::SchemaOrList => "a schema or a list of schemas",
            Self::SchemaOrFlag => "a schema or a boolean",
            Self::SchemaOrNames => "a schema or a list of names",
        }
    }
}
