//! Why an installation ends before everything is applied.

use rukpak_plan::memory::{Problem, Stage};

use super::apply;
use super::apply::Bases;
use crate::deployment::Error;

/// Why an installation did not end with everything applied.
pub(super) enum Stopped {
    /// It failed.
    Failed(Problem),
    /// Content has to be fetched again first.
    Refetching,
    /// The deployment was changed or deleted meanwhile: the next reconcile knows more.
    Superseded,
    /// It could not be written down what is about to be done. Nothing else was written.
    Unreported(Error),
}

/// The deployment was changed, deleted or given to another controller meanwhile.
pub(crate) struct Superseded;

impl From<Superseded> for Stopped {
    fn from(Superseded: Superseded) -> Self {
        Self::Superseded
    }
}

impl From<Superseded> for Error {
    fn from(Superseded: Superseded) -> Self {
        Self::Superseded
    }
}

/// Returns what ended the installation where its objects could not be applied.
pub(super) fn unapplied(error: apply::Error, bases: &Bases) -> Stopped {
    match error {
        apply::Error::Superseded => Stopped::Superseded,
        apply::Error::Failed(failed) => {
            let mut message = failed.message();
            if failed.is_not_found() {
                message.insert_str(0, "required resource not found: ");
                message.push_str(&failed.hint());
            }
            Stopped::Failed(Problem {
                stage: Stage::Apply,
                message,
                class: failed.class(),
                is_definite: !failed.is_transient(),
                can_go_back: bases.installed.is_some(),
            })
        }
    }
}
