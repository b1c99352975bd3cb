//! The merge patch that makes a BundleDeployment install something else.

use rukpak_crds::names::{ROLLBACK_TO, VALUES};
use rukpak_crds::{BundleDeployment, BundleSource};
use serde_json::{Map, Value, json};

use super::Asked;
use crate::upload;

/// Replaces source, class and labels of the template, and ends a rollback, which would go before the template. Only what was
/// read is changed: the patch has its resource version. What was not asked for, such as the pull secret of an image, stays.
pub(super) fn of(existing: &BundleDeployment, asked: &Asked) -> Value {
    let name = existing.metadata.name.as_deref().unwrap_or_default();
    let old = &existing.spec.template;
    let mut template = Map::new();
    let source = kept(&old.spec.source, asked.source.clone());
    let mut spec = json!({"source": difference(&value(&old.spec.source), &value(&source))});
    if let Some(class) = &asked.class {
        spec["provisionerClassName"] = json!(class);
    }
    template.insert("spec".to_owned(), spec);
    let labels = old.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    if let Some(packed) = &asked.packed {
        template.insert("metadata".to_owned(), json!({"labels": upload::labels(name, packed)}));
    } else if labels.is_some_and(|labels| labels.contains_key(upload::DIGEST_LABEL)) {
        template.insert("metadata".to_owned(), json!({"labels": {upload::DIGEST_LABEL: null}}));
    }
    let mut metadata = json!({"resourceVersion": existing.metadata.resource_version});
    if existing.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(ROLLBACK_TO)) {
        metadata["annotations"] = json!({ROLLBACK_TO: null});
    }
    let mut spec = json!({"rollbackTo": null, "template": template});
    if let Some(values) = &asked.values {
        spec["config"] = json!({VALUES: values});
    }
    json!({"metadata": metadata, "spec": spec})
}

/// The login and the folder of a source of the same type, where none is given.
pub(crate) fn kept(old: &BundleSource, mut new: BundleSource) -> BundleSource {
    if let (Some(old), Some(new)) = (&old.image, &mut new.image) {
        new.pull_secret = new.pull_secret.take().or_else(|| old.pull_secret.clone());
    }
    if let (Some(old), Some(new)) = (&old.git, &mut new.git) {
        new.auth = new.auth.take().or_else(|| old.auth.clone());
        new.directory = new.directory.take().or_else(|| old.directory.clone());
    }
    if let (Some(old), Some(new)) = (&old.http, &mut new.http) {
        new.auth = new.auth.take().or_else(|| old.auth.clone());
    }
    new
}

fn value(source: &BundleSource) -> Value {
    serde_json::to_value(source).unwrap_or_default()
}

/// The merge patch that makes `old` to `new`: what `new` does not have is null.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let there = new
        .iter()
        .map(|(key, value)| (key.clone(), old.get(key).map_or_else(|| value.clone(), |old| difference(old, value))));
    Value::Object(gone.chain(there).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(source: &Value, labels: &Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": "pump", "resourceVersion": "7", "annotations": {ROLLBACK_TO: "1"}},
            "spec": {"provisionerClassName": "p", "template": {"metadata": {"labels": labels}, "spec": {"provisionerClassName": "p", "source": source}}},
        }))
        .unwrap()
    }

    fn asked(source: &Value) -> Asked {
        Asked { source: serde_json::from_value(source.clone()).unwrap(), class: None, packed: None, values: None }
    }

    #[test]
    fn another_source_replaces_the_old_one_as_a_whole() {
        let upload = existing(&json!({"type": "upload", "upload": {}}), &json!({"app": "pump", "bundleDigest": "00"}));
        let image = json!({"type": "image", "image": {"ref": "a:v2"}});
        let wanted = json!({
            "metadata": {"resourceVersion": "7", "annotations": {ROLLBACK_TO: null}},
            "spec": {"rollbackTo": null, "template": {
                "metadata": {"labels": {"bundleDigest": null}},
                "spec": {"source": {"type": "image", "image": {"ref": "a:v2"}, "upload": null}}}},
        });
        assert_eq!(of(&upload, &asked(&image)), wanted);
    }

    #[test]
    fn what_was_not_asked_for_stays() {
        let secret = json!({"secret": {"name": "s"}});
        let git = json!({"type": "git", "git": {"repository": "r", "ref": {"branch": "main"}, "directory": "d", "auth": secret}});
        let tag = json!({"type": "git", "git": {"repository": "r", "ref": {"tag": "v2"}}});
        let source = of(&existing(&git, &json!({})), &asked(&tag))["spec"]["template"]["spec"]["source"].clone();
        let git = json!({"repository": "r", "ref": {"branch": null, "tag": "v2"}, "directory": "d", "auth": secret});
        assert_eq!(source, json!({"type": "git", "git": git}));
        let image = existing(&json!({"type": "image", "image": {"ref": "a", "pullSecret": "s"}}), &json!({}));
        let other = of(&image, &asked(&json!({"type": "image", "image": {"ref": "b"}})));
        assert_eq!(other["spec"]["template"]["spec"]["source"]["image"], json!({"ref": "b", "pullSecret": "s"}));
        assert!(other["spec"]["template"].get("metadata").is_none(), "{other}");
    }
}
