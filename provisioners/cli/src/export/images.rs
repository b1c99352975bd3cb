//! Which images a bundle names. Pure.

use std::collections::BTreeSet;

use rukpak_content::{BundleTree, Limits};
use rukpak_plain::{Budget, Object, containers, manifests};
use serde_json::Value;

/// The images of all Pods that the objects make.
pub(super) fn named_by(objects: &[Object]) -> BTreeSet<String> {
    let mut images = BTreeSet::new();
    for object in objects {
        let value = object.as_value();
        images.extend(containers(&value).into_iter().filter_map(|item| Some(item.get("image")?.as_str()?.to_owned())));
    }
    images
}

/// The images that a ClusterServiceVersion says its operator needs: `spec.relatedImages`. None, if the bundle has no such object.
pub(super) fn related(tree: &BundleTree) -> BTreeSet<String> {
    // What cannot be read was refused before.
    let objects = manifests::read(tree, &mut Budget::new(&Limits::default())).unwrap_or_default();
    let of = |object: &Object| {
        let related = object.field(&["spec", "relatedImages"]).and_then(Value::as_array).cloned();
        related
            .into_iter()
            .flatten()
            .filter_map(|image| Some(image.get("image")?.as_str()?.to_owned()))
            .collect::<Vec<_>>()
    };
    objects.iter().filter(|object| object.kind() == "ClusterServiceVersion").flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_found_in_pods_of_any_kind() {
        let pod = |image: &str| json!({"containers": [{"name": "a", "image": image}, {"name": "b"}], "initContainers": [{"image": "init"}]});
        let objects = [
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": pod("one")}}}),
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "b"},
                   "spec": {"jobTemplate": {"spec": {"template": {"spec": pod("two")}}}}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"image": "none"}}),
        ];
        let objects = objects.map(|value| Object::new(value, Origin::made_from("a test")).unwrap());
        assert_eq!(named_by(&objects).into_iter().collect::<Vec<_>>(), ["init", "one", "two"]);
    }
}
