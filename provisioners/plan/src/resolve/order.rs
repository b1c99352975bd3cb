//! The order of volumes, which means nothing, and of which a change replaces all Pods: an apply puts its own order in the place of the
//! one that whoever made the object before has chosen.

use serde_json::Value;

const POD: &str = "/spec/template/spec";
/// Lists of containers in a Pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Whether there is an order that could be kept.
pub(super) fn has_order(body: &Value) -> bool {
    body.pointer(POD).is_some_and(|pod| is_list(&pod["volumes"]) || mounts(pod).any(is_list))
}

/// Brings volumes and their mounts into the order that they have in the cluster.
pub(super) fn keep_order(body: &mut Value, live: &Value) {
    let (Some(pod), Some(there)) = (body.pointer_mut(POD), live.pointer(POD)) else { return };
    sort_as(pod.get_mut("volumes"), &there["volumes"], "name");
    for list in CONTAINERS {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut all = there[list].as_array().into_iter().flatten();
            let Some(same) = all.find(|other| other["name"] == container["name"]) else { continue };
            sort_as(container.get_mut("volumeMounts"), &same["volumeMounts"], "mountPath");
        }
    }
}

fn mounts(pod: &Value) -> impl Iterator<Item = &Value> {
    let containers = CONTAINERS.into_iter().filter_map(|list| pod[list].as_array()).flatten();
    containers.map(|container| &container["volumeMounts"])
}

fn is_list(list: &Value) -> bool {
    list.as_array().is_some_and(|items| items.len() > 1)
}

/// What is in the cluster comes first, as it stands there.
fn sort_as(declared: Option<&mut Value>, live: &Value, key: &str) {
    let (Some(declared), Some(live)) = (declared.and_then(Value::as_array_mut), live.as_array()) else { return };
    declared.sort_by_key(|item| live.iter().position(|other| other[key] == item[key]).unwrap_or(live.len()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(volumes: &[&str], mounts: &[&str]) -> Value {
        let volumes: Vec<Value> = volumes.iter().map(|name| json!({ "name": name })).collect();
        let mounts: Vec<Value> = mounts.iter().map(|path| json!({ "mountPath": path })).collect();
        let containers = json!([{"name": "c", "volumeMounts": mounts}]);
        json!({"spec": {"template": {"spec": {"volumes": volumes, "containers": containers}}}})
    }

    #[test]
    fn volumes_and_mounts_stand_as_in_the_cluster_and_new_ones_behind() {
        let mut body = object(&["new", "a", "b"], &["/a", "/b"]);
        keep_order(&mut body, &object(&["b", "other", "a"], &["/b", "/a"]));
        assert_eq!(body, object(&["b", "a", "new"], &["/b", "/a"]));
        let same = body.clone();
        keep_order(&mut body, &json!({"spec": {}}));
        assert_eq!(body, same, "nothing is known of another order");
    }

    #[test]
    fn one_volume_has_no_order() {
        assert!(!has_order(&object(&["a"], &["/a"])));
        assert!(has_order(&object(&["a", "b"], &[])) && has_order(&object(&[], &["/a", "/b"])));
        assert!(!has_order(&json!({"data": {"a": "b"}})));
    }
}
