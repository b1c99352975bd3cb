//! Flags of verbs about Plans.

use clap::{Args, Subcommand};

use super::{ClusterArgs, EXIT_CODES, OutputArgs};

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
    /// How the answer is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `plan show`, `approve` and `reject`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct PlanArgs {
    /// Name of the Plan, as `plan list` prints it
    pub name: String,
    /// How the answer is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Where it is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
