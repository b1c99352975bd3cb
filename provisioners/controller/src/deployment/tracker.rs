//! What the watches and the reconciles of a deployment share: the objects that were applied, and an inbox that watches fill and
//! only a reconcile empties. Beside it lies the memory, which the reconcile that runs takes out and puts back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rukpak_plain::ObjectKey;
use rukpak_plan::applied::Objects;
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::memory::Memory;
use rukpak_plan::{Fingerprint, Owner, health};

/// Every tracker of this process, by the name of its BundleDeployment.
#[derive(Clone, Default)]
pub struct Trackers(Arc<Mutex<HashMap<String, Arc<Tracker>>>>);

/// The tracker of one BundleDeployment.
pub struct Tracker {
    /// Whose it is.
    pub owner: Owner,
    tracked: Mutex<Tracked>,
    memory: Mutex<Memory>,
}

/// What is shared with the watches.
#[derive(Default)]
pub struct Tracked {
    /// Every object that was applied.
    pub objects: Objects,
    /// Objects that may have drifted.
    pub drifted: BTreeSet<ObjectKey>,
    /// Objects whose health is to be read again.
    pub unread: BTreeSet<ObjectKey>,
    /// API groups of kinds that were missing when last looked.
    pub missing_groups: BTreeSet<String>,
    /// Objects of others that are in the way.
    pub blocked_by: BTreeSet<ObjectKey>,
    /// Kinds, as group and kind, whose first list is waited for.
    pub awaited_kinds: BTreeSet<(String, String)>,
    /// Something came that was waited for, and no reconcile has seen it yet.
    pub is_unblocked: bool,
}

/// What an event asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    None,
    /// A reconcile.
    Enqueue,
}

impl Trackers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Tracker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tracker of `owner`; a new one if there is none, or only one of an earlier deployment of that name.
    pub fn of(&self, owner: &Owner) -> Arc<Tracker> {
        let mut all = self.lock();
        match all.get(&owner.name) {
            Some(found) if found.owner == *owner => found.clone(),
            _ => {
                let new =
                    Arc::new(Tracker { owner: owner.clone(), tracked: Mutex::default(), memory: Mutex::default() });
                all.insert(owner.name.clone(), new.clone());
                new
            }
        }
    }

    /// The tracker of that name, if there is one.
    pub fn named(&self, name: &str) -> Option<Arc<Tracker>> {
        self.lock().get(name).cloned()
    }

    /// The deployment is gone.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Only these deployments are left.
    pub fn retain(&self, names: &BTreeSet<String>) {
        self.lock().retain(|name, _| names.contains(name));
    }

    /// A CRD of `group` came or changed: the deployments that miss a kind of it. None of them is held back any more.
    pub fn defined(&self, group: &str) -> Vec<Owner> {
        self.unblocked(|tracked| tracked.missing_groups.contains(group))
    }

    /// An object is gone: the deployments that it was in the way of. None of them is held back any more.
    pub fn cleared(&self, key: &ObjectKey) -> Vec<Owner> {
        self.unblocked(|tracked| tracked.blocked_by.remove(key))
    }

    /// The first list of a kind is complete: the deployments that waited for it.
    pub fn listed(&self, kind: &(String, String)) -> Vec<Owner> {
        let all = self.lock();
        let awaited = all.values().filter(|tracker| tracker.tracked().awaited_kinds.remove(kind));
        awaited.map(|tracker| tracker.owner.clone()).collect()
    }

    /// An object may be taken over by the deployment `name` from now on. Whether that waits for it; if so, it is not held back
    /// any more.
    pub fn allowed(&self, key: &ObjectKey, name: &str) -> bool {
        let Some(found) = self.named(name) else { return false };
        let mut tracked = found.tracked();
        let is_news = tracked.blocked_by.remove(key);
        tracked.is_unblocked |= is_news;
        is_news
    }

    fn unblocked(&self, is_news: impl Fn(&mut Tracked) -> bool) -> Vec<Owner> {
        let all = self.lock();
        let unblocked = all.values().filter(|one| {
            let mut tracked = one.tracked();
            let is_news = is_news(&mut tracked);
            tracked.is_unblocked |= is_news;
            is_news
        });
        unblocked.map(|one| one.owner.clone()).collect()
    }

    /// A watch has listed its kind: the deployments that have applied an object of it that is not `listed`. It went before
    /// the watch began, or the watch is about to see it.
    pub fn unlisted(&self, group: &str, kind: &str, listed: &HashSet<ObjectKey>) -> Vec<String> {
        let all = self.lock();
        let mut names = Vec::new();
        for one in all.values() {
            let mut tracked = one.tracked();
            let is_unlisted = |key: &&ObjectKey| key.group == group && key.kind == kind && !listed.contains(*key);
            let unlisted: Vec<ObjectKey> = tracked.objects.keys().filter(is_unlisted).cloned().collect();
            if !unlisted.is_empty() {
                tracked.drifted.extend(unlisted);
                names.push(one.owner.name.clone());
            }
        }
        names
    }

    /// Every kind that some deployment has objects of, or waits for, as (group, kind).
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        let all = self.lock();
        let mut kinds = BTreeSet::new();
        for one in all.values() {
            let tracked = one.tracked();
            kinds.extend(tracked.awaited_kinds.iter().cloned());
            for key in tracked.objects.keys().chain(&tracked.blocked_by) {
                // Keys of a kind follow one another: most are known already.
                let id = (key.group.as_str(), key.kind.as_str());
                if kinds.last().is_none_or(|(group, kind): &(String, String)| (group.as_str(), kind.as_str()) != id) {
                    kinds.insert((key.group.clone(), key.kind.clone()));
                }
            }
        }
        kinds
    }
}

impl Tracker {
    /// What is shared, for a short look. Never held over an await.
    pub fn tracked(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the memory out, at the beginning of a reconcile. One that ends without putting it back is as good as a restart.
    pub fn take_memory(&self) -> Memory {
        std::mem::take(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts it back.
    pub fn put_memory(&self, memory: Memory) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }

    /// A watch saw the object with this owner and fingerprint.
    pub fn seen(&self, key: &ObjectKey, owner: &Owner, fingerprint: &Fingerprint) -> Reaction {
        let mut tracked = self.tracked();
        let Some(applied) = tracked.objects.get(key) else { return Reaction::None };
        let drift = if *owner == self.owner { applied.fingerprint.drift(fingerprint) } else { Drift::Fields };
        if drift != Drift::None {
            tracked.drifted.insert(key.clone());
            return Reaction::Enqueue;
        }
        let is_newer = fingerprint.version > applied.fingerprint.version;
        if is_newer && health::has_rule(&key.group, &key.kind) {
            tracked.unread.insert(key.clone());
            return Reaction::Enqueue;
        }
        Reaction::None
    }

    /// A watch saw the object with this UID go, or lose its label.
    pub fn lost(&self, key: &ObjectKey, uid: &str) -> Reaction {
        let mut tracked = self.tracked();
        let ours = tracked.objects.get(key).is_some_and(|applied| applied.fingerprint.uid == uid);
        if ours {
            tracked.drifted.insert(key.clone());
            return Reaction::Enqueue;
        }
        Reaction::None
    }
}

impl Tracked {
    /// The UIDs of all objects, by their keys.
    pub fn uids(&self) -> BTreeMap<ObjectKey, String> {
        self.objects.iter().map(|(key, tracked)| (key.clone(), tracked.fingerprint.uid.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_that_waits_for_an_object_is_unblocked_when_it_may_take_it() {
        let (all, owner) = (Trackers::default(), Owner { name: "a".into(), uid: "1".into() });
        let tracker = all.of(&owner);
        let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() };
        assert!(!all.allowed(&key, "a"), "nothing is waited for");
        tracker.tracked().blocked_by.insert(key.clone());
        assert!(!all.allowed(&key, "b"), "another may take it");
        assert!(!tracker.tracked().is_unblocked);
        assert!(all.kinds().contains(&(String::new(), "ConfigMap".into())), "its kind stays watched");
        assert!(all.allowed(&key, "a"));
        assert!(tracker.tracked().is_unblocked);
        assert!(!all.allowed(&key, "a"), "said once");
    }
}
