//! What can go wrong with a git source. The beginnings of the texts are upstream's.

use std::io;
use std::path::PathBuf;

use rukpak_content::{Limit, LimitExceeded, RelativePath};
use serde::{Deserialize, Serialize};

use super::{Commit, Fetcher};
pub use crate::class::Class;
use crate::{archive, stage};

/// Why a [`Fetcher`] could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository is not given in a form that is allowed.
    #[error(transparent)]
    Repository {
        /// What is wrong.
        source: Failure,
    },
    /// The repository could not be reached, read, or has no such reference.
    #[error("bundle unpack git clone error")]
    Clone {
        /// What happened.
        source: Failure,
    },
    /// The commit is not in the repository, or its tree cannot be used.
    #[error("checkout commit \"{commit}\"")]
    Checkout {
        /// The commit.
        commit: Commit,
        /// What happened.
        source: Failure,
    },
    /// The request's reference is not one.
    #[error("resolve commit hash")]
    Reference {
        /// What is wrong with it.
        source: Failure,
    },
    /// Repository and login do not fit, or the login holds nothing usable.
    #[error("configuring Auth error")]
    Auth {
        /// What is wrong.
        source: Failure,
    },
    /// The commit has no such folder.
    #[error("get subdirectory \"{directory}\" for repository \"{repository}\"")]
    Subdirectory {
        /// The folder asked for.
        directory: RelativePath,
        /// The repository, without secrets.
        repository: String,
        /// What is there instead.
        source: Failure,
    },
    /// The work took too long or grew too large.
    #[error("bundle unpack git clone error")]
    Limit {
        /// The limit.
        source: LimitExceeded,
    },
    /// The tree that was fetched breaks a rule for bundles.
    #[error("bundle unpack git clone error: {repository}")]
    Content {
        /// The repository, without secrets.
        repository: String,
        /// The rule.
        source: archive::Error,
    },
    /// There is no place for the tree.
    #[error("prepare a stage for a git fetch")]
    Stage {
        /// Why not.
        source: stage::Error,
    },
    /// The folder to work in could not be made or written to.
    #[error("prepare {} for a git fetch", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The child process could not be started or talked to.
    #[error("run {} for a git fetch", .program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The child process ended without an answer: killed from outside, by a resource limit, or by a bug.
    #[error("bundle unpack git clone error: {repository}: the git process ended with {status}{hint}")]
    Died {
        /// The repository, without secrets.
        repository: String,
        /// How it ended.
        status: String,
        /// What that may mean, and what it last said.
        hint: String,
    },
}

impl Error {
    /// What kind of trouble this is, for retries and metrics.
    pub fn class(&self) -> Class {
        match self {
            Self::Repository { source }
            | Self::Clone { source }
            | Self::Checkout { source, .. }
            | Self::Reference { source }
            | Self::Auth { source }
            | Self::Subdirectory { source, .. } => source.class,
            Self::Content { source, .. } => of_content(source),
            // A server that was slow may be faster next time; what is too large stays so.
            Self::Limit { source } if source.limit == Limit::GitTime => Class::Unavailable,
            Self::Limit { .. } => Class::Terminal,
            Self::Stage { .. } | Self::Folder { .. } | Self::Run { .. } | Self::Died { .. } => Class::Unavailable,
        }
    }
}

/// A disk that is full and a stream that was cut may be better next time; a tree that breaks a rule is not.
fn of_content(error: &archive::Error) -> Class {
    let disk = matches!(error, archive::Error::Stage(stage::Error::Write { .. }));
    if disk || error.is_damage() { Class::Unavailable } else { Class::Terminal }
}

/// What the child process reports: where it stopped and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Which operation failed.
    pub step: Step,
    /// What kind of trouble it is.
    pub class: Class,
    /// What happened, where, and what to do. No secrets.
    pub message: String,
}

impl Failure {
    pub(super) fn new(step: Step, class: Class, message: impl Into<String>) -> Self {
        Self { step, class, message: message.into() }
    }
}

/// The operation that a [`Failure`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Reading the repository's address.
    Repository,
    /// Reading the reference.
    Reference,
    /// Preparing the login.
    Auth,
    /// Talking to the server.
    Clone,
    /// Finding the commit and its tree.
    Checkout,
    /// Finding the folder.
    Subdirectory,
}

impl Fetcher {
    /// Puts a failure into the words of the operation it ended.
    pub(super) fn error(failure: Failure, commit: Option<&Commit>, request: &super::Request) -> Error {
        match (failure.step, commit, &request.directory) {
            (Step::Repository, ..) => Error::Repository { source: failure },
            (Step::Reference, ..) => Error::Reference { source: failure },
            (Step::Auth, ..) => Error::Auth { source: failure },
            (Step::Checkout, Some(commit), _) => Error::Checkout { commit: commit.clone(), source: failure },
            (Step::Subdirectory, _, Some(directory)) => Error::Subdirectory {
                directory: directory.clone(),
                repository: super::address::redact(&request.repository),
                source: failure,
            },
            _ => Error::Clone { source: failure },
        }
    }
}
