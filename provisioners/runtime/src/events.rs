//! Kubernetes Events: what happened to an object, for `kubectl describe`.
//!
//! Not by kube's `Recorder`: a second message with the same reason is lost to it for six minutes, and its table has no bound,
//! though strangers make denials; it needs the right to patch, and its caller waits for the request.

use std::collections::HashMap;
use std::mem;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
pub use kube::runtime::events::EventType;
use kube::{Api, Client};
use rukpak_crds::condition::printable;
use tokio::sync::mpsc;

use crate::lock::lock;
use crate::process::leader;
use crate::warn_first;

/// Longest message that the API takes, in bytes.
const MESSAGE_MAX: usize = 1024;
/// Longest name of a process that the API takes, in bytes.
const INSTANCE_MAX: usize = 128;
/// So much of an object's name is in that of its Event, in bytes: the API takes 253, and a dot and the time follow.
const NAME_MAX: usize = 253 - 17;
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
    /// What the component does to objects, in one word.
    action: &'static str,
    /// Name of this process.
    instance: String,
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
    /// In the name of `component`, a program, which does `action` to objects. Within a runtime: the task that writes starts here, and
    /// ends with the last sender.
    pub fn new(client: Client, component: &'static str, action: &'static str) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        tokio::spawn(write(client, events));
        Self::sending(queue, component, action)
    }

    fn sending(queue: mpsc::Sender<Event>, component: &'static str, action: &'static str) -> Self {
        let instance = leader::identity().ok().filter(|name| name.len() <= INSTANCE_MAX);
        let instance = instance.unwrap_or_else(|| component.to_owned());
        Self { queue, component, action, instance, said: Mutex::default(), remembered: REMEMBERED, again_after: SELDOM }
    }

    /// The same, and [`Self::tell_seldom`] tells no more than `count` different ones within ten minutes.
    #[must_use]
    pub fn at_most(self, count: usize) -> Self {
        Self { remembered: count, ..self }
    }

    /// Tells that something happened to `about`. Returns at once.
    pub fn tell(&self, about: ObjectReference, news: &News) {
        self.send(self.event(about, news, Timestamp::now()));
    }

    /// [`Self::tell`], unless the same was told within the last ten minutes, or 1,024 others were. What was not told is counted
    /// in the next Event that says the same.
    pub fn tell_seldom(&self, about: ObjectReference, news: &News) {
        let key = (about.uid.clone().unwrap_or_default(), news.reason.clone(), news.message.clone());
        let (now, time) = (Instant::now(), Timestamp::now());
        let unsaid = {
            let mut said = lock(&self.said);
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
        let mut event = self.event(about, news, time);
        if let Some((count, since)) = unsaid {
            event.event_time = Some(MicroTime(since));
            event.series = Some(EventSeries { count: count.saturating_add(1), last_observed_time: MicroTime(time) });
        }
        self.send(event);
    }

    /// All that the API server asks for, and nothing of what it refuses: the fields of the older form.
    fn event(&self, about: ObjectReference, news: &News, now: Timestamp) -> Event {
        let type_ = if news.type_ == EventType::Warning { "Warning" } else { "Normal" };
        let name = about.name.as_deref().unwrap_or(self.component);
        let name = name[..name.floor_char_boundary(NAME_MAX)].trim_end_matches(['-', '.']);
        let namespace = about.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            regarding: Some(about),
            type_: Some(type_.to_owned()),
            reason: Some(news.reason.clone()),
            note: Some(shortened(&printable(&news.message))),
            action: Some(self.action.to_owned()),
            reporting_controller: Some(self.component.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            event_time: Some(MicroTime(now)),
            ..Event::default()
        }
    }

    fn send(&self, event: Event) {
        if let Err(error) = self.queue.try_send(event) {
            let Event { regarding, reason, .. } = error.into_inner();
            let object = regarding.and_then(|object| object.name);
            tracing::warn!(object, reason, "Event dropped: too many are waiting to be written");
        }
    }
}

/// That an Event cannot be written holds nothing up.
async fn write(client: Client, mut events: mpsc::Receiver<Event>) {
    let mut is_failing = false;
    while let Some(event) = events.recv().await {
        let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or(NAMESPACE));
        let written = api.create(&PostParams::default(), &event).await;
        let is_first = !mem::replace(&mut is_failing, written.is_err());
        if let Err(error) = written {
            let Event { regarding, reason, .. } = event;
            let object = regarding.and_then(|object| object.name);
            warn_first!(is_first, object, reason, %error, "cannot write an Event");
        }
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
        (Events::sending(queue, "c", "Test").at_most(count), told)
    }

    fn about(uid: &str) -> ObjectReference {
        ObjectReference { uid: Some(uid.to_owned()), namespace: Some("n".to_owned()), ..ObjectReference::default() }
    }

    #[test]
    fn an_event_has_what_the_api_server_asks_for_and_no_more() {
        let (events, mut told) = events(1);
        let news = News { type_: EventType::Normal, reason: "R".to_owned(), message: "m".to_owned() };
        let regarding = ObjectReference { name: Some("o".to_owned()), ..ObjectReference::default() };
        events.tell(regarding.clone(), &news);
        let told = told.try_recv().expect("an Event");
        let (name, instance) = (told.metadata.name.clone(), told.reporting_instance.clone());
        assert!(name.is_some_and(|name| name.starts_with("o.")));
        assert!(instance.is_some_and(|name| !name.is_empty() && name.len() <= INSTANCE_MAX));
        assert!(told.event_time.is_some());
        let text = |text: &str| Some(text.to_owned());
        let expected = Event {
            metadata: ObjectMeta {
                name: told.metadata.name.clone(),
                namespace: text("default"),
                ..ObjectMeta::default()
            },
            regarding: Some(regarding),
            type_: text("Normal"),
            reason: text("R"),
            note: text("m"),
            action: text("Test"),
            reporting_controller: text("c"),
            reporting_instance: told.reporting_instance.clone(),
            event_time: told.event_time.clone(),
            ..Event::default()
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn the_name_of_an_event_is_that_of_an_object() {
        let (events, _told) = events(1);
        let news = News { type_: EventType::Normal, reason: "R".to_owned(), message: "m".to_owned() };
        let name = format!("{}-.{}", "a".repeat(NAME_MAX - 2), "b".repeat(15));
        let about = ObjectReference { name: Some(name), ..ObjectReference::default() };
        let name = events.event(about, &news, Timestamp::now()).metadata.name.expect("a name");
        assert!(name.len() <= 253 && name.contains("aa.1"), "{name}");
    }

    #[test]
    fn what_is_told_seldom_is_counted_meanwhile() {
        let (mut events, mut told) = events(2);
        let news = News { type_: EventType::Warning, reason: "R".to_owned(), message: "m".to_owned() };
        for _ in 0..3 {
            events.tell_seldom(about("1"), &news);
        }
        assert_eq!(told.try_recv().expect("the first").series, None);
        assert!(told.try_recv().is_err());
        events.again_after = Duration::ZERO;
        events.tell_seldom(about("1"), &news);
        events.again_after = SELDOM;
        let again = told.try_recv().expect("after ten minutes");
        let series = again.series.expect("a series");
        assert_eq!((series.count, again.metadata.namespace.as_deref()), (3, Some("n")));
        assert!(again.event_time < Some(series.last_observed_time), "since when, and when last");
        // No more than two within ten minutes.
        for uid in ["2", "3"] {
            events.tell_seldom(about(uid), &news);
        }
        let second = told.try_recv().expect("the second").regarding.and_then(|object| object.uid);
        assert_eq!(second.as_deref(), Some("2"));
        assert!(told.try_recv().is_err());
    }
}
