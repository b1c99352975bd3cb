//! What may be deleted when it leaves a bundle, and in which order.

mod pass;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::{InventoryKind, ReleasedObject, names};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::{Identity, fields, owner};

pub use self::pass::Pass;

/// What hangs on an object of some kind, so that deleting it may lose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: the manifest can bring it back.
    None,
    /// A CustomResourceDefinition takes its instances with it. Guarded while there are any.
    Instances,
    /// A Namespace takes everything in it along. Guarded unless empty.
    Contents,
    /// A PersistentVolumeClaim takes its volume along. Always guarded.
    Data,
}

/// What happens to an object that left the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Delete it.
    Delete,
    /// Look for what hangs on it first: delete if there is nothing, release otherwise.
    DeleteUnless(Guard),
    /// Take our marks off and leave it.
    Release,
}

/// The guard of a kind.
pub fn guard(group: &str, kind: &str) -> Guard {
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Guard::Instances,
        ("", "Namespace") => Guard::Contents,
        ("", "PersistentVolumeClaim") => Guard::Data,
        _ => Guard::None,
    }
}

/// Decides about an object of ours that the new content does not have.
pub fn decide(group: &str, kind: &str, meta: &ObjectMeta) -> Decision {
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|map| map.get(key)).map(String::as_str);
    // Before the permission to delete: an orphan can still be deleted by hand, and what is deleted does not come back.
    if annotation(names::RESOURCE_POLICY) == Some("keep") {
        return Decision::Release;
    }
    if guard(group, kind) == Guard::Instances && owner::is_used_in_common(meta) {
        return Decision::Release;
    }
    if annotation(names::ALLOW_DELETION) == Some("true") {
        return Decision::Delete;
    }
    match guard(group, kind) {
        Guard::None => Decision::Delete,
        Guard::Data => Decision::Release,
        other => Decision::DeleteUnless(other),
    }
}

/// What an object that is being deleted waits for, in words.
pub fn waits(identity: &Identity, metadata: &ObjectMeta) -> String {
    let finalizers = fields::finalizers(metadata);
    if finalizers.is_empty() {
        format!("{identity} is being deleted")
    } else {
        format!("{identity} waits for its finalizers: {}", finalizers.join(", "))
    }
}

/// Says why the instances of a CRD of which [`instances`] finds no version are not looked for.
pub const NONE_SERVED: &str = "none of its versions is served, so its instances cannot be looked for";

/// What a CRD defines, in the version that its objects are stored in, which takes no conversion, or else the first that is served.
/// `None` if none is.
pub fn instances(crd: &Value) -> Option<ApiResource> {
    let spec = &crd["spec"];
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let served = || spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let version = served().find(|version| version["storage"] == true).or_else(|| served().next())?;
    let gvk = GroupVersionKind::gvk(text("/group"), version["name"].as_str()?, text("/names/kind"));
    Some(ApiResource::from_gvk_with_plural(&gvk, text("/names/plural")))
}

/// Whether an object that hangs on one that leaves would be lost with it: it is not being deleted, nor about to be (`going`), and, of
/// what is in a namespace that leaves, it is not derived from another object, nor there in every namespace.
pub fn would_be_lost(
    group: &str,
    kind: &str,
    meta: &ObjectMeta,
    is_of_namespace: bool,
    going: &BTreeSet<ObjectKey>,
) -> bool {
    let name = meta.name.clone().unwrap_or_default();
    let is_mere_part =
        is_of_namespace && (is_derived(meta) || is_token(meta, going) || is_in_every_namespace(group, kind, &name));
    let key = ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: meta.namespace.clone(), name };
    meta.deletion_timestamp.is_none() && !is_mere_part && !going.contains(&key)
}

/// Whether a controller makes it from another object, as Pods are made.
fn is_derived(meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind != names::OWNER_KIND_VALUE)
}

/// Whether it is a token, or a pull secret of OpenShift, of a ServiceAccount that goes, or that every namespace has: the cluster deletes it
/// with the account.
fn is_token(meta: &ObjectMeta, going: &BTreeSet<ObjectKey>) -> bool {
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
    let account = annotation("kubernetes.io/service-account.name")
        .or_else(|| annotation("openshift.io/internal-registry-auth-token.service-account"));
    account.is_some_and(|account| {
        let key = ObjectKey {
            group: String::new(),
            kind: "ServiceAccount".to_owned(),
            namespace: meta.namespace.clone(),
            name: account.clone(),
        };
        ACCOUNTS.contains(&account.as_str()) || going.contains(&key)
    })
}

/// Accounts that every namespace has; the last two on OpenShift.
const ACCOUNTS: [&str; 3] = ["default", "builder", "deployer"];

/// Bindings that OpenShift makes in every namespace.
const BINDINGS: [&str; 3] = ["system:deployers", "system:image-builders", "system:image-pullers"];

fn is_in_every_namespace(group: &str, kind: &str, name: &str) -> bool {
    match (group, kind) {
        ("", "ServiceAccount") => ACCOUNTS.contains(&name),
        ("rbac.authorization.k8s.io" | "authorization.openshift.io", "RoleBinding") => BINDINGS.contains(&name),
        ("", "ConfigMap") => matches!(name, "kube-root-ca.crt" | "openshift-service-ca.crt"),
        ("", "Secret") => ACCOUNTS.iter().any(|account| {
            let rest = name.strip_prefix(account);
            rest.is_some_and(|rest| rest.starts_with("-token-") || rest.starts_with("-dockercfg-"))
        }),
        ("", "Event" | "Endpoints") | ("events.k8s.io" | "discovery.k8s.io" | "coordination.k8s.io", _) => true,
        _ => false,
    }
}

/// An object that was left in the cluster without an owner, as the status lists it.
pub fn released(identity: &Identity, reason: &str) -> ReleasedObject {
    let kind = identity.kind.inventory();
    ReleasedObject {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        namespace: identity.namespace.clone().unwrap_or_default(),
        name: identity.name.clone(),
        reason: reason.to_owned(),
    }
}

/// Adds such objects to a list, each once.
pub fn add_released(list: &mut Vec<ReleasedObject>, new: impl IntoIterator<Item = ReleasedObject>) {
    for object in new {
        list.retain(|known| !is_same_object(known, &object));
        list.push(object);
    }
}

/// Whether both entries are about one object.
pub fn is_same_object(a: &ReleasedObject, b: &ReleasedObject) -> bool {
    (&a.group, &a.kind, &a.namespace, &a.name) == (&b.group, &b.kind, &b.namespace, &b.name)
}

/// Whether the objects that are in no release any more are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pruning {
    /// They are.
    #[default]
    Done,
    /// They go when the release is healthy: what they do, such as holding an address, is done until then.
    Awaiting {
        /// When they go even if it is not: they may be what keeps it from becoming healthy.
        until: Timestamp,
    },
    /// They are, but for some that are left as they are because they say so. They go when they say so no more.
    Held {
        /// Which.
        objects: BTreeSet<ObjectKey>,
    },
    /// Some are not; it is tried again.
    Pending {
        /// Why not.
        message: String,
        /// Whether something went wrong: otherwise what was deleted is just not gone yet.
        is_failed: bool,
        /// Kinds that could not be listed.
        unlisted: Vec<InventoryKind>,
        /// How often they were not all gone, in a row.
        attempts: u32,
        /// How often a question of what would be lost had no answer, in a row.
        unanswered: u32,
        /// When it is tried again.
        until: Timestamp,
    },
}

impl Pruning {
    /// When objects are to be deleted next, if some are to be.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Done | Self::Held { .. } => None,
            Self::Awaiting { until } | Self::Pending { until, .. } => Some(*until),
        }
    }
}

/// What left the bundle is deleted at last after so long, however ill the new release is: as long as Kubernetes gives a Deployment.
pub const HEALTHY_WITHIN: Duration = Duration::from_mins(10);

/// An object that is in no release any more, as it was seen last.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// Where it is.
    pub identity: Identity,
    /// Its metadata.
    pub metadata: Arc<ObjectMeta>,
}

/// What is to be sent for one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// By which the answer is given.
    pub id: usize,
    /// The object as it was seen last. Only this very object, in this very version, may be written.
    pub object: Leaving,
    /// What to send.
    pub request: Request,
}

/// What the pass wants to know or to have done.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Look whether anything would be lost with the object.
    Ask {
        /// What hangs on it.
        guard: Guard,
        /// What is about to be deleted, or is gone: nothing is lost that only hangs on it.
        going: Arc<BTreeSet<ObjectKey>>,
    },
    /// Read its metadata.
    Look,
    /// Delete it.
    Delete,
    /// Take our marks off: it stays in the cluster, nobody's.
    Release {
        /// Why.
        reason: String,
    },
    /// Take our owner reference off: it is left to the BundleDeployments that share it.
    HandOver,
    /// Find the version that its kind is served in by now.
    FollowVersion,
    /// Ask the API server, not a cache, whether the deployment still asks for what this pass does: who wrote the object meanwhile may be
    /// another of our controllers, that installs a release which has it.
    AskWanted,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What would be lost, in words; `None` if nothing would.
    WouldLose(Option<String>),
    /// It cannot be seen whether anything would be lost.
    Unseen {
        /// In words.
        why: String,
        /// Whether it may be seen in a moment.
        is_transient: bool,
    },
    /// The metadata; `None` if there is no such object.
    Seen(Option<Box<ObjectMeta>>),
    /// It is done; what was deleted is gone.
    Done,
    /// The deletion is accepted. Whether the object is gone is not known.
    Accepted,
    /// There is no such object, in this version of its kind.
    Absent,
    /// It is another object, or another version of it, by now.
    Conflict(String),
    /// It failed.
    Refused(String),
    /// Where it is in a version that is served; `None` if no other version is.
    Version(Option<Identity>),
    /// Whether the deployment still asks for what this pass does.
    Wanted(bool),
    /// It was not handed over: the other owners are gone. The metadata without them.
    Alone(Box<ObjectMeta>),
}

/// What became of an object in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is not there any more, or not ours.
    Gone,
    /// It is left in the cluster, without an owner.
    Released {
        /// Why.
        reason: String,
    },
    /// It belongs to those who share it.
    HandedOver,
    /// It is left as it is, for its annotation says so.
    Paused,
    /// It is being deleted.
    Waits {
        /// What for, in words.
        why: String,
    },
    /// It could not be deleted.
    Failed {
        /// Why.
        why: String,
    },
    /// The deployment asks for something else by now: it may stay.
    Unwanted,
}

/// What a pass has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What could not be deleted, a line an object.
    pub failed: Vec<String>,
    /// What is being deleted, with what it waits for.
    pub waiting: Vec<(ObjectKey, String)>,
    /// What is left as it is because it says so.
    pub paused: BTreeSet<ObjectKey>,
    /// Whether a question got no answer that may be answered in a moment.
    pub is_unanswered: bool,
    /// Whether the deployment asks for something else by now. The rest of the pass was not carried out.
    pub is_superseded: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_that_others_use_in_common_is_released() {
        let crd = |said: serde_json::Value| {
            let annotations = serde_json::from_value(said).unwrap();
            let meta = ObjectMeta { annotations, ..ObjectMeta::default() };
            decide("apiextensions.k8s.io", "CustomResourceDefinition", &meta)
        };
        let unused = json!({"core.rukpak.io/in-common": "p"});
        assert_eq!(crd(unused), Decision::DeleteUnless(Guard::Instances));
        let used = json!({"core.rukpak.io/in-common": "p", "core.rukpak.io/united-versions": "true"});
        assert_eq!(crd(used), Decision::Release);
    }

    #[test]
    fn data_is_kept_unless_an_administrator_says_otherwise() {
        let with = |annotations| ObjectMeta {
            annotations: serde_json::from_value(annotations).unwrap(),
            ..ObjectMeta::default()
        };
        let plain = ObjectMeta::default();
        let allowed = with(json!({"core.rukpak.io/allow-deletion": "true"}));
        let kept = with(json!({"helm.sh/resource-policy": "keep"}));
        let both = with(json!({"core.rukpak.io/allow-deletion": "true", "helm.sh/resource-policy": "keep"}));
        let crd = ("apiextensions.k8s.io", "CustomResourceDefinition");
        assert_eq!(decide(crd.0, crd.1, &plain), Decision::DeleteUnless(Guard::Instances));
        assert_eq!(decide(crd.0, crd.1, &allowed), Decision::Delete);
        assert_eq!(decide("", "Namespace", &plain), Decision::DeleteUnless(Guard::Contents));
        assert_eq!(decide("", "PersistentVolumeClaim", &plain), Decision::Release);
        assert_eq!(decide("", "ConfigMap", &plain), Decision::Delete);
        assert_eq!(decide("", "ConfigMap", &kept), Decision::Release);
        for kind in ["ConfigMap", "Namespace", "PersistentVolumeClaim"] {
            assert_eq!(decide("", kind, &both), Decision::Release, "what is deleted does not come back");
        }
    }

    #[test]
    fn what_comes_back_by_itself_holds_no_namespace() {
        let meta = |value: serde_json::Value| serde_json::from_value::<ObjectMeta>(value).unwrap();
        let none = BTreeSet::new();
        let in_namespace = |kind: &str, value| would_be_lost("", kind, &meta(value), true, &none);
        assert!(in_namespace("ConfigMap", json!({"name": "a", "namespace": "n"})));
        assert!(!in_namespace("ConfigMap", json!({"name": "kube-root-ca.crt", "namespace": "n"})));
        assert!(!in_namespace("ConfigMap", json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"})));
        assert!(!in_namespace("ServiceAccount", json!({"name": "builder", "namespace": "n"})));
        assert!(!in_namespace("Secret", json!({"name": "deployer-dockercfg-7xk2p", "namespace": "n"})));
        assert!(in_namespace("Secret", json!({"name": "deployer-key", "namespace": "n"})));
        let pull = json!({"openshift.io/internal-registry-auth-token.service-account": "builder"});
        assert!(!in_namespace("Secret", json!({"name": "s", "namespace": "n", "annotations": pull})));
        let binding = |name: &str| {
            would_be_lost("rbac.authorization.k8s.io", "RoleBinding", &meta(json!({"name": name})), true, &none)
        };
        assert!(binding("mine") && !binding("system:image-pullers"));
        let pod = json!({"name": "p", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]});
        assert!(!in_namespace("Pod", pod));
        let key = ObjectKey { group: String::new(), kind: "Secret".to_owned(), namespace: None, name: "s".to_owned() };
        assert!(!would_be_lost("", "Secret", &meta(json!({"name": "s"})), false, &BTreeSet::from([key])));
    }
}
