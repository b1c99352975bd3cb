//! Flags of verbs about Plans.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::{ClusterArgs, EXIT_CODES, OutputArgs, ServiceArgs, TrustArgs};

/// A verb about the Plans that there are, or what to look at before there is one.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlanVerb {
    /// What is to be done about Plans.
    #[command(subcommand)]
    pub command: Option<PlanCommand>,
    #[command(flatten)]
    pub preview: PreviewArgs,
}

/// Flags of `plan WHAT`.
#[derive(Args, Debug)]
pub struct PreviewArgs {
    /// A file with BundleDeployments, PlatformOperators or ClusterExtensions, - for stdin, or KIND/NAME of one in the cluster
    #[arg(required = true, value_name = "FILE|KIND/NAME")]
    pub what: Vec<OsString>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// What is to be done about Plans.
#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    /// List the Plans of the cluster, or of one BundleDeployment
    List(ListPlansArgs),
    /// Print what a Plan would do
    Show(PlanArgs),
    /// Say yes to a Plan
    Approve(PlanArgs),
    /// Say no to a Plan
    Reject(PlanArgs),
}

/// Flags of `plan list`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ListPlansArgs {
    /// A BundleDeployment; without one, all Plans
    pub deployment: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `plan show`, `approve` and `reject`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct PlanArgs {
    /// Name of the Plan, as `plan list` prints it
    pub name: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
