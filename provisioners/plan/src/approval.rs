//! Whether somebody has to approve an installation first, what the approval is for, whether it was given, and what becomes of the Plans
//! of a deployment: which of them are carried out, which are over, and which are deleted.
//!
//! ```text
//! Plan, installed Plan, objects that leave -> Changes -> asks? -> Binding -> Question -> Answer
//! Plans, Question -> Situation -> verdicts
//! ```
//!
//! The status of a Plan decides nothing: what it says is computed anew. What counts is `spec.approval` of a Plan whose digest is the one
//! that was just computed, and `spec.approvedPlan` of the BundleDeployment.

mod changes;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rukpak_content::Digest;
use rukpak_crds::names::OWNER_KIND;
use rukpak_crds::plan::{
    ApprovalPolicy, Plan, PlanApproval, PlanBinding, PlanPhase, PlanSpec, PlanStatus, PlannedDeployment,
    ReplacedRelease,
};
use rukpak_plain::Object;
use serde_json::json;

use crate::observed::Observed;
use crate::problem::{Problem, Stage};
use crate::resolve::Why;
use crate::{Owner, Release, owner};

pub use self::changes::{Action, Changes};

/// So many Plans are kept for a deployment.
const KEPT: usize = 5;

/// Returns whether an installation for this reason may be asked about at all: only then its changes have to be known.
pub fn may_ask(observed: &Observed, why: Why, release: &Release) -> bool {
    let is_new = match why {
        Why::First | Why::Upgrade => true,
        // What was in the cluster as a whole was agreed to before.
        Why::Rollback => !was_installed(observed, release),
        Why::WayBack | Why::Resync | Why::Renewal | Why::Repair => false,
    };
    is_new && policy(observed) != ApprovalPolicy::Automatic
}

/// Returns whether it has to be approved.
pub fn asks(policy: ApprovalPolicy, why: Why, changes: &Changes) -> bool {
    match policy {
        ApprovalPolicy::Automatic => false,
        ApprovalPolicy::Upgrades => why != Why::First,
        ApprovalPolicy::Escalations => !changes.rights.is_empty(),
        ApprovalPolicy::Always => true,
    }
}

/// Returns when the deployment wants to be asked.
pub fn policy(observed: &Observed) -> ApprovalPolicy {
    observed.deployment.spec.approval.unwrap_or_default()
}

fn was_installed(observed: &Observed, release: &Release) -> bool {
    let known = observed.status.history.iter().filter(|revision| !revision.result.is_failure());
    known.filter_map(|revision| Release::read(&revision.release)).any(|known| known == *release)
}

/// Digests all objects of a bundle as they were rendered. The order of manifests makes no difference.
pub fn digest_objects<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Digest {
    let mut each: BTreeMap<String, String> = BTreeMap::new();
    for object in objects {
        let name = format!("{} {}", object.api_version(), object.key());
        let digest = Digest::sha256(object.as_value().to_string().as_bytes()).to_string();
        // Hooks of several events may have one name.
        each.entry(name).or_default().push_str(&digest);
    }
    Digest::sha256(json!(each).to_string().as_bytes())
}

/// Returns what is approved with an installation of `release`, whose objects have the digest `objects`.
pub fn bind(observed: &Observed, release: &Release, objects: &Digest, changes: &Changes) -> PlanBinding {
    let account = observed.deployment.spec.service_account.as_ref();
    PlanBinding {
        content: content(release),
        config: config(release),
        account: account.map(rukpak_crds::ServiceAccountReference::user_name),
        objects: objects.to_string(),
        actions: Digest::sha256(changes.text().as_bytes()).to_string(),
        replaces: observed.installed().map(|installed| replaced(observed, &installed)),
        dependencies: Vec::new(),
    }
}

/// Returns whether a plan is for `release`, by whatever account and whatever it does.
pub fn is_of_release(binds: &PlanBinding, release: &Release) -> bool {
    binds.content == content(release) && binds.config == config(release)
}

/// Returns the digest of a plan. The UID makes it one of this deployment and of no other.
fn digest(uid: &str, binds: &PlanBinding) -> Digest {
    Digest::sha256(json!({"deployment": uid, "binds": binds}).to_string().as_bytes())
}

fn content(release: &Release) -> String {
    format!("{} {}", release.content, release.format)
}

fn config(release: &Release) -> Option<String> {
    let config = release.config.as_ref()?;
    Some(Digest::sha256(json!(config).to_string().as_bytes()).to_string())
}

/// The installed release, by its revision: one that comes back later is another, so that an approval is good for one upgrade.
fn replaced(observed: &Observed, installed: &Release) -> ReplacedRelease {
    let mut history = observed.status.history.iter();
    let revision = history.find(|revision| Release::read(&revision.release).as_ref() == Some(installed));
    ReplacedRelease {
        content: content(installed),
        revision: revision.map(|revision| revision.revision),
        since: revision.map(|revision| revision.time),
    }
}

/// What is asked, and what was answered last.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Name of the Plan.
    pub name: String,
    /// The Plan's spec, without an answer.
    pub spec: PlanSpec,
    /// What the Plan says that would be done, without the phase.
    pub status: PlanStatus,
    /// What was answered.
    pub answer: Answer,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    None,
    /// Yes.
    Yes,
    /// No.
    No,
}

impl Question {
    /// Makes the question whether `release` may be installed for `owner`.
    pub fn new(owner: &Owner, binds: PlanBinding, rendering: Option<&Digest>, status: PlanStatus) -> Self {
        let digest = digest(&owner.uid, &binds);
        Self {
            name: format!("{}-{}", owner.name, &digest.hex()[..SHOWN]),
            spec: PlanSpec {
                deployment: PlannedDeployment { name: owner.name.clone(), uid: owner.uid.clone() },
                digest: digest.to_string(),
                binds,
                rendering: rendering.map(ToString::to_string),
                approval: None,
            },
            status,
            answer: Answer::None,
        }
    }

    /// Returns the answer: that of `plan`, which is the Plan of this name, or that of the deployment itself.
    pub fn answer(&self, observed: &Observed, plan: &Plan) -> Answer {
        let is_named = observed.deployment.spec.approved_plan.as_ref() == Some(&self.spec.digest);
        match plan.spec.approval {
            Some(PlanApproval::Rejected) => Answer::No,
            Some(PlanApproval::Approved) => Answer::Yes,
            None if is_named => Answer::Yes,
            None => Answer::None,
        }
    }

    /// Returns whether another Plan was approved by which this installation was begun. What it has done to the cluster since is no
    /// other plan.
    pub fn is_continued(&self, owner: &Owner, observed: &Observed, release: &Release, plans: &[&Plan]) -> bool {
        let is_begun = observed.pending().is_some_and(|(begun, _)| begun == *release);
        let mut approved = plans.iter().filter(|plan| is_genuine(plan, owner) && is_approved(plan, observed));
        is_begun && approved.any(|plan| plan.spec.binds.is_of_same_objects(&self.spec.binds))
    }

    /// Returns the status of the Plan.
    pub fn status(&self) -> PlanStatus {
        let (phase, message) = match self.answer {
            Answer::None => (PlanPhase::Waiting, ""),
            Answer::Yes => (PlanPhase::Approved, ""),
            Answer::No => (PlanPhase::Rejected, "nothing is changed until something else is asked for"),
        };
        PlanStatus { phase, message: message.to_owned(), ..self.status.clone() }
    }

    /// Returns why nothing is written yet; `None` if it was approved.
    pub fn problem(&self) -> Option<Problem> {
        let Self { name, status: PlanStatus { summary, .. }, .. } = self;
        let (stage, message) = match self.answer {
            Answer::Yes => return None,
            Answer::None => (
                Stage::Unapproved,
                format!(
                    "Plan {name} waits for approval: {summary}; kubectl patch plan {name} --type merge -p \
                     '{{\"spec\":{{\"approval\":\"Approved\"}}}}' approves it"
                ),
            ),
            Answer::No => (
                Stage::Rejected,
                format!(
                    "Plan {name} was rejected: {summary}; ask for something else, or kubectl patch plan {name} --type merge -p \
                     '{{\"spec\":{{\"approval\":\"Approved\"}}}}' approves it after all"
                ),
            ),
        };
        Some(Problem::blocked(stage, message))
    }
}

/// So many digits of the digest are in the name of a Plan.
const SHOWN: usize = 10;

/// Returns whether the Plan is what the controller made for the deployment.
///
/// Objects of bundles have the same owner reference, and the labels of owners, which a Plan has not: no bundle approves the next one.
pub fn is_genuine(plan: &Plan, owner: &Owner) -> bool {
    let metadata = &plan.metadata;
    let is_ours = owner::controller(metadata).is_some_and(|controller| controller.uid == owner.uid);
    let is_of_bundle = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OWNER_KIND));
    is_ours
        && !is_of_bundle
        && plan.spec.deployment.uid == owner.uid
        && plan.spec.digest == digest(&owner.uid, &plan.spec.binds).to_string()
}

fn is_approved(plan: &Plan, observed: &Observed) -> bool {
    match plan.spec.approval {
        Some(answer) => answer == PlanApproval::Approved,
        None => observed.deployment.spec.approved_plan.as_ref() == Some(&plan.spec.digest),
    }
}

/// What is known of a deployment when its Plans are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The deployment.
    pub owner: &'a Owner,
    /// What was observed of it.
    pub observed: &'a Observed,
    /// What is asked now.
    pub question: Option<&'a Question>,
    /// What every object of was applied.
    pub applied: Option<&'a Release>,
    /// What is asked for, if it is known.
    pub wanted: Option<&'a Release>,
}

/// What is to be done about a Plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It gets this status.
    Say(Box<PlanStatus>),
    /// It is deleted: it is over, and there are newer ones.
    Collect,
}

/// Returns what is to be done about `plans`; those about which nothing is are left out.
pub fn verdicts<'a>(situation: Situation<'_>, plans: &[&'a Plan]) -> Vec<(&'a Plan, Verdict)> {
    let mut plans: Vec<&Plan> = plans.iter().copied().filter(|plan| is_genuine(plan, situation.owner)).collect();
    plans.sort_by_key(|plan| Reverse((plan.metadata.creation_timestamp.clone(), plan.metadata.name.clone())));
    let mut verdicts = Vec::new();
    let is_asked = plans.iter().any(|plan| situation.is_current(plan));
    let mut room = KEPT - usize::from(is_asked);
    for plan in plans {
        let before = plan.status.clone().unwrap_or_default();
        let after = situation.status(plan);
        let is_over = after.phase.is_over();
        if is_over && room == 0 {
            verdicts.push((plan, Verdict::Collect));
            continue;
        }
        room -= usize::from(is_over);
        if before != after {
            verdicts.push((plan, Verdict::Say(Box::new(after))));
        }
    }
    verdicts
}

impl Situation<'_> {
    /// Whether nothing is left to be asked: what is wanted is in the cluster.
    fn is_done(&self) -> bool {
        self.wanted.is_some() && self.applied == self.wanted
    }

    fn is_current(&self, plan: &Plan) -> bool {
        let is_asked = |question: &Question| Some(&question.name) == plan.metadata.name.as_ref();
        !self.is_done() && self.question.is_some_and(is_asked)
    }

    fn status(&self, plan: &Plan) -> PlanStatus {
        let before = plan.status.clone().unwrap_or_default();
        if let Some(question) = self.question.filter(|_| self.is_current(plan)) {
            return question.status();
        }
        if before.phase.is_over() {
            return before;
        }
        match self.end(plan) {
            Some((phase, message)) => PlanStatus { phase, message, ..before },
            None => before,
        }
    }

    /// How a plan ended that is not asked about, if it is known that it did.
    fn end(&self, plan: &Plan) -> Option<(PlanPhase, String)> {
        let expired = |why: String| Some((PlanPhase::Expired, why));
        let binds = &plan.spec.binds;
        if self.is_done() {
            let is_this = self.applied.is_some_and(|applied| is_of_release(binds, applied));
            return match (is_this, is_approved(plan, self.observed)) {
                (true, true) => Some((PlanPhase::Applied, String::new())),
                (true, false) => expired("its bundle is installed, which spec.approval asked nobody about".to_owned()),
                (false, _) => expired("another bundle, or another spec.config, is asked for, and installed".to_owned()),
            };
        }
        if let Some(question) = self.question {
            let why = binds.difference(&question.spec.binds).unwrap_or_default();
            return expired(format!("changed since: {why}; Plan {} takes its place", question.name));
        }
        let wanted = self.wanted.filter(|wanted| !is_of_release(binds, wanted))?;
        expired(format!("another bundle, or another spec.config, is asked for: {}", wanted.content))
    }
}

#[cfg(test)]
#[path = "approval/tests.rs"]
mod tests;
