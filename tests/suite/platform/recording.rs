//! Everything that happened to an object, in order.

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use rukpak_tests::verbs::Target;
use rukpak_tests::world::SOON;
use tokio::sync::watch;

/// What a watch has shown.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Whether the object was new with this event.
    pub added: bool,
    /// Whether it was gone.
    pub deleted: bool,
    pub object: DynamicObject,
}

/// A watch over one object since the start of the recording.
pub struct Recording {
    seen: watch::Receiver<Vec<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Recording {
    /// Begins now: what is there already is not an event.
    pub async fn of(client: &Client, target: &Target) -> Self {
        let api = target.api(client).await.expect("the kind is served");
        let name = format!("metadata.name={}", target.name);
        let now = api.list(&ListParams::default().fields(&name)).await.expect("a list");
        let mut version = now.metadata.resource_version.expect("a list has a version");
        let (sender, seen) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            // The API server ends each watch after some minutes.
            loop {
                let events = api.watch(&WatchParams::default().fields(&name), &version).await.expect("a watch");
                let mut events = std::pin::pin!(events);
                while let Some(event) = events.next().await {
                    let (added, deleted, object) = match event.expect("an event") {
                        WatchEvent::Added(object) => (true, false, object),
                        WatchEvent::Modified(object) => (false, false, object),
                        WatchEvent::Deleted(object) => (false, true, object),
                        WatchEvent::Bookmark(_) => continue,
                        WatchEvent::Error(error) => panic!("{error:?}"),
                    };
                    version = object.resource_version().expect("an object has a version");
                    sender.send_modify(|seen: &mut Vec<Seen>| seen.push(Seen { added, deleted, object }));
                }
            }
        });
        Self { seen, task }
    }

    /// Waits until an event is as wanted; returns all so far.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let mut receiver = self.seen.clone();
        let found = tokio::time::timeout(SOON, receiver.wait_for(|seen| seen.iter().any(&wanted))).await;
        match found {
            Ok(seen) => seen.expect("the watch goes on").clone(),
            Err(elapsed) => panic!("still waiting for {what} ({elapsed}); so far: {:#?}", self.so_far()),
        }
    }

    /// All events so far.
    pub fn so_far(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The images that a BundleDeployment was pointed at, each once in a row.
pub fn images(seen: &[Seen]) -> Vec<String> {
    let mut images: Vec<String> = seen.iter().map(|seen| super::case::image_of(&seen.object).to_owned()).collect();
    images.dedup();
    images
}
