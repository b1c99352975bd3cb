//! The binary `rukpak-controller`.

use std::process::ExitCode;

use clap::Parser as _;
use rukpak_controller::{args::Options, run};
use rukpak_runtime::process::{self, Threads};
use rukpak_unpack::child;

fn main() -> ExitCode {
    // Before flags and runtime: a child confines itself and must be the only thread.
    if let Some(code) = rukpak_helm::enter().or_else(child::main) {
        return code;
    }
    let options = Options::parse();
    process::main(env!("CARGO_BIN_NAME"), &options.shared(), Threads::RECONCILERS, run(options))
}
