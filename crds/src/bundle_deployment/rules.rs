//! What a BundleDeployment says of some of its objects: when they are healthy, and which of their fields are left to others; and when
//! all of them may be upgraded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Objects of a BundleDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectSelector {
    /// API group of the objects; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the objects.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Namespace of the objects; without one those in every namespace, and those in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object; without one all of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ObjectSelector {
    /// Whether an object is selected, without a namespace if its kind has none.
    pub fn selects(&self, group: &str, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        self.is_of_kind(group, kind)
            && self.name.as_ref().is_none_or(|wanted| wanted == name)
            && self.namespace.as_ref().is_none_or(|wanted| Some(wanted.as_str()) == namespace)
    }

    /// Whether some objects of a kind may be selected.
    pub fn is_of_kind(&self, group: &str, kind: &str) -> bool {
        (self.group.as_str(), self.kind.as_str()) == (group, kind)
    }
}

/// When some objects are healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// The objects that it is about.
    #[serde(flatten)]
    pub objects: ObjectSelector,
    /// What has to hold, all of it, for an object to be healthy. Without any, the usual rules say when it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub current: Vec<HealthProbe>,
    /// What tells, any of it, that an object will not become healthy by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub failed: Vec<HealthProbe>,
}

/// A value of an object that is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "oneOf" = [{"required": ["condition"], "not": {"required": ["sameAs"]}}, {"required": ["jsonPointer"]}]
))]
pub struct HealthProbe {
    /// Type of a condition in status.conditions, whose status is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    pub condition: Option<String>,
    /// A field, as JSON pointer (RFC 6901): /status/phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^(/([^/~]|~[01])+)+$"))]
    pub json_pointer: Option<String>,
    /// The values of which it has to have one; numbers and booleans are written as text. Without any, a condition has to be True, and a
    /// field has to be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 256)))]
    pub values: Vec<String>,
    /// Another field, as JSON pointer, that has to be there and to have the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^(/([^/~]|~[01])+)+$"))]
    pub same_as: Option<String>,
}

/// Fields of some objects that are left to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredDifference {
    /// The objects that it is about.
    #[serde(flatten)]
    pub objects: ObjectSelector,
    /// The fields and all that is below them, as JSON pointers (RFC 6901): /spec/template/spec/containers/0/image. Items of lists are
    /// counted as in the manifest.
    #[schemars(length(min = 1, max = 50), inner(length(max = 1024), regex(pattern = r"^(/([^/~]|~[01])+)+$")))]
    pub json_pointers: Vec<String>,
}

/// Objects that are taken over where they exist already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakeOver {
    /// The objects that it is about.
    #[serde(flatten)]
    pub objects: ObjectSelector,
    /// Controlled takes them over also where something else controls them, which may go on to write them, and does not keep them any
    /// more.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub controlled: bool,
}

/// Times at which upgrades may begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeWindow {
    /// Schedule says when the window opens, as cron does: minute, hour, day of month, month, day of week.
    #[schemars(length(max = 100), regex(pattern = r"^[^ ]+( +[^ ]+){4}$"))]
    pub schedule: String,
    /// Duration is how long it stays open, for example 4h. An upgrade begins only if spec.progressDeadline ends before the window does.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub duration: String,
    /// TimeZone is the zone of the schedule by its IANA name, for example Europe/Prague. UTC without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: Option<String>,
}
