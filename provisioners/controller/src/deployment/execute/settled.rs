//! What an upgrade need not send: an object that the installed release declares alike, and that stands as it was applied.

use std::collections::BTreeSet;

use rukpak_plain::ObjectKey;
use rukpak_plan::Plan;
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::memory::Installation;

use super::apply::Bases;
use super::members::Members;
use crate::deployment::observe::Run;

/// The objects of `plan` that need no write.
///
/// Without the proof that the installed release was applied, as it would be applied now, there are none: what was begun and not
/// finished is applied whole.
pub(super) fn settled(run: &Run, plan: &Plan, members: &Members, bases: &Bases) -> BTreeSet<ObjectKey> {
    let (Some(installed), Installation::Applied { applied, differences, .. }) =
        (&bases.installed, &run.memory.installation)
    else {
        return BTreeSet::new();
    };
    let tracked = run.tracker.tracked();
    let renderer = run.renderer(&installed.release);
    let is_proven = *applied.release() == installed.release
        && applied.again(&renderer, &tracked.objects) == *applied
        && run.renderer(&plan.release) == renderer
        // What stays as it is has to be told again, which takes a write.
        && differences.kept.is_empty();
    if !is_proven {
        return BTreeSet::new();
    }
    let stands = |key: &ObjectKey| {
        let (Some(now), Some(applied)) = (members.fingerprint(key, &run.owner), tracked.objects.get(key)) else {
            return false;
        };
        applied.fingerprint.drift(&now) == Drift::None && !now.is_paused()
    };
    let is_contested =
        |key: &ObjectKey| run.memory.repairs.get(key).is_some_and(|repairs| !repairs.relinquished().is_empty());
    // What is left as it is has to be told again, too.
    let unchanged = plan.steps.values().filter(|step| !bases.is_changed(step) && !step.is_paused).map(|step| &step.key);
    unchanged.filter(|key| stands(key) && !is_contested(key)).cloned().collect()
}
