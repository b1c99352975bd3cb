//! The child: this program, started again, confines itself and becomes Helm.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rukpak_sandbox::Sandbox;

/// The subcommand. A sandbox follows, the program, and its arguments.
pub(super) const CHILD: &str = "helm-child";
/// The code of a child that did not become Helm. Helm has 1 and 2.
pub(super) const NOT_STARTED: u8 = 125;

/// What is said where nothing keeps the child from files.
const UNCONFINED: &str =
    "Helm is not confined by this kernel, which lacks landlock (Linux 5.13): render charts on a node that has it";

/// Becomes Helm, where this program was started as such a child; returns the code to end with if it cannot. Call it first of all, while
/// there is one thread.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != CHILD) {
        return None;
    }
    let sandbox = arguments.next();
    if let Err(error) = Sandbox::read(sandbox.as_deref()).and_then(|sandbox| sandbox.enter()) {
        return Some(complain(&error));
    }
    // A chart's schema may name any file. So no kernel is taken for good enough that keeps this child from none.
    if !rukpak_sandbox::reads_nothing() {
        return Some(complain(&io::Error::other(UNCONFINED)));
    }
    let program = arguments.next().unwrap_or_default();
    Some(complain(&Command::new(program).args(arguments).exec()))
}

fn complain(error: &dyn std::error::Error) -> ExitCode {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    eprintln!("{text}");
    ExitCode::from(NOT_STARTED)
}
