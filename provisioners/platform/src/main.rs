//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_platform::args::Options;
use rukpak_runtime::process::{self, Threads};
use rukpak_source::decompress::confined;

fn main() -> ExitCode {
    // Before flags and runtime: a child confines itself and must be the only thread.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == confined::CHILD) {
        return confined::main(arguments.next().as_deref());
    }
    match std::env::current_exe() {
        Ok(program) => confined::install(&program),
        Err(error) => {
            eprintln!("error: cannot find this program, which is its own child: {error}");
            return ExitCode::FAILURE;
        }
    }
    let options = Options::parse();
    process::main(env!("CARGO_BIN_NAME"), &options.shared.clone(), Threads::RECONCILERS, rukpak_platform::run(options))
}
