//! Flags of `policy`.

use std::path::PathBuf;

use clap::Args;

use super::RoleForm;

/// Flags of `policy`.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// A file with an InstallPolicy
    pub file: PathBuf,
    /// How the policies are written: documents of YAML, one JSON array, or their names
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: RoleForm,
}
