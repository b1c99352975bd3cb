//! Which records are to be written and deleted, by what is known of an installation.

use std::collections::BTreeMap;

use rukpak_crds::BundleDeploymentStatus;
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::applied::Objects;
use crate::memory::{Installation, Memory};
use crate::record::{DeclaredObject, LISTED, Recorded, Standing, data, missing_objects, name, name_of};
use crate::{Plan, Release};

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
    let is = records(deployment, after);
    let was = if before == after { is.clone() } else { records(deployment, before) };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::read;

    fn release() -> Release {
        Release::new(rukpak_content::Digest::sha256(b""), crate::Format::Plain, None)
    }

    fn objects() -> Vec<DeclaredObject> {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("pumps".to_owned()),
            name: "pump".to_owned(),
        };
        vec![DeclaredObject::of(&key, false)]
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

        memory.records.declared = Some((release(), objects()));
        let record = due("a", &mut memory, &tracked, &empty, &first).record.unwrap();
        assert_eq!(
            (record.recorded, record.name.as_str()),
            (Recorded { revision: 1, standing: None }, &*name("a", &release().record()))
        );
        assert_eq!(read(&record.data).unwrap(), objects());

        let gone = due("a", &mut memory, &tracked, &first, &empty);
        assert_eq!(gone, Due { obsolete: vec![record.name], ..Due::default() });
        assert_eq!(memory.records.declared, None, "it is in no history");
    }
}
