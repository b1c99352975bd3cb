//! Flags of `ui`.

use clap::Args;

use super::{CertProvider, ClusterArgs, ServiceArgs};

/// Flags of `ui`.
#[derive(Args, Debug)]
pub struct UiArgs {
    /// Port of this machine's loopback address that the page is served on; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Who makes the certificates of webhooks, as the controller is told [default: self]
    #[arg(long, value_name = "PROVIDER")]
    pub cert_provider: Option<CertProvider>,
    /// Let the page approve and reject Plans; without it nothing is changed
    #[arg(long)]
    pub allow_approval: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}
