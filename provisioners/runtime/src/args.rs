//! The flags that the programs have in common, and the grammar of their values.
//!
//! They are written as Go programs take them: what was written for upstream's programs works.

mod address;
mod duration;
mod feature_gates;
mod leader_election;
mod logging;
mod tls;

use std::fs;
use std::path::PathBuf;

use axum::http::Uri;
use clap::Args;

pub use address::{Address, AddressError};
pub use duration::{certificate_lifetime, duration};
pub use feature_gates::{FeatureGatesError, is_gate_open};
pub use leader_election::{LeaderElection, LeaderElectionArgs};
pub use logging::{LogFormat, Logging, LoggingArgs};
pub use tls::{TlsArgs, TlsError};

/// Where Kubernetes tells a Pod its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What every program is told.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Where `/healthz` and `/readyz` are served.
    pub probe_address: Address,
    /// What is logged, and how.
    pub logging: Logging,
    /// Names the cluster and the identity, in place of the environment.
    pub kubeconfig: Option<PathBuf>,
    /// The OpenTelemetry collector that traces are sent to: the base that paths are appended to.
    pub collector: Option<Uri>,
    /// Which TLS is spoken.
    pub tls: TlsArgs,
}

/// [`Shared`] as flags.
#[derive(Args, Clone, Debug)]
pub struct SharedArgs {
    /// Address for /healthz and /readyz: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: Address,
    /// Kubeconfig with the cluster and the identity to use [default: $KUBECONFIG, ~/.kube/config, or those of the Pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// OpenTelemetry collector that traces are sent to (OTLP over HTTP), such as http://collector:4318
    /// [default: $OTEL_EXPORTER_OTLP_ENDPOINT, else none]
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp_endpoint: Option<Uri>,
    #[command(flatten)]
    logging: LoggingArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

impl From<SharedArgs> for Shared {
    fn from(args: SharedArgs) -> Self {
        Self {
            probe_address: args.health_probe_bind_address,
            logging: args.logging.into(),
            kubeconfig: args.kubeconfig,
            collector: args.otlp_endpoint,
            tls: args.tls,
        }
    }
}

fn collector(text: &str) -> Result<Uri, String> {
    let is_fit =
        |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && url.query().is_none();
    text.parse().ok().filter(is_fit).ok_or_else(|| "write http://HOST:PORT or https://HOST:PORT".to_owned())
}

/// The system namespace: what the flag says, else the Pod's namespace, else `usual`. An empty one says nothing.
pub fn system_namespace(flag: Option<String>, usual: &str) -> String {
    let of_pod = || fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    let said = |name: &String| !name.is_empty();
    flag.filter(said).or_else(|| of_pod().filter(said)).unwrap_or_else(|| usual.to_owned())
}

/// Returns the names of a program's `--require` that count: those after the last `nothing`. With that name, arguments that are
/// appended to those of a manifest take back what it requires.
pub fn required<Name: Copy + PartialEq>(names: &[Name], nothing: Name) -> &[Name] {
    let begin = names.iter().rposition(|name| *name == nothing).map_or(0, |last| last + 1);
    &names[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_required_before_none() {
        assert_eq!(required(&["a", "b"], "none"), ["a", "b"]);
        assert_eq!(required(&["a", "none", "b", "none", "c"], "none"), ["c"]);
        assert_eq!(required(&["a", "none"], "none"), [""; 0]);
    }

    #[test]
    fn a_collector_is_a_web_server() {
        for good in ["http://collector:4318", "https://collector.example.com/otlp/"] {
            assert!(collector(good).is_ok(), "{good}");
        }
        for bad in ["", "collector:4317", "grpc://collector:4317", "http://", "http://collector:4318?a=b"] {
            assert!(collector(bad).is_err(), "{bad}");
        }
    }
}
