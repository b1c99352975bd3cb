//! How far a BundleDeployment is on its way to the bundle that it was last pointed at. Pure.

use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{Conditions as _, DEFINITION_DELETED, HAS_VALID_BUNDLE, INSTALLED, READY, reason};
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus, Plan, PlanPhase};

use crate::installed::{self, Identity, Installed};

/// Reasons of `Ready` where something has to be there first.
const HELD: [&str; 4] = [
    reason::MISSING_RIGHTS,
    reason::SERVICE_ACCOUNT_NOT_FOUND,
    reason::SERVICE_ACCOUNT_REQUIRED,
    reason::REQUIRED_RESOURCE_NOT_FOUND,
];

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The content is on its way. In words, which may be empty.
    Unpacking(String),
    /// The content cannot be had, or is none.
    UnpackFailed(String),
    /// Somebody has to approve the Plan with this digest.
    Asking {
        digest: String,
    },
    /// Something has to be there first.
    Held(String),
    /// It is written, and somebody has deleted CustomResourceDefinitions of it since. In words: `why` for people, and `all` with the name
    /// of each.
    Lost {
        why: String,
        all: String,
    },
    /// The operator says that it must not be upgraded now. In words.
    NotUpgradeable(String),
    /// It is about to be written.
    Applying(String),
    /// It is written, and nobody knows yet how it is.
    Applied(String),
    /// It is written, and not healthy: not yet, or no more.
    Unhealthy(String),
    Succeeded,
    /// It was tried. The reason is OLM's.
    Failed {
        reason: &'static str,
        message: String,
    },
}

/// A BundleDeployment, as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The bundle that it was last pointed at.
    pub wanted: Identity,
    /// The one that is installed.
    pub active: Option<Identity>,
    pub stage: Stage,
}

impl Stage {
    /// Whether the content is there, and nobody has to be asked.
    pub fn is_going(&self) -> bool {
        !matches!(self, Self::Unpacking(_) | Self::UnpackFailed(_) | Self::Asking { .. })
    }

    /// Whether another bundle may be taken where the catalog has moved on: nothing is being written, and nothing waits for its health.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Applying(_) | Self::Applied(_) | Self::Unhealthy(_))
    }
}

impl Seen {
    /// What a BundleDeployment of a Subscription says. `None` if it does not say which bundle it is for.
    pub fn of(deployment: &BundleDeployment, questions: &[std::sync::Arc<Plan>]) -> Option<Self> {
        let wanted = Identity::read(deployment.annotations())?;
        let active = match installed::from_history(deployment) {
            Installed::Bundle(identity) => Some(identity),
            Installed::Nothing | Installed::Unknown(_) => None,
        };
        let stage = stage(deployment, active.as_ref() == Some(&wanted), questions);
        Some(Self { wanted, active, stage })
    }

    /// Whether what is wanted is what is installed.
    pub fn is_installed(&self) -> bool {
        self.active.as_ref() == Some(&self.wanted)
    }
}

fn stage(deployment: &BundleDeployment, is_active: bool, questions: &[std::sync::Arc<Plan>]) -> Stage {
    let waits = || if is_active { Stage::Applied(String::new()) } else { Stage::Unpacking(String::new()) };
    let Some(status) = &deployment.status else { return waits() };
    if status.observed_generation < deployment.meta().generation {
        return waits();
    }
    let find = |type_| status.conditions.find(type_);
    let (valid, ready, done) = (find(HAS_VALID_BUNDLE), find(READY), find(INSTALLED));
    let says = |condition: Option<&Condition>, reason: &str| condition.is_some_and(|found| found.reason == reason);
    let text = |condition: Option<&Condition>| condition.map(|found| found.message.clone()).unwrap_or_default();
    let is = |condition: Option<&Condition>, status| condition.is_some_and(|found| found.status == status);

    if says(valid, reason::BUNDLE_LOAD_FAILED) {
        return Stage::Failed { reason: "InstallComponentFailed", message: text(valid) };
    }
    if is(valid, ConditionStatus::False) {
        return Stage::UnpackFailed(text(valid));
    }
    if !is(valid, ConditionStatus::True) || says(valid, reason::UNPACK_PENDING) {
        return Stage::Unpacking(text(ready));
    }
    if says(ready, reason::WAITING_FOR_APPROVAL) {
        let digest = asked(deployment, questions);
        return digest.map_or(Stage::Unpacking(text(ready)), |digest| Stage::Asking { digest });
    }
    if HELD.iter().any(|reason| says(ready, reason)) {
        return Stage::Held(text(ready));
    }
    if says(ready, reason::DEFINITION_DELETED) {
        return Stage::Lost { why: text(ready), all: text(find(DEFINITION_DELETED)) };
    }
    if says(ready, reason::OPERATOR_CONDITION_NOT_UPGRADEABLE) {
        return Stage::NotUpgradeable(text(ready));
    }
    if says(ready, reason::PLAN_REJECTED) {
        return Stage::Failed { reason: "InstallCheckFailed", message: text(ready) };
    }
    if is(done, ConditionStatus::False) {
        return Stage::Failed { reason: "InstallComponentFailed", message: text(done) };
    }
    if let Some(revision) = deployment.spec.rollback_to.filter(|_| !is_active && is(done, ConditionStatus::True)) {
        let name = deployment.name_any();
        let message = format!("spec.rollbackTo of BundleDeployment {name} is {revision}: that revision is installed");
        return Stage::Failed { reason: "InstallCheckFailed", message };
    }
    match () {
        () if !is_active || !is(done, ConditionStatus::True) => Stage::Applying(text(ready)),
        () if is(ready, ConditionStatus::True) => Stage::Succeeded,
        () if says(ready, reason::PROGRESS_DEADLINE_EXCEEDED) => {
            Stage::Failed { reason: "InstallCheckFailed", message: text(ready) }
        }
        () if says(ready, reason::UNHEALTHY) => Stage::Unhealthy(text(ready)),
        () => Stage::Applied(text(ready)),
    }
}

/// The digest of the Plan that waits for an answer.
fn asked(deployment: &BundleDeployment, questions: &[std::sync::Arc<Plan>]) -> Option<String> {
    let uid = deployment.uid()?;
    let waiting = questions.iter().filter(|plan| {
        plan.spec.deployment.uid == uid && plan.status.as_ref().is_some_and(|status| status.phase == PlanPhase::Waiting)
    });
    let newest = waiting.max_by_key(|plan| plan.meta().creation_timestamp.as_ref().map(|time| time.0));
    newest.map(|plan| plan.spec.digest.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::conditions as conditions_of;

    fn identity(version: &str) -> Identity {
        let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
        Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None }
    }

    /// One that is wanted at 2.0.0 and has `active` installed; conditions are type, status, reason.
    fn seen(active: Option<&str>, conditions: &[(&str, &str, &str, &str)]) -> Seen {
        of(&deployment(active, conditions))
    }

    fn deployment(active: Option<&str>, conditions: &[(&str, &str, &str, &str)]) -> BundleDeployment {
        let conditions = conditions_of(conditions);
        let history: Vec<Value> = active
            .iter()
            .map(|version| {
                json!({"revision": 1, "bundle": "b", "contentDigest": "sha256:0a", "result": "Installed",
                       "time": "2026-01-01T00:00:00Z", "annotations": identity(version).annotations()})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p.ns", "uid": "u", "generation": 2, "annotations": identity("2.0.0").annotations()},
            "spec": {"provisionerClassName": "c",
                     "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
            "status": {"observedGeneration": 2, "conditions": conditions, "history": history,
                       "activeBundle": active.map(|_| "b")},
        }))
        .unwrap()
    }

    /// What it says while Plans of it and of another one are there.
    fn of(deployment: &BundleDeployment) -> Seen {
        let plan = |digest: &str, uid: &str, phase: &str| -> Arc<Plan> {
            let lists = ["created", "changed", "orphaned", "deleted", "rights", "images", "versions"];
            let mut status = json!({"phase": phase, "message": "", "summary": ""});
            for list in lists {
                status[list] = json!({"count": 0, "items": []});
            }
            let binds = json!({"content": "c", "objects": "o", "actions": "a"});
            let spec = json!({"deployment": {"name": "p.ns", "uid": uid}, "digest": digest, "binds": binds});
            Arc::new(
                serde_json::from_value(json!({"metadata": {"name": digest}, "spec": spec, "status": status})).unwrap(),
            )
        };
        let plans = [plan("old", "u", "Expired"), plan("asked", "u", "Waiting"), plan("foreign", "v", "Waiting")];
        Seen::of(deployment, &plans).expect("it says which bundle it is for")
    }

    const VALID: (&str, &str, &str, &str) = ("HasValidBundle", "True", "UnpackSuccessful", "");
    const DONE: (&str, &str, &str, &str) = ("Installed", "True", "InstallationSucceeded", "");

    #[test]
    fn an_installation_goes_from_its_content_to_its_health() {
        let of = |conditions: &[_]| seen(None, conditions).stage;
        assert_eq!(of(&[]), Stage::Unpacking(String::new()));
        let pending = ("HasValidBundle", "True", "UnpackPending", "");
        assert_eq!(of(&[pending, ("Ready", "Unknown", "UnpackPending", "why")]), Stage::Unpacking("why".to_owned()));
        let failed = ("HasValidBundle", "False", "UnpackFailed", "no");
        assert_eq!(of(&[failed]), Stage::UnpackFailed("no".to_owned()));
        let asks = ("Ready", "Unknown", "WaitingForApproval", "");
        assert_eq!(of(&[VALID, asks]), Stage::Asking { digest: "asked".to_owned() });
        assert!(matches!(of(&[VALID, ("Ready", "False", "MissingRights", "")]), Stage::Held(_)));
        let awaited = ("Ready", "False", "RequiredResourceNotFound", "no Tank");
        let failed = ("Installed", "False", "InstallFailed", "no Tank");
        assert_eq!(of(&[VALID, failed, awaited]), Stage::Held("no Tank".to_owned()));
        let deleted = ("Ready", "False", "DefinitionDeleted", "no Pump");
        let all = ("DefinitionDeleted", "True", "DefinitionDeleted", "no Pump, Well");
        let lost = Stage::Lost { why: "no Pump".to_owned(), all: "no Pump, Well".to_owned() };
        assert_eq!(of(&[VALID, DONE, deleted, all]), lost);
        let quoted = ("Installed", "False", "InstallFailed", "required resource not found");
        assert!(matches!(of(&[VALID, quoted]), Stage::Failed { .. }), "words decide nothing");
        assert!(matches!(of(&[VALID, ("Ready", "Unknown", "Progressing", "")]), Stage::Applying(_)));
        let refused = of(&[VALID, ("Installed", "False", "InstallFailed", "broken")]);
        assert_eq!(refused, Stage::Failed { reason: "InstallComponentFailed", message: "broken".to_owned() });
    }

    #[test]
    fn an_upgrade_is_there_only_when_it_is_what_is_installed() {
        let ready = ("Ready", "True", "Succeeded", "");
        assert!(matches!(seen(Some("1.0.0"), &[VALID, DONE, ready]).stage, Stage::Applying(_)));
        let there = seen(Some("2.0.0"), &[VALID, DONE, ready]);
        assert!(there.stage == Stage::Succeeded && there.is_installed());
        let sick = ("Ready", "Unknown", "Unhealthy", "no Pod");
        assert_eq!(seen(Some("2.0.0"), &[VALID, DONE, sick]).stage, Stage::Unhealthy("no Pod".to_owned()));
        let unseen = ("Ready", "Unknown", "Progressing", "not looked at");
        assert_eq!(seen(Some("2.0.0"), &[VALID, DONE, unseen]).stage, Stage::Applied("not looked at".to_owned()));
        let mut back = deployment(Some("1.0.0"), &[VALID, DONE, ready]);
        back.spec.rollback_to = Some(1);
        let rolled = of(&back);
        assert!(matches!(&rolled.stage, Stage::Failed { message, .. } if message.contains("rollbackTo")), "{rolled:?}");
        assert!(rolled.stage.is_open() && !rolled.is_installed());
        let held = seen(Some("1.0.0"), &[VALID, DONE, ("Ready", "Unknown", "OperatorConditionNotUpgradeable", "no")]);
        assert_eq!(held.stage, Stage::NotUpgradeable("no".to_owned()));
        assert!(held.stage.is_going() && held.stage.is_open(), "it is planned, and makes way for a newer bundle");
        let late = ("Ready", "False", "ProgressDeadlineExceeded", "");
        assert!(matches!(seen(Some("2.0.0"), &[VALID, DONE, late]).stage, Stage::Failed { .. }));
    }
}
