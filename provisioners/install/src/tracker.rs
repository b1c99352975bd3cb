//! What the watches and the reconciles of a deployment share: the objects that were applied, and an inbox that watches fill and
//! only a reconcile empties. Beside it lies the memory, which the reconcile that runs takes out and gives back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rukpak_plain::ObjectKey;
use rukpak_plan::Owner;
use rukpak_plan::applied::Objects;
use rukpak_plan::inbox::Inbox;
use rukpak_plan::memory::Memory;
use tokio::task::JoinSet;

/// Every tracker of this process.
#[derive(Clone, Default)]
pub struct Trackers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// By the name of the BundleDeployment.
    all: Mutex<HashMap<String, Arc<Tracker>>>,
    /// Objects that are in the way, each with the names of the deployments that wait for its end.
    blocking: Mutex<BTreeMap<ObjectKey, BTreeSet<String>>>,
}

/// The tracker of one BundleDeployment.
pub struct Tracker {
    /// The BundleDeployment.
    pub owner: Owner,
    tracked: Mutex<Inbox>,
    memory: Mutex<Memory>,
    /// Follows the hook that is waited for. It ends with the tracker.
    follower: Mutex<JoinSet<()>>,
}

impl Trackers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Tracker>>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocking(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeSet<String>>> {
        self.0.blocking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tracker of `owner`; a new one if there is none, or only one of an earlier deployment of that name.
    pub fn of(&self, owner: &Owner) -> Arc<Tracker> {
        let mut all = self.lock();
        match all.get(&owner.name) {
            Some(found) if found.owner == *owner => found.clone(),
            _ => {
                let new = Arc::new(Tracker {
                    owner: owner.clone(),
                    tracked: Mutex::default(),
                    memory: Mutex::default(),
                    follower: Mutex::default(),
                });
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
        self.unblock(name);
    }

    /// Only these deployments are left.
    pub fn retain(&self, names: &BTreeSet<String>) {
        self.lock().retain(|name, _| names.contains(name));
        self.blocking().retain(|_, waiting| {
            waiting.retain(|name| names.contains(name));
            !waiting.is_empty()
        });
    }

    /// An object is in the way of the deployment `name`.
    pub fn block(&self, name: &str, key: &ObjectKey) {
        self.blocking().entry(key.clone()).or_default().insert(name.to_owned());
    }

    /// Nothing is in the way of the deployment `name` any more.
    pub(crate) fn unblock(&self, name: &str) {
        self.blocking().retain(|_, waiting| {
            waiting.remove(name);
            !waiting.is_empty()
        });
    }

    /// What the deployment `name` waited for is there: its Plan was answered or is gone, or it is the turn of its chart. It is not held
    /// back any more.
    pub fn end_wait(&self, name: &str) {
        if let Some(found) = self.named(name) {
            found.tracked().is_unblocked = true;
        }
    }

    /// The hook that the deployment `name` waits for is over.
    pub(crate) fn hook_is_over(&self, name: &str) {
        if let Some(found) = self.named(name) {
            found.tracked().is_hook_over = true;
        }
    }

    /// A CRD of `group` came or changed: the deployments that miss a kind of it. None of them is held back any more.
    pub fn defined(&self, group: &str) -> Vec<Owner> {
        let all = self.lock();
        let unblocked = all.values().filter(|one| {
            let mut tracked = one.tracked();
            let is_news = tracked.missing_groups.contains(group);
            tracked.is_unblocked |= is_news;
            is_news
        });
        unblocked.map(|one| one.owner.clone()).collect()
    }

    /// An object is gone: the deployments that it was in the way of. None of them is held back any more.
    pub fn cleared(&self, key: &ObjectKey) -> Vec<Owner> {
        let waiting = self.blocking().remove(key).unwrap_or_default();
        let trackers = waiting.iter().filter_map(|name| self.named(name));
        let unblocked = trackers.inspect(|tracker| tracker.tracked().is_unblocked = true);
        unblocked.map(|tracker| tracker.owner.clone()).collect()
    }

    /// What the deployment shares with others has changed: whether it has still all that is declared is looked at again.
    pub fn changed(&self, sharer: &Owner) {
        if let Some(found) = self.named(&sharer.name).filter(|found| found.owner == *sharer) {
            found.tracked().is_unblocked = true;
        }
    }

    /// The first list of a kind is complete: the deployments that waited for it.
    pub fn listed(&self, kind: &(String, String)) -> Vec<Owner> {
        let all = self.lock();
        let awaited = all.values().filter(|tracker| tracker.tracked().awaited_kinds.remove(kind));
        awaited.map(|tracker| tracker.owner.clone()).collect()
    }

    /// The deployments that have an object of a kind, or wait for its list.
    pub(crate) fn with_kind(&self, kind: &(String, String)) -> Vec<Owner> {
        let all = self.lock();
        let concerned = all.values().filter(|tracker| {
            let tracked = tracker.tracked();
            tracked.awaited_kinds.contains(kind) || kinds_of(&tracked.objects).any(|found| found == *kind)
        });
        concerned.map(|tracker| tracker.owner.clone()).collect()
    }

    /// An object may be taken over by the deployment `name` from now on. Whether that waits for it; if so, it is not held back
    /// any more.
    pub fn allowed(&self, key: &ObjectKey, name: &str) -> bool {
        let Some(found) = self.named(name) else { return false };
        let is_news = self.blocking().get_mut(key).is_some_and(|waiting| waiting.remove(name));
        found.tracked().is_unblocked |= is_news;
        is_news
    }

    /// A watch has listed its kind: the deployments that have applied an object of it that is not theirs in the list (`is_own`). It went,
    /// and another may have made it again, before the watch began; or the watch is about to see it.
    pub fn unlisted(&self, group: &str, kind: &str, is_own: impl Fn(&ObjectKey, &Owner) -> bool) -> Vec<String> {
        let all = self.lock();
        let mut names = Vec::new();
        for one in all.values() {
            let mut tracked = one.tracked();
            let is_unlisted = |key: &&ObjectKey| key.group == group && key.kind == kind && !is_own(key, &one.owner);
            let unlisted: Vec<ObjectKey> = tracked.objects.keys().filter(is_unlisted).cloned().collect();
            if !unlisted.is_empty() {
                tracked.drifted.extend(unlisted);
                names.push(one.owner.name.clone());
            }
        }
        names
    }

    /// The newest version in which a deployment has applied an object of a kind.
    pub(crate) fn newest_applied(&self, (group, kind): &(String, String)) -> Option<u64> {
        let all = self.lock();
        let newest = all.values().filter_map(|one| {
            let tracked = one.tracked();
            let of_kind = tracked.objects.iter().filter(|(key, _)| key.group == *group && key.kind == *kind);
            of_kind.filter_map(|(_, object)| object.fingerprint.version).max()
        });
        newest.max()
    }

    /// Every kind that some deployment has objects of, or waits for, as (group, kind).
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        let mut kinds: BTreeSet<_> = self.blocking().keys().map(|key| (key.group.clone(), key.kind.clone())).collect();
        for one in self.lock().values() {
            let tracked = one.tracked();
            kinds.extend(tracked.awaited_kinds.iter().cloned());
            kinds.extend(tracked.leaving.iter().chain(&tracked.held).map(|key| (key.group.clone(), key.kind.clone())));
            kinds.extend(kinds_of(&tracked.objects));
        }
        kinds
    }
}

impl Tracker {
    /// What is shared, for a short look. Never held over an await.
    pub fn tracked(&self) -> MutexGuard<'_, Inbox> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `task` follow what the deployment waits for, in place of the task before.
    pub fn follow(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut follower = JoinSet::new();
        follower.spawn(task);
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = follower;
    }

    /// Takes the memory out, at the beginning of a reconcile. One that ends without putting it back is as good as a restart.
    pub(crate) fn take_memory(&self) -> Memory {
        std::mem::take(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts it back, at the end of a reconcile.
    pub(crate) fn put_memory(&self, memory: Memory) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
        self.tracked().gone = None;
    }
}

/// The kinds of objects, as (group, kind), each found by one look-up: keys of a kind follow one another.
fn kinds_of(objects: &Objects) -> impl Iterator<Item = (String, String)> {
    let mut next = objects.first_key_value().map(|(key, _)| key);
    std::iter::from_fn(move || {
        let found = next?;
        // No name of a kind has this character, so it comes before every other kind.
        let after =
            ObjectKey { kind: format!("{}\0", found.kind), namespace: None, name: String::new(), ..found.clone() };
        next = objects.range(after..).next().map(|(key, _)| key);
        Some((found.group.clone(), found.kind.clone()))
    })
}

#[cfg(test)]
mod tests {
    use rukpak_plan::{Fingerprint, health};

    use super::*;

    #[test]
    fn a_deployment_that_waits_for_an_object_is_unblocked_when_it_may_take_it() {
        let (all, owner) = (Trackers::default(), Owner { name: "a".into(), uid: "1".into() });
        let tracker = all.of(&owner);
        let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() };
        assert!(!all.allowed(&key, "a"), "nothing is waited for");
        all.block("a", &key);
        assert!(!all.allowed(&key, "b"), "another may take it");
        assert!(!tracker.tracked().is_unblocked);
        assert!(all.kinds().contains(&(String::new(), "ConfigMap".into())), "its kind stays watched");
        assert!(all.allowed(&key, "a"));
        assert!(tracker.tracked().is_unblocked);
        assert!(!all.allowed(&key, "a"), "said once");
    }

    #[test]
    fn the_end_of_an_object_is_told_to_whom_it_was_in_the_way_and_to_nobody_else() {
        let all = Trackers::default();
        let key = |name: &str| ObjectKey {
            group: String::new(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: name.into(),
        };
        for name in ["a", "b", "c"] {
            all.of(&Owner { name: name.into(), uid: name.into() });
        }
        for (name, object) in [("a", "one"), ("b", "one"), ("b", "two"), ("c", "three")] {
            all.block(name, &key(object));
        }
        let told = |object| all.cleared(&key(object)).into_iter().map(|owner| owner.name).collect::<Vec<_>>();
        assert_eq!(told("one"), ["a", "b"]);
        assert!(told("one").is_empty(), "said once");
        assert!(all.named("a").unwrap().tracked().is_unblocked);
        assert!(!all.named("c").unwrap().tracked().is_unblocked);
        all.unblock("b");
        assert!(told("two").is_empty(), "nothing is in its way any more");
        all.forget("c");
        assert!(all.kinds().is_empty(), "nothing waits for anything");
    }

    #[test]
    fn forgets_what_went_when_a_reconcile_ends() {
        let (all, owner) = (Trackers::default(), Owner { name: "a".into(), uid: "1".into() });
        let tracker = all.of(&owner);
        tracker.tracked().gone = Some(BTreeSet::from(["copy".to_owned()]));
        tracker.put_memory(tracker.take_memory());
        assert_eq!(tracker.tracked().gone, None);
    }

    #[test]
    fn what_a_first_list_shows_as_somebody_elses_has_drifted() {
        let (all, owner) = (Trackers::default(), Owner { name: "a".into(), uid: "1".into() });
        let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() };
        all.of(&owner).tracked().objects.insert(key.clone(), tracked());
        assert!(all.unlisted("", "ConfigMap", |_, us| *us == owner).is_empty());
        assert_eq!(all.unlisted("", "ConfigMap", |_, _| false), ["a"]);
        assert!(all.of(&owner).tracked().drifted.contains(&key));
    }

    #[test]
    fn keeps_watching_the_kind_of_an_object_that_leaves() {
        let (all, owner) = (Trackers::default(), Owner { name: "a".into(), uid: "1".into() });
        let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() };
        all.of(&owner).tracked().leaving.insert(key);
        assert!(all.kinds().contains(&(String::new(), "ConfigMap".into())));
    }

    #[test]
    fn the_kinds_of_objects_are_found_without_looking_at_each_of_them() {
        let key = |group: &str, kind: &str, name: usize| ObjectKey {
            group: group.into(),
            kind: kind.into(),
            namespace: Some("ns".into()),
            name: name.to_string(),
        };
        let of = |group: &str, kind: &str| (0..100).map(|name| key(group, kind, name)).collect::<Vec<_>>();
        let all = [of("", "ConfigMap"), of("", "ConfigMapList"), of("apps", "ConfigMap"), of("apps", "Deployment")];
        let objects = all.concat().into_iter().map(|key| (key, tracked())).collect();
        let found: Vec<_> = kinds_of(&objects).collect();
        let expected = [("", "ConfigMap"), ("", "ConfigMapList"), ("apps", "ConfigMap"), ("apps", "Deployment")];
        assert_eq!(found, expected.map(|(group, kind)| (group.to_owned(), kind.to_owned())));
    }

    fn tracked() -> rukpak_plan::applied::Tracked {
        let resource =
            std::sync::Arc::new(kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()));
        let kind = rukpak_plan::Kind { resource, namespaced: true };
        let owner = Owner { name: String::new(), uid: String::new() };
        rukpak_plan::applied::Tracked {
            identity: rukpak_plan::Identity { kind, namespace: None, name: String::new() },
            fingerprint: Fingerprint::of(&kube::core::ObjectMeta::default(), &owner, ""),
            health: health::Health::new(health::State::Current, ""),
            is_read: true,
            read_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }
}
