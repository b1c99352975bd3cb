//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_platform::args::Options;
use rukpak_runtime::process::{self, Threads};

fn main() -> ExitCode {
    let options = Options::parse();
    process::main(env!("CARGO_BIN_NAME"), &options.shared.clone(), Threads::RECONCILERS, rukpak_platform::run(options))
}
