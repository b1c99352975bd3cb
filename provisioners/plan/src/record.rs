//! The record of a release in the API: a ControllerRevision that says what the release declares, and how each object of it stands.
//!
//! What is declared is the data of the ControllerRevision, which the API server lets nobody change. How the objects stand is an
//! annotation, which is written again when that has changed.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rukpak_crds::{BundleDeploymentStatus, ReleaseRecord};
use rukpak_plain::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::missing::{Missing, Need};
use crate::{Plan, Release};

/// An object that a release declares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeclaredObject {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace. Where nobody serves the kind: as the bundle has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Whether the installation is whole without it where its kind is not served.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl DeclaredObject {
    pub(crate) fn of(key: &ObjectKey, optional: bool) -> Self {
        let ObjectKey { group, kind, namespace, name } = key.clone();
        Self { group, kind, namespace, name, optional }
    }
}

impl Plan {
    /// Returns every object that the release declares, in the order of their kinds and names.
    pub fn declared_objects(&self) -> Vec<DeclaredObject> {
        let planned = self.steps.values().map(|step| DeclaredObject::of(&step.key, step.is_optional));
        let mut all: Vec<DeclaredObject> = planned.chain(missing_objects(&self.missing)).collect();
        all.sort();
        all
    }
}

pub(crate) fn missing_objects(missing: &[Missing]) -> impl Iterator<Item = DeclaredObject> {
    missing.iter().filter_map(|missing| match &missing.need {
        Need::Object(key) => Some(DeclaredObject::of(key, false)),
        Need::Optional(key) => Some(DeclaredObject::of(key, true)),
        Need::Dependency => None,
    })
}

/// Lists of more bytes than this are compressed: a few hundred objects can be read with `kubectl get --output yaml`.
const PLAIN_MAX_BYTES: usize = 32 << 10;
/// The API server and etcd take some 1.5 MiB of an object. Of a release with more objects than fit, the first ones are listed.
const PACKED_MAX_BYTES: usize = 512 << 10;
/// A list that is larger was not written by us.
const READ_MAX_BYTES: u64 = 64 << 20;

/// Returns the data of the ControllerRevision of `release`: `objects`, or `objectsGzip` where they are many (gzip of the same JSON, in
/// base64), and their number in `count`.
pub fn data(release: &Release, objects: &[DeclaredObject]) -> Value {
    let ReleaseRecord { content_digest, format, .. } = release.record();
    let mut data = json!({"contentDigest": content_digest, "format": format, "count": objects.len()});
    let mut listed = objects;
    let mut text = json!(listed).to_string();
    if text.len() <= PLAIN_MAX_BYTES {
        data["objects"] = json!(listed);
        return data;
    }
    let mut packed = pack(&text);
    while packed.len() > PACKED_MAX_BYTES {
        listed = &listed[..listed.len() / 2];
        text = json!(listed).to_string();
        packed = pack(&text);
    }
    data["objectsGzip"] = json!(packed);
    data
}

fn pack(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(text.as_bytes());
    BASE64_STANDARD.encode(encoder.finish().unwrap_or_default())
}

/// Returns the objects that the data of a ControllerRevision lists; `None` if it was not written by us.
pub fn read(data: &Value) -> Option<Vec<DeclaredObject>> {
    if let Some(objects) = data.get("objects") {
        return serde_json::from_value(objects.clone()).ok();
    }
    let packed = BASE64_STANDARD.decode(data.get("objectsGzip")?.as_str()?).ok()?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).take(READ_MAX_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// How the objects of the installed release stand, as the annotation has it. What is not named is as the release declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The number of objects that are as declared.
    pub current: usize,
    /// Objects whose kind is not served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<DeclaredObject>,
    /// Objects of which some fields are left to others that keep changing them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<DeclaredObject>,
    /// Objects that are left as they are on request. They need not be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<DeclaredObject>,
    /// What stays as it is in the cluster although the release says otherwise, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Namespaces and CRDs of others that are used as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<String>,
    /// The number of those that are left out: each list has the first [`LISTED`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// So many of each are listed.
pub const LISTED: usize = 100;

/// Returns the name of the record of a release of the BundleDeployment `deployment`, which is the same for the same content and
/// settings.
pub fn name(deployment: &str, release: &ReleaseRecord) -> String {
    /// Names of objects have 253 characters at most.
    const LONGEST: usize = 253 - 11;
    let identity = json!([deployment, release.content_digest, release.format, release.config]).to_string();
    let hash = Sha256::digest(identity.as_bytes());
    let base = &deployment[..deployment.len().min(LONGEST)];
    format!("{base}-{:02x}{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3], hash[4])
}

/// Returns the name of the record of a release as a status tells of it.
pub fn name_of(deployment: &str, release: &ReleaseRecord) -> String {
    name(deployment, &normal(release))
}

/// What changes in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of the revision in the history; 0 while it has none.
    pub revision: i64,
    /// How the objects stand, if the release is installed.
    pub standing: Option<Standing>,
}

/// What is remembered of records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// What a release declares, until its record is written.
    pub declared: Option<(Release, Vec<DeclaredObject>)>,
    /// What changes in them, as it was written last, by their names.
    pub written: BTreeMap<String, Recorded>,
}

/// The same release, written in one way: the format may be left out.
fn normal(release: &ReleaseRecord) -> ReleaseRecord {
    Release::read(release).map_or_else(|| release.clone(), |release| release.record())
}

/// Returns the name of the record of the release that a BundleDeployment with this status is installing, or else has installed, or else
/// has tried last.
pub fn current(deployment: &str, status: &BundleDeploymentStatus) -> Option<String> {
    let inventory = status.inventory.as_ref();
    let pending = inventory.and_then(|inventory| inventory.pending.as_ref()).map(|pending| pending.release.clone());
    let installed = || inventory.and_then(Release::installed).map(|release| release.record());
    let tried = || status.history.first().map(|revision| revision.release.clone());
    let release = pending.or_else(installed).or_else(tried)?;
    Some(name_of(deployment, &release))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(count: usize) -> Vec<DeclaredObject> {
        let object = |index: usize| DeclaredObject {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("pumps".to_owned()),
            name: rukpak_content::Digest::sha256(&index.to_be_bytes()).hex().to_owned(),
            optional: index == 1,
        };
        (0..count).map(object).collect()
    }

    fn release() -> Release {
        Release::new(rukpak_content::Digest::sha256(b""), crate::Format::Plain, None)
    }

    #[test]
    fn reads_what_was_written_plain_and_packed() {
        for (count, key) in [(0, "objects"), (3, "objects"), (2_000, "objectsGzip")] {
            let data = data(&release(), &objects(count));
            assert!(data.get(key).is_some(), "{count} objects are not in {key}");
            assert_eq!(data["count"], count);
            assert_eq!(read(&data).unwrap(), objects(count));
        }
        assert_eq!(read(&json!({"spec": {}})), None);
        assert_eq!(read(&json!({"objectsGzip": "no base64"})), None);
    }

    #[test]
    fn lists_first_objects_of_a_release_that_does_not_fit() {
        let data = data(&release(), &objects(20_000));
        assert!(data.to_string().len() < PACKED_MAX_BYTES + 1_000);
        assert_eq!(data["count"], 20_000);
        let listed = read(&data).unwrap();
        assert_eq!(listed, objects(20_000)[..listed.len()]);
        assert!(listed.len() >= 5_000, "{}", listed.len());
    }

    #[test]
    fn names_record_by_deployment_content_and_settings() {
        let config = json!({"watchNamespace": "a"});
        let other = Release::new(release().content, crate::Format::Plain, config.as_object());
        let names = [("a", release()), ("b", release()), ("a", other)]
            .map(|(deployment, release)| name(deployment, &release.record()));
        assert!(names[0] != names[1] && names[0] != names[2], "{names:?}");
        assert!(names[0].starts_with("a-") && names[0].len() == 12, "{names:?}");
        assert_eq!(name(&"a".repeat(253), &release().record()).len(), 253);
    }
}
