//! What goes wrong in an attempt to install, and when.

use jiff::Timestamp;

use crate::retry::Class;

/// Which part of an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The API server or the store could not be asked.
    Ask,
    /// The content could not be loaded or rendered.
    Load,
    /// Nothing was written: a kind is missing, a CRD would break data, the dry run was refused.
    Check,
    /// Nothing was written: spec.serviceAccount is missing, and one has to be named.
    Unnamed,
    /// Nothing was written: the ServiceAccount whose rights are to be used does not exist.
    Account,
    /// Nothing was written: it lacks rights.
    Rights,
    /// Nothing was written: somebody has to approve it first.
    Unapproved,
    /// Nothing was written: somebody has rejected it.
    Rejected,
    /// Nothing was written: the installed operator says that it must not be upgraded now.
    NotUpgradeable,
    /// Nothing was written: no window of `spec.windows` is open for it. The time is when one will be, if ever.
    Closed(Option<Timestamp>),
    /// Some objects may have been written.
    Apply,
    /// A hook of a chart runs, and what comes after it waits. Some objects may have been written. The time is when the hook has to be
    /// over.
    Running(Timestamp),
    /// Objects that are stored in a version which a CRD drops could not all be migrated to another one.
    Migrate,
    /// Something that objects need is not there: everything else may have been written.
    Missing,
    /// Everything was applied, and drifted objects could not be repaired.
    Repair,
}

impl Stage {
    /// Whether nothing was tried, because it is not to be tried yet.
    pub fn is_put_off(self) -> bool {
        matches!(self, Self::Unapproved | Self::Rejected | Self::NotUpgradeable | Self::Closed(_))
    }

    /// Whether it says nothing of the release yet: that was not tried, or is being tried.
    pub fn is_open(self) -> bool {
        self.is_put_off() || matches!(self, Self::Running(_))
    }

    /// When it is tried again: `next` for what has failed. `None` if a person decides.
    pub fn tried_again(self, next: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Unapproved | Self::Rejected => None,
            Self::Closed(opens) => opens,
            Self::Running(until) => Some(until),
            _ => Some(next),
        }
    }
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// When.
    pub stage: Stage,
    /// In words.
    pub message: String,
    /// When it is worth trying again.
    pub class: Class,
    /// Whether the release before can be installed again.
    pub can_go_back: bool,
}

impl Problem {
    /// Nothing was written: somebody has to do or to say something first.
    pub fn blocked(stage: Stage, message: String) -> Self {
        Self { stage, message, class: Class::Blocked, can_go_back: true }
    }

    /// Nothing was written: who was asked has no answer at the moment.
    pub fn unanswered(message: String) -> Self {
        Self { stage: Stage::Ask, message, class: Class::Transient, can_go_back: true }
    }

    /// Whether it cannot be otherwise next time unless something is changed. A definite failure in the middle of an upgrade is what
    /// brings the release before back.
    pub fn is_definite(&self) -> bool {
        match self.stage {
            // Each object has a back-off of its own; a hook may still succeed.
            Stage::Repair | Stage::Running(_) => false,
            // What is half written does not stay so until somebody takes his object out of the way.
            Stage::Apply | Stage::Migrate | Stage::Missing => !matches!(self.class, Class::Transient | Class::Conflict),
            // Nothing was written: it costs little to look again.
            _ => self.class == Class::Terminal,
        }
    }
}
