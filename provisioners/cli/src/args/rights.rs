//! Flags of `rights` and `policy`: both print objects that say what an account may do.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rukpak_crds::ServiceAccountReference;

use super::{ClusterArgs, RegistryArgs, ServiceArgs, SourceArgs};

/// Flags of `rights`.
#[derive(Args, Debug)]
pub struct RightsArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the BundleDeployment that will have the bundle [default: that of any]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The ServiceAccount to bind the roles to [default: spec.serviceAccount of the BundleDeployment]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    pub service_account: Option<ServiceAccountReference>,
    /// Print also rights that make the account as strong as a cluster administrator: *, escalate, bind, impersonate, and Secrets of
    /// all namespaces
    #[arg(long)]
    pub allow_powerful: bool,
    /// How the roles are written: documents of YAML, one JSON array, or their names
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: RoleForm,
    #[command(flatten)]
    pub registry: RegistryArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Flags of `policy`.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// A file with an InstallPolicy
    pub file: PathBuf,
    /// How the policies are written: documents of YAML, one JSON array, or their names
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: RoleForm,
}

/// How roles are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleForm {
    /// Documents of YAML
    Yaml,
    /// One array of objects
    Json,
    /// Their names, a line each
    Name,
}

fn account(text: &str) -> Result<ServiceAccountReference, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ServiceAccountReference { name: name.to_owned(), namespace: namespace.to_owned() })
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}
