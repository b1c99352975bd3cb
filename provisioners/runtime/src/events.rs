//! Kubernetes Events: what happened to an object, for `kubectl describe`.
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
/// So many of these are remembered, unless a program says otherwise.
const REMEMBERED: usize = 1024;

/// Writes Events, one after the other, on a task of its own: a reconcile does not wait for what it has to tell.
pub struct Events {
    queue: mpsc::Sender<Event>,
    component: &'static str,
    /// What is said seldom, by UID of the object, reason and message.
    said: Mutex<HashMap<(String, String, String), Said>>,
    remembered: usize,
    again_after: Duration,
}

/// What was said, and how often it happened since.
struct Said {
    at: Instant,
    /// How often, and when first.
    unsaid: Option<(i32, Timestamp)>,
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
        tokio::spawn(write(client, events));
        Self { queue, component, said: Mutex::default(), remembered: REMEMBERED, again_after: SELDOM }
    }

    /// The same, and [`Self::tell_seldom`] tells no more than `count` different ones within ten minutes.
    #[must_use]
    pub fn at_most(self, count: usize) -> Self {
        Self { remembered: count, ..self }
    }

    /// Tells that something happened to `about`. Returns at once.
    pub fn tell(&self, about: ObjectReference, news: &News) {
        self.send(event(about, self.component, news, Timestamp::now()));
    }

    /// [`Self::tell`], unless the same was told within the last ten minutes, or 1,024 others were. What was not told is counted
    /// in the next Event that says the same.
    pub fn tell_seldom(&self, about: ObjectReference, news: &News) {
        let key = (about.uid.clone().unwrap_or_default(), news.reason.clone(), news.message.clone());
        let (now, time) = (Instant::now(), Timestamp::now());
        let unsaid = {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if !said.contains_key(&key) && said.len() >= self.remembered {
                said.retain(|_, said| now.duration_since(said.at) < self.again_after);
                if said.len() >= self.remembered {
                    return;
                }
            }
            let before = said.get_mut(&key);
            if let Some(before) = before.filter(|before| now.duration_since(before.at) < self.again_after) {
                let (count, since) = before.unsaid.unwrap_or((0, time));
                before.unsaid = Some((count.saturating_add(1), since));
                return;
            }
            said.insert(key, Said { at: now, unsaid: None }).and_then(|before| before.unsaid)
        };
        let mut event = event(about, self.component, news, time);
        if let Some((count, since)) = unsaid {
            event.count = Some(count.saturating_add(1));
            event.first_timestamp = Some(Time(since));
        }
        self.send(event);
    }

    fn send(&self, event: Event) {
        if let Err(error) = self.queue.try_send(event) {
            let Event { involved_object, reason, .. } = error.into_inner();
            let (object, reason) = (involved_object.name, reason);
            tracing::warn!(object, reason, "Event dropped: too many are waiting to be written");
        }
    }
}

/// That an Event cannot be written holds nothing up.
async fn write(client: Client, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or(NAMESPACE));
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            let Event { involved_object, reason, .. } = event;
            tracing::warn!(object = involved_object.name, reason, %error, "cannot write an Event");
        }
    }
}

fn event(about: ObjectReference, component: &str, news: &News, now: Timestamp) -> Event {
    let type_ = if news.type_ == EventType::Warning { "Warning" } else { "Normal" };
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    let namespace = about.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
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

    fn events(count: usize) -> (Events, mpsc::Receiver<Event>) {
        let (queue, told) = mpsc::channel(QUEUE);
        (Events { queue, component: "c", said: Mutex::default(), remembered: count, again_after: SELDOM }, told)
    }

    fn about(uid: &str) -> ObjectReference {
        ObjectReference { uid: Some(uid.to_owned()), namespace: Some("n".to_owned()), ..ObjectReference::default() }
    }

    #[test]
    fn what_is_told_seldom_is_counted_meanwhile() {
        let (mut events, mut told) = events(2);
        let news = News { type_: EventType::Warning, reason: "R".to_owned(), message: "m".to_owned() };
        for _ in 0..3 {
            events.tell_seldom(about("1"), &news);
        }
        assert_eq!(told.try_recv().expect("the first").count, Some(1));
        assert!(told.try_recv().is_err());
        events.again_after = Duration::ZERO;
        events.tell_seldom(about("1"), &news);
        events.again_after = SELDOM;
        let again = told.try_recv().expect("after ten minutes");
        assert_eq!((again.count, again.metadata.namespace.as_deref()), (Some(3), Some("n")));
        assert!(again.first_timestamp < again.last_timestamp);
        // No more than two within ten minutes.
        for uid in ["2", "3"] {
            events.tell_seldom(about(uid), &news);
        }
        assert_eq!(told.try_recv().expect("the second").involved_object.uid.as_deref(), Some("2"));
        assert!(told.try_recv().is_err());
    }
}
