//! What becomes of the Plans of a deployment: which of them are carried out, which are over, and which are deleted.

use std::cmp::Reverse;

use rukpak_crds::plan::{Plan, PlanPhase, PlanStatus};

use super::{Question, is_approved, is_genuine, is_of_release};
use crate::observed::Observed;
use crate::{Owner, Release};

/// So many Plans are kept for a deployment.
const KEPT: usize = 5;

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
