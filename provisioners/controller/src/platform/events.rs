//! Kubernetes Events: what happened to a PlatformOperator, for `kubectl describe`.
//!
//! Of the older form (`v1`): API servers before 1.22 refuse the newer one for objects without a namespace, unless it names
//! one, and then `kubectl describe` does not find it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::condition::{Conditions, INSTALLED, READY};
use rukpak_crds::{Condition, ConditionStatus, PlatformOperator, PlatformOperatorStatus};

/// Longest message that the API takes, in bytes.
const MESSAGE_MAX: usize = 1024;
/// Where events of objects without a namespace are.
const NAMESPACE: &str = "default";
/// Who writes them.
const COMPONENT: &str = "rukpak-platform";

/// Writes Events.
pub(crate) struct Events(Api<Event>);

impl Events {
    /// In the name of this program.
    pub fn new(client: Client) -> Self {
        Self(Api::namespaced(client, NAMESPACE))
    }

    /// Tells of the change from `before` to `after`, if `Installed` is another one. That an Event cannot be written holds
    /// nothing up.
    pub async fn tell(
        &self,
        operator: &PlatformOperator,
        before: Option<&PlatformOperatorStatus>,
        after: &PlatformOperatorStatus,
    ) {
        // What is under way is no reason to worry.
        let is_bad = after.conditions.is(READY, ConditionStatus::False);
        let installed = |status: &PlatformOperatorStatus| status.conditions.find(INSTALLED).cloned();
        let (before, Some(after)) = (before.and_then(installed), installed(after)) else { return };
        if before.is_some_and(|before| is_same(&before, &after)) {
            return;
        }
        let event = event(operator.object_ref(&()), &after, is_bad, Timestamp::now());
        if let Err(error) = self.0.create(&PostParams::default(), &event).await {
            tracing::warn!(operator = %operator.name_any(), %error, "cannot write an Event");
        }
    }
}

fn event(about: ObjectReference, condition: &Condition, is_bad: bool, now: Timestamp) -> Event {
    let type_ = if is_bad { "Warning" } else { "Normal" };
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() },
        involved_object: about,
        type_: Some(type_.to_owned()),
        reason: Some(condition.reason.clone()),
        message: Some(shortened(&condition.message)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

fn is_same(before: &Condition, after: &Condition) -> bool {
    (before.status, &before.reason) == (after.status, &after.reason)
}

fn shortened(message: &str) -> String {
    const MORE: &str = "…";
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_MAX - MORE.len());
    format!("{}{MORE}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"ä".repeat(600));
        assert!(cut.len() <= MESSAGE_MAX && cut.ends_with("ä…"), "{cut}");
    }
}
