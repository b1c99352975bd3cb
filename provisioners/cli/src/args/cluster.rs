//! Flags of what speaks to a cluster.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use super::OutputArgs;

/// Which cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig [default: $KUBECONFIG, else ~/.kube/config, else the account of the Pod this runs in]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Flags of `status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// A BundleDeployment; without one, all BundleDeployments and PlatformOperators
    pub name: Option<String>,
    /// Those with these labels only, as kubectl takes them: app=pump,team!=b
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub selector: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `content`.
#[derive(Args, Debug)]
pub struct ContentArgs {
    /// Name of the Bundle
    pub bundle: String,
    /// Write the files to this folder, which must be empty or not there, and print nothing
    #[arg(long, value_name = "DIR")]
    pub extract: Option<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Where the content service is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Content service")]
pub struct ServiceArgs {
    /// Namespace that RukPak runs in
    #[arg(long, alias = "namespace", value_name = "NAMESPACE", default_value = "rukpak-system")]
    pub system_namespace: String,
    /// Service, one of whose Pods a port is forwarded to
    #[arg(long, value_name = "SERVICE", default_value = "core")]
    pub upload_service_name: String,
    /// Secret whose ca.crt says whom to trust
    #[arg(long, value_name = "SECRET", default_value = "rukpak-ca")]
    pub ca_secret_name: String,
    /// Base URL of the content service, by a name that its certificate bears [default: a forwarded port]
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    pub endpoint: Option<Url>,
}

/// Credentials are sent there, so in the clear it must not be.
fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "https" if url.username().is_empty() && url.password().is_none() => Ok(url),
        "https" => Err("credentials are those of the kubeconfig, not of the URL".to_owned()),
        other => Err(format!("{other}: only https is spoken")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_sent_in_the_clear() {
        assert_eq!(endpoint("https://localhost:8443").unwrap().as_str(), "https://localhost:8443/");
        for text in ["http://localhost:8443", "localhost:8443", "https://u:p@localhost", "https://u@localhost", "x"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
