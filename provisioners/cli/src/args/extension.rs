//! Flags of verbs about ClusterExtensions.

use clap::{Args, Subcommand};

use super::{CatalogServerArgs, ClusterArgs, EXIT_CODES, OutputArgs};

/// What is to be told of ClusterExtensions.
#[derive(Subcommand, Debug)]
pub enum ExtensionCommand {
    /// List the ClusterExtensions of the cluster
    List(ListExtensionsArgs),
    /// Print one ClusterExtension: what is asked for, what is installed, and its conditions
    Show(ExtensionArgs),
    /// Print every bundle that the catalogs have of its package, and why it is chosen or not
    Why(WhyExtensionArgs),
}

/// Flags of `extension list`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ListExtensionsArgs {
    /// Those with these labels only, as kubectl takes them: app=pump,team!=b
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `extension show`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ExtensionArgs {
    /// Name of the ClusterExtension
    pub name: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `extension why`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct WhyExtensionArgs {
    /// Name of the ClusterExtension
    pub name: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub server: CatalogServerArgs,
}
