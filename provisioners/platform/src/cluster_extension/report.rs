//! From what is known to the status. Pure; the words are operator-controller's.

use jiff::Timestamp;
use rukpak_crds::condition::{Conditions as _, HEALTHY, INSTALLED, NewCondition};
use rukpak_crds::olm::cluster_extension::{
    BundleMetadata, ClusterExtensionSpec, ClusterExtensionStatus, InstallStatus,
};
use rukpak_crds::olm::{PROGRESSING, reason};
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus};

use super::decide::Deprecations;
use super::installed::Identity;
use super::progress::Progress;

const AVAILABLE: &str = "Available";
const DEPRECATED: &str = "Deprecated";
const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
const BUNDLE_DEPRECATED: &str = "BundleDeprecated";

/// The conditions that are written here. Others are of whoever kept the extension before, and nobody keeps them true any more.
const OURS: [&str; 7] =
    [PROGRESSING, INSTALLED, AVAILABLE, DEPRECATED, PACKAGE_DEPRECATED, CHANNEL_DEPRECATED, BUNDLE_DEPRECATED];

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
}

impl Report {
    /// What is installed could not be found out.
    pub fn unreadable(error: &str) -> Self {
        Self { progress: Progress::Unreadable(error.to_owned()), installed: None, catalog: None, health: None }
    }
}

/// What a BundleDeployment says of the health of its objects.
pub(super) fn health(deployment: &BundleDeployment) -> Option<Condition> {
    deployment.status.as_ref()?.conditions.find(HEALTHY).cloned()
}

/// The status.
pub(super) fn status(
    old: &ClusterExtensionStatus,
    generation: Option<i64>,
    spec: &ClusterExtensionSpec,
    report: &Report,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut writer = Writer { status: old.clone(), generation, now };
    writer.status.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    writer.progressing(&report.progress);
    writer.installed(report);
    writer.available(report);
    // Nothing is said of deprecations before the catalogs were asked for the first time.
    let is_asked = !matches!(report.progress, Progress::Blocked(_) | Progress::Unreadable(_));
    if is_asked {
        let installed = report.installed.as_ref();
        let channels = spec.source.catalog.as_ref().map(|catalog| catalog.channels.as_slice()).unwrap_or_default();
        writer.deprecations(channels, report.catalog.as_ref(), installed);
    }
    writer.status
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
        self.set(PROGRESSING, status, reason, message);
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
                let bundle = BundleMetadata { name: installed.name.clone(), version: installed.version.clone() };
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

    /// As upstream says it of revisions. Nothing is said where nobody has looked.
    fn available(&mut self, report: &Report) {
        use ConditionStatus::{False, True, Unknown};
        match report.health.as_ref().filter(|_| report.installed.is_some()) {
            None => self.status.conditions.drop_type(AVAILABLE),
            Some(health) if health.status == True => {
                self.set(AVAILABLE, True, PROBES_SUCCEEDED, "Objects are available and pass all probes.");
            }
            Some(health) if health.status == False => self.set(AVAILABLE, False, PROBE_FAILURE, &health.message),
            Some(health) => self.set(AVAILABLE, Unknown, RECONCILING, &health.message),
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

fn truncated(message: &str) -> String {
    if message.len() <= MESSAGE_BYTES {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES - TRUNCATED.len());
    format!("{}{TRUNCATED}", &message[..end])
}

#[cfg(test)]
mod tests;
