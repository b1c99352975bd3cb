//! Flags of verbs about one BundleDeployment.

use clap::Args;

use super::{CertProvider, ClusterArgs, OutputArgs, ServiceArgs, WaitArgs};

/// Flags of `history`, `suspend`, `resume` and `tree`.
#[derive(Args, Debug)]
pub struct DeploymentArgs {
    /// Name of the BundleDeployment
    pub name: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `reconcile` and `delete`.
#[derive(Args, Debug)]
pub struct WaitingArgs {
    /// Name of the BundleDeployment
    pub name: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `rollback`.
#[derive(Args, Debug)]
pub struct RollbackArgs {
    /// Name of the BundleDeployment
    pub name: String,
    /// Number of the revision, as `history` lists it [default: the one before the newest that did not fail]
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    pub to_revision: Option<i64>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `why`.
#[derive(Args, Debug)]
// `--namespace` is that of the object here, and not another name of `--system-namespace`.
#[command(mut_arg("system_namespace", |argument| argument.alias(None::<&str>)))]
pub struct WhyArgs {
    /// Kind and name of the object: deployment/pump, or deployments.apps pump
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    object: Vec<String>,
    /// Its namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Who makes the certificates of webhooks, as the controller is told [default: self]
    #[arg(long, value_name = "PROVIDER")]
    pub cert_provider: Option<CertProvider>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

impl WhyArgs {
    /// Kind and name.
    ///
    /// # Errors
    /// A sentence where one of them is missing.
    pub fn object(&self) -> Result<(&str, &str), String> {
        let parts = match &self.object[..] {
            [kind, name] => Some((kind.as_str(), name.as_str())),
            [both] => both.split_once('/'),
            _ => None,
        };
        let named = parts.filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
        named.ok_or_else(|| format!("{:?} is not KIND/NAME or KIND NAME", self.object.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn kind_and_name_come_in_one_word_or_two() {
        let why = |words: &[&str]| {
            let command = WhyArgs::augment_args(clap::Command::new("why"));
            let read = command.no_binary_name(true).try_get_matches_from(words).unwrap();
            WhyArgs::from_arg_matches(&read).unwrap()
        };
        assert_eq!(why(&["deployment/pump"]).object(), Ok(("deployment", "pump")));
        assert_eq!(why(&["deployments.apps", "pump"]).object(), Ok(("deployments.apps", "pump")));
        for words in [&["pump"][..], &["/pump"], &["deployment/"]] {
            assert!(why(words).object().unwrap_err().ends_with("is not KIND/NAME or KIND NAME"), "{words:?}");
        }
    }
}
