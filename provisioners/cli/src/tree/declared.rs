//! What the release declares and the BundleDeployment does not have, as its record tells: a ControllerRevision in the system namespace.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use rukpak_crds::BundleDeployment;
use rukpak_crds::names::OBJECT_STATES;
use rukpak_plan::health::State;
use rukpak_plan::record::{self, DeclaredObject, Standing};

use super::ObjectNode;
use crate::cluster::Cluster;

/// Where the manifests install the controller.
const SYSTEM_NAMESPACE: &str = "rukpak-system";
const ABSENT: &str = "the bundle declares it, and this BundleDeployment has no such object";
const PAUSED: &str =
    "the bundle declares it, and it is left as it is on request: this BundleDeployment has no such object";
const UNSERVED: &str = "the bundle declares it, and its kind is not served";

/// Returns the objects that are declared and not `present`. There are none where there is no record: of what an earlier version has
/// installed, or if it may not be read.
pub(super) async fn absent(
    cluster: &Cluster,
    deployment: &BundleDeployment,
    present: &[ObjectNode],
) -> Vec<ObjectNode> {
    let name = deployment.status.as_ref().and_then(|status| record::current(&deployment.name_any(), status));
    let Some(name) = name else { return Vec::new() };
    let Ok(Some(found)) = cluster.record(SYSTEM_NAMESPACE, &name).await else { return Vec::new() };
    let owners = found.metadata.owner_references.iter().flatten();
    if !owners.map(|owner| Some(&owner.uid)).any(|uid| uid == deployment.metadata.uid.as_ref()) {
        return Vec::new();
    }
    let standing: Option<Standing> =
        found.annotations().get(OBJECT_STATES).and_then(|text| serde_json::from_str(text).ok());
    let declared = record::read(&found.data.0).unwrap_or_default();
    let mut nodes = Vec::new();
    for node in lacking(&declared, &standing.unwrap_or_default(), present) {
        // A Namespace of somebody else is used as it is.
        let may_be_used = node.group.is_empty() && node.kind == "Namespace";
        if !may_be_used || matches!(cluster.has_namespace(&node.name).await, Ok(false)) {
            nodes.push(node);
        }
    }
    nodes
}

fn lacking(declared: &[DeclaredObject], standing: &Standing, present: &[ObjectNode]) -> Vec<ObjectNode> {
    let present: BTreeSet<_> =
        present.iter().map(|node| (&node.group, &node.kind, node.namespace.as_ref(), &node.name)).collect();
    let is_present = |object: &DeclaredObject| {
        present.contains(&(&object.group, &object.kind, object.namespace.as_ref(), &object.name))
    };
    let lacking = declared.iter().filter(|object| !is_present(object));
    lacking.map(|object| node(object, standing)).collect()
}

fn node(object: &DeclaredObject, standing: &Standing) -> ObjectNode {
    let is_same = |other: &DeclaredObject| DeclaredObject { optional: object.optional, ..other.clone() } == *object;
    let (is_unserved, is_paused) = (standing.missing.contains(object), standing.paused.iter().any(is_same));
    let DeclaredObject { group, kind, namespace, name, optional } = object.clone();
    ObjectNode {
        group,
        kind,
        namespace,
        name,
        health: State::NotFound.to_string(),
        message: (if is_unserved {
            UNSERVED
        } else if is_paused {
            PAUSED
        } else {
            ABSENT
        })
        .to_owned(),
        // The installation is whole without it.
        is_optional: optional && is_unserved || is_paused,
        state: State::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, optional: bool) -> DeclaredObject {
        let group = String::new();
        DeclaredObject { group, kind: kind.to_owned(), namespace: Some("n".to_owned()), name: "a".to_owned(), optional }
    }

    #[test]
    fn tells_declared_objects_that_are_absent_and_why() {
        let (there, unserved, gone) = (object("ConfigMap", false), object("Monitor", true), object("Secret", false));
        let left = object("Service", true);
        let paused = vec![object("Service", false)];
        let standing = Standing { missing: vec![unserved.clone()], paused, ..Standing::default() };
        let present = [node(&there, &standing)];
        let absent = lacking(&[there, unserved, gone, left], &standing, &present);
        let told: Vec<(&str, &str, bool)> =
            absent.iter().map(|node| (node.kind.as_str(), node.message.as_str(), node.is_optional)).collect();
        assert_eq!(told, [("Monitor", UNSERVED, true), ("Secret", ABSENT, false), ("Service", PAUSED, true)]);
    }
}
