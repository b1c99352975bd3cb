//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_controller::platform::{self, args::Options};
use rukpak_controller::process;

fn main() -> ExitCode {
    let options = Options::parse();
    process::main(&options.shared.logging.clone(), platform::run(options))
}
