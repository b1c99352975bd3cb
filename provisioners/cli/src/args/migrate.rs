//! Flags of `migrate`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::wait::duration;
use super::{CatalogServerArgs, CertProvider, ClusterArgs, EXIT_CODES, OutputArgs, TrustArgs};

/// Flags of `migrate`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct MigrateArgs {
    /// What has it: platformoperator/NAME, bundledeployment/NAME or clusterextension/NAME; subscription/NAME of OLM v0
    #[arg(value_name = "KIND/NAME", value_parser = object, required_unless_present = "all")]
    pub object: Option<(Kind, String)>,
    /// What shall have it [default: clusterextension; for a subscription platformoperator]
    #[arg(long, value_name = "KIND")]
    pub to: Option<Kind>,
    /// Do it; without this, the object that would be made is printed, and what would be done
    #[arg(long)]
    pub apply: bool,
    /// Namespace of the operator, for a ClusterExtension [default: the one that its ServiceAccounts and Deployments are in]; of a
    /// subscription [default: that of the context]
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub takeover: TakeoverArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub server: CatalogServerArgs,
}

/// What matters for a Subscription of OLM v0 only.
#[derive(Args, Debug)]
#[command(next_help_heading = "Subscriptions of OLM v0")]
pub struct TakeoverArgs {
    /// Every subscription, of one namespace with --namespace
    #[arg(long, conflicts_with_all = ["object", "image"])]
    pub all: bool,
    /// Give back to OLM what was taken over
    #[arg(long, conflicts_with_all = ["to", "image"])]
    pub back: bool,
    /// Image of the bundle that is installed [default: that of the InstallPlan, else that of the CatalogSource]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Who makes the certificates of webhooks, as the controller is told [default: self]
    #[arg(long, value_name = "PROVIDER")]
    pub cert_provider: Option<CertProvider>,
    /// How long to wait for the controller, and for the garbage collector: 90s, 5m, or a number of seconds
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub trust: TrustArgs,
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
    /// The Subscription of OLM v0 that has it, which stays
    #[value(name = "subscription")]
    Subscription,
}

fn object(text: &str) -> Result<(Kind, String), String> {
    let (kind, name) = text.split_once('/').unwrap_or((text, ""));
    let known = Kind::from_str(kind, true).ok().filter(|_| !name.is_empty());
    let known = known
        .ok_or("write platformoperator/NAME, bundledeployment/NAME, clusterextension/NAME or subscription/NAME")?;
    Ok((known, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_name_are_one_word() {
        assert_eq!(object("platformoperator/pump"), Ok((Kind::Operator, "pump".to_owned())));
        assert_eq!(object("ClusterExtension/pump"), Ok((Kind::Extension, "pump".to_owned())));
        assert_eq!(object("Subscription/pump"), Ok((Kind::Subscription, "pump".to_owned())));
        for text in ["pump", "bundle/pump", "bundledeployment/", "/pump", "subscription/"] {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
