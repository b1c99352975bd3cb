//! One object of a plan: its body with our ownership metadata, and when it is applied.

use std::collections::BTreeMap;

use rukpak_crds::names;
use rukpak_plain::{Object, ObjectKey};
use serde_json::Value;

use crate::Phase;
use crate::kind::{Identity, Kind, is_job};
use crate::owner_metadata::OwnerMetadata;

/// One object to apply.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Step {
    /// The object, whatever its version.
    pub key: ObjectKey,
    /// Where it is.
    pub identity: Identity,
    /// When it is applied.
    pub phase: Phase,
    /// The body as JSON: as a tree of maps it would take six times the memory, for as long as the release is being installed.
    text: Box<str>,
    /// Where the object is declared, for messages.
    pub origin: String,
    /// Whether a CRD of this very bundle defines the kind.
    pub defined_here: bool,
    /// Whether it may be left out where its kind is not served.
    pub is_optional: bool,
    /// Whether the manifest says that the object is left as it is.
    pub is_paused: bool,
    /// Whether the manifest asks for a replacement where a field cannot be changed.
    pub is_forced: bool,
}

impl Step {
    /// The body of the apply request, without preconditions.
    ///
    /// # Panics
    /// Never: manifests may nest less deeply (`rukpak_plain::yaml::MAX_DEPTH`) than JSON that is read here.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("because it was written from a value")
    }

    /// Returns the step with another body for the same object.
    #[must_use]
    pub fn with_body(&self, body: &Value) -> Self {
        Self { text: body.to_string().into(), ..self.clone() }
    }

    /// Whether the object goes by itself once its work is done.
    pub(crate) fn ends_by_itself(&self) -> bool {
        is_job(&self.key) && self.body().pointer("/spec/ttlSecondsAfterFinished").is_some()
    }

    /// Whether both declare the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The kinds that discovery has found, by the apiVersion and kind that were asked for: in another version where that one is not
/// served. `None` stands for a kind that is served in no version, or in none that is known.
pub type Served = BTreeMap<(String, String), Option<Kind>>;

/// Two manifests are of one object: one of them leaves out the namespace that the other one names, or names one where there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} is declared twice with different content: {first} and {second}: remove one of them")]
pub struct DeclaredTwice {
    /// The object, with the namespace that it gets.
    pub object: String,
    /// Where it is declared.
    pub first: String,
    /// Where it is declared again.
    pub second: String,
}

pub(crate) fn step(stamp: &OwnerMetadata, object: Object, kind: &Kind, defined_here: bool) -> Step {
    let namespace = kind.namespaced.then(|| object.namespace().unwrap_or(&stamp.default_namespace).to_owned());
    let key = ObjectKey { namespace: namespace.clone(), ..object.key() };
    Step {
        phase: Phase::of(object.group(), object.kind()),
        identity: Identity { kind: kind.clone(), namespace, name: key.name.clone() },
        key,
        origin: object.origin().to_string(),
        defined_here,
        is_optional: false,
        is_paused: object.annotation(names::RECONCILE) == Some(names::DISABLED),
        is_forced: object.annotation(names::FORCE) == Some(names::ENABLED),
        text: stamp.body(object, kind.namespaced).to_string().into(),
    }
}
