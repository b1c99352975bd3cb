//! Flags of `migrate`.

use clap::{Args, ValueEnum};

use super::{CatalogServerArgs, ClusterArgs, EXIT_CODES, OutputArgs};

/// Flags of `migrate`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct MigrateArgs {
    /// What has it: platformoperator/NAME, bundledeployment/NAME or clusterextension/NAME
    #[arg(value_name = "KIND/NAME", value_parser = object)]
    pub object: (Kind, String),
    /// What shall have it [default: clusterextension]
    #[arg(long, value_name = "KIND", default_value = "clusterextension")]
    pub to: Kind,
    /// Do it; without this, the object that would be made is printed, and what would be done
    #[arg(long)]
    pub apply: bool,
    /// Namespace of the operator, for a ClusterExtension [default: the one that its ServiceAccounts and Deployments are in]
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// How the object is written.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Where it is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Who serves what the catalogs hold.
    #[command(flatten)]
    pub server: CatalogServerArgs,
}

/// What may have a BundleDeployment, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A ClusterExtension
    #[value(name = "clusterextension")]
    Extension,
    /// A PlatformOperator
    #[value(name = "platformoperator")]
    Operator,
    /// Nobody: the BundleDeployment stands alone
    #[value(name = "bundledeployment")]
    Deployment,
}

fn object(text: &str) -> Result<(Kind, String), String> {
    let (kind, name) = text.split_once('/').unwrap_or((text, ""));
    let known = Kind::from_str(kind, true).ok().filter(|_| !name.is_empty());
    let known = known.ok_or("write platformoperator/NAME, bundledeployment/NAME or clusterextension/NAME")?;
    Ok((known, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_name_are_one_word() {
        assert_eq!(object("platformoperator/pump"), Ok((Kind::Operator, "pump".to_owned())));
        assert_eq!(object("ClusterExtension/pump"), Ok((Kind::Extension, "pump".to_owned())));
        for text in ["pump", "bundle/pump", "bundledeployment/", "/pump"] {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
