//! A release of which the API server does not serve every kind waits for them.

use rukpak_plan::kind::MissingKind;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::plan::{Missing, missing_text};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Release};

use super::Stopped;
use crate::deployment::observe::View;

/// A release that waits for kinds is not loaded, rendered and planned again each time that somebody looks whether they are served.
pub(super) async fn still_missing(view: &mut View, release: &Release, why: Why) -> Result<(), Stopped> {
    let Some((_, missing)) = view.memory.waits_for_kinds.take_if(|(waiting, _)| waiting == release && why.is_new())
    else {
        return Ok(());
    };
    for MissingKind { api_version, kind } in missing.iter().map(|missing| &missing.kind) {
        // Without an answer the installation asks again, and tells of it.
        if let Ok(None) = view.reads.kinds.get(api_version, kind).await {
            let refusal = refusal(&missing, why);
            view.memory.waits_for_kinds = Some((release.clone(), missing));
            return Err(refusal);
        }
    }
    Ok(())
}

/// A new release waits for every kind; what was installed before is guarded as far as it can be.
pub(super) fn refuse_missing(view: &mut View, plan: &Plan, why: Why) -> Result<(), Stopped> {
    let blocking: Vec<Missing> = plan.blocking().into_iter().cloned().collect();
    if blocking.is_empty() || !why.is_new() {
        return Ok(());
    }
    let refusal = refusal(&blocking, why);
    view.memory.waits_for_kinds = Some((plan.release.clone(), blocking));
    Err(refusal)
}

fn refusal(missing: &[Missing], why: Why) -> Stopped {
    let text = missing_text(&missing.iter().collect::<Vec<_>>());
    let message = if why == Why::First { format!("required resource not found: {text}") } else { text };
    // A CRD that is there but not served yet says nothing when it is; look again soon, then ever less often.
    Stopped::Failed(Problem {
        stage: Stage::Check,
        message,
        class: Class::Transient,
        is_definite: false,
        can_go_back: true,
    })
}
