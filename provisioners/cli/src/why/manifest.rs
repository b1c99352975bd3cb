//! Where the bundle that is installed declares an object.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::BundleDeployment;
use rukpak_plain::{Object, Origin};
use serde::Serialize;

use crate::args::WhyArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::release::Reader;
use crate::service::Service;

/// Where an object is declared.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Manifest {
    /// The file's path in the bundle, or what the object is made from.
    file: String,
    /// The document in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<usize>,
    /// The first line of that document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The path in a List, such as `items[3]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
}

impl Manifest {
    /// `manifests/a.yaml:9, items[3]`.
    pub(super) fn text(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let item = self.item.as_ref().map(|item| format!(", {item}")).unwrap_or_default();
        format!("{}{line}{item}", self.file)
    }
}

impl From<&Origin> for Manifest {
    fn from(origin: &Origin) -> Self {
        Self {
            file: origin.file.to_string(),
            document: origin.document.map(|(document, _)| document),
            line: origin.document.map(|(_, line)| line),
            item: origin.item.as_ref().map(ToString::to_string),
        }
    }
}

/// Reads the content of the installed Bundle; `None` if that does not declare the object.
pub(super) async fn find(
    cluster: &Cluster,
    arguments: &WhyArgs,
    deployment: &BundleDeployment,
    object: &DynamicObject,
) -> Result<Option<Manifest>, Failure> {
    let certificates = arguments.cert_provider;
    let reader = Reader { certificates, ..Reader::of(deployment, &arguments.service.system_namespace) };
    let service = Service::connect(cluster, &arguments.service).await?;
    let (content, format) = reader.installed(cluster, &service).await?;
    let rendered = reader.render(cluster, &content.tree, format, true).await?;
    let declared = rendered.objects.iter().find(|declared| is_same(declared, object, reader.system_namespace));
    Ok(declared.map(|declared| declared.origin().into()))
}

/// Whether it is the one: objects of a bundle that name no namespace go into RukPak's, if their kind is in any.
fn is_same(declared: &Object, object: &DynamicObject, default_namespace: &str) -> bool {
    let types = object.types.as_ref();
    let group = types.map(|types| types.api_version.split_once('/').map_or("", |(group, _)| group));
    let kind = types.map(|types| types.kind.as_str());
    let namespace = object.metadata.namespace.as_deref();
    let is_there = namespace.is_none_or(|found| declared.namespace().unwrap_or(default_namespace) == found);
    (Some(declared.group()), Some(declared.kind())) == (group, kind) && declared.name() == object.name_any() && is_there
}

#[cfg(test)]
mod tests {
    use rukpak_content::Limits;
    use rukpak_plain::{Budget, manifests};
    use serde_json::json;

    use super::*;

    fn declared(text: &str) -> Vec<Object> {
        let (limits, mut objects) = (Limits::default(), Vec::new());
        manifests::read_file("manifests/a.yaml", text.as_bytes(), &mut Budget::new(&limits), &mut objects).unwrap();
        objects
    }

    fn live(namespace: Option<&str>) -> DynamicObject {
        let metadata = json!({"name": "a", "namespace": namespace});
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap()
    }

    #[test]
    fn a_manifest_is_named_by_file_and_line() {
        let objects = declared(
            "# first\napiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b}\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n",
        );
        let texts: Vec<String> = objects.iter().map(|object| Manifest::from(object.origin()).text()).collect();
        assert_eq!(texts, ["manifests/a.yaml:2", "manifests/a.yaml:6, items[0]"]);
        assert!(is_same(&objects[0], &live(Some("b")), "rukpak-system"));
        assert!(!is_same(&objects[0], &live(Some("c")), "rukpak-system"));
        assert!(is_same(&objects[1], &live(Some("rukpak-system")), "rukpak-system"), "it names no namespace");
        let made = Manifest::from(&Origin::made_from("the CSV"));
        assert_eq!(made.text(), "the CSV");
    }
}
