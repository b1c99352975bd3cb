//! What was read of CatalogSources, and how it is read. Memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use rukpak_catalog::origin::{Loader, Revision};
use rukpak_catalog::registry::server;
use rukpak_catalog::{Catalog, Package};
use rukpak_runtime::error::Chain;
use rukpak_runtime::lock::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::place::{Place, Problem};
use super::shown::Shown;
use crate::catalogs::{Listed, Server};
use crate::logins::Logins;

/// What CatalogSources have, and how it is read.
pub(in crate::olmv0) struct Catalogs {
    pub known: Known,
    pub(super) loader: Arc<Loader>,
    pub(super) logins: Arc<Logins>,
    /// How often a server is asked for its list.
    pub(super) interval: Duration,
    /// Nobody waits for it: a pass over a Subscription tries again by itself.
    pub news: Arc<Notify>,
    /// How images are shown to other clients, if they are.
    pub(super) shown: Option<Shown>,
}

impl Catalogs {
    /// Nothing is read yet.
    pub fn new(loader: Arc<Loader>, logins: Arc<Logins>, interval: Duration, shown: Option<Shown>) -> Self {
        Self { known: Known::default(), loader, logins, interval, news: Arc::default(), shown }
    }
}

/// Namespace and name of a CatalogSource.
pub(in crate::olmv0) type Key = (String, String);

/// By what they are of.
#[derive(Default)]
pub(in crate::olmv0) struct Known(Mutex<HashMap<Key, State>>);

/// What is known of one.
#[derive(Clone)]
pub(super) struct State {
    pub asked: Asked,
    pub content: Option<Content>,
    /// Why it could not be read the last time, in words.
    pub failure: Option<String>,
    /// When there was something new.
    pub read_at: Option<Timestamp>,
    /// When to look again.
    pub due: Option<Instant>,
    /// How often in a row it could not be read.
    pub failures: u32,
    /// Since when it has the Service by which clients read it, if that is known.
    pub named: Option<Timestamp>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub uid: String,
    pub place: Result<Place, Problem>,
}

/// What a CatalogSource has.
#[derive(Clone)]
pub(in crate::olmv0) enum Content {
    /// `shown` is what other clients read, where it is served.
    Image {
        catalog: Arc<Catalog>,
        revision: Revision,
        shown: Option<Arc<server::Content>>,
    },
    Server {
        listed: Arc<Listed>,
        server: Server,
    },
}

/// How a CatalogSource is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::olmv0) enum Health {
    /// Nobody has looked at it yet.
    Unlooked,
    /// Its content can be read, since then; words say what is wrong all the same.
    Ready { since: Option<Timestamp>, trouble: Option<String> },
    /// It cannot be read.
    Failed(String),
    /// Its spec is wrong.
    Invalid(Problem),
}

impl State {
    /// Nothing is known of what was asked for.
    pub fn nothing(asked: Asked) -> Self {
        Self { asked, content: None, failure: None, read_at: None, due: None, failures: 0, named: None }
    }
}

impl Content {
    /// Whether both list the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Image { revision, .. }, Self::Image { revision: other, .. }) => revision == other,
            (Self::Server { listed, .. }, Self::Server { listed: other, .. }) => listed.is_same(other),
            _ => false,
        }
    }
}

impl Health {
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

impl Known {
    pub fn health(&self, key: &Key) -> Health {
        let all = lock(&self.0);
        let Some(state) = all.get(key) else { return Health::Unlooked };
        match (&state.asked.place, &state.content, &state.failure) {
            (Err(problem), ..) => Health::Invalid(problem.clone()),
            (Ok(_), Some(_), trouble) => Health::Ready { since: state.read_at, trouble: trouble.clone() },
            (Ok(_), None, Some(failure)) => Health::Failed(failure.clone()),
            (Ok(_), None, None) => Health::Unlooked,
        }
    }

    /// What it has, as it was read last.
    pub fn content(&self, key: &Key) -> Option<Content> {
        lock(&self.0).get(key).and_then(|state| state.content.clone())
    }

    /// A package of it; `None` if it has none of that name.
    pub async fn package(&self, key: &Key, package: &str, news: &Arc<Notify>) -> Result<Option<Arc<Package>>, String> {
        match self.content(key) {
            None => Err("it has not been read yet".to_owned()),
            Some(Content::Image { catalog, .. }) => Ok(catalog.packages.get(package).cloned().map(Arc::new)),
            Some(Content::Server { listed, server }) => {
                let found = listed.package(package, &server, news).await;
                found.map_err(|error| Chain(&error).to_string())
            }
        }
    }

    /// Whether it is to be read now: it is not known as it is asked for, or its time has come.
    pub(super) fn is_due(&self, key: &Key, asked: &Asked, now: Instant) -> bool {
        let all = lock(&self.0);
        let known = all.get(key).filter(|state| state.asked == *asked);
        known.is_none_or(|state| state.due.is_some_and(|due| due <= now))
    }

    pub(super) fn due_at(&self, key: &Key) -> Option<Instant> {
        lock(&self.0).get(key).and_then(|state| state.due)
    }

    pub(super) fn get(&self, key: &Key) -> Option<State> {
        lock(&self.0).get(key).cloned()
    }

    pub(super) fn put(&self, key: &Key, state: State) {
        lock(&self.0).insert(key.clone(), state);
    }

    /// Since when it has a Service.
    pub(super) fn named(&self, key: &Key) -> Option<Timestamp> {
        lock(&self.0).get(key).and_then(|state| state.named)
    }

    /// Whether it is served, and nobody knows of a Service yet.
    pub(super) fn is_unnamed(&self, key: &Key) -> bool {
        let all = lock(&self.0);
        let state = all.get(key).filter(|state| state.named.is_none());
        state.is_some_and(|state| matches!(&state.content, Some(Content::Image { shown: Some(_), .. })))
    }

    /// It has a Service, since then.
    pub(super) fn name(&self, key: &Key, since: Timestamp) {
        if let Some(state) = lock(&self.0).get_mut(key) {
            state.named = Some(since);
        }
    }

    /// It is gone.
    pub fn forget(&self, key: &Key) {
        lock(&self.0).remove(key);
    }

    /// No others than these are there.
    pub fn retain(&self, is_there: impl Fn(&Key) -> bool) {
        lock(&self.0).retain(|key, _| is_there(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_unseen_has_nothing_any_more() {
        let (known, key) = (Known::default(), |name: &str| ("olm".to_owned(), name.to_owned()));
        for name in ["gone", "there"] {
            let asked = Asked { uid: name.to_owned(), place: Ok(Place::Image("r.example/c:1".to_owned())) };
            let failure = Some("why".to_owned());
            known.put(&key(name), State { failure, ..State::nothing(asked) });
        }
        known.retain(|(_, name)| name == "there");
        assert_eq!(known.health(&key("gone")), Health::Unlooked);
        assert_eq!(known.health(&key("there")), Health::Failed("why".to_owned()));
    }
}
