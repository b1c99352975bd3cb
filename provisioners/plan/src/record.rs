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

use crate::applied::Objects;
use crate::memory::{Installation, Memory};
use crate::plan::{Missing, Need};
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
    fn of(key: &ObjectKey, optional: bool) -> Self {
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

fn missing_objects(missing: &[Missing]) -> impl Iterator<Item = DeclaredObject> {
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

impl Standing {
    /// Returns how the objects of the installed release stand; `None` while it is not known to be applied.
    pub fn of(memory: &Memory, objects: &Objects) -> Option<Self> {
        let Installation::Applied { applied, differences, .. } = memory.installation() else { return None };
        let is_contested = |key: &&ObjectKey| memory.is_contested(key);
        let is_paused = |key: &&ObjectKey| differences.paused.contains(*key);
        let contested = objects.keys().filter(|key| is_contested(key) && !is_paused(key));
        let mut standing = Self {
            current: objects.keys().filter(|key| !is_contested(key) && !is_paused(key)).count(),
            missing: missing_objects(applied.missing()).collect(),
            contested: contested.map(|key| DeclaredObject::of(key, false)).collect(),
            paused: differences.paused.iter().map(|key| DeclaredObject::of(key, false)).collect(),
            kept: differences.kept.clone(),
            used: differences.used.clone(),
            omitted: 0,
        };
        standing.omitted = cut(&mut standing.missing)
            + cut(&mut standing.contested)
            + cut(&mut standing.paused)
            + cut(&mut standing.kept)
            + cut(&mut standing.used);
        Some(standing)
    }
}

/// Returns the number of items that are cut off.
fn cut<T>(list: &mut Vec<T>) -> usize {
    let omitted = list.len().saturating_sub(LISTED);
    list.truncate(LISTED);
    omitted
}

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
    declared: Option<(Release, Vec<DeclaredObject>)>,
    /// What changes in them, as it was written last, by their names.
    written: BTreeMap<String, Recorded>,
}

impl Memory {
    /// Notes what a release declares, until its record is written.
    pub fn declare(&mut self, deployment: &str, plan: &Plan) {
        if !self.records.written.contains_key(&name(deployment, &plan.release.record())) {
            self.records.declared = Some((plan.release.clone(), plan.declared_objects()));
        }
    }

    /// The record of the release that was declared last is written.
    pub fn learn_recorded(&mut self, name: String, recorded: Recorded) {
        self.records.declared = None;
        self.records.written.insert(name, recorded);
    }

    /// What changes in a record is written.
    pub fn learn_record_changed(&mut self, name: String, recorded: Recorded) {
        self.records.written.insert(name, recorded);
    }
}

/// A record to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Name of the ControllerRevision.
    pub name: String,
    /// Its data.
    pub data: Value,
    /// The rest.
    pub recorded: Recorded,
}

/// What is to be written and deleted now that the status is `after`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// The record of a release that has none yet.
    pub record: Option<Record>,
    /// What has changed in the record of the installed release: its name, and all that may change.
    pub change: Option<(String, Recorded)>,
    /// Records of revisions that have left the history.
    pub obsolete: Vec<String>,
}

/// Decides that. Nothing is due where nothing has changed.
///
/// After a restart the record of the installed release is taken for written, and for as it should be: it is noted in `memory`.
pub fn due(
    deployment: &str,
    memory: &mut Memory,
    objects: &Objects,
    before: &BundleDeploymentStatus,
    after: &BundleDeploymentStatus,
) -> Due {
    let (was, is) = (records(deployment, before), records(deployment, after));
    let mut due = Due { obsolete: was.into_keys().filter(|name| !is.contains_key(name)).collect(), ..Due::default() };
    memory.records.written.retain(|name, _| is.contains_key(name));
    memory.records.declared.take_if(|(release, _)| !is.contains_key(&name(deployment, &release.record())));
    let standing = Standing::of(memory, objects);
    let installed = memory.applied().map(|release| name(deployment, &release.record()));
    let recorded = |name: &String| Recorded {
        revision: is.get(name).copied().unwrap_or_default(),
        standing: standing.clone().filter(|_| installed.as_ref() == Some(name)),
    };
    if let Some((release, declared)) = &memory.records.declared {
        let name = name(deployment, &release.record());
        due.record = Some(Record { data: data(release, declared), recorded: recorded(&name), name });
    }
    let is_new = |name: &String| due.record.as_ref().is_some_and(|record| record.name == *name);
    if let Some(name) = installed.as_ref().filter(|name| is.contains_key(*name) && !is_new(name)) {
        let now = recorded(name);
        let known = memory.records.written.entry(name.clone()).or_insert_with(|| now.clone());
        if *known != now {
            due.change = Some((name.clone(), now));
        }
    }
    due
}

/// The names of the records that a status asks for, with the numbers of their revisions.
fn records(deployment: &str, status: &BundleDeploymentStatus) -> BTreeMap<String, i64> {
    let inventory = status.inventory.as_ref();
    let installed = inventory.and_then(Release::installed).map(|release| release.record());
    let pending = inventory.and_then(|inventory| inventory.pending.as_ref()).map(|pending| pending.release.clone());
    let begun = installed.into_iter().chain(pending).map(|release| (release, 0));
    let history = status.history.iter().map(|revision| (revision.release.clone(), revision.revision));
    begun.chain(history).map(|(release, number)| (name_of(deployment, &release), number)).collect()
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

    #[test]
    fn writes_record_once_and_its_changes_and_deletes_it_with_the_history() {
        let revision = |release: &Release, number: i64| {
            json!({"revision": number, "result": "Failed", "time": "2026-01-01T00:00:00Z", "contentDigest": release.record().content_digest,
                "format": "plain+v0"})
        };
        let status =
            |history: &[Value]| serde_json::from_value::<BundleDeploymentStatus>(json!({"history": history})).unwrap();
        let (empty, first) = (status(&[]), status(&[revision(&release(), 1)]));
        let (mut memory, tracked) = (Memory::default(), Objects::new());
        assert_eq!(due("a", &mut memory, &tracked, &empty, &first), Due::default(), "nothing is known of it");

        memory.records.declared = Some((release(), objects(1)));
        let record = due("a", &mut memory, &tracked, &empty, &first).record.unwrap();
        assert_eq!(
            (record.recorded, record.name.as_str()),
            (Recorded { revision: 1, standing: None }, &*name("a", &release().record()))
        );
        assert_eq!(read(&record.data).unwrap(), objects(1));

        let gone = due("a", &mut memory, &tracked, &first, &empty);
        assert_eq!(gone, Due { obsolete: vec![record.name], ..Due::default() });
        assert_eq!(memory.records.declared, None, "it is in no history");
    }
}
