//! The fields that a schema has, with values for each.

use serde_json::{Map, Value, json};

/// A field, and values to try.
pub struct Field {
    pub path: Vec<String>,
    pub values: Vec<Value>,
}

impl Field {
    pub fn new(path: &str, values: impl IntoIterator<Item = Value>) -> Self {
        Self { path: path.split('.').map(str::to_owned).collect(), values: values.into_iter().collect() }
    }
}

/// Every field below `schema`, with values that fit, that lie at a bound, and that do not fit.
pub fn fields(schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    collect(schema, &[], &mut all);
    all
}

fn collect(schema: &Value, path: &[String], all: &mut Vec<Field>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = [path, std::slice::from_ref(name)].concat();
        collect(schema, &path, all);
        all.push(Field { path, values: values(schema) });
    }
}

/// Values for one field; `null` stands for itself, which the API server reads as absent or refuses.
fn values(schema: &Value) -> Vec<Value> {
    let mut values = vec![Value::Null, json!([[]])];
    values.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    match schema["type"].as_str().unwrap_or_default() {
        "string" => {
            values.extend(["", "a", "A b/c:d", "0", "10m", "é\u{2028}", &"x".repeat(300)].map(|text| json!(text)));
        }
        "integer" => {
            let bounds = ["minimum", "maximum"].into_iter().filter_map(|bound| schema[bound].as_i64());
            let around = bounds.flat_map(|bound| [bound - 1, bound, bound + 1]);
            values.extend(around.chain([-1, 0, i64::from(i32::MAX) + 1]).map(|number| json!(number)));
            values.push(json!("1"));
        }
        "boolean" => values.extend([json!(true), json!(false), json!("true")]),
        "array" => {
            let item = sample(&schema["items"]);
            let most = schema["maxItems"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(20);
            values.extend([json!([]), json!([item]), json!([item, item]), json!(vec![item; most + 1])]);
        }
        _ => values.extend([json!({}), sample(schema), json!({"unknown": {"a": 1}}), json!("text"), json!({"a": "b"})]),
    }
    values
}

/// A small value of the schema, with its required fields alone.
fn sample(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap_or_default() {
        "string" => schema["enum"][0].as_str().map_or_else(|| json!("a"), |first| json!(first)),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(1)),
        "boolean" => json!(true),
        "array" => json!([sample(&schema["items"])]),
        _ => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect::<Map<_, _>>().into()
        }
    }
}

/// Sets the field; whatever stands in the way gives way.
pub fn set(spec: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *spec = value;
        return;
    };
    if !spec.is_object() {
        *spec = json!({});
    }
    set(&mut spec[first], rest, value);
}

/// Takes the field away.
pub fn remove(spec: &mut Value, path: &[String]) {
    let Some((last, above)) = path.split_last() else { return };
    let object = above.iter().try_fold(spec, |value, name| value.get_mut(name));
    if let Some(object) = object.and_then(Value::as_object_mut) {
        object.remove(last);
    }
}
