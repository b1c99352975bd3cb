//! What a deployment has in the cluster, as far as this process knows: marks instead of objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rukpak_content::Digest;
use rukpak_plain::ObjectKey;
use rukpak_plan::drift::Drift;
use rukpak_plan::fields::Taken;
use rukpak_plan::health::Health;
use rukpak_plan::{Mark, Owner, health};
use serde_json::Value;

use super::release::Release;
use crate::cluster::Identity;

/// Every installation of this process, by the name of its BundleDeployment.
#[derive(Clone, Default)]
pub struct Installations(Arc<Mutex<HashMap<String, Arc<Installation>>>>);

/// One installation.
pub struct Installation {
    /// Whose it is.
    pub owner: Owner,
    state: Mutex<State>,
}

/// The changing part of an [`Installation`].
#[derive(Default)]
pub struct State {
    /// The release that the objects are of.
    pub release: Option<Release>,
    /// Whether the last pass over `release` ended with every object applied and pruned.
    pub complete: bool,
    /// Every object that was applied.
    pub objects: BTreeMap<ObjectKey, Applied>,
    /// Objects that may have drifted.
    pub suspects: BTreeSet<ObjectKey>,
    /// Objects whose health is to be read again.
    pub restless: BTreeSet<ObjectKey>,
    /// Fields that somebody takes again and again.
    pub contests: BTreeMap<ObjectKey, Contest>,
    /// The last pivot that failed.
    pub failed: Option<FailedPivot>,
    /// Until when a failed attempt is not repeated, unless somebody touches the deployment.
    pub hold_until: Option<Instant>,
    /// The release that the last pass was about: what held that back does not hold another.
    pub aimed: Option<Release>,
    /// When the certificates of the release's webhooks are to be looked at again.
    pub certificates_due: Option<SystemTime>,
    /// Stands for the authorities that were applied; `None` also after a restart.
    pub authorities: Option<Digest>,
    /// API groups of kinds that were missing when last looked.
    pub missing_groups: BTreeSet<String>,
    /// Objects of others that are in the way.
    pub waiting: BTreeSet<ObjectKey>,
    /// How often in a row this release could not be applied because the API server was away.
    pub interrupted: Option<(Release, u32)>,
}

/// An object as we applied it.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Where it is.
    pub identity: Identity,
    /// Its mark after the apply.
    pub mark: Mark,
    /// Its health when last read.
    pub health: Health,
    /// When it was last read for its health.
    pub read_at: Instant,
}

/// The fight over one object's fields.
#[derive(Default)]
pub struct Contest {
    /// Our set of fields after the last repair.
    pub set: Option<Value>,
    /// How often each field was retaken, and when last.
    pub retaken: HashMap<Taken, (u32, Option<Instant>)>,
    /// Fields left to their taker.
    pub yielded: BTreeSet<Taken>,
}

/// A pivot that failed, so that it is not tried again at once.
#[derive(Clone, Debug)]
pub struct FailedPivot {
    /// The release that could not be installed.
    pub release: Release,
    /// Generation of the BundleDeployment at the time.
    pub generation: Option<i64>,
    /// Its annotations at the time: some of them say what is allowed.
    pub annotations: Option<BTreeMap<String, String>>,
    /// When it may be tried again.
    pub until: Instant,
    /// Reason of the `Installed` condition.
    pub reason: &'static str,
    /// Message of the `Installed` condition.
    pub message: String,
}

/// A retake that long after the one before it starts the count anew.
const CONTEST_WINDOW: Duration = Duration::from_mins(10);
/// So many retakes, and the field is left to its taker.
const CONTEST_LIMIT: u32 = 3;

impl Installations {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Installation>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The installation of `owner`; a new one if there is none, or only one of an earlier deployment of that name.
    pub fn of(&self, owner: &Owner) -> Arc<Installation> {
        let mut all = self.lock();
        match all.get(&owner.name) {
            Some(found) if found.owner == *owner => found.clone(),
            _ => {
                let new = Arc::new(Installation { owner: owner.clone(), state: Mutex::default() });
                all.insert(owner.name.clone(), new.clone());
                new
            }
        }
    }

    /// The installation of that name, if there is one.
    pub fn named(&self, name: &str) -> Option<Arc<Installation>> {
        self.lock().get(name).cloned()
    }

    /// The deployment is gone.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// A definition of `group` came or changed: the deployments that miss a kind of it, none of them held back any more.
    pub fn defined(&self, group: &str) -> Vec<Owner> {
        self.freed(|state| state.missing_groups.contains(group))
    }

    /// An object is gone: the deployments that it was in the way of, none of them held back any more.
    pub fn cleared(&self, key: &ObjectKey) -> Vec<Owner> {
        self.freed(|state| state.waiting.remove(key))
    }

    /// An object may be taken over by the deployment `name` from now on. Whether that waits for it; if so, it is not held back
    /// any more.
    pub fn allowed(&self, key: &ObjectKey, name: &str) -> bool {
        let Some(installation) = self.named(name) else { return false };
        let mut state = installation.state();
        let is_news = state.waiting.remove(key);
        if is_news {
            state.failed = None;
            state.hold_until = None;
        }
        is_news
    }

    fn freed(&self, is_news: impl Fn(&mut State) -> bool) -> Vec<Owner> {
        let all = self.lock();
        all.values()
            .filter(|installation| {
                let mut state = installation.state();
                let is_news = is_news(&mut state);
                if is_news {
                    state.failed = None;
                    state.hold_until = None;
                }
                is_news
            })
            .map(|installation| installation.owner.clone())
            .collect()
    }

    /// A watch has listed its kind: the deployments that have applied an object of it that is not `listed`. It went before
    /// the watch began, or the watch is about to see it.
    pub fn unlisted(&self, group: &str, kind: &str, listed: &HashSet<ObjectKey>) -> Vec<String> {
        let all = self.lock();
        let mut names = Vec::new();
        for installation in all.values() {
            let mut state = installation.state();
            let is_unlisted = |key: &&ObjectKey| key.group == group && key.kind == kind && !listed.contains(*key);
            let unlisted: Vec<ObjectKey> = state.objects.keys().filter(is_unlisted).cloned().collect();
            if !unlisted.is_empty() {
                state.suspects.extend(unlisted);
                names.push(installation.owner.name.clone());
            }
        }
        names
    }

    /// Every kind that some installation has objects of, as (group, kind).
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        let all = self.lock();
        all.values()
            .flat_map(|installation| {
                let state = installation.state();
                state.objects.keys().map(|key| (key.group.clone(), key.kind.clone())).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// What an observation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    None,
    /// A pass.
    Wake,
}

impl Installation {
    /// The state, for a short look. Never held over an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch saw the object with this owner and mark.
    pub fn seen(&self, key: &ObjectKey, owner: &Owner, mark: &Mark) -> Reaction {
        let mut state = self.state();
        let Some(applied) = state.objects.get_mut(key) else { return Reaction::None };
        let drift = if *owner == self.owner { applied.mark.drift(mark) } else { Drift::Fields };
        if drift != Drift::None {
            state.suspects.insert(key.clone());
            return Reaction::Wake;
        }
        let is_newer = mark.version > applied.mark.version;
        if is_newer && health::has_rule(&key.group, &key.kind) {
            state.restless.insert(key.clone());
            return Reaction::Wake;
        }
        Reaction::None
    }

    /// A watch saw the object with this UID go, or lose its label.
    pub fn lost(&self, key: &ObjectKey, uid: &str) -> Reaction {
        let mut state = self.state();
        let ours = state.objects.get(key).is_some_and(|applied| applied.mark.uid == uid);
        if ours {
            state.suspects.insert(key.clone());
            return Reaction::Wake;
        }
        Reaction::None
    }
}

impl Contest {
    /// Counts fields that were retaken since the last repair; those retaken too often are yielded.
    /// Returns the newly yielded ones.
    pub fn count(&mut self, taken: Vec<Taken>, now: Instant) -> Vec<Taken> {
        let mut new = Vec::new();
        for field in taken {
            let (count, last) = self.retaken.entry(field.clone()).or_default();
            let fresh = last.is_none_or(|last| now.duration_since(last) < CONTEST_WINDOW);
            *count = if fresh { *count + 1 } else { 1 };
            *last = Some(now);
            if *count >= CONTEST_LIMIT && self.yielded.insert(field.clone()) {
                new.push(field);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_yielded_to_whoever_retakes_it_three_times() {
        let field =
            Taken { manager: "m".into(), subresource: String::new(), path: vec!["f:data".into(), "f:a".into()] };
        let mut contest = Contest::default();
        let start = Instant::now();
        assert!(contest.count(vec![field.clone()], start).is_empty());
        assert!(contest.count(vec![field.clone()], start).is_empty());
        assert_eq!(contest.count(vec![field.clone()], start), vec![field.clone()]);
        assert!(contest.count(vec![field], start).is_empty(), "said once");
    }

    #[test]
    fn who_waits_for_an_object_is_let_go_when_it_may_take_it() {
        let (all, owner) = (Installations::default(), Owner { name: "a".into(), uid: "1".into() });
        let installation = all.of(&owner);
        let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() };
        assert!(!all.allowed(&key, "a"), "nothing is waited for");
        installation.state().waiting.insert(key.clone());
        installation.state().hold_until = Some(Instant::now());
        assert!(!all.allowed(&key, "b"), "another may take it");
        assert!(installation.state().hold_until.is_some());
        assert!(all.allowed(&key, "a"));
        assert!(installation.state().hold_until.is_none());
        assert!(!all.allowed(&key, "a"), "said once");
    }

    #[test]
    fn takes_far_apart_are_no_fight() {
        let field = Taken { manager: "m".into(), subresource: String::new(), path: vec!["f:data".into()] };
        let mut contest = Contest::default();
        let mut now = Instant::now();
        for _ in 0..10 {
            assert!(contest.count(vec![field.clone()], now).is_empty());
            now += CONTEST_WINDOW;
        }
    }
}
