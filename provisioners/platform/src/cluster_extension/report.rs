//! From what is known to the status. Pure; the words are operator-controller's.

use jiff::Timestamp;
use kube::ResourceExt;
use rukpak_crds::condition::{Conditions as _, HEALTHY, INSTALLED, NewCondition, READY, STALLED};
use rukpak_crds::olm::cluster_extension::{BundleMetadata, ClusterExtensionStatus, InstallStatus, RevisionStatus};
use rukpak_crds::olm::{ClusterExtension, PROGRESSING, reason};
use rukpak_crds::platform_operator::UPGRADE_AVAILABLE;
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus};

use super::decide::Deprecations;
use super::progress::Progress;
use super::revisions::{ActiveRevision, Stage, rolled_out, rolling_out};
use super::upgrade::Upgrade;
use crate::installed::Identity;

const AVAILABLE: &str = "Available";
const DEPRECATED: &str = "Deprecated";
const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
const BUNDLE_DEPRECATED: &str = "BundleDeprecated";

/// The conditions that are written here. Others are of whoever kept the extension before, and nobody keeps them true any more.
const OURS: [&str; 10] = [
    PROGRESSING,
    INSTALLED,
    READY,
    STALLED,
    AVAILABLE,
    UPGRADE_AVAILABLE,
    DEPRECATED,
    PACKAGE_DEPRECATED,
    CHANNEL_DEPRECATED,
    BUNDLE_DEPRECATED,
];

const PROBES_SUCCEEDED: &str = "ProbesSucceeded";
const PROBE_FAILURE: &str = "ProbeFailure";
const RECONCILING: &str = "Reconciling";
const FAILED: &str = "Failed";
const ABSENT: &str = "Absent";
const ROLLING_OUT: &str = "RollingOut";
const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
const NOT_DEPRECATED: &str = "NotDeprecated";
const DEPRECATION_STATUS_UNKNOWN: &str = "DeprecationStatusUnknown";
/// Longest message, in bytes.
const MESSAGE_BYTES: usize = 32_768;
const TRUNCATED: &str = "\n\n... [message truncated]";

/// What is known of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// How far it is.
    pub progress: Progress,
    /// What is installed. Not known where the progress is [`Progress::Unreadable`].
    pub installed: Option<Identity>,
    /// What is deprecated, if a catalog could be asked.
    pub catalog: Option<Deprecations>,
    /// What the BundleDeployment says of the health of its objects.
    pub health: Option<Condition>,
    /// Its revisions that are there, the newest last.
    pub revisions: Vec<ActiveRevision>,
    /// What the catalogs have that is newer.
    pub upgrade: Upgrade,
}

impl Report {
    /// Nothing else is known.
    pub fn of(progress: Progress) -> Self {
        let upgrade = Upgrade::Unlooked;
        Self { progress, installed: None, catalog: None, health: None, revisions: Vec::new(), upgrade }
    }

    /// What is installed could not be found out.
    pub fn unreadable(error: &str) -> Self {
        Self::of(Progress::Unreadable(error.to_owned()))
    }
}

/// What a BundleDeployment says of the health of its objects.
pub(super) fn health(deployment: &BundleDeployment) -> Option<Condition> {
    deployment.status.as_ref()?.conditions.find(HEALTHY).cloned()
}

pub(super) fn status(extension: &ClusterExtension, report: &Report, now: Timestamp) -> ClusterExtensionStatus {
    let old = extension.status.clone().unwrap_or_default();
    let mut writer = Writer { status: old, generation: extension.metadata.generation, now };
    writer.status.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    writer.progressing(&report.progress);
    writer.installed(report);
    writer.ready(report);
    writer.available(report);
    if !matches!(report.progress, Progress::Unreadable(_)) {
        writer.revisions(&extension.name_any(), report);
    }
    writer.upgrade(report);
    // Nothing is said of deprecations before the catalogs were asked for the first time.
    let is_asked = !matches!(report.progress, Progress::Blocked(_) | Progress::Unreadable(_));
    if is_asked {
        let installed = report.installed.as_ref();
        let channels =
            extension.spec.source.catalog.as_ref().map(|catalog| catalog.channels.as_slice()).unwrap_or_default();
        writer.deprecations(channels, report.catalog.as_ref(), installed);
    }
    writer.status
}

/// What a condition says: its status, reason and message.
type Said = (ConditionStatus, &'static str, String);

fn of_progress(progress: &Progress) -> Said {
    use ConditionStatus::{False, True};
    let (status, reason, message) = match progress {
        Progress::Succeeded => (True, reason::SUCCEEDED, "Desired state reached"),
        Progress::RollingOut(message) => (True, ROLLING_OUT, message.as_str()),
        Progress::Retrying(message) => (True, reason::RETRYING, message.as_str()),
        Progress::Unreadable(_) => (True, reason::RETRYING, "retrying to get installed bundle"),
        Progress::DeadlineExceeded(message) => (False, PROGRESS_DEADLINE_EXCEEDED, message.as_str()),
        Progress::InvalidConfiguration(message) => (False, INVALID_CONFIGURATION, message.as_str()),
        Progress::Blocked(message) => (False, reason::BLOCKED, message.as_str()),
    };
    (status, reason, message.to_owned())
}

/// As upstream says it of revisions.
fn of_health(health: &Condition) -> Said {
    use ConditionStatus::{False, True, Unknown};
    match health.status {
        True => (True, PROBES_SUCCEEDED, "Objects are available and pass all probes.".to_owned()),
        False => (False, PROBE_FAILURE, health.message.clone()),
        Unknown => (Unknown, RECONCILING, health.message.clone()),
    }
}

struct Writer {
    status: ClusterExtensionStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Writer {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let message = &truncated(message);
        self.status.conditions.set(NewCondition { type_, status, reason, message }, self.generation, self.now);
    }

    fn progressing(&mut self, progress: &Progress) {
        let (status, reason, message) = of_progress(progress);
        self.set(PROGRESSING, status, reason, &message);
    }

    fn installed(&mut self, report: &Report) {
        use ConditionStatus::{False, True, Unknown};
        match (&report.installed, &report.progress) {
            (_, Progress::Unreadable(error)) => {
                self.set(INSTALLED, Unknown, FAILED, error);
                self.status.install = None;
            }
            (Some(installed), _) => {
                let message = format!("Installed bundle {} successfully", installed.reference);
                self.set(INSTALLED, True, reason::SUCCEEDED, &message);
                let Identity { name, version, release, .. } = installed.clone();
                let bundle = BundleMetadata { name, version, release };
                self.status.install = Some(InstallStatus { bundle });
            }
            (None, progress) => {
                let is_under_way = matches!(progress, Progress::RollingOut(_) | Progress::DeadlineExceeded(_));
                let reason = if is_under_way { ABSENT } else { FAILED };
                self.set(INSTALLED, False, reason, "No bundle installed");
                self.status.install = None;
            }
        }
    }

    /// Additive, as kstatus reads it: a rollout ends with the one or with the other.
    fn ready(&mut self, report: &Report) {
        use ConditionStatus::{False, True};
        let (progress, reason, message) = of_progress(&report.progress);
        let ill = report.health.as_ref().filter(|health| health.status == False);
        match (&report.progress, ill) {
            (Progress::Succeeded, None) => self.set(READY, True, reason, &message),
            (Progress::Succeeded, Some(ill)) => self.set(READY, False, PROBE_FAILURE, &ill.message),
            _ => self.set(READY, False, reason, &message),
        }
        if progress == False {
            self.set(STALLED, True, reason, &message);
        } else {
            self.status.conditions.drop_type(STALLED);
        }
    }

    /// Nothing is said where nobody has looked.
    fn available(&mut self, report: &Report) {
        match report.health.as_ref().filter(|_| report.installed.is_some()).map(of_health) {
            None => self.status.conditions.drop_type(AVAILABLE),
            Some((status, reason, message)) => self.set(AVAILABLE, status, reason, &message),
        }
    }

    /// Additive: absent where nothing newer is left out.
    fn upgrade(&mut self, report: &Report) {
        match &report.upgrade {
            Upgrade::Unlooked if report.installed.is_some() || matches!(report.progress, Progress::Unreadable(_)) => {}
            Upgrade::Unlooked | Upgrade::Nothing => self.status.conditions.drop_type(UPGRADE_AVAILABLE),
            Upgrade::Available { reason, message } => {
                self.set(UPGRADE_AVAILABLE, ConditionStatus::True, reason, message);
            }
        }
    }

    /// The active revisions, by the names that upstream gives them.
    fn revisions(&mut self, extension: &str, report: &Report) {
        let old = std::mem::take(&mut self.status.active_revisions);
        for revision in &report.revisions {
            let name = revision.name(extension);
            let known = old.iter().find(|known| known.name == name);
            let mut conditions = known.map(|known| known.conditions.clone()).unwrap_or_default();
            for (type_, said) in [(AVAILABLE, availability(revision, report)), (PROGRESSING, rollout(revision, report))]
            {
                match said {
                    None => conditions.drop_type(type_),
                    Some((status, reason, message)) => {
                        let new = NewCondition { type_, status, reason, message: &truncated(&message) };
                        conditions.set(new, self.generation, self.now);
                    }
                }
            }
            self.status.active_revisions.push(RevisionStatus { name, conditions });
        }
    }

    fn deprecations(&mut self, channels: &[String], catalog: Option<&Deprecations>, installed: Option<&Identity>) {
        use ConditionStatus::Unknown;
        let Some(catalog) = catalog else {
            let unknown = "deprecation status unknown: catalog data unavailable";
            for type_ in [DEPRECATED, PACKAGE_DEPRECATED, CHANNEL_DEPRECATED] {
                self.set(type_, Unknown, DEPRECATION_STATUS_UNKNOWN, unknown);
            }
            match installed {
                Some(_) => self.set(BUNDLE_DEPRECATED, Unknown, DEPRECATION_STATUS_UNKNOWN, unknown),
                None => self.set(BUNDLE_DEPRECATED, Unknown, ABSENT, "no bundle installed yet"),
            }
            return;
        };
        let is_meant = |name: &&String| channels.is_empty() || channels.contains(*name);
        let package: Vec<&str> = catalog.package.as_deref().into_iter().collect();
        let channel: Vec<&str> =
            catalog.channels.iter().filter(|(name, _)| is_meant(name)).map(|(_, text)| text.as_str()).collect();
        let bundle: Vec<&str> = installed
            .and_then(|installed| catalog.bundles.get(&installed.name))
            .map(String::as_str)
            .into_iter()
            .collect();
        // In the order in which they are set where nothing is known.
        let all = [package.as_slice(), channel.as_slice(), bundle.as_slice()].concat();
        self.deprecation(DEPRECATED, &all, "not deprecated");
        self.deprecation(PACKAGE_DEPRECATED, &package, "package not deprecated");
        self.deprecation(CHANNEL_DEPRECATED, &channel, "channel not deprecated");
        if installed.is_some() {
            self.deprecation(BUNDLE_DEPRECATED, &bundle, "bundle not deprecated");
        } else {
            self.set(BUNDLE_DEPRECATED, Unknown, ABSENT, "no bundle installed yet");
        }
    }

    fn deprecation(&mut self, type_: &str, messages: &[&str], otherwise: &str) {
        if messages.is_empty() {
            self.set(type_, ConditionStatus::False, NOT_DEPRECATED, otherwise);
        } else {
            self.set(type_, ConditionStatus::True, DEPRECATED, &messages.join("\n"));
        }
    }
}

/// What `Available` of a revision says.
fn availability(revision: &ActiveRevision, report: &Report) -> Option<Said> {
    match revision.stage {
        Stage::Replaced => None,
        Stage::Applied | Stage::RolledOut => report.health.as_ref().map(of_health),
        Stage::Begun => Some((ConditionStatus::False, ROLLING_OUT, rolling_out(&revision.version))),
    }
}

/// What `Progressing` of a revision says.
fn rollout(revision: &ActiveRevision, report: &Report) -> Option<Said> {
    let is_begun = |revision: &ActiveRevision| revision.stage == Stage::Begun;
    // What the extension says is about what was begun last.
    let is_told = is_begun(revision) || !report.revisions.iter().any(is_begun);
    match revision.stage {
        Stage::Replaced => None,
        Stage::RolledOut => Some((ConditionStatus::True, reason::SUCCEEDED, rolled_out(&revision.version))),
        Stage::Applied | Stage::Begun => Some(match &report.progress {
            told @ (Progress::Retrying(_) | Progress::DeadlineExceeded(_)) if is_told => of_progress(told),
            _ => (ConditionStatus::True, ROLLING_OUT, rolling_out(&revision.version)),
        }),
    }
}

fn truncated(message: &str) -> String {
    if message.len() <= MESSAGE_BYTES {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES - TRUNCATED.len());
    format!("{}{TRUNCATED}", &message[..end])
}

#[cfg(test)]
mod tests;
