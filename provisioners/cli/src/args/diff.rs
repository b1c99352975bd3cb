//! Flags of `diff`.

use std::ffi::OsString;

use clap::Args;

use super::{CertProvider, ClusterArgs, GitArgs, OutputArgs, ServiceArgs, TrustArgs, ValuesArgs};
use crate::format::{self, Format};

/// Flags of `diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// Name of the BundleDeployment
    pub name: String,
    /// What would be installed, as `upgrade` takes it: an image, a git repository, the URL of an archive, a folder or an archive
    /// [default: what is installed; without other values the drift of the cluster is shown]
    #[arg(value_name = "SOURCE")]
    pub source: Option<OsString>,
    /// Format of the bundle [default: that of the content of a folder or archive; of anything else that it had before, or
    /// plain+v0]
    #[arg(long, value_name = "FORMAT", requires = "source", value_parser = format::parser())]
    pub format: Option<Format>,
    /// Who makes the certificates of webhooks, as the controller is told [default: self]
    #[arg(long, value_name = "PROVIDER")]
    pub cert_provider: Option<CertProvider>,
    #[command(flatten)]
    pub values: ValuesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub git: GitArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

impl DiffArgs {
    /// Of what is installed, with the defaults of all flags but for these.
    pub fn of_drift(name: &str, cert_provider: Option<CertProvider>, service: &ServiceArgs) -> Self {
        Self {
            name: name.to_owned(),
            source: None,
            format: None,
            cert_provider,
            values: ValuesArgs::default(),
            output: OutputArgs::default(),
            trust: TrustArgs::default(),
            git: GitArgs::default(),
            cluster: ClusterArgs::default(),
            service: service.clone(),
        }
    }

    /// Whether nothing else would be installed than is installed.
    pub fn is_drift(&self) -> bool {
        self.source.is_none() && !self.values.is_given()
    }
}
