//! Whose an object is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rukpak_crds::{BundleDeployment, TakeOver, names, olm};
use rukpak_plain::ObjectKey;

use crate::kind::is_selected;

/// The BundleDeployment that objects are applied for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`. Names are used again, UIDs are not.
    pub uid: String,
}

/// Who may have installed what exists, before this BundleDeployment was made for the same purpose.
#[derive(Clone, Copy, Debug)]
pub struct Predecessors<'a> {
    /// Namespace in which RukPak v0.16 kept its releases.
    pub system_namespace: &'a str,
    /// The ClusterExtension, or ClusterObjectSet, that the BundleDeployment was made for: operator-controller may have installed it
    /// before.
    pub extension: Option<&'a OwnerReference>,
}

/// `apiVersion` of the owner reference.
pub const OWNER_API_VERSION: &str = "core.rukpak.io/v1alpha1";

/// The group of [`EXTENSION`], [`OBJECT_SET`] and [`REVISIONS`].
const OLM_GROUP: &str = "olm.operatorframework.io";
const EXTENSION: &str = "ClusterExtension";
const OBJECT_SET: &str = "ClusterObjectSet";
/// What operator-controller keeps the objects of a version by, where it does not use Helm; the first since 1.9.
const REVISIONS: [&str; 2] = [OBJECT_SET, "ClusterExtensionRevision"];

/// Whose an object is that exists, seen from an [`Owner`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It carries our controller owner reference, or the marks of a kept object.
    Ours,
    /// It is being deleted: nothing can be applied to it until it is gone.
    Terminating,
    /// A RukPak v0.16 (Helm) release of this very BundleDeployment installed it: it may be taken over.
    HelmRelease,
    /// operator-controller installed it for the very ClusterExtension that this BundleDeployment was made for, or this one takes it from
    /// whatever controls it: it may be taken over.
    Extension,
    /// An administrator allows, by annotation on the object, that this BundleDeployment takes it over; or its spec says so.
    AdoptionAllowed,
    /// It belongs to an earlier BundleDeployment of the same name; garbage collection is about to delete it.
    LeftBehind {
        /// UID of the earlier one.
        uid: String,
    },
    /// A Namespace or CRD that this BundleDeployment shared with the one that led it, which is gone.
    Inherited,
    /// Somebody else's.
    Foreign(ForeignOwner),
}

/// Whose an object is that is not ours, as far as it tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignOwner {
    /// Its controller's: it goes with that, so nobody else can have it.
    Controller {
        /// Kind of the controller.
        kind: String,
        /// Its name.
        name: String,
        /// Whether it is a BundleDeployment.
        is_deployment: bool,
    },
    /// Another BundleDeployment's that declares it otherwise: both could have it if they declared it compatibly.
    Incompatible {
        /// Name of the BundleDeployment.
        name: String,
        /// How they differ.
        why: String,
    },
    /// It is ours and that of other BundleDeployments, and is to outlive us: it would go with them.
    Sharers {
        /// Names of the others.
        names: Vec<String>,
    },
    /// A Helm release's.
    HelmRelease {
        /// Name of the release.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// The BundleDeployment's that its marks name, which it outlives: that one may be gone.
    Keeper {
        /// Name of the BundleDeployment.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// It has our labels and nothing else of ours.
    Labelled,
    /// It does not tell.
    Unknown,
}

impl Ownership {
    /// The same, where a rule of the BundleDeployment has the object taken over. Two things are not: an object that another BundleDeployment
    /// has without an owner reference, so that it outlives it; and a CRD that another one controls, which is shared, so that what that one
    /// declares beyond ours is not lost.
    #[must_use]
    pub fn ruled(self, rule: Option<&TakeOver>) -> Self {
        match (self, rule) {
            (Self::Foreign(ForeignOwner::Controller { is_deployment, .. }), Some(rule))
                if rule.controlled && !(is_deployment && is_of_crds(rule)) =>
            {
                Self::Extension
            }
            (
                Self::Foreign(ForeignOwner::HelmRelease { .. } | ForeignOwner::Labelled | ForeignOwner::Unknown),
                Some(_),
            ) => Self::AdoptionAllowed,
            (ownership, _) => ownership,
        }
    }
}

/// The rule of a BundleDeployment that has an object taken over.
pub fn take_over<'a>(rules: &'a [TakeOver], key: &ObjectKey) -> Option<&'a TakeOver> {
    rules.iter().find(|rule| is_selected(&rule.objects, key))
}

/// Whether another BundleDeployment, which controls an object, keeps it although a rule of `ours` would take it over: a rule of its own
/// would take it back, again and again. The one that was created later has it.
pub fn is_outranked(ours: &BundleDeployment, other: &BundleDeployment, key: &ObjectKey) -> bool {
    let takes_back = take_over(&other.spec.take_over, key).is_some_and(|rule| rule.controlled);
    let is_going = other.metadata.deletion_timestamp.is_some();
    takes_back && !is_going && age(&other.metadata) > age(&ours.metadata)
}

/// What orders objects by their creation; the UID where that was in the same second.
fn age(meta: &ObjectMeta) -> (Option<Timestamp>, Option<&str>) {
    (meta.creation_timestamp.as_ref().map(|created| created.0), meta.uid.as_deref())
}

fn is_of_crds(rule: &TakeOver) -> bool {
    rule.objects.is_of_kind("apiextensions.k8s.io", "CustomResourceDefinition")
}

impl ForeignOwner {
    /// Why the object is not ours.
    pub fn why(&self) -> String {
        match self {
            Self::Controller { kind, name, .. } => format!("it is controlled by {kind} {name:?}"),
            Self::Incompatible { name, why } => {
                format!("it is controlled by BundleDeployment {name:?}, which declares it otherwise: {why}")
            }
            Self::Sharers { names } => {
                let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                format!("it is shared with BundleDeployment {}, and could not be kept when that goes", names.join(", "))
            }
            Self::HelmRelease { name, namespace } => {
                format!("it belongs to the Helm release {name:?} in namespace {namespace:?}")
            }
            Self::Keeper { name, .. } => format!("BundleDeployment {name:?} has installed it, to be kept"),
            Self::Labelled => {
                "it carries this BundleDeployment's labels but no owner reference to it: it was copied or orphaned"
                    .to_owned()
            }
            Self::Unknown => "it was not created by this BundleDeployment".to_owned(),
        }
    }
}

impl Owner {
    /// The controller owner reference for objects applied on behalf of this owner.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: OWNER_API_VERSION.to_owned(),
            kind: names::OWNER_KIND_VALUE.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Whether `meta` has both of our marks: the owner labels and the controller owner reference with our UID (or, on
    /// kept objects, the UID annotation). Only such objects are ever pruned.
    pub fn owns_fully(&self, meta: &ObjectMeta) -> bool {
        self.labels_name_us(meta) && (self.is_controller(meta) || self.is_kept(meta))
    }

    /// Whether other BundleDeployments have an object as well, to be left with it when we go: they lead it, share it, or keep it.
    pub fn is_shared(&self, meta: &ObjectMeta) -> bool {
        let keeper = text(meta.annotations.as_ref(), names::OWNER_UID).filter(|_| controller(meta).is_none());
        let is_sharer = sharers(meta).any(|sharer| sharer.uid == self.uid);
        owners(meta).any(|owner| owner.uid != self.uid)
            || (is_sharer && keeper.is_some_and(|keeper| keeper != self.uid))
    }

    /// Whether we share an object that another BundleDeployment leads, or led.
    pub fn is_sharer(&self, meta: &ObjectMeta) -> bool {
        sharers(meta).any(|sharer| sharer.uid == self.uid)
    }

    /// Whether an object that is not ours belongs to other BundleDeployments alone, and would go with them.
    pub fn would_lose(&self, meta: &ObjectMeta) -> bool {
        let is_shared = owners(meta).any(|owner| owner.uid == self.uid);
        !is_shared && owners(meta).next().is_some()
    }

    /// Whether our controller owner reference is on the object, whatever its labels say.
    pub fn is_controller(&self, meta: &ObjectMeta) -> bool {
        controller(meta).is_some_and(|owner| owner.uid == self.uid)
    }

    /// Whether it outlives us, and nobody else controls it: operators hand labels and annotations down to what they make, and an
    /// object with a controller goes with that.
    pub(crate) fn is_kept(&self, meta: &ObjectMeta) -> bool {
        text(meta.annotations.as_ref(), names::OWNER_UID) == Some(&self.uid) && controller(meta).is_none()
    }

    fn labels_name_us(&self, meta: &ObjectMeta) -> bool {
        text(meta.labels.as_ref(), names::OWNER_KIND) == Some(names::OWNER_KIND_VALUE)
            && text(meta.labels.as_ref(), names::OWNER_NAME) == Some(&self.name)
    }

    /// Whose the existing object with `meta` is.
    pub fn ownership(&self, meta: &ObjectMeta, predecessors: Predecessors<'_>) -> Ownership {
        if meta.deletion_timestamp.is_some() {
            return Ownership::Terminating;
        }
        if self.is_controller(meta) || (self.is_kept(meta) && self.labels_name_us(meta)) {
            return Ownership::Ours;
        }
        if let Some(other) = controller(meta) {
            if predecessors.extension.is_some_and(|extension| was_installed_for(extension, meta, other)) {
                return Ownership::Extension;
            }
            let is_deployment = is_deployment(other);
            if is_deployment && other.name == self.name {
                return Ownership::LeftBehind { uid: other.uid.clone() };
            }
            let (kind, name) = (other.kind.clone(), other.name.clone());
            return Ownership::Foreign(ForeignOwner::Controller { kind, name, is_deployment });
        }
        let was_of_deployment = text(meta.labels.as_ref(), names::OWNER_KIND) == Some(names::OWNER_KIND_VALUE);
        if was_of_deployment && self.is_sharer(meta) {
            return Ownership::Inherited;
        }
        let annotations = meta.annotations.as_ref();
        // What an earlier BundleDeployment of this name left on purpose: names are unique, so that one is gone.
        let is_left_on_purpose = self.labels_name_us(meta) && text(annotations, names::OWNER_UID).is_some();
        if is_left_on_purpose || text(annotations, names::ADOPT_BY) == Some(&self.name) {
            return Ownership::AdoptionAllowed;
        }
        if text(meta.labels.as_ref(), names::MANAGED_BY) == Some("Helm") {
            let release = text(annotations, names::HELM_RELEASE_NAME).unwrap_or_default();
            let namespace = text(annotations, names::HELM_RELEASE_NAMESPACE).unwrap_or_default();
            if release == self.name && namespace == predecessors.system_namespace {
                return Ownership::HelmRelease;
            }
            let (name, namespace) = (release.to_owned(), namespace.to_owned());
            return Ownership::Foreign(ForeignOwner::HelmRelease { name, namespace });
        }
        if self.labels_name_us(meta) {
            return Ownership::Foreign(ForeignOwner::Labelled);
        }
        match text(annotations, names::OWNER_UID) {
            Some(uid) if was_of_deployment => {
                let name = text(meta.labels.as_ref(), names::OWNER_NAME).unwrap_or_default();
                Ownership::Foreign(ForeignOwner::Keeper { name: name.to_owned(), uid: uid.to_owned() })
            }
            _ => Ownership::Foreign(ForeignOwner::Unknown),
        }
    }
}

/// Returns the owner reference of the controller of an object, if it has one.
pub fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns whose its labels, and its owner reference or else the annotation, say that an object is.
pub fn claimed(meta: &ObjectMeta) -> Owner {
    let uid = controller(meta).map(|owner| owner.uid.as_str());
    let uid = uid.or_else(|| text(meta.annotations.as_ref(), names::OWNER_UID)).unwrap_or_default();
    let name = text(meta.labels.as_ref(), names::OWNER_NAME).unwrap_or_default();
    Owner { name: name.to_owned(), uid: uid.to_owned() }
}

/// The package whose installations have an object in common, if they have: nobody owns it, or it would go with that.
pub fn in_common(meta: &ObjectMeta) -> Option<&str> {
    let is_owned = meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    text(meta.annotations.as_ref(), names::IN_COMMON).filter(|_| !is_owned)
}

/// Whether others than the BundleDeployment that applies a CRD have used it, and may do so still.
pub fn is_used_in_common(meta: &ObjectMeta) -> bool {
    in_common(meta).is_some() && text(meta.annotations.as_ref(), names::UNITED_VERSIONS).is_some()
}

/// The BundleDeployments that share an object without controlling it.
pub fn sharers(meta: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    owners(meta).filter(|owner| owner.controller != Some(true))
}

/// All BundleDeployments that own an object.
pub fn owners(meta: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    meta.owner_references.iter().flatten().filter(|owner| is_deployment(owner))
}

/// Whether an owner is a BundleDeployment.
pub fn is_deployment(owner: &OwnerReference) -> bool {
    owner.kind == names::OWNER_KIND_VALUE && owner.api_version == OWNER_API_VERSION
}

/// The ClusterExtension, or ClusterObjectSet, that a BundleDeployment belongs to.
pub fn extension(deployment: &ObjectMeta) -> Option<&OwnerReference> {
    let is_made_for = |owner: &&OwnerReference| owner.kind == EXTENSION || owner.kind == OBJECT_SET;
    controller(deployment).filter(is_made_for).filter(|owner| is_of_olm(owner))
}

/// Whether operator-controller installed an object for the extension: its labels say so, and it is controlled by the extension itself
/// (installed by Helm) or by one of its revisions, `<name>-<number>`. What a ClusterObjectSet of a user installed has that alone.
fn was_installed_for(extension: &OwnerReference, meta: &ObjectMeta, controller: &OwnerReference) -> bool {
    if extension.kind == OBJECT_SET {
        return controller.uid == extension.uid;
    }
    let says = |key: &str, value: &str| text(meta.labels.as_ref(), key) == Some(value);
    let number = controller.name.strip_prefix(&extension.name).and_then(|rest| rest.strip_prefix('-'));
    let is_revision = REVISIONS.contains(&controller.kind.as_str())
        && is_of_olm(controller)
        && number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    says(olm::OWNER_KIND_LABEL, EXTENSION)
        && says(olm::OWNER_NAME_LABEL, &extension.name)
        && (is_revision || controller.uid == extension.uid)
}

fn is_of_olm(owner: &OwnerReference) -> bool {
    owner.api_version.split_once('/').is_some_and(|(group, _)| group == OLM_GROUP)
}

fn text<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
