//! The BundleDeployments of the phases of a set, and the Secrets with what they install. I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::reflector::ObjectRef;
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
use rukpak_plan::owner::controller;
use rukpak_plan::retry::Class;
use rukpak_runtime::api::Error;
use serde_json::{Value, json};

use super::content::{self, Phase};
use super::report::Report;
use super::{Context, Fault};

/// The field manager of what is written here.
const FIELD_MANAGER: &str = "rukpak-clusterobjectset";
/// So much of manifests goes into one Secret, which may hold a mebibyte.
const SECRET_BYTES: usize = 900 * 1024;
/// Digits of a digest in the names of Secrets.
const DIGITS: usize = 10;

/// The set that a BundleDeployment was made for.
pub(super) fn owner(deployment: &BundleDeployment) -> Option<&str> {
    let kind = ClusterObjectSet::kind(&());
    let owner = controller(&deployment.metadata).filter(|owner| owner.kind == kind);
    owner.map(|owner| owner.name.as_str())
}

/// Has a phase installed with these checks, once the BundleDeployment of the phase before is ready. Writes nothing if it is so already.
pub(super) async fn keep(
    set: &ClusterObjectSet,
    phase: &Phase,
    (checks, before): (Vec<HealthCheck>, Option<String>),
    context: &Context,
) -> Result<Arc<BundleDeployment>, Fault> {
    let name = phase_deployment_name(&set.name_any(), &phase.name);
    let secrets = secrets(set, &name, phase, &context.system_namespace)?;
    let spec = desired(&secrets, (checks, taken_over(phase)), before);
    let live = find(set, &name, context).await?;
    if let Some(live) = live.as_ref().filter(|live| is_applied(&spec, &live.spec) && has_content(live)) {
        return Ok(live.clone());
    }

    for secret in &secrets {
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.system_namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&secret.name_any(), &params, &Patch::Apply(secret)).await.map_err(Error::from);
        written.map_err(|error| Fault::of(&format!("Secret {}", secret.name_any()), &error))?;
    }
    if let Some(live) = live.as_ref().filter(|live| is_applied(&spec, &live.spec)) {
        return Ok(live.clone());
    }
    let body = body(set, &name, &spec, live.as_deref());
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let written = api.patch(&name, &params, &Patch::Apply(body)).await.map_err(Error::from);
    let written = written.map_err(|error| Fault::of(&format!("BundleDeployment {name}"), &error))?;
    context.written.record(&written);
    tracing::info!(set = %set.name_any(), phase = phase.name, "BundleDeployment of ClusterObjectSet applied");
    Ok(Arc::new(written))
}

/// Deletes what is installed: all BundleDeployments at once, each of which waits until those that depend on it are gone.
pub(super) async fn archive(set: &ClusterObjectSet, context: &Context) -> Result<Report, Fault> {
    let all = context.deployments.state();
    let ours: Vec<&Arc<BundleDeployment>> = all.iter().filter(|deployment| is_ours(set, deployment)).collect();
    let api: Api<BundleDeployment> = Api::all(context.client.clone());
    for deployment in ours.iter().filter(|deployment| deployment.meta().deletion_timestamp.is_none()) {
        let preconditions = Some(Preconditions { uid: deployment.uid(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        match api.delete(&deployment.name_any(), &params).await.map_err(Error::from) {
            Ok(_) => {}
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(Fault::of(&format!("BundleDeployment {}", deployment.name_any()), &error)),
        }
    }
    Ok(if ours.is_empty() { Report::Archived } else { Report::Archiving })
}

fn is_ours(set: &ClusterObjectSet, deployment: &BundleDeployment) -> bool {
    let owner = controller(&deployment.metadata);
    owner.is_some_and(|owner| Some(&owner.uid) == set.meta().uid.as_ref())
}

/// Looks for a BundleDeployment; where the watch shows none, in the cluster.
async fn find(set: &ClusterObjectSet, name: &str, context: &Context) -> Result<Option<Arc<BundleDeployment>>, Fault> {
    let seen = match context.deployments.get(&ObjectRef::new(name)) {
        Some(seen) if !context.written.is_stale(&*seen) => Some(seen),
        _ => {
            let api: Api<BundleDeployment> = Api::all(context.client.clone());
            let read = api.get_opt(name).await.map_err(Error::from);
            read.map_err(|error| Fault::of(&format!("BundleDeployment {name}"), &error))?.map(Arc::new)
        }
    };
    match seen {
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

/// The set as the controller of an object, which goes first where the set is deleted in the foreground.
fn controlled_by(set: &ClusterObjectSet) -> Option<OwnerReference> {
    let reference = set.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..reference })
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

    let digest = Digest::sha256(format!("{} {}", set.uid().unwrap_or_default(), phase.digest).as_bytes());
    let digits = digest.hex().get(..DIGITS).unwrap_or_default();
    let secrets = parts.into_iter().enumerate().map(|(number, (_, data))| {
        let mut secret = Secret {
            data: Some(data),
            immutable: Some(true),
            type_: Some(CONTENT_TYPE.to_owned()),
            ..Secret::default()
        };
        secret.metadata.name = Some(format!("{deployment}-{digits}-{number}"));
        secret.metadata.namespace = Some(namespace.to_owned());
        secret.metadata.annotations = Some(BTreeMap::from([(CONTENT_OF.to_owned(), deployment.to_owned())]));
        secret.metadata.owner_references = Some(controlled_by(set).into_iter().collect());
        secret
    });
    Ok(secrets.collect())
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

fn body(set: &ClusterObjectSet, name: &str, spec: &BundleDeploymentSpec, live: Option<&BundleDeployment>) -> Value {
    let mut body = json!({
        "apiVersion": BundleDeployment::api_version(&()),
        "kind": BundleDeployment::kind(&()),
        "metadata": {"name": name, "ownerReferences": [controlled_by(set)]},
        "spec": spec,
    });
    match live {
        // Not another one of that name.
        Some(live) => body["metadata"]["uid"] = json!(live.uid()),
        // Creates, or conflicts with one that the watch has not shown yet.
        None => body["metadata"]["resourceVersion"] = json!("1"),
    }
    body
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
    fn what_is_written_is_recognised() {
        let all = secrets(&set(), "s.p", &phase(vec![object("a", 1)]), "ns").unwrap();
        let of = |before: Option<&str>| desired(&all, (Vec::new(), Vec::new()), before.map(str::to_owned));
        let written = body(&set(), "s.p", &of(Some("s.o")), None);
        let live: BundleDeployment = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(owner(&live), Some("s"));
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
