//! From what is known of a Bundle to its status. Pure.

use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_crds::condition::{NewCondition, READY, RECONCILING, STALLED, UNPACKED, VERIFIED, reason};
use rukpak_crds::{Bundle, BundlePhase, BundleStatus, ConditionStatus, Conditions};
use rukpak_plan::retry::Class;
use rukpak_trust::Verdict;

use super::failure::{self, Failure};
use super::pin::Pinned;
use super::steady::steady;

/// Says that a Bundle's turn has not come. Upstream's message is empty then, and no client of its compares it.
const WAITING: &str = "Waiting for other Bundles to be fetched";

/// Said once a client has uploaded something. Upstream's words.
const RECEIVED: &str = "received bundle upload, waiting for provisioner to unpack it.";

/// What there is to say of a Bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Its turn has not come.
    Waiting,
    /// A client has uploaded its content.
    Received,
    /// Its content is being fetched.
    Unpacking,
    /// Its content is in the store.
    Unpacked(Pinned),
    /// The last attempt failed.
    Failed(failure::Verdict),
}

impl Report {
    /// Returns the report on what an attempt came to, and what a failure says of signatures.
    pub fn of_outcome(outcome: Result<Pinned, Failure>) -> (Self, Option<Verdict>) {
        match outcome {
            Ok(pinned) => (Self::Unpacked(pinned), None),
            Err(failure) => (Self::Failed(failure.verdict()), failure.verification()),
        }
    }

    /// Whether the beginning of work would hide a failure: each new attempt would, for a moment.
    pub fn hides_failure(&self, before: &BundleStatus) -> bool {
        matches!(self, Self::Waiting | Self::Unpacking) && before.failure().is_some()
    }

    /// When to try again, if it failed and that can help.
    pub fn retry(&self) -> Option<Class> {
        if let Self::Failed(verdict) = self { verdict.retry } else { None }
    }

    /// Whether the next attempt comes soon, and most probably says the same.
    fn is_tried_soon(&self) -> bool {
        self.retry() == Some(Class::Transient)
    }
}

/// `before`, brought up to date. A pin, once there, stays; so does what was said of signatures, without a new `verdict`. Content is served below `content_base_url`, if at all.
///
/// Beside upstream's `Unpacked` stand `Ready`, `Reconciling` and `Stalled`, as kstatus reads them: stalled is what does
/// not move until somebody changes something. They say more than `Unpacked` where upstream's words leave the cause out.
pub fn status(
    bundle: &Bundle,
    before: &BundleStatus,
    report: &Report,
    verdict: Option<&Verdict>,
    content_base_url: Option<&str>,
    now: Timestamp,
) -> BundleStatus {
    let BundleStatus { conditions, pin, verification, .. } = before.clone();
    let mut status = BundleStatus {
        phase: Some(phase(report).as_str().to_owned()),
        resolved_source: None,
        observed_generation: bundle.metadata.generation,
        conditions,
        content_url: None,
        pin,
        verification,
    };
    if let Report::Unpacked(pinned) = report {
        status.resolved_source = Some(pinned.resolved(&bundle.spec.source));
        status.pin = Some(pinned.written());
        status.content_url = content_base_url.map(|base| format!("{base}/bundles/{}.tgz", bundle.name_any()));
    }
    let type_ = &bundle.spec.source.type_;
    let (truth, reason, message) = unpacked(type_, report);
    let others = summary(report);
    let whole = match report {
        Report::Failed(verdict) => verdict.whole(),
        _ => message.clone(),
    };
    // What a server answered to an attempt, and is asked again: it may differ by the number of the request alone.
    let is_answer = |reason: &str| report.is_tried_soon() || reason == reason::VERIFICATION_PENDING;
    let mut set = |type_, status_, reason, message| {
        let old = said(before, type_).filter(|_| is_answer(reason));
        let new = NewCondition { type_, status: status_, reason, message: steady(old, message) };
        status.conditions.set(new, bundle.metadata.generation, now);
    };
    set(UNPACKED, truth, reason, &message);
    set(READY, truth, others.ready, &whole);
    if let Some(Verdict { status: truth, reason, message, record: _ }) = verdict {
        set(VERIFIED, *truth, reason, message);
    }
    let additive = [(RECONCILING, others.reconciling), (STALLED, others.stalled)];
    for (type_, reason) in additive {
        if let Some(reason) = reason {
            set(type_, ConditionStatus::True, reason, &whole);
        }
    }
    for (type_, _) in additive.into_iter().filter(|(_, reason)| reason.is_none()) {
        status.conditions.drop_type(type_);
    }
    if let Some(verdict) = verdict {
        status.verification.clone_from(&verdict.record);
    }
    status
}

fn said<'a>(status: &'a BundleStatus, type_: &str) -> Option<&'a str> {
    status.conditions.find(type_).map(|condition| condition.message.as_str())
}

fn phase(report: &Report) -> BundlePhase {
    match report {
        Report::Waiting | Report::Received => BundlePhase::Pending,
        Report::Unpacking => BundlePhase::Unpacking,
        Report::Unpacked(_) => BundlePhase::Unpacked,
        Report::Failed(verdict) => verdict.phase,
    }
}

/// Status, reason and message of `Unpacked`.
fn unpacked(source_type: &str, report: &Report) -> (ConditionStatus, &'static str, String) {
    match report {
        Report::Waiting => (ConditionStatus::False, reason::UNPACK_PENDING, WAITING.to_owned()),
        Report::Received => (ConditionStatus::False, reason::UNPACK_PENDING, RECEIVED.to_owned()),
        Report::Unpacking => {
            let message = format!("Fetching and unpacking the {source_type} Bundle");
            (ConditionStatus::False, reason::UNPACKING, message)
        }
        Report::Unpacked(_) => {
            let message = format!("Successfully unpacked the {source_type} Bundle");
            (ConditionStatus::True, reason::UNPACK_SUCCESSFUL, message)
        }
        Report::Failed(verdict) => (ConditionStatus::False, verdict.reason(), verdict.message.clone()),
    }
}

/// Reasons of the additive conditions; `None` where one is absent.
struct Summary {
    ready: &'static str,
    reconciling: Option<&'static str>,
    stalled: Option<&'static str>,
}

fn summary(report: &Report) -> Summary {
    let (ready, reconciling, stalled) = match report {
        Report::Waiting | Report::Received | Report::Unpacking => {
            (reason::PROGRESSING, Some(reason::PROGRESSING), None)
        }
        Report::Unpacked(_) => (reason::SUCCEEDED, None, None),
        Report::Failed(verdict) => match verdict.retry {
            Some(Class::Transient | Class::Conflict) => {
                (verdict.ready_reason(), Some(reason::PROGRESSING_WITH_RETRY), None)
            }
            Some(Class::Blocked | Class::Terminal) | None => {
                (verdict.ready_reason(), None, Some(verdict.ready_reason()))
            }
        },
    };
    Summary { ready, reconciling, stalled }
}

#[cfg(test)]
mod tests;
