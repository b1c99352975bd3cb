//! The end of a deployment whose objects are deleted in order, and the finalizer that it takes. As `deployment.rs: end` and
//! `execute/remove.rs`.

use std::time::Duration;

use rukpak_plan::decide::{Decision, decide, finalizer};
use rukpak_plan::memory::later;
use rukpak_plan::prune::{Leaving, Pass};

use super::{Run, Stop};
use crate::properties;

/// As the controller's: how often a deletion that takes its time is looked at.
const DELETION_INTERVAL: Duration = Duration::from_secs(15);

impl Run<'_> {
    /// Has the finalizer on the deployment exactly if its policy needs it. Whether that took a write, which ends the reconcile.
    pub(super) fn follow_policy(&mut self) -> Result<bool, Stop> {
        let Some(is_needed) = finalizer(&self.observed) else { return Ok(false) };
        self.inbox().is_unblocked |= self.is_unblocked;
        self.write_finalizer(is_needed)?;
        Ok(true)
    }

    /// What is left to do about a deployment that is being deleted.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let decision = decide(&self.observed, &self.memory, self.world.now);
        self.ended.story.push(properties::decision(self.world, &decision));
        let left = match decision {
            Decision::LetGo => Vec::new(),
            Decision::Remove => self.remove_all()?,
            _ => return Ok(()),
        };
        if left.is_empty() {
            return self.write_finalizer(false);
        }
        self.ended.story.push(format!("it waits: {}", left.join("; ")));
        self.known().next = Some(later(self.world.now, DELETION_INTERVAL));
        Ok(())
    }

    /// Deletes everything that the deployment controls, as far as it goes now. Returns what is waited for.
    fn remove_all(&mut self) -> Result<Vec<String>, Stop> {
        let kinds = self.observed.inventory().kinds.into_iter().collect();
        let members = self.list(&kinds)?;
        if let Some(why) = members.why {
            return Ok(vec![why]);
        }
        let owner = self.owner.clone();
        let controls = |object: &Leaving| owner.is_controller(&object.metadata);
        let objects: Vec<Leaving> = members.objects.into_values().filter(controls).collect();
        if !objects.is_empty() {
            self.confirm()?;
        }
        let outcome = self.run_pass(Pass::whole(owner, objects))?;
        if outcome.is_superseded {
            return Err(Stop::Superseded);
        }
        self.inbox().leaving = outcome.waiting.iter().map(|(key, _)| key.clone()).collect();
        let waiting = outcome.waiting.into_iter().map(|(_, why)| why);
        Ok(outcome.failed.into_iter().chain(waiting).collect())
    }

    /// Sets the finalizer or takes it off: with it a deployment goes that is being deleted.
    fn write_finalizer(&mut self, is_needed: bool) -> Result<(), Stop> {
        let words = if is_needed { "set the finalizer" } else { "take the finalizer off" };
        let mut is_other = false;
        let is_answered = self.ask(words, |run| {
            let this = &mut run.world.deployments[run.deployment];
            is_other = this.version != run.version;
            if is_other {
                return;
            }
            (this.has_finalizer, this.version) = (is_needed, this.version + 1);
            this.is_deleted |= this.is_terminating && !is_needed;
            if this.is_deleted {
                let violation = properties::of_end(run.world, run.deployment);
                run.ended.violation = run.ended.violation.take().or(violation);
            }
        })?;
        match (is_answered, is_other) {
            (true, false) => {
                self.known().is_due = true;
                Ok(())
            }
            (true, true) => Err(Stop::Superseded),
            (false, _) => Err(Stop::Unreported),
        }
    }
}
