//! Values of charts.

use std::path::PathBuf;

use clap::Args;

/// Values of a chart as Helm takes them, and the Helm that reads them.
#[derive(Args, Clone, Debug, Default)]
pub struct ValuesArgs {
    /// File with values in place of those of the chart, in YAML; may be repeated: a later one wins
    #[arg(long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// Value in place of that of the chart, as Helm takes it: size=5, image.tag=v2, hosts[0]=a; may be repeated, and wins over
    /// --values
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Helm 3, linked statically [default: helm beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
}

impl ValuesArgs {
    /// Whether there are values.
    pub fn is_given(&self) -> bool {
        !self.values.is_empty() || !self.set.is_empty()
    }
}
