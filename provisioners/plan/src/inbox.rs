//! The objects of a deployment as they were applied, and what watches have told of them since. Watches fill the inbox; only a
//! reconcile empties it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::HealthCheck;
use rukpak_plain::ObjectKey;

use crate::applied::{Objects, Tracked};
use crate::fingerprint::Drift;
use crate::health::{self, Health, State};
use crate::memory::later;
use crate::{Fingerprint, Identity, Owner};

/// The least time between two reads of one object.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Until an unhealthy workload is looked at again; each time twice as long.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// The longest time until then.
const LAST_LOOK: Duration = Duration::from_mins(5);

/// Holds what the watches and the reconciles of one deployment share.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    /// Every object that was applied.
    pub objects: Objects,
    /// Objects that may have drifted.
    pub drifted: BTreeSet<ObjectKey>,
    /// Shared objects that could be inherited, and that the installed release does not have.
    pub declined: BTreeSet<ObjectKey>,
    /// UIDs of objects of this deployment that a watch saw go since the last look, though nothing applied has them: an object may go
    /// before the answer to its creation is here. `None` while no reconcile writes: then no answer is to come, and there may be many
    /// that go, as operators copy labels.
    pub gone: Option<BTreeSet<String>>,
    /// Objects that left the bundle and are being deleted: the next ones go when these are gone.
    pub leaving: BTreeSet<ObjectKey>,
    /// Objects that left the bundle and are left as they are, because they say so.
    pub held: BTreeSet<ObjectKey>,
    /// One that leaves is gone, or one that was held may go, and no reconcile has seen it yet.
    pub has_left: bool,
    /// The hook that the deployment waits for is over, and no reconcile has seen it yet.
    pub is_hook_over: bool,
    /// UIDs of old Bundles that were deleted, until the watch of Bundles has seen them go.
    pub deleted_bundles: BTreeSet<String>,
    /// Objects whose health is to be read again.
    pub unread: BTreeSet<ObjectKey>,
    /// By which their health was read.
    pub checks: Vec<HealthCheck>,
    /// Unhealthy workloads, whose Pods are looked at again: how often they were, and when it is time. Nothing tells of Pods.
    pub looks: BTreeMap<ObjectKey, (u32, Timestamp)>,
    /// API groups of kinds that were missing when last looked.
    pub missing_groups: BTreeSet<String>,
    /// Kinds, as group and kind, whose first list is waited for.
    pub awaited_kinds: BTreeSet<(String, String)>,
    /// Something came that was waited for, and no reconcile has seen it yet.
    pub is_unblocked: bool,
}

/// Says what an event asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    None,
    /// A reconcile.
    Enqueue,
}

impl Inbox {
    /// Notes that a watch saw the object `key` of deployment `us` with this owner and fingerprint.
    pub fn note_seen(&mut self, us: &Owner, key: &ObjectKey, owner: &Owner, fingerprint: &Fingerprint) -> Reaction {
        if !fingerprint.is_paused() && self.held.remove(key) {
            self.has_left = true;
            return Reaction::Enqueue;
        }
        let Some(applied) = self.objects.get_mut(key) else { return Reaction::None };
        let drift = if owner == us { applied.fingerprint.drift(fingerprint) } else { Drift::Fields };
        if drift != Drift::None {
            self.drifted.insert(key.clone());
            return Reaction::Enqueue;
        }
        let is_newer = fingerprint.version > applied.fingerprint.version;
        if is_newer && health::is_judged(&self.checks, key) {
            applied.is_read = false;
            self.unread.insert(key.clone());
            return Reaction::Enqueue;
        }
        Reaction::None
    }

    /// Notes that a list shows the object in an older version than it was applied in, though of all that was applied before the list
    /// began `newest` was the newest version. If it was among that, the API server went back to an earlier state, as after a backup was
    /// restored, and what is shown is no old event.
    pub fn note_gone_back(&mut self, key: &ObjectKey, listed: &Fingerprint, newest: u64) {
        let Some(applied) = self.objects.get_mut(key) else { return };
        if listed.version < applied.fingerprint.version && applied.fingerprint.version <= Some(newest) {
            applied.fingerprint.version = listed.version;
        }
    }

    /// Notes that a watch saw the object with this UID go, or lose its label.
    pub fn note_lost(&mut self, key: &ObjectKey, uid: &str) -> Reaction {
        let is_ours = self.objects.get(key).is_some_and(|applied| applied.fingerprint.uid == uid);
        if is_ours {
            self.drifted.insert(key.clone());
            return Reaction::Enqueue;
        }
        if self.leaving.remove(key) || self.held.remove(key) {
            self.has_left = true;
            return Reaction::Enqueue;
        }
        if let Some(gone) = &mut self.gone {
            gone.insert(uid.to_owned());
        }
        Reaction::None
    }

    /// Notes that the object was applied just now. It is as it should be, unless a watch saw it go while the answer was on its way, or
    /// has seen it otherwise since (`seen`): nobody was told of that.
    pub fn note_applied(
        &mut self,
        us: &Owner,
        key: &ObjectKey,
        object: Tracked,
        seen: Option<(&Owner, &Fingerprint)>,
    ) -> Reaction {
        let is_gone = self.gone.as_mut().is_some_and(|gone| gone.remove(&object.fingerprint.uid));
        self.objects.insert(key.clone(), object);
        if is_gone {
            self.drifted.insert(key.clone());
            return Reaction::Enqueue;
        }
        self.drifted.remove(key);
        match seen {
            Some((owner, fingerprint)) if owner == us => self.note_seen(us, key, owner, fingerprint),
            _ => Reaction::None,
        }
    }

    /// Empties the inbox: what it names has drifted if it differs from what was applied, as the watches see it by now (`seen`), or is
    /// gone. So has what the deployment may inherit and has not.
    pub fn collect_drift(
        &mut self,
        us: &Owner,
        seen: impl Fn(&ObjectKey) -> Option<(Owner, Fingerprint)>,
        inherited: impl IntoIterator<Item = ObjectKey>,
    ) {
        // What went before is not what the next writes create.
        self.gone = Some(BTreeSet::new());
        for key in std::mem::take(&mut self.drifted) {
            let Some(applied) = self.objects.get_mut(&key) else { continue };
            let is_drifted = match seen(&key) {
                Some((owner, fingerprint)) => owner != *us || applied.fingerprint.drift(&fingerprint) != Drift::None,
                // What has done its work goes by itself.
                None if applied.fingerprint.ends_by_itself(&key) => {
                    (applied.health, applied.is_read) = (finished(), true);
                    false
                }
                // What is gone is not healthy, whether or not it can be repaired.
                None => {
                    applied.health = Health::new(State::NotFound, format!("{} not found", applied.identity));
                    applied.is_read = true;
                    true
                }
            };
            if is_drifted {
                self.drifted.insert(key);
            }
        }

        let is_new = |key: &ObjectKey| !self.objects.contains_key(key) && !self.declined.contains(key);
        let inherited: Vec<ObjectKey> = inherited.into_iter().filter(is_new).collect();
        self.drifted.extend(inherited);
    }

    /// Has the health of what other checks are about now, or were about, read by these.
    pub fn judge_by(&mut self, checks: &[HealthCheck]) {
        if self.checks == checks {
            return;
        }
        let before = std::mem::replace(&mut self.checks, checks.to_vec());
        for (key, object) in &mut self.objects {
            if health::check_of(&before, key) != health::check_of(checks, key) {
                object.is_read = false;
                self.unread.insert(key.clone());
            }
        }
    }

    /// Takes out the objects whose health is to be read now: those that moved since they were read, and workloads whose Pods are looked
    /// at again. What was read less than a second ago stays for the next time.
    pub fn take_reads(&mut self, now: Timestamp) -> Vec<(ObjectKey, Identity)> {
        // What is due later than any look was put off before the clock was put back.
        let is_time = |due: Timestamp| due <= now || due > later(now, LAST_LOOK);
        let looked_at = self.looks.iter().filter(|(_, (_, due))| is_time(*due)).map(|(key, _)| key.clone());
        let looked_at: BTreeSet<ObjectKey> = looked_at.collect();
        let moved = std::mem::take(&mut self.unread);
        // What moves by itself is not looked at more rarely for that.
        self.looks.retain(|key, _| !moved.contains(key));
        let unread: BTreeSet<ObjectKey> = moved.into_iter().chain(looked_at).collect();
        let is_due = |key: &ObjectKey| {
            // What was read later than now was read before the clock was put back.
            let was_read_lately = |read_at| read_at <= now && later(read_at, READ_INTERVAL) > now;
            self.objects.get(key).is_none_or(|object| !was_read_lately(object.read_at))
        };
        let (due, waiting): (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) = unread.into_iter().partition(is_due);
        self.unread = waiting;
        let identity = |key: &ObjectKey| Some(self.objects.get(key)?.identity.clone());
        due.into_iter().filter_map(|key| identity(&key).map(|identity| (key, identity))).collect()
    }

    /// Notes the health of an object that was read at `now`; `None` if there was no answer, so that it is read again.
    pub fn note_health(&mut self, key: &ObjectKey, health: Option<Health>, now: Timestamp) {
        let Some(object) = self.objects.get_mut(key) else { return };
        object.read_at = now;
        // A read may be answered after the watch has told that the object is gone.
        let has_ended = |health: &Health| health.state == State::NotFound && object.fingerprint.ends_by_itself(key);
        match health {
            Some(health) => {
                let health = if has_ended(&health) { finished() } else { health };
                (object.health, object.is_read) = (health.clone(), true);
                self.look_again(key, &health, now);
            }
            None => drop(self.unread.insert(key.clone())),
        }
    }

    /// Takes up an object that a watch shows after a restart, with its health; `None` if that could not be read.
    pub fn adopt(
        &mut self,
        key: &ObjectKey,
        (identity, fingerprint): (Identity, Fingerprint),
        health: Option<Health>,
        now: Timestamp,
    ) -> Tracked {
        let is_read = health.is_some();
        let health = health.unwrap_or_else(|| {
            self.unread.insert(key.clone());
            Health::new(State::Unknown, "it was not read yet")
        });
        self.look_again(key, &health, now);
        Tracked { identity, fingerprint, health, is_read, read_at: now }
    }

    /// Returns when the health of an object is to be read next, if it is.
    pub fn next_read(&self, now: Timestamp) -> Option<Timestamp> {
        let looks = self.looks.values().map(|(_, due)| (*due).min(later(now, LAST_LOOK)));
        let unread = (!self.unread.is_empty()).then(|| later(now, READ_INTERVAL));
        looks.chain(unread).min()
    }

    /// Notes when an object that is not healthy is looked at again, if it has Pods.
    fn look_again(&mut self, key: &ObjectKey, health: &Health, now: Timestamp) {
        if health.is_healthy() || !health::has_pods(&key.group, &key.kind) {
            self.looks.remove(key);
            return;
        }
        let count = self.looks.get(key).map_or(0, |(count, _)| *count);
        let pause = (FIRST_LOOK * 2_u32.saturating_pow(count.min(10))).min(LAST_LOOK);
        self.looks.insert(key.clone(), (count.saturating_add(1), later(now, pause)));
    }

    /// Returns the UIDs of all objects, by their keys.
    pub fn uids(&self) -> BTreeMap<ObjectKey, String> {
        self.objects.iter().map(|(key, tracked)| (key.clone(), tracked.fingerprint.uid.clone())).collect()
    }
}

/// The health of an object that goes by itself once its work is done, when it is gone.
fn finished() -> Health {
    Health::new(State::Current, "it has finished, and is gone")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::core::ApiResource;

    use super::*;
    use crate::{Identity, Kind};

    fn us() -> Owner {
        Owner { name: "a".into(), uid: "1".into() }
    }

    fn key() -> ObjectKey {
        ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "c".into() }
    }

    fn object(uid: &str) -> Tracked {
        let resource = Arc::new(ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()));
        let metadata = ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        Tracked {
            identity: Identity { kind: Kind { resource, namespaced: true }, namespace: None, name: "c".into() },
            fingerprint: Fingerprint::of(&metadata, &us(), ""),
            health: Health::new(State::Current, ""),
            is_read: true,
            read_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_object_that_goes_before_the_answer_to_its_creation_is_drift() {
        let mut inbox = Inbox { gone: Some(BTreeSet::new()), ..Inbox::default() };
        assert_eq!(inbox.note_applied(&us(), &key(), object("first"), None), Reaction::None);
        assert_eq!(inbox.note_lost(&key(), "first"), Reaction::Enqueue);
        assert_eq!(inbox.note_lost(&key(), "second"), Reaction::None, "nobody knows of it yet");
        assert_eq!(inbox.note_applied(&us(), &key(), object("second"), None), Reaction::Enqueue);
        assert!(inbox.drifted.contains(&key()));
        assert_eq!(inbox.note_applied(&us(), &key(), object("third"), None), Reaction::None);
        assert!(inbox.drifted.is_empty(), "this one is there");
    }

    /// Operators copy our labels to what they make, and delete it again, all day long.
    #[test]
    fn objects_that_go_while_nothing_is_written_are_not_remembered() {
        let mut inbox = Inbox::default();
        inbox.note_lost(&key(), "copy");
        assert_eq!(inbox.gone, None);
        inbox.collect_drift(&us(), |_| None, []);
        inbox.note_lost(&key(), "copy");
        assert_eq!(inbox.gone, Some(BTreeSet::from(["copy".to_owned()])));
    }

    #[test]
    fn the_end_of_an_object_that_leaves_is_news_once() {
        let mut inbox = Inbox { leaving: BTreeSet::from([key()]), ..Inbox::default() };
        assert_eq!(inbox.note_lost(&key(), "first"), Reaction::Enqueue);
        assert!(inbox.has_left);
        assert_eq!(inbox.note_lost(&key(), "first"), Reaction::None);
    }

    #[test]
    fn reads_again_what_could_not_be_read_at_a_restart() {
        let (mut inbox, now) = (Inbox::default(), Timestamp::UNIX_EPOCH);
        let Tracked { identity, fingerprint, .. } = object("u");
        let adopted = inbox.adopt(&key(), (identity, fingerprint), None, now);
        assert!(!adopted.is_read && !adopted.health.is_healthy());
        inbox.objects.insert(key(), adopted);
        let next = inbox.next_read(now).unwrap();
        assert!(next > now, "not at once");
        assert_eq!(inbox.take_reads(next).len(), 1);
        inbox.note_health(&key(), Some(Health::new(State::Current, "")), next);
        assert!(inbox.objects[&key()].is_read);
        assert_eq!(inbox.next_read(next), None);
    }

    /// As after a backup of etcd was restored.
    #[test]
    fn an_older_version_is_drift_once_a_list_shows_it_that_was_begun_later() {
        let print = |version: &str, generation: i64| {
            let (uid, version) = (Some("u".to_owned()), Some(version.to_owned()));
            let metadata =
                ObjectMeta { uid, resource_version: version, generation: Some(generation), ..ObjectMeta::default() };
            Fingerprint::of(&metadata, &us(), "")
        };
        let (mut inbox, back) = (Inbox::default(), print("5", 1));
        inbox.objects.insert(key(), Tracked { fingerprint: print("7", 2), ..object("u") });
        assert_eq!(inbox.note_seen(&us(), &key(), &us(), &back), Reaction::None, "an old event");
        inbox.note_gone_back(&key(), &back, 6);
        assert_eq!(
            inbox.note_seen(&us(), &key(), &us(), &back),
            Reaction::None,
            "it was applied while they were listed"
        );
        inbox.note_gone_back(&key(), &back, 7);
        assert_eq!(inbox.note_seen(&us(), &key(), &us(), &back), Reaction::Enqueue);
        assert!(inbox.drifted.contains(&key()));
    }

    #[test]
    fn a_workload_is_looked_at_within_minutes_though_the_clock_was_put_back() {
        let (mut inbox, now) = (Inbox::default(), Timestamp::from_second(1_000_000).unwrap());
        let workload = ObjectKey { group: "apps".into(), kind: "Deployment".into(), ..key() };
        inbox.objects.insert(workload.clone(), object("u"));
        inbox.note_health(&workload, Some(Health::new(State::InProgress, "no Pod runs")), now);
        assert_eq!(inbox.next_read(now), Some(later(now, FIRST_LOOK)));

        let yesterday = now.checked_sub(Duration::from_hours(24)).unwrap();
        assert_eq!(inbox.next_read(yesterday), Some(later(yesterday, LAST_LOOK)));
        assert_eq!(inbox.take_reads(yesterday).len(), 1, "nobody knows when it is to be looked at");
        inbox.note_health(&workload, Some(Health::new(State::InProgress, "no Pod runs")), yesterday);
        assert!(inbox.take_reads(yesterday).is_empty());
    }

    #[test]
    fn a_job_that_its_time_to_live_removes_before_it_is_read_is_healthy() {
        let (mut inbox, now) = (Inbox::default(), Timestamp::UNIX_EPOCH);
        let job = ObjectKey { group: "batch".into(), kind: "Job".into(), namespace: None, name: "j".into() };
        let fields = serde_json::json!({"f:spec": {"f:ttlSecondsAfterFinished": {}}});
        let metadata = serde_json::from_value(serde_json::json!({"uid": "u", "managedFields": [
            {"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}]}));
        let fingerprint = Fingerprint::of(&metadata.unwrap(), &us(), "m");
        for (key, state) in [(job, State::Current), (key(), State::NotFound)] {
            inbox.objects.insert(key.clone(), Tracked { fingerprint: fingerprint.clone(), ..object("u") });
            inbox.note_health(&key, Some(Health::new(State::NotFound, "not found")), now);
            assert_eq!(inbox.objects[&key].health.state, state);
        }
    }

    #[test]
    fn collects_what_differs_from_what_was_applied_and_nothing_else() {
        let mut inbox = Inbox::default();
        inbox.note_applied(&us(), &key(), object("u"), None);
        let (same, other) = (object("u").fingerprint, object("v").fingerprint);
        for (seen, is_drifted) in [(Some(same.clone()), false), (Some(other), true), (None, true)] {
            inbox.drifted = BTreeSet::from([key()]);
            inbox.collect_drift(&us(), |_| Some((us(), seen.clone()?)), []);
            assert_eq!(!inbox.drifted.is_empty(), is_drifted, "{seen:?}");
        }
        assert_eq!(inbox.objects[&key()].health.state, State::NotFound);
        inbox.drifted = BTreeSet::from([key()]);
        inbox.collect_drift(&us(), |_| Some((Owner { name: "b".into(), uid: "2".into() }, same.clone())), []);
        assert!(!inbox.drifted.is_empty(), "it is somebody else's by now");
    }
}
