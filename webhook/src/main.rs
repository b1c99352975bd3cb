//! The binary `rukpak-webhook`.

use std::process::ExitCode;

use clap::Parser;
use rukpak_runtime::process::{self, Threads};
use rukpak_webhook::options::Options;
use rukpak_webhook::run::run;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    let options = Options::parse();
    open_many_files();
    process::main(env!("CARGO_BIN_NAME"), &options.shared(), Threads::CALLERS, run(options))
}

/// As many connections as are let in are files. Go programs raise the soft limit by themselves, and this one is no less.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised is said by `accept`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
