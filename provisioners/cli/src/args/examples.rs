//! Flags of `examples`.

use clap::Args;

use super::{ClusterArgs, ObjectForm, ServiceArgs, SourceArgs};

/// Flags of `examples`.
#[derive(Args, Debug)]
pub struct ExamplesArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Only examples of this kind, in any case
    pub kind: Option<String>,
    /// How the objects are written: documents of YAML, or one JSON array
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: ObjectForm,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}
