//! What the release declares and the BundleDeployment does not have, as its record tells: a ControllerRevision in the system namespace.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use rukpak_crds::condition::{Conditions as _, INSTALLED};
use rukpak_crds::names::OBJECT_STATES;
use rukpak_crds::{BundleDeployment, ConditionStatus};
use rukpak_plan::health::State;
use rukpak_plan::record::{self, DeclaredObject, Standing};

use super::ObjectNode;
use crate::cluster::Cluster;

/// Where the manifests install the controller.
const SYSTEM_NAMESPACE: &str = "rukpak-system";
const ABSENT: &str = "the bundle declares it, and this BundleDeployment has no such object";
const PAUSED: &str =
    "the bundle declares it, and it is left as it is on request: this BundleDeployment has no such object";
const ENDED: &str = "the bundle declares it, and it has run to its end and was removed: it is not run again";
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
    let is_installed =
        deployment.status.as_ref().is_some_and(|status| status.conditions.is(INSTALLED, ConditionStatus::True));
    for node in lacking(&declared, &standing.unwrap_or_default(), present, is_installed) {
        // A Namespace of somebody else is used as it is.
        let may_be_used = node.group.is_empty() && node.kind == "Namespace";
        if !may_be_used || matches!(cluster.has_namespace(&node.name).await, Ok(false)) {
            nodes.push(node);
        }
    }
    nodes
}

fn lacking(
    declared: &[DeclaredObject],
    standing: &Standing,
    present: &[ObjectNode],
    is_installed: bool,
) -> Vec<ObjectNode> {
    let present: BTreeSet<_> =
        present.iter().map(|node| (&node.group, &node.kind, node.namespace.as_ref(), &node.name)).collect();
    let is_present = |object: &DeclaredObject| {
        present.contains(&(&object.group, &object.kind, object.namespace.as_ref(), &object.name))
    };
    let lacking = declared.iter().filter(|object| !is_present(object));
    lacking.map(|object| node(object, standing, is_installed)).collect()
}

fn node(object: &DeclaredObject, standing: &Standing, is_installed: bool) -> ObjectNode {
    let is_same = |other: &DeclaredObject| DeclaredObject { optional: object.optional, ..other.clone() } == *object;
    let (is_unserved, is_paused) = (standing.missing.contains(object), standing.paused.iter().any(is_same));
    // While the release is installed, the controller makes a Job anew that went before its end.
    let has_ended = is_installed && (object.group.as_str(), object.kind.as_str()) == ("batch", "Job");
    let (state, message) = match () {
        () if is_unserved => (State::NotFound, UNSERVED),
        () if is_paused => (State::NotFound, PAUSED),
        () if has_ended => (State::Current, ENDED),
        () => (State::NotFound, ABSENT),
    };
    let DeclaredObject { group, kind, namespace, name, optional } = object.clone();
    ObjectNode {
        group,
        kind,
        namespace,
        name,
        health: state.to_string(),
        message: message.to_owned(),
        // The installation is whole without it.
        is_optional: optional && is_unserved || is_paused,
        state,
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
        let present = [node(&there, &standing, true)];
        let job = DeclaredObject { group: "batch".to_owned(), ..object("Job", false) };
        let declared = [there, unserved, gone, left, job];
        let absent = lacking(&declared, &standing, &present, true);
        let told: Vec<(&str, &str, bool)> =
            absent.iter().map(|node| (node.kind.as_str(), node.message.as_str(), node.is_optional)).collect();
        let others = [("Monitor", UNSERVED, true), ("Secret", ABSENT, false), ("Service", PAUSED, true)];
        assert_eq!(told, [&others[..], &[("Job", ENDED, false)]].concat());
        assert_eq!(absent[3].state, State::Current);
        let jobs = |is_installed| lacking(&declared[4..], &standing, &present, is_installed);
        assert_eq!(jobs(false)[0].message, ABSENT, "a Job that never ran has not ended");
    }
}
