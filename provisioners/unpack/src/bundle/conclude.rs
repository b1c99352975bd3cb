//! The end of a reconcile: the status, an Event, a line in the log, and when to come again.

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{Conditions, READY, UNPACKED, VERIFIED, reason};
use rukpak_crds::{Bundle, BundleDeployment, ConditionStatus};
use rukpak_plan::retry;
use rukpak_runtime::events::{EventType, News};
use rukpak_runtime::metrics::{Outcome, count_reconcile};
use rukpak_runtime::traces;
use rukpak_trust::Verdict;

use super::failure::Failure;
use super::pin::Pinned;
use super::report::Report;
use super::reporter::Reporter;
use super::{Error, backoff, on_deleted, verify};
use crate::context::Context;

/// Reason of the Event about an upload that is gone.
const CONTENT_LOST: &str = "ContentLost";

/// Reports, and says when to come again.
pub(super) async fn conclude(
    bundle: &Bundle,
    outcome: Result<Pinned, Failure>,
    reporter: &mut Reporter,
    context: &Context,
) -> Result<Action, Error> {
    let (name, uid) = (bundle.name_any(), bundle.uid().unwrap_or_default());
    if outcome.as_ref().err().is_some_and(Failure::leaves_content) {
        context.collect.notify_one();
    }
    let report = match outcome {
        Ok(pinned) => Report::Unpacked(pinned),
        Err(failure) => {
            if let Some(verdict) = failure.verification() {
                reporter.verified(verdict);
            }
            Report::Failed(failure.verdict())
        }
    };
    let is_news = match reporter.end(&report).await {
        Ok(is_news) => is_news,
        Err(error) if error.is_not_found() => {
            // Deleted while it was fetched: the event came before the ref was set.
            on_deleted(&name, &uid, context).await;
            return Ok(Action::await_change());
        }
        Err(error) => {
            // What was found out was not said.
            backoff::SEARCHES.clear(&uid);
            return Err(Error::Status(error));
        }
    };
    if is_news {
        tell(bundle, &report, context);
        tell_verdict(bundle, reporter.verdict(), &report, context);
    }
    let action = next(bundle, &uid, &report, is_news, context);
    if !matches!(report, Report::Unpacked(_)) {
        return Ok(action);
    }
    let is_missing = reporter.verdict().is_some_and(Verdict::may_come);
    let again = backoff::SEARCHES.left(&uid).or_else(|| is_missing.then_some(verify::SEARCHED_AGAIN_AFTER));
    Ok(again.map_or(action, Action::requeue))
}

/// Tells what came of the search for a signature; not again while it stays so.
fn tell_verdict(bundle: &Bundle, verdict: Option<&Verdict>, report: &Report, context: &Context) {
    let Some(Verdict { status, reason, message, .. }) = verdict else { return };
    let before = bundle.status.as_ref().and_then(|status| status.conditions.find(VERIFIED));
    if before.is_some_and(|before| before.reason == *reason) {
        return;
    }
    // Of what is not unpacked, the failure says it.
    if was_unpacked(bundle) && matches!(report, Report::Unpacked(_)) {
        let (bundle, detail) = (bundle.name_any(), message);
        if *status == ConditionStatus::False {
            tracing::warn!(bundle, reason, detail, "Bundle is unpacked, and the policies would not let it in now");
        } else {
            tracing::info!(bundle, reason, detail, "the policies say something else of an unpacked Bundle now");
        }
    }
    let type_ = match status {
        ConditionStatus::True => EventType::Normal,
        ConditionStatus::False => EventType::Warning,
        ConditionStatus::Unknown => return,
    };
    let news = News { type_, reason: (*reason).to_owned(), message: message.clone() };
    context.events.tell(bundle.object_ref(&()), &news);
}

/// Tells that content was unpacked, or could not be; not of each attempt that fails. Of a BundleDeployment's Bundle success is not
/// told: what is installed from it is, a moment later.
fn tell(bundle: &Bundle, report: &Report, context: &Context) {
    let said = |type_: &str| bundle.status.as_ref().and_then(|status| status.conditions.find(type_));
    let is_said = |type_: &str, reason: &str| said(type_).is_some_and(|condition| condition.reason == reason);
    let (type_, reason, message) = match report {
        Report::Unpacked(_) if bundle.owner_references().iter().any(BundleDeployment::is_controller) => return,
        Report::Unpacked(pinned) if !is_said(UNPACKED, reason::UNPACK_SUCCESSFUL) => {
            let message = format!("Unpacked {}", pinned.revision);
            (EventType::Normal, reason::UNPACK_SUCCESSFUL, message)
        }
        // Known by the reason that its condition has while it is so.
        Report::Failed(verdict) if verdict.is_lost() && !is_said(UNPACKED, verdict.reason()) => {
            (EventType::Warning, CONTENT_LOST, verdict.whole())
        }
        // Of what is waited for `Unpacked` says the same before the first attempt.
        Report::Failed(verdict)
            if !verdict.is_lost() && !verdict.is_expected() && !is_said(READY, verdict.ready_reason()) =>
        {
            (EventType::Warning, verdict.reason(), verdict.whole())
        }
        _ => return,
    };
    context.events.tell(bundle.object_ref(&()), &News { type_, reason: reason.to_owned(), message });
}

/// Whether it was before this reconcile.
fn was_unpacked(bundle: &Bundle) -> bool {
    bundle.status.as_ref().is_some_and(|status| status.conditions.is(UNPACKED, ConditionStatus::True))
}

fn next(bundle: &Bundle, uid: &str, report: &Report, is_news: bool, context: &Context) -> Action {
    let is_news = is_news && !(was_unpacked(bundle) && matches!(report, Report::Unpacked(_)));
    let bundle = bundle.name_any();
    let (outcome, action) = match report {
        Report::Failed(verdict) => {
            let (reason, message) = (verdict.reason(), verdict.whole());
            if is_news && verdict.is_expected() {
                tracing::info!(bundle, reason, detail = message, "Bundle is waiting");
            } else if is_news {
                tracing::warn!(bundle, reason, detail = message, "Bundle is not unpacked");
            } else {
                tracing::debug!(bundle, reason, detail = message, "Bundle is still not unpacked");
            }
            let delay = verdict.retry.map(|class| retry::delay(class, context.failures.another(uid)));
            delay.inspect(|delay| backoff::ATTEMPTS.wait(uid, (), *delay));
            (Outcome::Failed, delay.map(Action::requeue))
        }
        Report::Unpacked(pinned) => {
            context.failures.clear(uid);
            backoff::ATTEMPTS.clear(uid);
            if is_news {
                tracing::info!(bundle, revision = %pinned.revision, content = %pinned.content, "Bundle is unpacked");
            }
            (if is_news { Outcome::Succeeded } else { Outcome::Unchanged }, None)
        }
        Report::Waiting | Report::Received | Report::Unpacking => (Outcome::Waiting, None),
    };
    count_reconcile(super::KIND, outcome);
    let failure = if let Report::Failed(verdict) = report { Some(verdict.whole()) } else { None };
    traces::outcome(outcome.name(), failure.as_deref());
    action.unwrap_or_else(Action::await_change)
}
