//! BundleDeployments that are there already, and not for uploads: whoever made them did not ask for ours.

use kube::ResourceExt as _;
use rukpak_crds::{BundleDeployment, BundleSource};
use rukpak_plan::owner::controller;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// The source of what `run` makes.
const UPLOAD: &str = "upload";
const TYPE: &str = "type";

/// Whether uploads are what a BundleDeployment is for, and its class is `asked`.
pub(super) fn check(existing: &BundleDeployment, asked: &str) -> Result<(), Failure> {
    let (name, source) = (existing.name_any(), &existing.spec.template.spec.source);
    let others = other_members(source);
    if source.type_ != UPLOAD || !others.is_empty() {
        let what = if source.type_ == UPLOAD {
            format!("source {} beside {UPLOAD}", others.join(", "))
        } else {
            format!("source {}", source.type_)
        };
        let way_out = way_out(existing, &others);
        return Err(Failure::no(format!(
            "bundledeployment {name:?} already exists with {what}, not {UPLOAD}: nothing was changed; {way_out}"
        )));
    }
    let class = &existing.spec.provisioner_class_name;
    if class != asked {
        return Err(Failure::no(format!(
            "bundledeployment {name:?} already exists with provisioner class {class:?}, not {asked:?}: nothing was changed; \
             choose another name, or --bundle-deployment-provisioner-class={class}"
        )));
    }
    Ok(())
}

/// The members that are not for uploads, as they are written.
fn other_members(source: &BundleSource) -> Vec<String> {
    let Ok(Value::Object(members)) = serde_json::to_value(source) else { return Vec::new() };
    members.into_iter().map(|(member, _)| member).filter(|member| ![TYPE, UPLOAD].contains(&member.as_str())).collect()
}

fn way_out(existing: &BundleDeployment, others: &[String]) -> String {
    let owner = controller(&existing.metadata);
    if let Some(owner) = owner {
        return format!("it belongs to {} {:?}: choose another name", owner.kind.to_lowercase(), owner.name);
    }
    let mut source: Map<String, Value> = others.iter().map(|member| (member.clone(), Value::Null)).collect();
    source.insert(TYPE.to_owned(), json!(UPLOAD));
    source.insert(UPLOAD.to_owned(), json!({}));
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    let name = existing.name_any();
    format!(
        "choose another name, or make it one for uploads: kubectl patch bundledeployment {name} --type=merge -p '{patch}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(source: &Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump"},
            "spec": {"provisionerClassName": "a", "template": {"spec": {"provisionerClassName": "a", "source": source}}},
        }))
        .unwrap()
    }

    #[test]
    fn only_uploads_of_the_class_are_replaced() {
        let image = json!({"ref": "h/r:v1"});
        let mine = existing(&json!({"type": "upload", "upload": {}}));
        assert!(check(&mine, "a").is_ok());
        let other = check(&mine, "b").unwrap_err().text;
        assert!(other.contains("class \"a\", not \"b\"") && other.contains("--bundle-deployment-provisioner-class=a"));
        let error = check(&existing(&json!({"type": "image", "image": image})), "a").unwrap_err().text;
        assert!(error.contains("\"pump\" already exists with source image, not upload"), "{error}");
        let patch = r#"'{"spec":{"template":{"spec":{"source":{"image":null,"type":"upload","upload":{}}}}}}'"#;
        assert!(error.ends_with(patch), "{error}");
        // What an earlier version made of it.
        let both = check(&existing(&json!({"type": "upload", "upload": {}, "image": image})), "a").unwrap_err().text;
        assert!(both.contains("with source image beside upload") && both.ends_with(patch), "{both}");
        let maps = existing(&json!({"type": "configMaps", "configMaps": []}));
        assert!(check(&maps, "a").unwrap_err().text.contains(r#"{"configMaps":null,"#));
    }

    #[test]
    fn what_belongs_to_somebody_is_left_to_them() {
        let mut packaged = existing(&json!({"type": "image", "image": {"ref": "h/r:v1"}}));
        let owner =
            json!({"apiVersion": "v1", "kind": "PlatformOperator", "name": "pumps", "uid": "1", "controller": true});
        packaged.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
        let error = check(&packaged, "a").unwrap_err().text;
        assert!(error.ends_with("it belongs to platformoperator \"pumps\": choose another name"), "{error}");
    }
}
