//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_platform::args::Options;
use rukpak_runtime::process::{self, Threads};
use rukpak_source::decompress::confined;

fn main() -> ExitCode {
    // Before flags and runtime: a child confines itself and must be the only thread.
    if let Some(code) = confined::enter() {
        return code;
    }
    let options = Options::parse();
    process::main(env!("CARGO_BIN_NAME"), &options.shared.clone(), Threads::RECONCILERS, rukpak_platform::run(options))
}
