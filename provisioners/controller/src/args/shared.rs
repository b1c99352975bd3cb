//! The flags that both programs have.

use std::io::{IsTerminal, stderr};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use rukpak_source::egress::IpNet;

use super::{Address, duration};

/// What both programs are told.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Where `/healthz` and `/readyz` are served.
    pub probe_address: Address,
    /// `None`: this process is the only one that writes.
    pub leader_election: Option<LeaderElection>,
    /// How registries are reached.
    pub registries: Registries,
    /// What is logged, and how.
    pub logging: Logging,
    /// Names the cluster and the identity, in place of the environment.
    pub kubeconfig: Option<PathBuf>,
}

/// Times of leader election, with the meaning they have in Kubernetes' own components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// A leader that was not heard of for so long is replaced.
    pub lease_duration: Duration,
    /// A leader that could not renew for so long stops writing.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

/// How registries are reached.
#[derive(Clone, Debug)]
pub struct Registries {
    /// CA certificates for them and for other servers, beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// Those that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// Mirrors of them, as `registries.conf`.
    pub conf: Option<PathBuf>,
    /// Networks that they, and all other sources, may be in although that is refused by default.
    pub allowed: Vec<IpNet>,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct Logging {
    /// How log lines are written.
    pub format: LogFormat,
    /// Which log lines are written, as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// [`Shared`] as flags. Each program says in its own words what `leader_elect` and `source_ca_file` are about.
#[derive(Args, Debug)]
pub(crate) struct SharedArgs {
    /// Address for /healthz and /readyz: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: Address,
    /// Write only while holding a Lease
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    leader_elect: bool,
    /// A leader that was not heard of for so long is replaced
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// A leader that could not renew for so long stops writing
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Time between two attempts to become or stay leader
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// Mirrors of registries, a file in the form of registries.conf (version 2)
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// CA certificates (PEM), beside the system's; may be repeated
    #[arg(long, value_name = "FILE")]
    source_ca_file: Vec<PathBuf>,
    /// Registry (host or host:port) to speak to without TLS; credentials go to it in the clear; may be repeated
    #[arg(long, value_name = "REGISTRY")]
    plain_http_registry: Vec<String>,
    /// Network (CIDR) that sources may be fetched from although it is refused by default, as loopback, link-local and the API server
    /// are; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = network)]
    source_allow_cidr: Vec<IpNet>,
    /// Form of log lines [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least level of log lines (error, warn, info, debug, trace), or directives such as info,rukpak_controller=debug
    #[arg(long, alias = "zap-log-level", value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Kubeconfig with the cluster and the identity to use [default: $KUBECONFIG, ~/.kube/config, or those of the Pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Accepted and unused: flags of upstream's logger
    #[arg(long = "zap-devel", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    _zap_devel: Option<bool>,
    #[arg(long = "zap-encoder", hide = true)]
    _zap_encoder: Option<String>,
    #[arg(long = "zap-stacktrace-level", hide = true)]
    _zap_stacktrace_level: Option<String>,
    #[arg(long = "zap-time-encoding", hide = true)]
    _zap_time_encoding: Option<String>,
}

/// What `leader_elect` is about, where `lease` is the name of the Lease.
pub(crate) fn leader_elect_help(lease: &str) -> String {
    format!("Write only while holding the Lease {lease} in the system namespace")
}

impl From<SharedArgs> for Shared {
    fn from(args: SharedArgs) -> Self {
        let times = LeaderElection {
            lease_duration: args.leader_elect_lease_duration,
            renew_deadline: args.leader_elect_renew_deadline,
            retry_period: args.leader_elect_retry_period,
        };
        Self {
            probe_address: args.health_probe_bind_address,
            leader_election: args.leader_elect.then_some(times),
            registries: Registries {
                ca_files: args.source_ca_file,
                plain_http: args.plain_http_registry,
                conf: args.registries_conf,
                allowed: args.source_allow_cidr,
            },
            logging: Logging {
                format: args.log_format.unwrap_or_else(LogFormat::for_stderr),
                filter: level(args.log_level),
            },
            kubeconfig: args.kubeconfig,
        }
    }
}

impl LogFormat {
    /// Text for people who look on, JSON for machines.
    fn for_stderr() -> Self {
        if stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// An address alone is a network too.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| format!("{text:?} is not a network: write 10.0.0.0/8 or fd00::/8"))
}

/// Upstream's logger also takes a number: the higher, the more is said.
fn level(text: String) -> String {
    /// It logs each answer of a failed request as an error, without what was asked: for us a refused dry run is an answer. What
    /// is wrong is logged by us, once.
    const NOISE: &str = "kube_client::client::builder";
    let text = match text.parse::<u32>() {
        Ok(0) => "info".to_owned(),
        Ok(_) => "debug".to_owned(),
        Err(_) => text,
    };
    let is_quiet = ["error", "warn", "info"].iter().any(|level| text.eq_ignore_ascii_case(level));
    if is_quiet { format!("{text},{NOISE}=off") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_with_or_without_a_length() {
        assert_eq!(network("127.0.0.0/8").unwrap().to_string(), "127.0.0.0/8");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        assert!(network("localhost").unwrap_err().contains("write 10.0.0.0/8"));
    }

    #[test]
    fn levels_are_those_of_upstream_and_directives() {
        for (written, filter) in [
            ("0", "info,kube_client::client::builder=off"),
            ("Warn", "Warn,kube_client::client::builder=off"),
            ("5", "debug"),
            ("trace", "trace"),
            ("info,kube=debug", "info,kube=debug"),
        ] {
            assert_eq!(level(written.to_owned()), filter);
        }
    }
}
