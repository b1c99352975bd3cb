//! The revisions of a deployment: what was installed or tried, and what may be installed again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rukpak_crds::{BundleDeploymentStatus, Revision, RevisionResult};

use crate::Release;
use crate::observed::{Desired, Observed};

impl Observed {
    /// The last revision that was healthy, whose release is not `other`.
    pub(crate) fn last_healthy(&self, other: &Release) -> Option<Release> {
        let healthy = self.status.history.iter().filter(|revision| revision.result == RevisionResult::Healthy);
        healthy.filter_map(|revision| Release::read(&revision.release)).find(|release| release != other)
    }

    /// A revision for `release`, with what an earlier revision and the template tell of it.
    fn revision_of(&self, release: &Release, now: Timestamp) -> Revision {
        let known = self.status.history.iter().find(|known| is_of(known, release)).cloned();
        let newest = self.status.history.iter().map(|revision| revision.revision).max().unwrap_or_default();
        let mut revision = Revision {
            revision: self.number_asked_for(release).unwrap_or(newest + 1),
            result: RevisionResult::Installed,
            time: whole_second(self.pending().filter(|(begun, _)| begun == release).map_or(now, |(_, since)| since)),
            message: String::new(),
            ..known.unwrap_or_else(|| unknown(release, now))
        };
        self.note_template(&mut revision);
        revision
    }

    /// What the template tells of a revision, if that is what it asks for: by another template the same content may come as another
    /// Bundle.
    fn note_template(&self, revision: &mut Revision) {
        let Desired::Ready { bundle, hash, pin, release } = &self.desired else { return };
        if !is_of(revision, release) {
            return;
        }
        let template = &self.deployment.spec.template;
        let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.clone());
        revision.bundle = Some(bundle.clone());
        revision.template_hash = Some(hash.clone());
        revision.pin = Some(pin.clone());
        revision.source = Some(template.spec.source.clone());
        revision.annotations = annotations.filter(is_brief).unwrap_or_default();
    }

    /// The number that a rollback asks for `release` by. It keeps that: otherwise the revision would not be found any more.
    fn number_asked_for(&self, release: &Release) -> Option<i64> {
        let number = self.rollback_to()?.ok()?;
        self.revision(number).filter(|revision| is_of(revision, release)).map(|_| number)
    }
}

fn is_of(revision: &Revision, release: &Release) -> bool {
    Release::read(&revision.release).as_ref() == Some(release)
}

/// Nothing is known of it but what it is.
fn unknown(release: &Release, now: Timestamp) -> Revision {
    Revision {
        revision: 0,
        bundle: None,
        template_hash: None,
        source: None,
        annotations: BTreeMap::new(),
        pin: None,
        release: release.record(),
        result: RevisionResult::Installed,
        time: whole_second(now),
        message: String::new(),
    }
}

/// A status holds several revisions, and the API server takes some 1.5 MiB of it all.
const ANNOTATIONS_MAX_BYTES: usize = 16 << 10;

fn is_brief(annotations: &BTreeMap<String, String>) -> bool {
    annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() <= ANNOTATIONS_MAX_BYTES
}

pub(crate) fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Notes that every object of `release` is applied. What is the newest revision already stays as it is; a release that is
/// installed again gets a new number. `is_way_back`: the newest revision failed, and this one came back in its place.
pub fn applied(
    status: &mut BundleDeploymentStatus,
    observed: &Observed,
    release: &Release,
    is_way_back: bool,
    now: Timestamp,
) {
    let history = &mut status.history;
    let known = history.iter().position(|known| is_of(known, release));
    if let Some(known) = known {
        observed.note_template(&mut history[known]);
    }
    if let (Some(0), Some(newest)) = (known, history.first_mut()) {
        if newest.result.is_failure() {
            newest.result = RevisionResult::Installed;
            newest.message.clear();
            newest.time = whole_second(now);
        }
        return;
    }
    // It never left, or came back: what failed in its place stays the newer one, so that it is known.
    if known.is_some_and(|known| history[..known].iter().all(|newer| newer.result.is_failure())) {
        return;
    }
    let was_healthy = known.is_some_and(|known| history[known].result == RevisionResult::Healthy);
    let mut revision = observed.revision_of(release, now);
    if was_healthy && is_way_back {
        revision.result = RevisionResult::Healthy;
    }
    history.retain(|known| !is_of(known, release));
    history.insert(usize::from(is_way_back).min(history.len()), revision);
    trim(status, observed.history_limit(), release);
}

/// Notes that all objects of the installed release were seen healthy.
pub fn healthy(status: &mut BundleDeploymentStatus, release: &Release) {
    let installed = status.history.iter_mut().find(|revision| is_of(revision, release));
    if let Some(installed) = installed.filter(|revision| revision.result == RevisionResult::Installed) {
        installed.result = RevisionResult::Healthy;
    }
}

/// Notes that `release` could not be installed in place of the installed one.
pub fn failed(
    status: &mut BundleDeploymentStatus,
    observed: &Observed,
    release: &Release,
    (result, message): (RevisionResult, &str),
    now: Timestamp,
) {
    let message = first_line(message);
    if let Some(newest) = status.history.first_mut().filter(|newest| is_of(newest, release)) {
        (newest.result, newest.message) = (result, message);
    } else {
        let mut revision = observed.revision_of(release, now);
        (revision.result, revision.message) = (result, message);
        status.history.retain(|known| !is_of(known, release));
        status.history.insert(0, revision);
    }
    if let Some(installed) = observed.installed() {
        trim(status, observed.history_limit(), &installed);
    }
}

/// Messages of a history are a line of so many characters: the condition has it all.
const MESSAGE_MAX: usize = 256;

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(MESSAGE_MAX).collect()
}

/// Keeps at most `limit` revisions, the newest; the installed one always, and the last healthy one while the installed one is
/// not healthy: it is the way back.
fn trim(status: &mut BundleDeploymentStatus, limit: usize, installed: &Release) {
    let is_healthy =
        status.history.iter().any(|known| is_of(known, installed) && known.result == RevisionResult::Healthy);
    while status.history.len() > limit {
        let way_back = status
            .history
            .iter()
            .position(|known| !is_healthy && known.result == RevisionResult::Healthy && !is_of(known, installed));
        let kept = |index: usize, known: &Revision| is_of(known, installed) || Some(index) == way_back || index == 0;
        let oldest = (0..status.history.len()).rev().find(|index| !kept(*index, &status.history[*index]));
        match oldest {
            Some(oldest) => drop(status.history.remove(oldest)),
            None => return,
        }
    }
}
