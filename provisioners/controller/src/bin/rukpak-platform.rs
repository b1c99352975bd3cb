//! The binary `rukpak-platform`.

use std::process::ExitCode;

use rukpak_controller::error::Chain;
use rukpak_controller::platform::{self, args::Options};
use rukpak_controller::process;

fn main() -> ExitCode {
    let options = Options::parse();
    let (format, filter) = (options.log_format, options.log_filter.clone());
    match process::block_on(format, &filter, platform::run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}
