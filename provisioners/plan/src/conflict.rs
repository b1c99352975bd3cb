//! Field-ownership conflicts: an object that others change again and again is repaired ever more slowly, and a field that one
//! manager retakes is relinquished to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::names;
use serde_json::Value;

use crate::fields::{self, Taken};
use crate::retry::{self, Class};

/// A repair that long after the one before it starts the count again.
const WINDOW: Duration = Duration::from_mins(10);
/// So many repairs within the window, and it is a conflict.
const LIMIT: u32 = 3;
/// The wait after the first repair beyond the limit; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Ownership metadata and deleted objects are never given up: they are repaired this often at least.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The repairs of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repairs {
    /// How often in a row it was repaired, and when last.
    repaired: Option<(u32, Timestamp)>,
    /// How often in a row that failed.
    failed: u32,
    /// Not repaired before.
    not_before: Option<Timestamp>,
    /// Our set of fields after the last repair.
    set: Option<Value>,
    /// How often each field was taken again, and when last.
    retaken: BTreeMap<Taken, (u32, Timestamp)>,
    /// Fields left to those who keep taking them.
    relinquished: BTreeSet<Taken>,
}

impl Repairs {
    /// With fields that were relinquished before a restart.
    pub(crate) fn relinquishing(fields: impl IntoIterator<Item = Taken>) -> Self {
        Self { relinquished: fields.into_iter().collect(), ..Self::default() }
    }

    /// Whether it is not to be repaired yet.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.not_before.is_some_and(|until| until > now)
    }

    /// When it may be repaired, if not at once.
    pub fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// Somebody asks for it: the next repair waits for nothing.
    pub fn release(&mut self) {
        self.not_before = None;
    }

    /// Our set of fields after the last repair.
    pub fn set(&self) -> Option<&Value> {
        self.set.as_ref()
    }

    /// Fields left to others.
    pub fn relinquished(&self) -> &BTreeSet<Taken> {
        &self.relinquished
    }

    /// Whether it is repaired ever more slowly, because it is changed again and again.
    pub(crate) fn is_slowed(&self, now: Timestamp) -> bool {
        self.slowed_until().is_some_and(|until| until > now)
    }

    /// When it has been left in peace for so long that it is not slowed any more; `None` if it is not slowed.
    pub(crate) fn slowed_until(&self) -> Option<Timestamp> {
        let (times, last) = self.repaired?;
        (times > LIMIT).then(|| last.checked_add(WINDOW).ok()).flatten()
    }

    /// These are our fields: what is ours again, because the object was made anew, is left to nobody.
    pub fn own(&mut self, set: &Value) {
        let (ours, left) =
            std::mem::take(&mut self.relinquished).into_iter().partition(|field| fields::has(set, &field.path));
        self.relinquished = left;
        self.retaken.retain(|field, _| !BTreeSet::contains(&ours, field));
    }

    /// Fields that a rule leaves to others are no conflict any more.
    pub fn forget(&mut self, is_ignored: impl Fn(&[String]) -> bool) {
        self.relinquished.retain(|field| !is_ignored(&field.path));
        self.retaken.retain(|field, _| !is_ignored(&field.path));
    }

    /// The clock was put back: so are all times.
    pub fn put_back(&mut self, back: impl Fn(&mut Timestamp)) {
        let repaired = self.repaired.iter_mut().map(|(_, last)| last);
        let retaken = self.retaken.values_mut().map(|(_, last)| last);
        repaired.chain(retaken).chain(&mut self.not_before).for_each(back);
    }

    /// Whether nothing of it is worth remembering any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        let is_old = self.repaired.is_none_or(|(_, last)| since(last, now) >= WINDOW);
        is_old && self.failed == 0 && self.relinquished.is_empty()
    }

    /// Counts fields that others took since the last repair. Those taken again too often are relinquished; returns the new ones.
    /// Ownership metadata is never relinquished: pruning would forget the object.
    pub fn count(&mut self, taken: Vec<Taken>, now: Timestamp) -> Vec<Taken> {
        let mut new = Vec::new();
        for field in taken.into_iter().filter(|field| field.subresource.is_empty() && !is_ownership(&field.path)) {
            let (count, last) = self.retaken.entry(field.clone()).or_insert((0, now));
            *count = if since(*last, now) < WINDOW { *count + 1 } else { 1 };
            *last = now;
            if *count >= LIMIT && self.relinquished.insert(field.clone()) {
                new.push(field);
            }
        }

        // The fight ends with what was fought about: the next change by somebody is the first one again.
        if !new.is_empty() {
            self.repaired = None;
        }
        new
    }

    /// It is as it should be, and these are our fields now. Only what was changed to be so counts as a repair.
    pub fn repaired(&mut self, is_changed: bool, set: Option<Value>, now: Timestamp) {
        (self.failed, self.not_before) = (0, None);
        if let Some(set) = &set {
            self.own(set);
        }
        self.set = set;
        if !is_changed {
            return;
        }
        let times = match self.repaired {
            Some((times, last)) if since(last, now) < WINDOW => times + 1,
            _ => 1,
        };
        self.repaired = Some((times, now));
        let doublings = times.checked_sub(LIMIT);
        self.not_before = doublings
            .map(|doublings| FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT))
            .and_then(|wait| now.checked_add(wait).ok());
    }

    /// It could not be repaired.
    pub fn failed(&mut self, class: Class, now: Timestamp) {
        self.failed = self.failed.saturating_add(1);
        self.not_before = now.checked_add(retry::delay(class, self.failed)).ok();
    }
}

fn since(last: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(last)).unwrap_or_default()
}

/// Whether the path leads to what shows whose the object is.
fn is_ownership(path: &[String]) -> bool {
    let [metadata, field, rest @ ..] = path else { return false };
    metadata == "f:metadata"
        && match field.as_str() {
            "f:ownerReferences" => true,
            "f:labels" | "f:annotations" => rest.iter().any(|key| {
                [names::OWNER_KIND, names::OWNER_NAME, names::OWNER_UID]
                    .iter()
                    .any(|name| key.strip_prefix("f:") == Some(name))
            }),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn field(path: &[&str]) -> Taken {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Taken { manager: "m".into(), subresource: String::new(), path }
    }

    #[test]
    fn a_field_that_is_retaken_three_times_is_relinquished() {
        let (field, mut repairs) = (field(&["f:data", "f:a"]), Repairs::default());
        assert!(repairs.count(vec![field.clone()], at(0)).is_empty());
        assert!(repairs.count(vec![field.clone()], at(1)).is_empty());
        assert_eq!(repairs.count(vec![field.clone()], at(2)), vec![field.clone()]);
        assert!(repairs.count(vec![field], at(3)).is_empty(), "said once");
    }

    #[test]
    fn counts_repairs_anew_once_a_field_is_relinquished() {
        let (field, mut repairs) = (field(&["f:data", "f:a"]), Repairs::default());
        for second in 0..3 {
            repairs.count(vec![field.clone()], at(second));
            repairs.repaired(true, None, at(second));
        }
        assert!(!repairs.relinquished().is_empty());
        repairs.repaired(true, None, at(4));
        assert!(!repairs.is_slowed(at(5)), "somebody changed another field, once");
    }

    #[test]
    fn ownership_metadata_is_never_relinquished() {
        let mut repairs = Repairs::default();
        for second in 0..10 {
            let label = field(&["f:metadata", "f:labels", "f:core.rukpak.io/owner-name"]);
            assert!(
                repairs.count(vec![label, field(&["f:metadata", "f:ownerReferences", "k:{}"])], at(second)).is_empty()
            );
        }
    }

    #[test]
    fn changes_far_apart_are_no_conflict() {
        let mut repairs = Repairs::default();
        for round in 0..10 {
            let now = at(round * 600);
            assert!(repairs.count(vec![field(&["f:data"])], now).is_empty());
            repairs.repaired(true, None, now);
            assert!(!repairs.is_held(now));
        }
    }

    #[test]
    fn an_object_that_needed_no_change_is_not_slowed() {
        let mut repairs = Repairs::default();
        for second in 0..10 {
            repairs.repaired(false, None, at(second));
            assert!(!repairs.is_held(at(second)) && !repairs.is_slowed(at(second)));
        }
        assert!(repairs.is_over(at(10)));
    }

    #[test]
    fn an_object_left_in_peace_is_not_slowed_any_more_though_a_field_stays_relinquished() {
        let (field, mut repairs) = (field(&["f:data", "f:a"]), Repairs::default());
        for second in 0..6 {
            repairs.count(vec![field.clone()], at(second));
            repairs.repaired(true, None, at(second));
        }
        assert!(repairs.is_slowed(at(6)));
        assert_eq!(repairs.slowed_until(), Some(at(605)));
        assert!(!repairs.is_slowed(at(605)) && !repairs.is_over(at(605)));
    }

    #[test]
    fn a_relinquished_field_that_is_ours_again_begins_anew() {
        let (field, mut repairs) = (field(&["f:data", "f:a"]), Repairs::default());
        for second in 0..3 {
            repairs.count(vec![field.clone()], at(second));
        }
        repairs.repaired(true, Some(serde_json::json!({"f:data": {"f:b": {}}})), at(3));
        assert!(repairs.relinquished().contains(&field), "it was left out");
        repairs.repaired(true, Some(serde_json::json!({"f:data": {"f:a": {}}})), at(4));
        assert!(repairs.relinquished().is_empty());
        assert!(repairs.count(vec![field], at(5)).is_empty(), "the count began anew");
    }

    #[test]
    fn an_object_that_is_changed_again_and_again_is_repaired_ever_more_slowly_but_never_given_up() {
        let (mut repairs, mut now, mut waits) = (Repairs::default(), at(0), Vec::new());
        for _ in 0..12 {
            repairs.repaired(true, None, now);
            let until = repairs.not_before().unwrap_or(now);
            waits.push(since(now, until).as_secs());
            now = until;
        }
        assert_eq!(waits, [0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300]);
    }
}
