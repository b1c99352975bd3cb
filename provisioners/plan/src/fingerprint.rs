//! The fingerprint of an object: what must be the same for it to be as we applied it.
//!
//! A foreign change or removal of a field that we applied takes the field out of our set in `managedFields`; foreign
//! additions, status writes and applies that change nothing leave the set as it is. An apply in our own name, by another of our
//! controllers or by hand, may change values and leave the set as it is too: that shows in the time of our entry. So the set, its time,
//! the UID, our ownership metadata and, where a kind keeps one, the generation stand for the whole object.

use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_plain::ObjectKey;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::kind::is_job;
use crate::missing::{Missing, Need};
use crate::{Owner, fields, opt_out};

/// The fingerprint of one object: 64 bytes or so, held instead of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion` as a number, where it is one: only to tell an old event from a new one.
    pub version: Option<u64>,
    /// `metadata.generation`; `None` where the kind keeps none.
    pub generation: Option<i64>,
    /// Hash of the set of fields that we applied.
    fields: [u8; 16],
    /// When an apply in our name changed anything last, in seconds.
    applied_at: Option<i64>,
    /// Whether the owner labels and the owner reference are there.
    owned: bool,
    /// Whether we say how long it may live after it has finished.
    is_mortal: bool,
    /// Whether its annotation says that it is left as it is.
    is_paused: bool,
}

/// How an observed fingerprint differs from the one that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It does not.
    None,
    /// Only the generation moved: a change through a subresource, or of a field that is not ours.
    Generation,
    /// A field of ours, or the ownership, was changed; or it is another object of the same name.
    Fields,
}

impl Fingerprint {
    /// The fingerprint of an object with `meta`, applied by `manager` for `owner`.
    pub fn of(meta: &ObjectMeta, owner: &Owner, manager: &str) -> Self {
        let empty = Value::Null;
        let set = fields::applied(meta, manager).unwrap_or(&empty);
        let digest = Sha256::digest(set.to_string().as_bytes());
        let mut fields = [0; 16];
        fields.copy_from_slice(&digest[..16]);
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.as_deref().and_then(|version| version.parse().ok()),
            generation: meta.generation,
            fields,
            applied_at: fields::applied_at(meta, manager),
            owned: owner.owns_fully(meta),
            is_mortal: set.pointer("/f:spec/f:ttlSecondsAfterFinished").is_some(),
            is_paused: opt_out::is_paused(meta),
        }
    }

    /// Whether the object `key` goes by itself once its work is done: a Job with `ttlSecondsAfterFinished`. It is made when a release
    /// is applied, and not again because it is gone.
    pub(crate) fn ends_by_itself(&self, key: &ObjectKey) -> bool {
        self.is_mortal && is_job(key)
    }

    /// Whether the owner labels and the owner reference are there.
    pub fn is_owned(&self) -> bool {
        self.owned
    }

    /// Whether nobody has applied the object in our name since, as far as `observed` tells: the time has whole seconds, which the
    /// generation makes up for where a kind keeps one.
    pub fn is_of_same_apply(&self, observed: &Self) -> bool {
        self.uid == observed.uid && self.applied_at == observed.applied_at && self.generation == observed.generation
    }

    /// Whether its annotation says that it is left as it is.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// How `observed` differs from `self`, the fingerprint after the last apply. An observation known to be older is no difference.
    pub fn drift(&self, observed: &Self) -> Drift {
        if let (Some(ours), Some(theirs)) = (self.version, observed.version)
            && theirs < ours
        {
            return Drift::None;
        }
        // Whatever is done to an object that is left as it is, is no drift.
        if self.uid == observed.uid && self.is_paused && observed.is_paused {
            return Drift::None;
        }
        if self.is_paused != observed.is_paused {
            return Drift::Fields;
        }
        let is_applied_alike = self.fields == observed.fields && self.applied_at == observed.applied_at;
        if self.uid != observed.uid || !is_applied_alike || self.owned != observed.owned {
            return Drift::Fields;
        }
        if self.generation == observed.generation { Drift::None } else { Drift::Generation }
    }
}

/// One digest over everything that an installation consists of: equal exactly if the content, the renderer's version, the
/// fingerprints of all objects and what is missing are.
pub fn digest<'a>(
    content: &str,
    renderer: &str,
    objects: impl Iterator<Item = (&'a ObjectKey, &'a Fingerprint)>,
    missing: &[Missing],
) -> String {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    part(content);
    part(renderer);
    // What has gone by itself is missed by nobody, after a restart neither.
    for (key, fingerprint) in objects.filter(|(key, fingerprint)| !fingerprint.ends_by_itself(key)) {
        part(&key.group);
        part(&key.kind);
        part(key.namespace.as_deref().unwrap_or_default());
        part(&key.name);
        part(&fingerprint.uid);
        // Others may do with it what they want, while nobody looks, too.
        if fingerprint.is_paused {
            part("paused");
            continue;
        }
        part(&fingerprint.generation.map(|generation| generation.to_string()).unwrap_or_default());
        part(if fingerprint.owned { "owned" } else { "" });
        part(&hex(&fingerprint.fields));
        part(&fingerprint.applied_at.map(|seconds| seconds.to_string()).unwrap_or_default());
    }
    for Missing { kind, need, .. } in missing {
        let (Need::Object(key) | Need::Optional(key)) = need else { continue };
        part(if matches!(need, Need::Optional(_)) { "optional" } else { "missing" });
        part(&kind.api_version);
        part(&key.kind);
        part(key.namespace.as_deref().unwrap_or_default());
        part(&key.name);
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fingerprint(version: &str, generation: i64, fields: &Value, labels: &Value) -> Fingerprint {
        let owner = Owner { name: "a".to_owned(), uid: "1".to_owned() };
        let meta = serde_json::from_value(json!({
            "uid": "u", "resourceVersion": version, "generation": generation, "labels": labels,
            "ownerReferences": [owner.reference()],
            "managedFields": [
                {"manager": "us", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields},
                {"manager": "other", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}]
        }))
        .unwrap();
        Fingerprint::of(&meta, &owner, "us")
    }

    #[test]
    fn a_job_that_may_be_gone_by_now_is_not_part_of_the_digest() {
        let labels = json!({});
        let key = |kind: &str, group: &str| ObjectKey {
            group: group.into(),
            kind: kind.into(),
            namespace: Some("n".into()),
            name: "a".into(),
        };
        let mortal = fingerprint("1", 1, &json!({"f:spec": {"f:ttlSecondsAfterFinished": {}}}), &labels);
        let lasting = fingerprint("1", 1, &json!({"f:spec": {"f:template": {}}}), &labels);
        let (map, job) = (key("ConfigMap", ""), key("Job", "batch"));
        let of = |objects: &[(&ObjectKey, &Fingerprint)]| digest("content", "renderer", objects.iter().copied(), &[]);
        assert_eq!(of(&[(&map, &lasting), (&job, &mortal)]), of(&[(&map, &lasting)]));
        assert_ne!(of(&[(&map, &lasting), (&job, &lasting)]), of(&[(&map, &lasting)]));
        assert!(!mortal.ends_by_itself(&key("Job", "example.com")), "another kind of that name");
    }

    #[test]
    fn drift_is_a_lost_field_or_lost_ownership() {
        let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "a"});
        let (ours, less) = (json!({"f:spec": {"f:x": {}}}), json!({"f:spec": {}}));
        let base = fingerprint("5", 1, &ours, &labels);
        assert_eq!(base.drift(&fingerprint("6", 1, &ours, &labels)), Drift::None);
        assert_eq!(base.drift(&fingerprint("6", 2, &ours, &labels)), Drift::Generation);
        assert_eq!(base.drift(&fingerprint("6", 2, &less, &labels)), Drift::Fields);
        assert_eq!(base.drift(&fingerprint("6", 1, &ours, &json!({}))), Drift::Fields);
        assert_eq!(base.drift(&fingerprint("4", 1, &less, &labels)), Drift::None, "an old event");
    }

    /// A set of fields says nothing of what is in them.
    #[test]
    fn an_apply_in_our_own_name_is_drift_although_the_fields_are_the_same() {
        let applied = |version: &str, time: &str| {
            let meta = serde_json::from_value(json!({
                "uid": "u", "resourceVersion": version,
                "managedFields": [
                    {"manager": "us", "operation": "Apply", "time": time, "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:data": {"f:x": {}}}},
                    {"manager": "other", "operation": "Update", "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:data": {"f:y": {}}}}]}))
            .unwrap();
            Fingerprint::of(&meta, &Owner { name: "a".to_owned(), uid: "1".to_owned() }, "us")
        };
        let base = applied("5", "2026-01-01T00:00:00Z");
        let (foreign, ours) = (applied("6", "2026-01-01T00:00:00Z"), applied("6", "2026-01-01T00:00:01Z"));
        assert_eq!((base.drift(&foreign), base.is_of_same_apply(&foreign)), (Drift::None, true));
        assert_eq!((base.drift(&ours), base.is_of_same_apply(&ours)), (Drift::Fields, false));
    }
}
