//! Flags of what is made for shells and readers.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub struct CompletionArgs {
    /// The shell
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder, which is made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
