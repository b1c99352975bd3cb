//! What is to be done about a Bundle, by what is known of it, and when it is looked at again. Pure.

use std::time::Duration;

use kube::ResourceExt as _;
use rukpak_crds::names::UPSTREAM_FINALIZER;
use rukpak_crds::{Bundle, Pin};
use rukpak_format::Format;
use rukpak_plan::retry;
use rukpak_trust::Verdict;

use super::pin::{self, Pinned};
use super::report::Report;
use super::seal::Kept;
use super::verify;

/// What is known of a Bundle at the beginning of a reconcile, before anything is fetched.
pub struct Observed<'a> {
    pub bundle: &'a Bundle,
    /// Whether the Bundle is older than our last write of its status.
    pub is_stale: bool,
    /// What is left of the wait after an attempt that failed.
    pub back_off: Option<Duration>,
    /// What an earlier Bundle of the same template resolved to, if this one has no pin.
    pub remembered: Option<Pin>,
    /// Whether the policies of now ask for a signature of what is remembered.
    pub asks_signature: bool,
    /// What the store has for the pin; `None` if it was not looked at.
    pub kept: Option<Kept>,
}

/// What is done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the Bundle is of another class or goes, or an event that is still to come wakes it.
    LeaveAlone,
    /// Takes upstream's finalizer off.
    RemoveFinalizer,
    /// Waits: an attempt failed so short a time ago.
    Wait(Duration),
    /// Reports that the pin cannot be used.
    Fail(pin::Error),
    /// Looks whether the store has the content, and decides again.
    LookFor(Pinned),
    /// Fetches whatever the reference names now, for the first time.
    Unpack(Format),
    /// Reports that the content is there.
    Keep(Pinned),
    /// Fetches what the pin names again.
    Refill(Pinned),
}

/// Decides about a Bundle. An unpacked one costs a look at the disk.
pub fn decide(observed: &Observed) -> Decision {
    let Observed { bundle, remembered, kept, .. } = observed;
    let Some(format) = Format::of_class(&bundle.spec.provisioner_class_name) else { return Decision::LeaveAlone };
    if observed.is_stale {
        return Decision::LeaveAlone;
    }
    if bundle.finalizers().iter().any(|name| name == UPSTREAM_FINALIZER) {
        return Decision::RemoveFinalizer;
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        return Decision::LeaveAlone;
    }
    if let Some(left) = observed.back_off {
        return Decision::Wait(left);
    }

    let own = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
    let Some(pin) = own.or(remembered.as_ref()) else { return Decision::Unpack(format) };
    let pinned = match Pinned::read(pin, &bundle.spec.source) {
        Ok(pinned) => pinned,
        Err(error) => return Decision::Fail(error),
    };

    // The history of a BundleDeployment says which content the signed image has: the image itself has to say so too.
    if own.is_none() && observed.asks_signature {
        return Decision::Refill(pinned);
    }
    match kept {
        None => Decision::LookFor(pinned),
        Some(Kept::Whole) => Decision::Keep(pinned),
        Some(Kept::Lost) => Decision::Refill(pinned),
    }
}

/// Returns after which time the Bundle is looked at again if nothing wakes it. `failures` are those in a row, this one included, and
/// `search_left` is what is left of the wait for the next search for a signature.
pub fn next(
    report: &Report,
    failures: u32,
    verdict: Option<&Verdict>,
    search_left: Option<Duration>,
) -> Option<Duration> {
    match report {
        Report::Failed(_) => report.retry().map(|class| retry::delay(class, failures)),
        Report::Unpacked(_) => {
            let is_missing = verdict.is_some_and(Verdict::may_come);
            search_left.or_else(|| is_missing.then_some(verify::SEARCHED_AGAIN_AFTER))
        }
        Report::Waiting | Report::Received | Report::Unpacking => None,
    }
}
