//! Bundle: content at one version, unpacked and kept.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{ConditionStatus, Conditions as _, READY, UNPACKED, reason};
use crate::{BundleSource, Condition, Verification};

/// BundleSpec defines the desired state of Bundle. It never changes once the Bundle exists.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "Bundle",
    plural = "bundles",
    singular = "bundle",
    shortname = "bnd",
    status = "BundleStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".spec.source.type"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Provisioner","type":"string","jsonPath":".spec.provisionerClassName","priority":1}"#,
    printcolumn = r#"{"name":"Resolved Source","type":"string","jsonPath":".status.resolvedSource","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].message","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct BundleSpec {
    /// ProvisionerClassName sets the format of the content, and with it who unpacks it: core-rukpak-io-plain for plain+v0,
    /// core-rukpak-io-registry for registry+v1, core-rukpak-io-helm for helm+v3. Other values are for other provisioners.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub provisioner_class_name: String,
    /// Source defines the configuration for the underlying Bundle content.
    pub source: BundleSource,
}

/// BundleStatus defines the observed state of Bundle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// Phase: Pending, Unpacking, Unpacked or Failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// ResolvedSource is what the source stood for when it was unpacked: an image digest, a git commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<BundleSource>,
    /// ObservedGeneration is the generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Unpacked; beside it Ready, Reconciling, Stalled and Verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// ContentURL is where the content can be fetched.
    #[serde(rename = "contentURL", default, skip_serializing_if = "Option::is_none")]
    pub content_url: Option<String>,
    /// Pin is what this Bundle resolved to the first time it was unpacked. It never changes: lost content is fetched
    /// again by it, and other content is not installed. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// Verification is what came of the search for a signature, where a ContentPolicy requires one. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// What a Bundle resolved to once and for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Digest of the manifest that the image reference named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Commit that the git reference named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// SHA-256 of the archive that was downloaded or uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_digest: Option<String>,
    /// Digest of the unpacked tree in canonical form, as the store names it.
    pub content_digest: String,
}

/// Phases of a Bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundlePhase {
    /// Waiting for content to be available.
    Pending,
    /// Fetching.
    Unpacking,
    /// The content is in the store.
    Unpacked,
    /// The last attempt failed.
    Failing,
}

impl BundlePhase {
    /// The phase as it stands in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Unpacking => "Unpacking",
            Self::Unpacked => "Unpacked",
            Self::Failing => "Failing",
        }
    }
}

impl BundleStatus {
    /// Why the last attempt to unpack failed; `None` if none has failed since the Bundle was unpacked, or its content received.
    ///
    /// It is read from `Ready`, which says more than `Unpacked`; other provisioners write `Unpacked` alone.
    pub fn failure(&self) -> Option<&str> {
        let condition = match self.conditions.find(READY) {
            Some(ready) if ready.reason == reason::PROGRESSING || ready.status == ConditionStatus::True => return None,
            Some(ready) => ready,
            None => self.conditions.find(UNPACKED).filter(|unpacked| unpacked.reason == reason::UNPACK_FAILED)?,
        };
        Some(&condition.message)
    }
}

impl Bundle {
    /// Whether the status says this phase.
    pub fn is_in(&self, phase: BundlePhase) -> bool {
        self.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(conditions: &[(&str, &str, &str, &str)]) -> Option<String> {
        let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions: Vec<_> = conditions.iter().map(condition).collect();
        let status: BundleStatus = serde_json::from_value(json!({"conditions": conditions})).unwrap();
        status.failure().map(str::to_owned)
    }

    #[test]
    fn reads_failure_from_ready_and_without_it_from_unpacked() {
        let failed = ("Unpacked", "False", "UnpackFailed", "short");
        assert_eq!(failure(&[]), None);
        assert_eq!(failure(&[failed, ("Ready", "False", "UnpackFailed", "whole")]).as_deref(), Some("whole"));
        assert_eq!(failure(&[failed, ("Ready", "False", "Progressing", "again")]), None);
        assert_eq!(failure(&[("Unpacked", "True", "UnpackSuccessful", ""), ("Ready", "True", "Succeeded", "")]), None);
        // As other provisioners write it.
        assert_eq!(failure(&[failed]).as_deref(), Some("short"));
        assert_eq!(failure(&[("Unpacked", "False", "UnpackPending", "waits")]), None);
    }
}
