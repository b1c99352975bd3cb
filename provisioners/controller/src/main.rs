//! The binary `rukpak-controller`.

use std::io;
use std::process::ExitCode;

use rukpak_controller::args::Options;
use rukpak_controller::{process, run};

/// The hidden subcommand that git fetches run in. See `rukpak_source::git`.
const GIT_CHILD: &str = "git-child";

fn main() -> ExitCode {
    // Before flags and runtime: the child sets limits for its process and must be the only thread.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == GIT_CHILD) {
        return rukpak_source::git::child::main(io::stdin(), io::stdout());
    }
    let options = Options::parse();
    process::main(&options.shared.logging.clone(), run::run(options))
}
