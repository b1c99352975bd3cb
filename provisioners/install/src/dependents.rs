//! Watches over the objects that are installed: what they saw, and whom it is news for.

mod follow;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use rukpak_crds::{BundleDeployment, InventoryKind, names};
use rukpak_plain::ObjectKey;
use rukpak_plan::inbox::{Inbox, Reaction};
use rukpak_plan::owner::{claimed, controller, sharers};
use rukpak_plan::{Fingerprint, Identity, Kind, Owner};
use rukpak_runtime::queue::Queue;
use tokio::sync::mpsc::UnboundedSender;

use crate::index::{Observed, ObservedObjects};
use crate::tracker::Trackers;

pub(crate) use follow::status;

type GroupKind = (String, String);

/// The watches, one a kind, started when the first object of the kind is applied and stopped when no deployment has one.
pub struct Dependents {
    client: Client,
    hub: Arc<Hub>,
}

/// What the watch tasks share.
struct Hub {
    trackers: Trackers,
    queue: Queue<BundleDeployment>,
    /// Kinds whose watched version is not served.
    unserved: UnboundedSender<InventoryKind>,
    kinds: Mutex<HashMap<GroupKind, Watched>>,
}

struct Watched {
    task: tokio::task::AbortHandle,
    /// The version that is watched.
    version: String,
    is_listed: bool,
    /// The newest version of the kind that an object or its end was told with.
    newest: Option<u64>,
    /// Nobody serves the kind in any version, and the deployments know.
    is_gone: bool,
    /// Why the API server refuses to list it, if it does.
    refusal: Option<String>,
    index: ObservedObjects,
    /// Objects that several deployments share (Namespaces and CRDs).
    shared: BTreeMap<ObjectKey, Shared>,
}

/// Who shares an object.
struct Shared {
    kind: Kind,
    has_controller: bool,
    /// The BundleDeployments that do not control it.
    sharers: Vec<Owner>,
    /// Of a CRD: changes with what it says.
    generation: Option<i64>,
}

impl Dependents {
    /// Without any watch yet.
    pub fn new(
        client: Client,
        trackers: Trackers,
        queue: Queue<BundleDeployment>,
        unserved: UnboundedSender<InventoryKind>,
    ) -> Self {
        Self { client, hub: Arc::new(Hub { trackers, queue, unserved, kinds: Mutex::default() }) }
    }

    /// Starts the watches that are not running yet.
    pub fn ensure<'a>(&self, kinds: impl IntoIterator<Item = &'a Kind>) {
        let mut watched = self.hub.lock();
        for kind in kinds {
            let id = (kind.resource.group.clone(), kind.resource.kind.clone());
            watched.entry(id).or_insert_with(|| self.start(kind, ObservedObjects::default()));
        }
    }

    fn start(&self, kind: &Kind, index: ObservedObjects) -> Watched {
        let task = tokio::spawn(follow::follow(self.client.clone(), self.hub.clone(), kind.clone()));
        Watched {
            task: task.abort_handle(),
            version: kind.resource.version.clone(),
            is_listed: false,
            newest: None,
            is_gone: false,
            refusal: None,
            index,
            shared: BTreeMap::new(),
        }
    }

    /// The kind is served in this version now. A watch over another version ends: nobody would tell that it gets no answers.
    pub(crate) fn follow_version(&self, kind: &Kind) {
        let id = (kind.resource.group.clone(), kind.resource.kind.clone());
        let mut watched = self.hub.lock();
        if let Some(old) = watched.get_mut(&id).filter(|old| old.version != kind.resource.version) {
            tracing::info!(kind = %kind.resource.kind, group = %kind.resource.group, from = %old.version,
                to = %kind.resource.version, "watching another version of a kind");
            old.task.abort();
            let index = std::mem::take(&mut old.index);
            *old = self.start(kind, index);
        }
    }

    /// Nobody serves the kind in any version, so all of its objects are gone. A watch that had begun by then has seen them go; one
    /// whose first list came too late will never tell.
    pub(crate) fn kind_gone(&self, kind: &InventoryKind) {
        let id = (kind.group.clone(), kind.kind.clone());
        let is_news =
            self.hub.lock().get_mut(&id).is_some_and(|watched| !std::mem::replace(&mut watched.is_gone, true));
        if is_news {
            self.hub.only(&id, &HashSet::new());
        }
    }

    /// Whether the first list of each of these kinds, as group and kind, is in.
    pub(crate) fn are_listed(&self, kinds: &BTreeSet<GroupKind>) -> bool {
        let watched = self.hub.lock();
        kinds.iter().all(|kind| watched.get(kind).is_some_and(|watched| watched.is_listed))
    }

    /// The newest version of a kind that its watch has told of. `None` before its first list is in, and where versions are no numbers.
    pub fn newest(&self, kind: &InventoryKind) -> Option<u64> {
        let watched = self.hub.lock();
        watched.get(&(kind.group.clone(), kind.kind.clone())).filter(|watched| watched.is_listed)?.newest
    }

    /// Those of these kinds that the API server refuses to list or watch, and its words.
    pub fn refused<'a>(&self, kinds: impl IntoIterator<Item = &'a InventoryKind>) -> Vec<String> {
        let watched = self.hub.lock();
        let refusal = |kind: &InventoryKind| watched.get(&(kind.group.clone(), kind.kind.clone()))?.refusal.clone();
        kinds.into_iter().filter_map(|kind| Some(format!("{}: {}", kind.kind, refusal(kind)?))).collect()
    }

    /// Everything whose ownership metadata names `owner`.
    pub fn of(&self, owner: &Owner) -> BTreeMap<ObjectKey, Observed> {
        let watched = self.hub.lock();
        let own = watched.values().flat_map(|watched| watched.index.of(owner));
        own.map(|(key, observed)| (key.clone(), observed.clone())).collect()
    }

    /// The objects of one kind whose ownership metadata names `owner`. `None` before the first list of the kind is in, and where it
    /// is refused.
    pub fn of_kind(&self, owner: &Owner, kind: &InventoryKind) -> Option<BTreeMap<ObjectKey, Fingerprint>> {
        let watched = self.hub.lock();
        let watched = watched.get(&(kind.group.clone(), kind.kind.clone()))?;
        let own = watched.index.of(owner).map(|(key, observed)| (key.clone(), observed.fingerprint.clone()));
        (watched.is_listed && !watched.is_gone && watched.refusal.is_none()).then(|| own.collect())
    }

    /// The object as it was seen last.
    pub fn get(&self, key: &ObjectKey) -> Option<Observed> {
        self.hub.lock().get(&(key.group.clone(), key.kind.clone()))?.index.get(key).cloned()
    }

    /// What `owner` shares and nobody controls any more.
    pub fn inherited(&self, owner: &Owner) -> Vec<ObjectKey> {
        let watched = self.hub.lock();
        let shared = watched.values().flat_map(|watched| &watched.shared);
        let inherited = shared.filter(|(_, shared)| !shared.has_controller && shared.sharers.contains(owner));
        inherited.map(|(key, _)| key.clone()).collect()
    }

    /// What `owner` shares without leading it.
    pub fn shared(&self, owner: &Owner) -> Vec<Identity> {
        let watched = self.hub.lock();
        let shared = watched.values().flat_map(|watched| &watched.shared);
        let shared = shared.filter(|(_, shared)| shared.sharers.contains(owner));
        let identity = |(key, shared): (&ObjectKey, &Shared)| Identity {
            kind: shared.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        shared.map(identity).collect()
    }

    /// Stops the watches of all other kinds, but of those with objects that deployments share: whoever is left inherits these.
    pub fn retain(&self, kinds: &BTreeSet<GroupKind>) {
        self.hub.lock().retain(|id, watched| {
            let keep = kinds.contains(id) || !watched.shared.is_empty();
            if !keep {
                watched.task.abort();
            }
            keep
        });
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, HashMap<GroupKind, Watched>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version in which an object of the kind was applied.
    fn newest_applied(&self, id: &GroupKind) -> Option<u64> {
        self.trackers.newest_applied(id)
    }

    /// An object is there. In a list that was begun when `applied_before` was the newest version that was applied, an older version than
    /// that is no old event.
    fn seen(&self, id: &GroupKind, kind: &Kind, metadata: &ObjectMeta, applied_before: Option<u64>) -> ObjectKey {
        let (key, owner) = (key(kind, metadata), claimed(metadata));
        let fingerprint = Fingerprint::of(metadata, &owner, names::FIELD_MANAGER);
        let observed = Observed { owner: Arc::new(owner), fingerprint, kind: kind.clone() };
        let before = self.lock().get_mut(id).and_then(|watched| {
            watched.newest = watched.newest.max(observed.fingerprint.version);
            watched.index.insert(key.clone(), observed.clone())
        });
        // A changed owner label is news for the deployment that the object was taken from.
        let owners: HashSet<&str> =
            before.iter().map(|before| before.owner.name.as_str()).chain([observed.owner.name.as_str()]).collect();
        for name in owners {
            self.react(name, |us, inbox| {
                if let Some(newest) = applied_before {
                    inbox.note_gone_back(&key, &observed.fingerprint, newest);
                }
                inbox.note_seen(us, &key, &observed.owner, &observed.fingerprint)
            });
        }
        self.shared(id, (kind, &key), metadata);
        let adopter = metadata.annotations.as_ref().and_then(|all| all.get(names::ADOPT_BY));
        // What has a controller is not taken over whatever its annotations say.
        if let Some(adopter) = adopter.filter(|_| controller(metadata).is_none())
            && self.trackers.allowed(&key, adopter)
        {
            self.queue.add(adopter);
        }
        key
    }

    /// Remembers who shares an object, and enqueues them when nobody controls it any more, or when it is not what they share any more:
    /// somebody has taken their owner reference off, or has changed what a CRD says.
    fn shared(&self, id: &GroupKind, (kind, key): (&Kind, &ObjectKey), metadata: &ObjectMeta) {
        let has_controller = controller(metadata).is_some() || metadata.deletion_timestamp.is_some();
        let sharers: Vec<Owner> =
            sharers(metadata).map(|owner| Owner { name: owner.name.clone(), uid: owner.uid.clone() }).collect();
        let generation = metadata.generation;
        let before = self.lock().get_mut(id).and_then(|watched| {
            let before = watched.shared.remove(key);
            if !sharers.is_empty() {
                let shared = Shared { kind: kind.clone(), has_controller, sharers: sharers.clone(), generation };
                watched.shared.insert(key.clone(), shared);
            }
            before
        });
        for heir in sharers.iter().filter(|_| !has_controller) {
            self.queue.add(&heir.name);
        }

        let is_other = |before: &Shared, sharer: &Owner| before.generation != generation || !sharers.contains(sharer);
        let changed = before.iter().flat_map(|before| before.sharers.iter().filter(|sharer| is_other(before, sharer)));
        for sharer in changed {
            self.trackers.changed(sharer);
            self.queue.add(&sharer.name);
        }
    }

    fn deleted(&self, id: &GroupKind, kind: &Kind, metadata: &ObjectMeta) {
        let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        if let Some(watched) = self.lock().get_mut(id) {
            watched.newest = watched.newest.max(version);
        }
        self.lost(id, &key(kind, metadata));
    }

    fn lost(&self, id: &GroupKind, key: &ObjectKey) {
        let before = self.lock().get_mut(id).and_then(|watched| {
            watched.shared.remove(key);
            watched.index.remove(key)
        });
        if let Some(before) = before {
            self.react(&before.owner.name, |_, inbox| inbox.note_lost(key, &before.fingerprint.uid));
        }
        for waiting in self.trackers.cleared(key) {
            self.queue.add(&waiting.name);
        }
    }

    /// These are all objects of the kind: whatever else was there is gone.
    fn only(&self, id: &GroupKind, listed: &HashSet<ObjectKey>) {
        for key in self.keys(id).into_iter().filter(|key| !listed.contains(&**key)) {
            self.lost(id, &key);
        }
        let owner = |key: &ObjectKey| Some(self.lock().get(id)?.index.get(key)?.owner.clone());
        let is_own =
            |key: &ObjectKey, us: &Owner| listed.contains(key) && owner(key).is_some_and(|owner| *owner == *us);
        for name in self.trackers.unlisted(&id.0, &id.1, is_own) {
            self.queue.add(&name);
        }
    }

    /// The list is complete.
    fn listed(&self, id: &GroupKind, listed: &HashSet<ObjectKey>) {
        self.only(id, listed);
        if let Some(watched) = self.lock().get_mut(id) {
            (watched.is_listed, watched.is_gone) = (true, false);
        }
        self.refused(id, None);
        for owner in self.trackers.listed(id) {
            self.queue.add(&owner.name);
        }
    }

    /// The version that is watched is not served any more.
    fn unserved(&self, kind: &Kind) {
        // The receiver is dropped only when the process ends.
        let _ = self.unserved.send(kind.inventory());
    }

    /// Remembers whether a kind can be watched; its deployments have a condition for that.
    fn refused(&self, id: &GroupKind, refusal: Option<String>) {
        let is_news = self.lock().get_mut(id).is_some_and(|watched| {
            let is_news = watched.refusal != refusal;
            watched.refusal = refusal;
            is_news
        });
        if is_news {
            for owner in self.trackers.with_kind(id) {
                self.queue.add(&owner.name);
            }
        }
    }

    fn react(&self, name: &str, observe: impl FnOnce(&Owner, &mut Inbox) -> Reaction) {
        if let Some(tracker) = self.trackers.named(name)
            && observe(&tracker.owner, &mut tracker.tracked()) == Reaction::Enqueue
        {
            self.queue.add(name);
        }
    }

    fn keys(&self, id: &GroupKind) -> Vec<Arc<ObjectKey>> {
        self.lock().get(id).map(|watched| watched.index.keys().cloned().collect()).unwrap_or_default()
    }
}

fn key(kind: &Kind, metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}
