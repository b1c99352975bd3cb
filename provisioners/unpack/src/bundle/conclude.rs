//! The end of a reconcile: the status, an Event, a line in the log, and when to come again.

use std::time::Duration;

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::condition::{Conditions, UNPACKED, VERIFIED};
use rukpak_crds::{Bundle, ConditionStatus};
use rukpak_runtime::metrics::{Outcome, count_reconcile};
use rukpak_runtime::traces;
use rukpak_trust::Verdict;

use super::failure::Failure;
use super::pin::Pinned;
use super::report::Report;
use super::reporter::Reporter;
use super::{Error, backoff, decide, events, on_deleted};
use crate::context::Context;

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
    let (report, verdict) = Report::of_outcome(outcome);
    if let Some(verdict) = verdict {
        reporter.verified(verdict);
    }
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
        publish_events(bundle, &report, reporter.verdict(), context);
    }
    let wait = next_wait(&uid, &report, reporter.verdict(), context);
    record_outcome(bundle, &report, is_news);
    Ok(wait.map_or_else(Action::await_change, Action::requeue))
}

/// Publishes what came of the reconcile, and logs what the policies say of what was unpacked before.
fn publish_events(bundle: &Bundle, report: &Report, verdict: Option<&Verdict>, context: &Context) {
    let of_report = events::of_report(bundle, report);
    if let Some(verdict) = verdict
        && !events::is_said(bundle, VERIFIED, verdict.reason)
    {
        log_verdict(bundle, report, verdict);
    }
    let of_verdict = verdict.and_then(|verdict| events::of_verdict(bundle, verdict));
    for news in of_report.iter().chain(&of_verdict) {
        context.events.tell(bundle.object_ref(&()), news);
    }
}

fn log_verdict(bundle: &Bundle, report: &Report, verdict: &Verdict) {
    // Of what is not unpacked, the failure says it.
    if !was_unpacked(bundle) || !matches!(report, Report::Unpacked(_)) {
        return;
    }
    let (bundle, reason, detail) = (bundle.name_any(), verdict.reason, &verdict.message);
    if verdict.status == ConditionStatus::False {
        tracing::warn!(bundle, reason, detail, "Bundle is unpacked, and the policies would not let it in now");
    } else {
        tracing::info!(bundle, reason, detail, "the policies say something else of an unpacked Bundle now");
    }
}

/// Whether it was before this reconcile.
fn was_unpacked(bundle: &Bundle) -> bool {
    bundle.status.as_ref().is_some_and(|status| status.conditions.is(UNPACKED, ConditionStatus::True))
}

/// Returns after which time the Bundle is looked at again, and remembers failures and successes.
fn next_wait(uid: &str, report: &Report, verdict: Option<&Verdict>, context: &Context) -> Option<Duration> {
    let failures = if report.retry().is_some() { context.failures.another(uid) } else { 0 };
    let wait = decide::next(report, failures, verdict, backoff::SEARCHES.left(uid));
    match (report, wait) {
        (Report::Failed(_), Some(delay)) => backoff::ATTEMPTS.wait(uid, (), delay),
        (Report::Unpacked(_), _) => {
            context.failures.clear(uid);
            backoff::ATTEMPTS.clear(uid);
        }
        _ => {}
    }
    wait
}

/// Logs and counts how the reconcile ended.
fn record_outcome(bundle: &Bundle, report: &Report, is_news: bool) {
    let is_news = is_news && !(was_unpacked(bundle) && matches!(report, Report::Unpacked(_)));
    let bundle = bundle.name_any();
    let outcome = match report {
        Report::Failed(verdict) => {
            let (reason, message) = (verdict.reason(), verdict.whole());
            if is_news && verdict.is_expected() {
                tracing::info!(bundle, reason, detail = message, "Bundle is waiting");
            } else if is_news {
                tracing::warn!(bundle, reason, detail = message, "Bundle is not unpacked");
            } else {
                tracing::debug!(bundle, reason, detail = message, "Bundle is still not unpacked");
            }
            Outcome::Failed
        }
        Report::Unpacked(pinned) if is_news => {
            tracing::info!(bundle, revision = %pinned.revision, content = %pinned.content, "Bundle is unpacked");
            Outcome::Succeeded
        }
        Report::Unpacked(_) => Outcome::Unchanged,
        Report::Waiting | Report::Received | Report::Unpacking => Outcome::Waiting,
    };
    count_reconcile(super::KIND, outcome);
    let failure = if let Report::Failed(verdict) = report { Some(verdict.whole()) } else { None };
    traces::outcome(outcome.name(), failure.as_deref());
}
