//! The BundleDeployments of the phases of a set, and the Secrets with what they install. I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::condition::{Conditions as _, HAS_VALID_BUNDLE, reason};
use rukpak_crds::names::{CLASS_PLAIN, CONTENT_OF, CONTENT_TYPE};
use rukpak_crds::olm::cluster_object_set::CollisionProtection;
use rukpak_crds::olm::{ClusterObjectSet, phase_deployment_name};
use rukpak_crds::{
    BundleDeployment, BundleDeploymentSpec, BundleSource, BundleSpec, BundleTemplate, ConfigMapSource, DeletionPolicy,
    Dependency, FilesKind, HealthCheck, LocalObjectReference, ObjectSelector, TakeOver,
};
use rukpak_plain::ObjectKey;
use rukpak_plan::manifests::SECRET_BYTES;
use rukpak_plan::owner::controller;
use rukpak_plan::retry::Class;
use rukpak_runtime::api::Error;
use serde_json::{Value, json};

use super::content::{self, Phase};
use super::report::{self, Report};
use super::{Context, Fault};
use crate::owned::{self, controlled_by};

/// The field manager of what is written here.
const FIELD_MANAGER: &str = "rukpak-clusterobjectset";
/// Digits of a digest in the names of Secrets.
const DIGITS: usize = 10;

/// The BundleDeployment of a phase, as it is to be.
pub(super) struct Wanted {
    /// Place of the phase in the spec of the set.
    pub index: usize,
    /// Name of the phase.
    pub name: String,
    /// Name of the BundleDeployment.
    pub deployment: String,
    spec: BundleDeploymentSpec,
}

/// The BundleDeployment that installs a phase with these checks, once that of the phase before is ready, and the Secrets with the
/// manifests.
pub(super) fn wanted(
    set: &ClusterObjectSet,
    phase: &Phase,
    (checks, before): (Vec<HealthCheck>, Option<String>),
    context: &Context,
) -> Result<(Wanted, Vec<Secret>), Fault> {
    let deployment = phase_deployment_name(&set.name_any(), &phase.name);
    let secrets = secrets(set, &deployment, phase, &context.system_namespace)?;
    let spec = desired(&secrets, (checks, taken_over(phase)), before);
    Ok((Wanted { index: phase.index, name: phase.name.clone(), deployment, spec }, secrets))
}

/// The BundleDeployment, if it is as it is to be and has unpacked what it installs, or still can.
pub(super) async fn standing(
    set: &ClusterObjectSet,
    wanted: &Wanted,
    context: &Context,
) -> Result<Option<Arc<BundleDeployment>>, Fault> {
    let live = find(set, &wanted.deployment, context).await?;
    let Some(live) = live.filter(|live| is_applied(&wanted.spec, &live.spec)) else { return Ok(None) };
    if has_content(&live) {
        return Ok(Some(live));
    }
    let api = contents(context);
    for source in wanted.spec.template.spec.source.config_maps.iter().flatten() {
        if !is_written(set, source.config_map.name.as_deref().unwrap_or_default(), &api).await? {
            return Ok(None);
        }
    }
    Ok(Some(live))
}

/// Has a phase installed. Writes nothing of what is so already.
pub(super) async fn keep(
    set: &ClusterObjectSet,
    wanted: &Wanted,
    secrets: &[Secret],
    context: &Context,
) -> Result<Arc<BundleDeployment>, Fault> {
    let Wanted { deployment: name, spec, .. } = wanted;
    let live = find(set, name, context).await?;
    let standing = live.as_ref().filter(|live| is_applied(spec, &live.spec));
    if let Some(live) = standing.filter(|live| has_content(live)) {
        return Ok(live.clone());
    }

    let api = contents(context);
    for secret in secrets {
        let name = secret.name_any();
        if is_written(set, &name, &api).await? {
            continue;
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&name, &params, &Patch::Apply(secret)).await.map_err(Error::from);
        written.map_err(|error| Fault::of(&format!("Secret {name}"), &error))?;
    }
    if let Some(live) = standing {
        return Ok(live.clone());
    }
    let fault = |error| Fault::of(&format!("BundleDeployment {name}"), &error);
    if live.is_none() {
        owned::check_owner(set, &context.client).await.map_err(fault)?;
    }
    let with = (&context.client, &*context.written);
    let written = owned::apply(body(set, name, spec), live.as_deref(), FIELD_MANAGER, with).await;
    let written = written.map_err(fault)?;
    tracing::info!(set = %set.name_any(), phase = wanted.name, "BundleDeployment of ClusterObjectSet applied");
    Ok(Arc::new(written))
}

/// Where the Secrets with the manifests are.
fn contents(context: &Context) -> Api<Secret> {
    Api::namespaced(context.client.clone(), &context.system_namespace)
}

/// Whether a Secret with manifests is there. Its name tells what it holds, and that it was applied here that it holds nothing else.
async fn is_written(set: &ClusterObjectSet, name: &str, api: &Api<Secret>) -> Result<bool, Fault> {
    let found = api.get_metadata_opt(name).await.map_err(Error::from);
    let found = found.map_err(|error| Fault::of(&format!("Secret {name}"), &error))?;
    Ok(found.is_some_and(|found| is_of(set, &found.metadata)))
}

fn is_of(set: &ClusterObjectSet, secret: &ObjectMeta) -> bool {
    let is_apply = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Apply")
    };
    secret.deletion_timestamp.is_none()
        && is_controlled(set, secret)
        && secret.managed_fields.iter().flatten().any(is_apply)
}

/// Deletes what is installed: all BundleDeployments at once, each of which waits until those that depend on it are gone.
pub(super) async fn archive(set: &ClusterObjectSet, context: &Context) -> Result<Report, Fault> {
    let all = context.deployments.state();
    let ours: Vec<&Arc<BundleDeployment>> = all.iter().filter(|deployment| is_ours(set, deployment)).collect();
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    for deployment in ours.iter().filter(|deployment| deployment.meta().deletion_timestamp.is_none()) {
        let (name, uid) = (deployment.name_any(), deployment.uid());
        let deleted = owned::delete(&api, &name, Preconditions { uid, resource_version: None }).await;
        deleted.map_err(|error| Fault::of(&format!("BundleDeployment {name}"), &error))?;
    }
    if !ours.is_empty() {
        return Ok(Report::Archiving);
    }
    // A set that is archived never comes back.
    if !report::is_archived(set) {
        // The watch tells of it soon.
        if is_one_unseen(set, context).await? {
            return Ok(Report::Archiving);
        }
        forget(set, context).await?;
    }
    Ok(Report::Archived)
}

/// Whether a phase has its BundleDeployment still. One that was made a moment ago is in the cluster before the watch shows it.
async fn is_one_unseen(set: &ClusterObjectSet, context: &Context) -> Result<bool, Fault> {
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    for phase in &set.spec.phases {
        let name = phase_deployment_name(&set.name_any(), &phase.name);
        let found = api.get_metadata_opt(&name).await.map_err(Error::from);
        let found = found.map_err(|error| Fault::of(&format!("BundleDeployment {name}"), &error))?;
        if found.is_some_and(|found| is_controlled(set, &found.metadata)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the Secrets with what the phases held: the last one first, so that those that are left are found again.
async fn forget(set: &ClusterObjectSet, context: &Context) -> Result<(), Fault> {
    let mut observed = set.status.as_ref().map(|status| status.observed_phases.clone()).unwrap_or_default();
    // A set that got stuck before all its phases had their BundleDeployments tells of none. What cannot be read has had none.
    if observed.is_empty() {
        let phases = content::resolve(set, context).await;
        observed = phases.and_then(|phases| content::observed(set, &phases)).unwrap_or_default();
    }

    let api = contents(context);
    for phase in &observed {
        let deployment = phase_deployment_name(&set.name_any(), &phase.name);
        let name = |number: usize| content_name(set, &deployment, &phase.digest, number);
        let mut count = 0;
        while is_written(set, &name(count), &api).await? {
            count += 1;
        }
        for number in (0..count).rev() {
            match api.delete(&name(number), &DeleteParams::default()).await.map_err(Error::from) {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(Fault::of(&format!("Secret {}", name(number)), &error)),
            }
        }
    }
    context.known.forget(&set.uid().unwrap_or_default());
    Ok(())
}

fn is_ours(set: &ClusterObjectSet, deployment: &BundleDeployment) -> bool {
    is_controlled(set, &deployment.metadata)
}

fn is_controlled(set: &ClusterObjectSet, metadata: &ObjectMeta) -> bool {
    controller(metadata).is_some_and(|owner| Some(&owner.uid) == set.meta().uid.as_ref())
}

/// Looks for a BundleDeployment; where the watch shows none, in the cluster.
async fn find(set: &ClusterObjectSet, name: &str, context: &Context) -> Result<Option<Arc<BundleDeployment>>, Fault> {
    let seen = owned::find(name, (&context.deployments, &*context.written), &context.client).await;
    match seen.map_err(|error| Fault::of(&format!("BundleDeployment {name}"), &error))? {
        Some(seen) if seen.meta().deletion_timestamp.is_some() => {
            let message = format!("waiting until the BundleDeployment {name} is deleted");
            Err(Fault::retried(message, Class::Transient))
        }
        Some(seen) if !is_ours(set, &seen) => {
            let message =
                format!("BundleDeployment {name} exists and was not made for this ClusterObjectSet; it is left alone");
            Err(Fault::retried(message, Class::Blocked))
        }
        seen => Ok(seen),
    }
}

/// Whether nothing is wrong with what it has unpacked.
fn has_content(deployment: &BundleDeployment) -> bool {
    let bundle = deployment.status.as_ref().and_then(|status| status.conditions.find(HAS_VALID_BUNDLE));
    bundle.is_some_and(|bundle| bundle.reason == reason::UNPACK_SUCCESSFUL)
}

/// The Secrets with the manifests of a phase. Their names tell the set and what it holds: they never change.
fn secrets(set: &ClusterObjectSet, deployment: &str, phase: &Phase, namespace: &str) -> Result<Vec<Secret>, Fault> {
    let mut parts: Vec<(usize, BTreeMap<String, ByteString>)> = Vec::new();
    for (index, object) in phase.objects.iter().enumerate() {
        let body = object.to_string().into_bytes();
        if body.len() > SECRET_BYTES {
            let what = content::key(object).map(|key| key.to_string()).unwrap_or_default();
            return Err(Fault::blocked(format!(
                "phase {:?}: {what} has {} bytes, which no Secret can hold: {SECRET_BYTES} at most",
                phase.name,
                body.len()
            )));
        }
        let key = format!("{index:02}.json");
        let size = body.len();
        match parts.last_mut() {
            Some((filled, data)) if *filled + size <= SECRET_BYTES => {
                *filled += size;
                data.insert(key, ByteString(body));
            }
            _ => parts.push((size, BTreeMap::from([(key, ByteString(body))]))),
        }
    }

    let digest = phase.digest.to_string();
    let secrets = parts.into_iter().enumerate().map(|(number, (_, data))| {
        let mut secret = Secret {
            data: Some(data),
            immutable: Some(true),
            type_: Some(CONTENT_TYPE.to_owned()),
            ..Secret::default()
        };
        secret.metadata.name = Some(content_name(set, deployment, &digest, number));
        secret.metadata.namespace = Some(namespace.to_owned());
        secret.metadata.annotations = Some(BTreeMap::from([(CONTENT_OF.to_owned(), deployment.to_owned())]));
        secret.metadata.owner_references = Some(controlled_by(set));
        secret
    });
    Ok(secrets.collect())
}

/// Name of a Secret with manifests of a phase whose content has this digest.
fn content_name(set: &ClusterObjectSet, deployment: &str, digest: &str, number: usize) -> String {
    let digest = Digest::sha256(format!("{} {digest}", set.uid().unwrap_or_default()).as_bytes());
    format!("{deployment}-{}-{number}", digest.hex().get(..DIGITS).unwrap_or_default())
}

/// Which objects of a phase are taken over where they exist already. A Namespace is used as it is, and does not go with the set.
fn taken_over(phase: &Phase) -> Vec<TakeOver> {
    let objects = phase.objects.iter().zip(&phase.protections);
    let rules = objects.filter(|(_, protection)| **protection != CollisionProtection::Prevent);
    let rules = rules.filter_map(|(object, protection)| {
        let ObjectKey { group, kind, namespace, name } = content::key(object)?;
        let is_namespace = group.is_empty() && kind == "Namespace";
        let objects = ObjectSelector { group, kind, namespace, name: Some(name) };
        (!is_namespace).then(|| TakeOver { objects, controlled: *protection == CollisionProtection::None })
    });
    rules.collect()
}

/// What the BundleDeployment says of what is decided here.
fn desired(
    secrets: &[Secret],
    (health_checks, take_over): (Vec<HealthCheck>, Vec<TakeOver>),
    before: Option<String>,
) -> BundleDeploymentSpec {
    let entry = |secret: &Secret| ConfigMapSource {
        config_map: LocalObjectReference { name: secret.metadata.name.clone() },
        path: Some(rukpak_plain::manifests::FOLDER.to_owned()),
        kind: Some(FilesKind::Secret),
    };
    let source = BundleSource {
        type_: "configMaps".to_owned(),
        config_maps: Some(secrets.iter().map(entry).collect()),
        ..BundleSource::default()
    };
    let spec = BundleSpec { provisioner_class_name: CLASS_PLAIN.to_owned(), source };
    BundleDeploymentSpec {
        provisioner_class_name: CLASS_PLAIN.to_owned(),
        template: BundleTemplate { metadata: None, spec },
        deletion_policy: Some(DeletionPolicy::InOrder),
        depends_on: before.into_iter().map(|name| Dependency { name }).collect(),
        health_checks,
        take_over,
        ..BundleDeploymentSpec::default()
    }
}

/// Whether a BundleDeployment says all of it; what others added does not count.
fn is_applied(wanted: &BundleDeploymentSpec, live: &BundleDeploymentSpec) -> bool {
    live.provisioner_class_name == wanted.provisioner_class_name
        && live.template == wanted.template
        && live.deletion_policy == wanted.deletion_policy
        && live.depends_on == wanted.depends_on
        && live.health_checks == wanted.health_checks
        && live.take_over == wanted.take_over
}

fn body(set: &ClusterObjectSet, name: &str, spec: &BundleDeploymentSpec) -> Value {
    json!({
        "apiVersion": BundleDeployment::api_version(&()),
        "kind": BundleDeployment::kind(&()),
        "metadata": {"name": name, "ownerReferences": controlled_by(set)},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "s", "uid": "u"},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
        }))
        .unwrap()
    }

    fn phase(objects: Vec<Value>) -> Phase {
        let protections = vec![CollisionProtection::Prevent; objects.len()];
        Phase { index: 0, name: "p".to_owned(), objects, protections, digest: Digest::sha256(b"x") }
    }

    fn object(name: &str, size: usize) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "x".repeat(size)}})
    }

    #[test]
    fn manifests_are_spread_over_secrets_for_one_deployment() {
        let objects = vec![object("a", 10), object("b", SECRET_BYTES - 500), object("c", 10)];
        let all = secrets(&set(), "s.p", &phase(objects), "ns").unwrap();
        let keys = |secret: &Secret| secret.data.clone().unwrap_or_default().into_keys().collect::<Vec<_>>();
        assert_eq!(all.iter().map(keys).collect::<Vec<_>>(), [vec!["00.json", "01.json", "02.json"]]);
        let objects = vec![object("a", 1_000), object("b", SECRET_BYTES - 500), object("c", 10)];
        let all = secrets(&set(), "s.p", &phase(objects), "ns").unwrap();
        assert_eq!(all.iter().map(keys).collect::<Vec<_>>(), [vec!["00.json"], vec!["01.json", "02.json"]]);
        assert!(all.iter().all(|secret| secret.annotations()[CONTENT_OF] == "s.p" && secret.immutable == Some(true)));
        assert_ne!(all[0].name_any(), all[1].name_any());
        let fault = secrets(&set(), "s.p", &phase(vec![object("a", SECRET_BYTES)]), "ns").unwrap_err();
        assert!(fault.message.starts_with("phase \"p\": ConfigMap \"a\" has "), "{}", fault.message);
    }

    #[test]
    fn what_exists_is_taken_over_as_far_as_the_set_says_and_no_namespace() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let mut phase = phase(vec![object("a", 1), object("b", 1), object("c", 1), namespace]);
        phase.protections = vec![
            CollisionProtection::Prevent,
            CollisionProtection::IfNoController,
            CollisionProtection::None,
            CollisionProtection::None,
        ];
        let expected =
            json!([{"kind": "ConfigMap", "name": "b"}, {"kind": "ConfigMap", "name": "c", "controlled": true}]);
        assert_eq!(json!(taken_over(&phase)), expected);
    }

    #[test]
    fn a_secret_is_taken_as_it_is_where_it_was_applied_for_the_very_set() {
        let of = |uid: &str, operation: &str, more: Value| {
            let mut metadata = json!({
                "name": "s.p-0123456789-0",
                "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": "s", "uid": uid,
                                     "controller": true}],
                "managedFields": [{"manager": FIELD_MANAGER, "operation": operation}],
            });
            if let (Some(metadata), Value::Object(more)) = (metadata.as_object_mut(), more) {
                metadata.extend(more);
            }
            is_of(&set(), &serde_json::from_value(metadata).unwrap())
        };
        assert!(of("u", "Apply", json!({})));
        assert!(!of("other", "Apply", json!({})), "an earlier set of that name");
        assert!(!of("u", "Update", json!({})), "nobody knows what is in it");
        assert!(!of("u", "Apply", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
    }

    #[test]
    fn what_is_written_is_recognised() {
        let all = secrets(&set(), "s.p", &phase(vec![object("a", 1)]), "ns").unwrap();
        let of = |before: Option<&str>| desired(&all, (Vec::new(), Vec::new()), before.map(str::to_owned));
        let written = body(&set(), "s.p", &of(Some("s.o")));
        let live: BundleDeployment = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(owned::owner::<ClusterObjectSet>(&live), Some("s"));
        assert!(is_ours(&set(), &live));
        assert!(is_applied(&of(Some("s.o")), &live.spec));
        assert!(!is_applied(&of(None), &live.spec));
        let mut suspended = live.spec;
        suspended.suspend = true;
        assert!(is_applied(&of(Some("s.o")), &suspended), "somebody else's");
        assert_eq!(written["spec"]["template"]["spec"]["source"]["configMaps"][0]["kind"], "Secret");
        assert_eq!(written["metadata"]["ownerReferences"][0]["controller"], true);
    }
}
