//! The containers of Pods, wherever an object has the template of one.

use serde_json::Value;

/// The lists of containers of a Pod.
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Returns the containers of all Pods that an object makes, whatever its kind: what stands in a list of containers.
pub fn containers(object: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    collect(object, &mut found);
    found
}

fn collect<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if LISTS.contains(&key.as_str()) {
                    found.extend(value.as_array().into_iter().flatten());
                }
                collect(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}
