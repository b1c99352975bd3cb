//! Upgrades that are made together or not at all: what is noted of them, and what becomes of them. Pure.
//!
//! One of the extensions leads: its BundleDeployment has the note that counts, written with its own upgrade, so that whoever looks after a
//! restart finds the set as it was begun. The others follow it, and have a copy.
//!
//! ```text
//! begun -> all are there -> over
//!     | one fails
//!     v
//! all go back -> all are back -> over; the note says why, and keeps the same from being begun again
//! ```
//!
//! The note of a set that is over stays as long as its leader has installed what came of it. It tells the others that it is over.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rukpak_crds::condition::{BACK_OFF_PULLING, Conditions as _, HAS_VALID_BUNDLE, INSTALLED, READY, reason};
use rukpak_crds::names::UPGRADED_WITH;
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::progress::{Progress, progress};
use crate::installed::{self, Identity, Installed};

/// Somebody or something has to agree first: that is no answer in time for the others.
const ASKED: [&str; 4] = [
    reason::OPERATOR_CONDITION_NOT_UPGRADEABLE,
    reason::PLAN_REJECTED,
    reason::WAITING_FOR_APPROVAL,
    reason::WAITING_FOR_WINDOW,
];

/// An image that cannot be pulled is waited for so long: the others are there already.
const PULLED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// Why a member cannot be upgraded that has left the set, or is about to.
pub(super) const ELSEWHERE: &str = "it asks for something else by now";

/// Upgrades of ClusterExtensions that are made together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Set {
    /// The ClusterExtension whose BundleDeployment has the note that counts.
    pub leader: String,
    /// By name of the ClusterExtension.
    pub members: BTreeMap<String, Change>,
    /// Why they are taken back, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether all of them are there, or back.
    #[serde(default)]
    pub is_over: bool,
}

/// The upgrade of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub from: Identity,
    pub to: Identity,
}

/// How far one of them is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has it installed any more.
    Gone,
    /// What was installed before is, and nothing else is asked for.
    Before,
    /// It is on its way.
    Coming,
    /// Something else is asked for: it has left the set.
    Elsewhere,
    /// It is upgraded.
    There,
    /// It cannot be upgraded. In words.
    Failed(String),
}

impl Set {
    /// What is noted on a BundleDeployment.
    pub fn noted(deployment: &BundleDeployment) -> Option<Self> {
        serde_json::from_str(deployment.annotations().get(UPGRADED_WITH)?).ok()
    }

    pub fn text(&self) -> String {
        json!(self).to_string()
    }

    /// What the extension is to have installed, as long as the set is not over.
    pub fn wanted(&self, name: &str) -> Option<&Identity> {
        let change = self.members.get(name).filter(|_| !self.is_over)?;
        Some(self.outcome(change))
    }

    /// What one of its members is to have installed.
    pub fn outcome<'a>(&self, change: &'a Change) -> &'a Identity {
        if self.failure.is_some() { &change.from } else { &change.to }
    }

    /// Whether it is over, and `installed` for its leader is what came of it.
    pub fn stands(&self, leader: &str, installed: Option<&Identity>) -> bool {
        let came = self.members.get(leader).map(|change| self.outcome(change));
        self.is_over && self.leader == leader && came == installed
    }

    /// What becomes of it.
    pub fn next(&self, standing: impl Fn(&str, &Change) -> Standing) -> Self {
        let mut next = self.clone();
        if self.is_over {
            return next;
        }
        let standings: Vec<(&String, &Change, Standing)> =
            self.members.iter().map(|(name, change)| (name, change, standing(name, change))).collect();
        if self.failure.is_some() {
            next.is_over = standings
                .iter()
                .all(|(_, _, standing)| matches!(standing, Standing::Before | Standing::Elsewhere | Standing::Gone));
            return next;
        }
        next.failure = standings.iter().find_map(|(name, change, standing)| match standing {
            Standing::Gone => Some(format!("ClusterExtension {name} is gone")),
            Standing::Elsewhere => Some(format!("ClusterExtension {name} ({}): {ELSEWHERE}", change.to.name)),
            Standing::Failed(why) => Some(format!("ClusterExtension {name} ({}): {why}", change.to.name)),
            Standing::Before | Standing::Coming | Standing::There => None,
        });
        next.is_over = standings.iter().all(|(_, _, standing)| *standing == Standing::There);
        next
    }

    /// For people: the others and what they are upgraded to.
    pub fn others(&self, name: &str) -> String {
        let others = self.members.iter().filter(|(other, _)| *other != name);
        let named: Vec<String> =
            others.map(|(other, change)| format!("ClusterExtension {other} ({})", change.to.name)).collect();
        named.join(" and ")
    }

    /// For people: what came of a set that is taken back, for one of its members.
    pub fn told(&self, name: &str) -> String {
        let (others, why) = (self.others(name), self.failure.as_deref().unwrap_or_default());
        let to = self.members.get(name).map(|change| change.to.name.as_str()).unwrap_or_default();
        format!("{to} goes together with {others} only, and all went back to what was installed before: {why}")
    }
}

/// How far the upgrade of a BundleDeployment is.
pub(super) fn standing(change: &Change, deployment: Option<&BundleDeployment>, now: Timestamp) -> Standing {
    let deployment = deployment.filter(|deployment| deployment.metadata.deletion_timestamp.is_none());
    let Some(deployment) = deployment else { return Standing::Gone };
    let asked = Identity::read(deployment.annotations());
    let installed = installed(deployment);
    if has_left(change, asked.as_ref()) {
        return Standing::Elsewhere;
    }
    if asked.as_ref() == Some(&change.from) && installed.as_ref() == Some(&change.from) && is_settled(deployment) {
        return Standing::Before;
    }
    if asked.as_ref() != Some(&change.to) {
        return Standing::Coming;
    }
    if let Some(why) = failure(deployment, now) {
        return Standing::Failed(why);
    }
    match progress(deployment, &change.to, installed.as_ref()) {
        Progress::Succeeded => Standing::There,
        _ if installed.as_ref() == Some(&change.to) => Standing::Coming,
        _ => held(deployment).map_or(Standing::Coming, Standing::Failed),
    }
}

/// What somebody said meanwhile that keeps a BundleDeployment where it is. Nobody knows for how long.
fn held(deployment: &BundleDeployment) -> Option<String> {
    let name = deployment.name_any();
    if deployment.spec.suspend {
        return Some(format!("BundleDeployment {name:?} is suspended"));
    }
    let revision = deployment.spec.rollback_to?;
    Some(format!("BundleDeployment {name:?} stays at revision {revision} as long as its spec.rollbackTo is set"))
}

/// Whether a BundleDeployment asks for a bundle that is no part of the upgrade.
pub(super) fn has_left(change: &Change, asked: Option<&Identity>) -> bool {
    asked.is_some_and(|asked| *asked != change.from && *asked != change.to)
}

/// What a BundleDeployment has installed, if its status names it.
pub(super) fn installed(deployment: &BundleDeployment) -> Option<Identity> {
    match installed::from_history(deployment) {
        Installed::Bundle(identity) => Some(identity),
        Installed::Nothing | Installed::Unknown(_) => None,
    }
}

/// Whether the bundle was installed by the BundleDeployment: nobody else writes its status.
pub(super) fn was_installed(bundle: &Identity, deployment: &BundleDeployment) -> bool {
    let history = deployment.status.iter().flat_map(|status| &status.history);
    history.filter_map(|revision| Identity::read(&revision.annotations)).any(|known| known == *bundle)
}

/// Whether it has installed what it asks for.
pub(super) fn is_settled(deployment: &BundleDeployment) -> bool {
    is_observed(deployment)
        && deployment.status.as_ref().is_some_and(|status| status.conditions.is(INSTALLED, ConditionStatus::True))
}

fn is_observed(deployment: &BundleDeployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| status.observed_generation >= deployment.metadata.generation)
}

/// Why what the BundleDeployment asks for is not installed, where it says so: what was before runs on, or comes back.
fn failure(deployment: &BundleDeployment, now: Timestamp) -> Option<String> {
    let status = deployment.status.as_ref().filter(|_| is_observed(deployment))?;
    let ready = status.conditions.find(READY);
    if let Some(asked) = ready.filter(|ready| ASKED.contains(&ready.reason.as_str())) {
        return Some(asked.message.clone());
    }
    let is_overdue = |ready: &&Condition| {
        ready.message.contains(BACK_OFF_PULLING) && now.duration_since(ready.last_transition_time) >= PULLED_WITHIN
    };
    if let Some(overdue) = ready.filter(is_overdue) {
        return Some(overdue.message.clone());
    }
    // While it works, what it said before is not about what it does now.
    if ready.is_some_and(|ready| ready.status == ConditionStatus::Unknown) {
        return None;
    }
    let late = ready.filter(|ready| ready.reason == reason::PROGRESS_DEADLINE_EXCEEDED);
    let find = |type_| status.conditions.find(type_).filter(|found| found.status == ConditionStatus::False);
    let failed = late.or_else(|| find(HAS_VALID_BUNDLE)).or_else(|| find(INSTALLED));
    failed.map(|failed| failed.message.clone())
}

#[cfg(test)]
mod tests;
