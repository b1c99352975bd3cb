//! What was in the cluster before a plan, which decides about the bodies of its objects.

use std::collections::BTreeSet;

use rukpak_plain::ObjectKey;
use rukpak_plan::opt_out::Ignored;
use rukpak_plan::resolve::{Basis, Why};
use rukpak_plan::{Plan, Step};

use crate::deployment::observe::Run;
use crate::render_memory::Reservation;

/// The plans that were in the cluster before.
#[derive(Debug, Default)]
pub(super) struct Bases {
    /// The installed release, where another one replaces it.
    pub installed: Option<Plan>,
    /// The release that was begun, where the installed one comes back.
    pub begun: Option<Plan>,
    /// Objects that stand as the plan says: they need no write.
    pub settled: BTreeSet<ObjectKey>,
    /// What they may take.
    pub memory: Reservation,
}

impl Bases {
    /// Whether the installed release declares the object differently, or not at all.
    pub fn is_changed(&self, step: &Step) -> bool {
        let before = self.installed.as_ref().and_then(|plan| plan.steps.get(&step.key));
        before.is_none_or(|before| !before.is_same(step))
    }

    /// What else decides about the body of an object.
    pub fn of<'a>(&'a self, run: &'a Run, step: &Step, why: Why) -> Basis<'a> {
        let body = |plan: &Option<Plan>| plan.as_ref().and_then(|plan| plan.steps.get(&step.key)).map(Step::body);
        let taken_back = match why {
            Why::WayBack => self.begun.as_ref(),
            Why::Rollback => self.installed.as_ref(),
            _ => None,
        };
        Basis {
            why,
            installed: body(&self.installed),
            relinquished: run.view.memory.relinquished(&step.key),
            ignored: Ignored::of(&run.view.observed.deployment.spec, &step.key),
            is_forced: taken_back.and_then(|plan| plan.steps.get(&step.key)).is_some_and(|step| step.is_forced),
        }
    }
}
