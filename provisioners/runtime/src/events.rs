//! Kubernetes Events: what happened to an object without a namespace, for `kubectl describe`.
//!
//! Of the older form (`v1`): API servers before 1.22 refuse the newer one for objects without a namespace, unless it names
//! one, and then `kubectl describe` does not find it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use rukpak_crds::Condition;
use rukpak_crds::condition::printable;

/// Longest message that the API takes, in bytes.
const MESSAGE_MAX: usize = 1024;
/// Where events of objects without a namespace are.
const NAMESPACE: &str = "default";

/// Writes Events.
pub struct Events {
    api: Api<Event>,
    component: &'static str,
}

/// Whether there is a reason to worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// There is none.
    Normal,
    /// Somebody should have a look.
    Warning,
}

impl Events {
    /// In the name of `component`, a program.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE), component }
    }

    /// Tells of a condition of `about`, in its reason and message. That an Event cannot be written holds nothing up.
    pub async fn tell(&self, about: ObjectReference, tone: Tone, condition: &Condition) {
        let object = about.name.clone().unwrap_or_default();
        let event = event(about, self.component, tone, condition, Timestamp::now());
        if let Err(error) = self.api.create(&PostParams::default(), &event).await {
            tracing::warn!(object, %error, "cannot write an Event");
        }
    }
}

fn event(about: ObjectReference, component: &str, tone: Tone, condition: &Condition, now: Timestamp) -> Event {
    let type_ = if tone == Tone::Warning { "Warning" } else { "Normal" };
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() },
        involved_object: about,
        type_: Some(type_.to_owned()),
        reason: Some(condition.reason.clone()),
        message: Some(shortened(&printable(&condition.message))),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
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
