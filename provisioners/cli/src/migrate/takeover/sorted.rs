//! Which objects are taken over, which are OLM's own, and which stay as they are. Reads the cluster.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use rukpak_plan::kind::is_crd;
use rukpak_plan::owner::controller;
use rukpak_plan::owner_metadata::updating;
use rukpak_plan::resolve::{Basis, Live, Why, resolve};
use rukpak_plan::{Identity, Kind, Plan, Step};
use serde_json::Value;

use super::check::{Checked, package};
use super::marks::{is_condition, is_olms, owners};
use super::olm::{COPIED_FROM, Installed, Kinds, identity, identity_of};
use crate::cluster::Cluster;
use crate::failure::Failure;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Kinds of the cluster of which OLM makes objects under names of its own, which its labels name the owner of.
const LABELLED: [(&str, &str); 5] = [
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (RBAC, "RoleBinding"),
    (ADMISSION, "ValidatingWebhookConfiguration"),
    (ADMISSION, "MutatingWebhookConfiguration"),
];

/// Everything that the take-over is about.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// What the bundle has and the cluster has: it becomes the BundleDeployment's.
    pub taken: Vec<Taken>,
    /// What the bundle has and the cluster has not.
    pub made: Vec<Identity>,
    /// What OLM made for the operator under names of its own: something of the bundle takes its place.
    pub removed: Vec<(Identity, DynamicObject)>,
    /// What OLM makes of other objects, and would make again.
    pub swept: Vec<(Identity, String)>,
    /// UIDs of the ClusterServiceVersion, its copies and its OperatorCondition.
    pub owners: BTreeSet<String>,
    pub notes: Vec<String>,
}

/// An object that is taken over.
#[derive(Debug)]
pub(super) struct Taken {
    pub identity: Identity,
    pub live: DynamicObject,
}

pub(super) async fn sort(
    cluster: &Cluster,
    kinds: &Kinds,
    installed: &Installed,
    checked: &Checked<'_>,
    plan: &Plan,
) -> Result<Sorted, Failure> {
    let mut sorted = Sorted::default();
    sorted.owners.extend(checked.csv.uid());
    for step in plan.steps.values() {
        declared(cluster, step, &mut sorted).await?;
    }
    copies(cluster, kinds, installed, checked.csv, &mut sorted).await?;
    labelled(cluster, installed, checked.csv, &mut sorted).await?;
    owned(cluster, installed, checked, &mut sorted).await?;
    if let Some(kind) = kinds.operator.as_ref().filter(|_| !checked.stays) {
        let name = format!("{}.{}", package(&installed.subscription), installed.namespace);
        let identity = identity(kind, None, &name);
        let uid = cluster.live(&identity).await?.and_then(|found| found.uid());
        sorted.swept.extend(uid.map(|uid| (identity, uid)));
    }
    Ok(sorted)
}

/// An object of the bundle.
async fn declared(cluster: &Cluster, step: &Step, sorted: &mut Sorted) -> Result<(), Failure> {
    let Some(live) = cluster.live(&step.identity).await? else {
        sorted.made.push(step.identity.clone());
        return Ok(());
    };
    let refused = |why: String| Err(Failure::no(format!("{} cannot be taken over: {why}", step.identity)));
    match controller(&live.metadata) {
        Some(owner) if sorted.owners.contains(&owner.uid) => {}
        // It leaves it with the others.
        Some(owner) if is_condition(owner) => {
            sorted.owners.insert(owner.uid.clone());
        }
        Some(owner) => return refused(format!("it is controlled by {} {:?}", owner.kind, owner.name)),
        None => {}
    }
    if live.metadata.deletion_timestamp.is_some() {
        return refused("it is being deleted".to_owned());
    }
    if !is_crd(&step.key) && !is_olms(&live.metadata) {
        return refused("OLM did not make it".to_owned());
    }
    if step.key.kind == "Deployment" {
        restarts(cluster, step, &live, sorted).await?;
    }
    sorted.taken.push(Taken { identity: step.identity.clone(), live });
    Ok(())
}

/// Says where the Pods would be replaced, by a dry run of what the controller will write.
async fn restarts(cluster: &Cluster, step: &Step, live: &DynamicObject, sorted: &mut Sorted) -> Result<(), Failure> {
    let body = &step.body();
    let uid = live.uid().unwrap_or_default();
    let seen = Live { metadata: &live.metadata, body: &live.data };
    let sent = resolve(&step.key, body, Some(seen), &Basis::plain(Why::First, None)).body;
    let after = cluster.dry_run(&step.identity, &updating(sent, &uid, None)).await?;
    let mut differences = Vec::new();
    differ(&live.data["spec"]["template"], &after.data["spec"]["template"], "spec.template", &mut differences);
    if !differences.is_empty() {
        let list = differences.join(", ");
        sorted.notes.push(format!("the Pods of {} are replaced, for its template changes: {list}", step.identity));
    }
    let kept = kept_of_olm(live, body);
    if !kept.is_empty() {
        sorted.notes.push(format!(
            "{} keeps what OLM put into its Pods, until you remove it: {}",
            step.identity,
            kept.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(())
}

/// Variables of the containers that the bundle does not declare.
fn kept_of_olm(live: &DynamicObject, body: &Value) -> BTreeSet<String> {
    let variables = |object: &Value| -> BTreeSet<String> {
        let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let all = containers.into_iter().flatten().filter_map(|container| container["env"].as_array()).flatten();
        all.filter_map(|variable| variable["name"].as_str().map(str::to_owned)).collect()
    };
    variables(&live.data).difference(&variables(body)).map(|name| format!("variable {name}")).collect()
}

/// The paths at which two values differ; lists as a whole.
fn differ(before: &Value, after: &Value, path: &str, paths: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                differ(&before[key], &after[key], &format!("{path}.{key}"), paths);
            }
        }
        (one, other) if one == other => {}
        _ => paths.push(path.to_owned()),
    }
}

/// Copies of the ClusterServiceVersion in watched namespaces, and what OLM copied with them.
async fn copies(
    cluster: &Cluster,
    kinds: &Kinds,
    installed: &Installed,
    csv: &DynamicObject,
    sorted: &mut Sorted,
) -> Result<(), Failure> {
    let label = format!("{COPIED_FROM}={}", installed.namespace);
    let copies = cluster.metadata_of(&kinds.csv, None, &label).await?;
    for copy in copies.iter().filter(|copy| copy.name_any() == csv.name_any()) {
        let uid = copy.uid().unwrap_or_default();
        sorted.owners.insert(uid.clone());
        sorted.swept.push((identity(&kinds.csv, copy.metadata.namespace.as_deref(), &copy.name_any()), uid));
    }
    for name in ["Role", "RoleBinding"] {
        let kind = served(cluster, RBAC, name).await?;
        for object in cluster.all_of(&kind, None, &label).await? {
            let is_copy = owners(&object.metadata).any(|owner| sorted.owners.contains(&owner.uid));
            let identity = identity_of(&kind, &object);
            if is_copy && sorted.taken.iter().all(|taken| taken.identity.key() != identity.key()) {
                sorted.swept.push((identity, object.uid().unwrap_or_default()));
            }
        }
    }
    Ok(())
}

/// What has no owner reference: the labels name the ClusterServiceVersion.
async fn labelled(
    cluster: &Cluster,
    installed: &Installed,
    csv: &DynamicObject,
    sorted: &mut Sorted,
) -> Result<(), Failure> {
    let label = format!("olm.owner={},olm.owner.namespace={}", csv.name_any(), installed.namespace);
    for (version, name) in LABELLED {
        let kind = served(cluster, version, name).await?;
        for object in cluster.all_of(&kind, None, &label).await? {
            // Those in the namespace of the operator are owned by the ClusterServiceVersion.
            if object.metadata.namespace.as_ref() != Some(&installed.namespace) {
                remove(&kind, object, sorted);
            }
        }
    }
    Ok(())
}

/// What the ClusterServiceVersion owns in its namespace.
async fn owned(
    cluster: &Cluster,
    installed: &Installed,
    checked: &Checked<'_>,
    sorted: &mut Sorted,
) -> Result<(), Failure> {
    let (namespace, name) = (&installed.namespace, checked.csv.name_any());
    // A bundle has no rights in the namespace of its operator where that is not watched.
    let is_covered = checked.targets.iter().any(|target| target.is_empty() || target == namespace);
    let mut kept = Vec::new();
    for kind in cluster.namespaced_kinds().await? {
        for found in cluster.metadata_of(&kind, Some(namespace), "").await? {
            if !is_owned(&found, sorted) || is_known(&kind, &found, sorted) {
                continue;
            }
            let identity = identity(&kind, Some(namespace), &found.name_any());
            match kind.resource.kind.as_str() {
                "Deployment" => {
                    return Err(Failure::no(format!(
                        "{identity} belongs to the ClusterServiceVersion, and the bundle does not have it: is it the right image?"
                    )));
                }
                "Role" | "RoleBinding" if is_covered && identity.name != name => {
                    if let Some(object) = cluster.live(&identity).await? {
                        remove(&kind, object, sorted);
                    }
                }
                _ => kept.push(identity.to_string()),
            }
        }
    }
    if !kept.is_empty() {
        let whose = if checked.stays { "go with the ClusterServiceVersion" } else { "belong to nobody then" };
        sorted.notes.push(format!("these stay, and {whose}: {}", kept.join(", ")));
    }
    Ok(())
}

fn is_owned(object: &PartialObjectMeta<DynamicObject>, sorted: &Sorted) -> bool {
    owners(&object.metadata).any(|owner| sorted.owners.contains(&owner.uid))
}

/// Whether it has been sorted.
fn is_known(kind: &Kind, object: &PartialObjectMeta<DynamicObject>, sorted: &Sorted) -> bool {
    let key = identity(kind, object.metadata.namespace.as_deref(), &object.name_any()).key();
    let removed = sorted.removed.iter().map(|(identity, _)| identity);
    sorted.taken.iter().map(|taken| &taken.identity).chain(removed).any(|known| known.key() == key)
}

/// Notes that an object goes, unless it is one of the bundle.
fn remove(kind: &Kind, object: DynamicObject, sorted: &mut Sorted) {
    let identity = identity_of(kind, &object);
    if sorted.taken.iter().all(|taken| taken.identity.key() != identity.key()) {
        sorted.removed.push((identity, object));
    }
}

async fn served(cluster: &Cluster, version: &str, name: &str) -> Result<Kind, Failure> {
    let found = cluster.kind(version, name).await?;
    found.ok_or_else(|| Failure::unknown(format!("the cluster serves no {name} of {version}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_their_paths() {
        let mut paths = Vec::new();
        let before = json!({"a": {"b": 1, "c": [1, 2]}, "d": null});
        differ(&before, &json!({"a": {"b": 1, "c": [2, 1]}, "e": 3}), "t", &mut paths);
        assert_eq!(paths, ["t.a.c", "t.e"]);
    }
}
