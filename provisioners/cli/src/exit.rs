//! What the process ends with.

use std::process::ExitCode;

/// The answer to the question that a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: rendered, valid.
    Yes,
    /// 1: refused; what is wrong was said.
    No,
    /// 2: it could not be found out. Also what wrong flags end with.
    Unknown,
    /// 2 of `plan`: somebody has to say yes first.
    Asks,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::Unknown | Exit::Asks => 2,
        })
    }
}
