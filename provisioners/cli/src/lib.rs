//! The command line of RukPak: what a bundle is in a cluster, told without one; what a catalog would give it;
//! and folders, put on a cluster.
//!
//! ```text
//! args      the flags                       source      folder, archive or image  ->  a tree of files
//! format    which format a tree has         examine     a tree  ->  objects, findings, warnings
//! render    objects to stdout               validate    findings to stdout
//! catalog   packages and their upgrades     registries  logins and certificates
//! output    YAML and JSON                   table       columns
//! exit      0 yes, 1 no, 2 could not find out
//!
//! run       a folder  ->  a BundleDeployment and an upload
//! content   a Bundle  ->  names to stdout, or files to a folder
//! status    how the PlatformOperators are
//! cluster   the API server                  service     the content service, through forward
//! progress  how much is sent                forward     a port of a Pod, here
//! ```
//!
//! Only the second half reads a kubeconfig and asks a cluster.
//!
//! The formats are read by the crates that the controller reads them with, and bundles are chosen by the crate that the
//! manager chooses them with, so they cannot disagree. stdout is data, stderr is talk.

pub mod args;
pub mod catalog;
pub mod cluster;
pub mod content;
pub mod examine;
pub mod exit;
pub mod finding;
pub mod format;
pub mod forward;
pub mod output;
mod progress;
pub mod registries;
pub mod render;
pub mod run;
pub mod service;
pub mod source;
pub mod status;
mod table;
pub mod validate;

use args::Command;
use exit::Exit;

/// Does what the command line asks for, with what it says on stdout and stderr.
pub async fn run(command: &Command) -> Exit {
    match command {
        Command::Render(arguments) => render::run(arguments).await,
        Command::Validate(arguments) => validate::run(arguments).await,
        Command::Run(arguments) => run::run(arguments).await,
        Command::Content(arguments) => content::run(arguments).await,
        Command::Catalog(command) => catalog::run(command).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Version => output::data(|out| writeln!(out, "rukpakctl {}", env!("CARGO_PKG_VERSION")), Exit::Yes),
    }
}
