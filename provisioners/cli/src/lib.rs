//! The command line of RukPak: what a bundle is in a cluster, told without one; what a catalog would give it;
//! and folders, put on a cluster.
//!
//! ```text
//! args      the flags                       source      folder, archive or image  ->  a tree of files
//! format    which format a tree has         examine     a tree  ->  objects, findings, warnings
//! render    objects to stdout               validate    findings to stdout
//! chart     a chart  ->  what Helm makes of it
//! catalog   packages and their upgrades     registries  logins and certificates
//! package   a folder  ->  an image of a bundle; pull: the way back
//! export    a bundle and the images that it names  ->  an image layout; import: to another registry
//! oci       manifests and blobs, in registries and image layouts
//! output    YAML and JSON                   table       columns
//! hashing   the digest of what is written
//! exit      0 yes, 1 no, 2 could not find out
//!
//! install   an image, repository, folder or archive  ->  a BundleDeployment; upgrade: another one in its place
//! rights    a bundle or BundleDeployment  ->  the roles that installing it takes
//! examples  a bundle or BundleDeployment  ->  objects of its kinds, as its author shows them
//! policy    what tenants may install  ->  admission policies
//! run       a folder  ->  a BundleDeployment and an upload
//! upload    looks at content, and sends it for the Bundle that the cluster makes
//! content   a Bundle  ->  names to stdout, or files to a folder
//! diff      what an upgrade would change, or what has drifted    release    what a bundle means to a BundleDeployment
//! status    how BundleDeployments and PlatformOperators are
//! extension ClusterExtensions, and why they have which bundle
//! migrate   what is installed, from one kind of object to another
//! history   revisions                          rollback, suspend, reconcile    changes of a BundleDeployment
//! delete    a BundleDeployment and its objects  tree, why    objects of a BundleDeployment; whose an object is
//! wait      a BundleDeployment, watched until it is as wanted; live: what it waits for
//! answer    what was done, or the object       failure  one sentence and a hint        colour   for terminals
//! ui        a page to look at, on this machine
//! shell     completions and man pages
//! cluster   the API server                  service     the content service, through forward
//! progress  how much is sent                forward     a port of a Pod, here
//! ```
//!
//! Only the second half reads a kubeconfig and asks a cluster; and `catalog` for a ClusterCatalog.
//!
//! The formats are read by the crates that the controller reads them with, and bundles are chosen by the crate that the
//! manager chooses them with, so they cannot disagree. stdout is data, stderr is for people.

mod answer;
mod args;
mod catalog;
mod chart;
mod cluster;
mod colour;
mod content;
mod delete;
mod diff;
mod examine;
mod examples;
mod exit;
mod export;
mod extension;
mod failure;
mod finding;
mod format;
mod forward;
mod hashing;
mod history;
mod install;
mod live;
mod migrate;
mod oci;
mod output;
mod package;
mod plan;
mod policy;
mod progress;
mod reconcile;
mod registries;
mod release;
mod render;
mod rights;
mod rollback;
mod run;
mod service;
mod shell;
mod source;
mod status;
mod suspend;
mod table;
mod tree;
mod ui;
mod upload;
mod validate;
mod wait;
mod why;

use args::Command;
use failure::Failure;

pub use args::{command, parse};
pub use exit::Exit;
pub use source::remote::GIT_CHILD;

/// Does what the command line asks for, with what it says on stdout and stderr.
pub async fn run(command: &Command) -> Exit {
    let outcome = match command {
        Command::Render(arguments) => render::run(arguments).await,
        Command::Validate(arguments) => validate::run(arguments).await,
        Command::Rights(arguments) => rights::run(arguments).await,
        Command::Examples(arguments) => examples::run(arguments).await,
        Command::Policy(arguments) => policy::run(arguments),
        Command::Install(arguments) => install::run(arguments, false).await,
        Command::Upgrade(arguments) => install::run(arguments, true).await,
        Command::Diff(arguments) => diff::run(arguments).await,
        Command::Run(arguments) => Box::pin(run::run(arguments)).await,
        Command::Package(arguments) => package::run(arguments).await,
        Command::Pull(arguments) => package::pull(arguments).await,
        Command::Export(arguments) => export::run(arguments).await,
        Command::Import(arguments) => export::run_import(arguments).await,
        Command::Content(arguments) => Ok(content::run(arguments).await),
        Command::Catalog(command) => catalog::run(command).await,
        Command::Extension(command) => extension::run(command).await,
        Command::Migrate(arguments) => Box::pin(migrate::run(arguments)).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Plan(verb) => plan::run(verb).await,
        Command::History(arguments) => history::run(arguments).await,
        Command::Rollback(arguments) => rollback::run(arguments).await,
        Command::Suspend(arguments) => suspend::run(arguments, true).await,
        Command::Resume(arguments) => suspend::run(arguments, false).await,
        Command::Reconcile(arguments) => reconcile::run(arguments).await,
        Command::Delete(arguments) => delete::run(arguments).await,
        Command::Tree(arguments) => tree::run(arguments).await,
        Command::Why(arguments) => why::run(arguments).await,
        Command::Ui(arguments) => ui::run(arguments).await,
        Command::Completions(arguments) => Ok(shell::completions(arguments)),
        Command::Man(arguments) => shell::man(arguments),
        Command::Version => {
            Ok(output::to_stdout(|out| writeln!(out, "rukpakctl {}", env!("CARGO_PKG_VERSION")), Exit::Yes))
        }
    };
    outcome.unwrap_or_else(Failure::report)
}
