//! Kubernetes Events: what happened to an object without a namespace, for `kubectl describe`.
//!
//! Of the older form (`v1`): API servers before 1.22 refuse the newer one for objects without a namespace, unless it names
//! one, and then `kubectl describe` does not find it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
pub use kube::runtime::events::EventType;
use kube::{Api, Client};
use rukpak_crds::condition::printable;
use tokio::sync::mpsc;

/// Longest message that the API takes, in bytes.
const MESSAGE_MAX: usize = 1024;
/// Where events of objects without a namespace are.
const NAMESPACE: &str = "default";
/// So many Events wait to be written at most. Past it the newest is lost: whoever has more to say than the API server takes is not
/// waited for.
const QUEUE: usize = 1024;
/// What [`Events::tell_seldom`] says again after.
const SELDOM: Duration = Duration::from_mins(10);
/// So many of these are remembered.
const REMEMBERED: usize = 1024;

/// Writes Events, one after the other, on a task of its own: a reconcile does not wait for what it has to tell.
pub struct Events {
    queue: mpsc::Sender<Event>,
    component: &'static str,
    /// When what is said seldom was said last, by UID of the object, reason and message.
    said: Mutex<HashMap<(String, String, String), Instant>>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether there is a reason to worry.
    pub type_: EventType,
    /// One word in CamelCase, such as the reason of a condition.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Events {
    /// In the name of `component`, a program. Within a runtime: the task that writes starts here, and ends with the last sender.
    pub fn new(client: Client, component: &'static str) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        tokio::spawn(write(Api::namespaced(client, NAMESPACE), events));
        Self { queue, component, said: Mutex::default() }
    }

    /// Tells that something happened to `about`. Returns at once.
    pub fn tell(&self, about: ObjectReference, news: &News) {
        let name = about.name.clone();
        if self.queue.try_send(event(about, self.component, news, Timestamp::now())).is_err() {
            tracing::warn!(object = name, reason = news.reason, "Event dropped: too many are waiting to be written");
        }
    }

    /// [`Self::tell`], unless the same was told within the last ten minutes, or 1,024 others were.
    pub fn tell_seldom(&self, about: ObjectReference, news: &News) {
        let key = (about.uid.clone().unwrap_or_default(), news.reason.clone(), news.message.clone());
        let now = Instant::now();
        {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() >= REMEMBERED {
                said.retain(|_, last| now.duration_since(*last) < SELDOM);
            }
            let is_new = said.get(&key).is_none_or(|last| now.duration_since(*last) >= SELDOM);
            if !is_new || said.len() >= REMEMBERED {
                return;
            }
            said.insert(key, now);
        }
        self.tell(about, news);
    }
}

/// That an Event cannot be written holds nothing up.
async fn write(api: Api<Event>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            let Event { involved_object, reason, .. } = event;
            tracing::warn!(object = involved_object.name, reason, %error, "cannot write an Event");
        }
    }
}

fn event(about: ObjectReference, component: &str, news: &News, now: Timestamp) -> Event {
    let type_ = if news.type_ == EventType::Warning { "Warning" } else { "Normal" };
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() },
        involved_object: about,
        type_: Some(type_.to_owned()),
        reason: Some(news.reason.clone()),
        message: Some(shortened(&printable(&news.message))),
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
