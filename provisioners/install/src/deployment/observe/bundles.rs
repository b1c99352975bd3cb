//! The Bundles of a deployment: which are its own, and how far the one of its template is.

use std::sync::Arc;

use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{ConditionStatus, Conditions, READY, STALLED, UNPACKED, reason};
use rukpak_crds::template_hash::{generated_bundle_name, template_hash};
use rukpak_crds::{Bundle, BundleDeployment, BundleDeploymentStatus, BundlePhase, BundleSpec, BundleStatus, names};
use rukpak_format as format;
use rukpak_plan::observed::Desired;
use rukpak_plan::retry::Class;
use rukpak_plan::{Format, Owner, Release};
use serde_json::Value;

use crate::context::{Context, Reads};

/// How far the Bundle of the template is.
pub(crate) fn desired(context: &Context, owner: &Owner, deployment: &BundleDeployment) -> Desired {
    let bundles = owned(&context.reads, owner, deployment);
    // Upstream counts before it matches, so that a deployment that runs wild stops whatever its template says.
    if bundles.len() > names::GENERATED_BUNDLES_MAX {
        let names: Vec<String> = bundles.iter().map(|bundle| bundle.name_any()).collect();
        let message = format!(
            "reached the maximum generated Bundle limit: delete those of earlier templates among {}, and look which \
             finalizers keep them",
            names.join(", ")
        );
        return Desired::Unknown { message, class: Class::Terminal };
    }
    let hash = template_hash(&deployment.spec.template);
    let name = generated_bundle_name(&owner.name, &hash);
    match bundles.iter().find(|bundle| bundle.name_any() == name) {
        Some(bundle) => found(context, deployment, bundle, &hash),
        None => Desired::Absent { bundle: name, hash },
    }
}

/// The Bundles that are generated for this deployment, the oldest first.
pub(crate) fn owned(reads: &Reads, owner: &Owner, deployment: &BundleDeployment) -> Vec<Arc<Bundle>> {
    let claims = claims(reads, owner);
    let mut bundles: Vec<_> = claims.into_iter().filter(|bundle| is_generated(bundle, owner, deployment)).collect();
    bundles.sort_by_key(|bundle| bundle.meta().creation_timestamp.clone());
    bundles
}

/// Bundles that carry the owner reference of this deployment and are not what the controller would have made.
pub(crate) fn foreign(reads: &Reads, owner: &Owner, deployment: &BundleDeployment) -> Vec<String> {
    let claims = claims(reads, owner).into_iter();
    claims.filter(|bundle| !is_generated(bundle, owner, deployment)).map(|bundle| bundle.name_any()).collect()
}

/// All that carry its owner reference: anybody who may write Bundles can write that.
fn claims(reads: &Reads, owner: &Owner) -> Vec<Arc<Bundle>> {
    let claims = |bundle: &Bundle| {
        let mut references = bundle.owner_references().iter();
        references.any(|reference| reference.uid == owner.uid && BundleDeployment::is_controller(reference))
    };
    let named = reads.index.bundles_of(&owner.uid);
    let bundles = named.iter().filter_map(|name| reads.bundles.get(&ObjectRef::new(name)));
    bundles.filter(|bundle| claims(bundle)).collect()
}

/// Whether a Bundle is what the controller makes: the name goes with the hash, and the spec with the template where the hash is
/// that of the template. A Bundle of an earlier template is never installed; it is only counted, and deleted.
pub(crate) fn is_generated(bundle: &Bundle, owner: &Owner, deployment: &BundleDeployment) -> bool {
    let Some(hash) = bundle.meta().labels.as_ref().and_then(|labels| labels.get(names::TEMPLATE_HASH)) else {
        return false;
    };
    let (is, wanted) = (&bundle.spec, &deployment.spec.template.spec);
    bundle.name_any() == generated_bundle_name(&owner.name, hash)
        && (is == wanted || *hash != template_hash(&deployment.spec.template) || normalised(is) == normalised(wanted))
}

/// The spec without what is empty: as good as absent.
fn normalised(spec: &BundleSpec) -> Value {
    fn strip(value: Value) -> Option<Value> {
        let stripped = match value {
            Value::Object(map) => {
                Value::Object(map.into_iter().filter_map(|(key, value)| Some((key, strip(value)?))).collect())
            }
            Value::Array(items) => Value::Array(items.into_iter().filter_map(strip).collect()),
            other => other,
        };
        let is_empty = match &stripped {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        (!is_empty).then_some(stripped)
    }
    serde_json::to_value(spec).ok().and_then(strip).unwrap_or_default()
}

/// How far `bundle` is, the one of the template with that hash.
fn found(context: &Context, deployment: &BundleDeployment, bundle: &Bundle, hash: &str) -> Desired {
    let name = bundle.name_any();
    if bundle.meta().deletion_timestamp.is_some() {
        return Desired::Waiting { bundle: name, why: None, is_stalled: false };
    }
    let status = bundle.status.clone().unwrap_or_default();
    let config = deployment.spec.config.as_ref();
    if bundle.is_in(BundlePhase::Failing) {
        let message = status.conditions.find(UNPACKED).map(|condition| condition.message.clone());
        let why = status.conditions.find(READY).map(|ready| ready.reason.as_str());
        if why == Some(reason::WATCH_NAMESPACE_REQUIRED) && format::watches_namespace(config) {
            context.unpacker.retry(bundle);
            return Desired::Waiting { bundle: name, why: None, is_stalled: false };
        }
        return Desired::Failed { bundle: name, message };
    }
    let why = status.failure().map(str::to_owned).or_else(|| unserved(bundle));
    // A first upload is on its way; one that was lost has to be sent again.
    let is_stalled = status.pin.is_some() && status.conditions.is(STALLED, ConditionStatus::True);
    let format = Format::of_class(&bundle.spec.provisioner_class_name);
    let unpacked = status.pin.filter(|_| bundle.is_in(BundlePhase::Unpacked)).zip(format);
    let digest = unpacked.as_ref().and_then(|(pin, _)| pin.content_digest.parse().ok());
    match digest.zip(unpacked) {
        Some((digest, (pin, format))) => {
            let release = Release::new(digest, format, config)
                .rendered_in(deployment.status.as_ref().unwrap_or(&BundleDeploymentStatus::default()));
            Desired::Ready { bundle: name, hash: hash.to_owned(), pin, release }
        }
        None => Desired::Waiting { bundle: name, why, is_stalled },
    }
}

/// Why nobody unpacks a Bundle: it is of a class that is not served here, and no other provisioner has looked at it.
fn unserved(bundle: &Bundle) -> Option<String> {
    let class = &bundle.spec.provisioner_class_name;
    let is_untouched = bundle.status.as_ref().is_none_or(|status| *status == BundleStatus::default());
    (Format::of_class(class).is_none() && is_untouched).then(|| {
        let served = [names::CLASS_PLAIN, names::CLASS_REGISTRY, names::CLASS_HELM].join(", ");
        format!("no provisioner has taken it up: spec.template.spec.provisionerClassName is {class:?}, and this controller serves {served}")
    })
}

/// The Bundle of the template.
pub(crate) fn generated(owner: &Owner, deployment: &BundleDeployment, name: &str, hash: &str) -> Bundle {
    let template = &deployment.spec.template;
    let mut bundle = Bundle::new(name, template.spec.clone());
    let metadata = template.metadata.as_ref();
    let mut labels = metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    for (key, value) in
        [(names::OWNER_KIND, names::OWNER_KIND_VALUE), (names::OWNER_NAME, &owner.name), (names::TEMPLATE_HASH, hash)]
    {
        labels.insert(key.to_owned(), value.to_owned());
    }
    bundle.metadata.labels = Some(labels);
    bundle.metadata.annotations = metadata.and_then(|metadata| metadata.annotations.clone());
    bundle.metadata.owner_references = Some(vec![owner.reference()]);
    bundle
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bundle_of_a_class_that_nobody_serves_is_not_waited_for_in_silence() {
        let bundle = |class: &str, status: Value| -> Bundle {
            serde_json::from_value(json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "b"}, "status": status,
                "spec": {"provisionerClassName": class, "source": {"type": "upload", "upload": {}}}}))
            .unwrap()
        };
        let why = unserved(&bundle("core-rukpak-io-cue", Value::Null)).unwrap();
        assert!(why.contains("\"core-rukpak-io-cue\"") && why.contains(names::CLASS_HELM), "{why}");
        assert_eq!(unserved(&bundle("core-rukpak-io-cue", json!({"phase": "Unpacking"}))), None, "somebody does");
        assert_eq!(unserved(&bundle(names::CLASS_PLAIN, Value::Null)), None);
    }

    #[test]
    fn only_what_the_controller_would_have_made_is_a_deployments_bundle() {
        let owner = Owner { name: "app".into(), uid: "1".into() };
        let deployment: BundleDeployment = serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "app"},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
                "provisionerClassName": "core-rukpak-io-plain",
                "source": {"type": "git", "git": {"repository": "r", "ref": {"branch": "main"}}}}}}}))
        .unwrap();
        let hash = template_hash(&deployment.spec.template);
        let name = generated_bundle_name("app", &hash);
        let good = generated(&owner, &deployment, &name, &hash);
        assert!(is_generated(&good, &owner, &deployment));
        let mut same = good.clone();
        same.spec = serde_json::from_value(json!({"provisionerClassName": "core-rukpak-io-plain",
            "source": {"type": "git", "git": {"repository": "r", "directory": "", "auth": {}, "ref": {"branch": "main"}}}}))
        .unwrap();
        assert!(is_generated(&same, &owner, &deployment), "empty is as good as absent");
        let mut evil = good.clone();
        evil.spec.source.git.as_mut().unwrap().repository = "evil".into();
        assert!(!is_generated(&evil, &owner, &deployment), "another spec under the same hash");
        let mut renamed = good;
        renamed.metadata.name = Some("app-other".into());
        assert!(!is_generated(&renamed, &owner, &deployment), "a name of its own");
    }
}
