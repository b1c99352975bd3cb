//! Flags for how registries are spoken to.

use std::path::PathBuf;

use clap::Args;

/// Whom to trust, and whom to speak to in the clear.
#[derive(Args, Clone, Debug, Default)]
pub struct TrustArgs {
    /// CA certificates (PEM) for the registry, beside the system's; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca_file: Vec<PathBuf>,
    /// Registry (host or host:port) to speak to without TLS; credentials go to it in the clear; may be repeated
    #[arg(long, value_name = "REGISTRY")]
    pub plain_http_registry: Vec<String>,
}
