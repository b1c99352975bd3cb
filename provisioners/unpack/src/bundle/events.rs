//! Which Events the end of a reconcile publishes. Pure.

use kube::ResourceExt as _;
use rukpak_crds::condition::{Conditions as _, READY, UNPACKED, VERIFIED, reason};
use rukpak_crds::{Bundle, BundleDeployment, ConditionStatus};
use rukpak_runtime::events::{EventType, News};
use rukpak_trust::Verdict;

use super::report::Report;

/// Reason of the Event about an upload that is gone.
const CONTENT_LOST: &str = "ContentLost";

/// Returns the Event that content was unpacked, or could not be; none of each attempt that fails. Of a BundleDeployment's Bundle
/// success is not told: what is installed from it is, a moment later.
pub fn of_report(bundle: &Bundle, report: &Report) -> Option<News> {
    let (type_, reason, message) = match report {
        Report::Unpacked(_) if bundle.owner_references().iter().any(BundleDeployment::is_controller) => return None,
        Report::Unpacked(pinned) if !is_said(bundle, UNPACKED, reason::UNPACK_SUCCESSFUL) => {
            let message = format!("Unpacked {}", pinned.revision);
            (EventType::Normal, reason::UNPACK_SUCCESSFUL, message)
        }
        // Known by the reason that its condition has while it is so.
        Report::Failed(verdict) if verdict.is_lost() && !is_said(bundle, UNPACKED, verdict.reason()) => {
            (EventType::Warning, CONTENT_LOST, verdict.whole())
        }
        // Of what is waited for `Unpacked` says the same before the first attempt.
        Report::Failed(verdict)
            if !verdict.is_lost() && !verdict.is_expected() && !is_said(bundle, READY, verdict.ready_reason()) =>
        {
            (EventType::Warning, verdict.reason(), verdict.whole())
        }
        _ => return None,
    };
    Some(News { type_, reason: reason.to_owned(), message })
}

/// Returns the Event of what came of the search for a signature; none while it stays so.
pub fn of_verdict(bundle: &Bundle, verdict: &Verdict) -> Option<News> {
    if is_said(bundle, VERIFIED, verdict.reason) {
        return None;
    }
    let type_ = match verdict.status {
        ConditionStatus::True => EventType::Normal,
        ConditionStatus::False => EventType::Warning,
        ConditionStatus::Unknown => return None,
    };
    Some(News { type_, reason: verdict.reason.to_owned(), message: verdict.message.clone() })
}

/// Whether the status said so before this reconcile.
pub fn is_said(bundle: &Bundle, type_: &str, reason: &str) -> bool {
    let before = bundle.status.as_ref().and_then(|status| status.conditions.find(type_));
    before.is_some_and(|condition| condition.reason == reason)
}
