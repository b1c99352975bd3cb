//! The command line of RukPak: what a bundle is in a cluster, told without one.
//!
//! ```text
//! args      the flags                       source    folder, archive or image  ->  a tree of files
//! format    which format a tree has         examine   a tree  ->  objects, findings, warnings
//! render    objects to stdout               validate  findings to stdout
//! output    YAML and JSON                   exit      0 yes, 1 no, 2 could not find out
//! ```
//!
//! The formats are read by the crates that the controller reads them with, so the two cannot disagree. stdout is data,
//! stderr is talk.

pub mod args;
pub mod examine;
pub mod exit;
pub mod finding;
pub mod format;
pub mod output;
pub mod render;
pub mod source;
pub mod validate;

use args::Command;
use exit::Exit;

/// Does what the command line asks for, with what it says on stdout and stderr.
pub async fn run(command: &Command) -> Exit {
    match command {
        Command::Render(arguments) => render::run(arguments).await,
        Command::Validate(arguments) => validate::run(arguments).await,
        Command::Version => output::data(|out| writeln!(out, "rukpakctl {}", env!("CARGO_PKG_VERSION")), Exit::Yes),
    }
}
