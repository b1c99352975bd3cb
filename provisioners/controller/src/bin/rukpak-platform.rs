//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_controller::platform::{self, args::Options};
use rukpak_runtime::process::{self, Threads};

fn main() -> ExitCode {
    let options = Options::parse();
    process::main(&options.shared.logging.clone(), Threads::RECONCILERS, platform::run(options))
}
