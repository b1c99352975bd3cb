//! Why a verb did not do what it was asked for: one sentence, and a command to go on with.

use std::error::Error;
use std::fmt::Display;

use crate::cluster;
use crate::exit::Exit;
use crate::output::{chain, to_stderr};

/// An end without success. [`Failure::report`] says it on stderr.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the process ends with.
    pub exit: Exit,
    /// One sentence, with names; the chain of causes in it once.
    pub text: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn no(text: impl Into<String>) -> Self {
        Self { exit: Exit::No, text: text.into(), hint: None }
    }

    /// The answer could not be found out.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self { exit: Exit::Unknown, text: text.into(), hint: None }
    }

    /// Says no if it is a refusal, else that the answer could not be found out.
    pub fn either(is_refusal: bool, text: impl Into<String>) -> Self {
        if is_refusal { Self::no(text) } else { Self::unknown(text) }
    }

    /// Says that the answer could not be found out: `what` was tried, and `error` came of it.
    pub fn during(what: impl Display, error: &dyn Error) -> Self {
        Self::unknown(format!("{what}: {}", chain(error)))
    }

    /// Makes an unknown answer of a refusal, where the refusal is about something else than what was asked.
    #[must_use]
    pub fn undecided(self) -> Self {
        Self { exit: Exit::Unknown, ..self }
    }

    /// With a command that helps.
    #[must_use]
    pub fn hint(self, command: impl Into<String>) -> Self {
        Self { hint: Some(command.into()), ..self }
    }

    /// There is no BundleDeployment of that name; in the words of the API server.
    pub fn no_deployment(name: &str) -> Self {
        cluster::Error::NoDeployment(name.to_owned()).into()
    }

    pub fn report(self) -> Exit {
        to_stderr(&format!("error: {}", self.text));
        if let Some(hint) = self.hint {
            to_stderr(&format!("hint: {hint}"));
        }
        self.exit
    }
}

impl From<cluster::Error> for Failure {
    fn from(error: cluster::Error) -> Self {
        let failure = Self::either(error.is_refusal(), chain(&error));
        match error {
            cluster::Error::NoDeployment(_) => failure.hint("rukpakctl status"),
            _ => failure,
        }
    }
}
