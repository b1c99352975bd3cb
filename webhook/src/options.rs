//! The flags. Names and meaning are RukPak v0.16's where it has them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::CONFIGURATION;
use crate::address::Address;

const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "rukpak-system";
/// ServiceAccount of the controller, as the manifests name it.
const CONTROLLER_ACCOUNT: &str = "core-admin";
const SHORTEST_LIFETIME: Duration = Duration::from_secs(10);
const LONGEST_LIFETIME: Duration = Duration::from_hours(3650 * 24);

/// The admission webhook of rukpak: Bundles never change, ConfigMaps they use stay, new versions of CRDs break no object.
/// Of a flag given twice the last counts, as with Go programs.
#[derive(Clone, Debug, Parser)]
#[command(name = "rukpak-webhook", version, args_override_self = true)]
pub struct Options {
    /// Namespace the webhook runs in [default: the Pod's namespace, else rukpak-system]
    #[arg(long, value_name = "NAMESPACE")]
    system_namespace: Option<String>,
    /// Where the API server connects to (TLS): HOST:PORT, or :PORT for every address
    #[arg(long, value_name = "ADDRESS", default_value = ":9443")]
    pub webhook_bind_address: Address,
    /// Where /metrics is served (plain HTTP); 0 serves none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: Address,
    /// Where /healthz and /readyz are served (plain HTTP)
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: Address,
    /// Folder with tls.crt and tls.key, kept by someone else and read again when they change. Without it the webhook
    /// makes its own certificate and keeps it in --certificate-secret
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// Secret in the system namespace that holds the self-made certificate
    #[arg(long, value_name = "NAME", default_value = "rukpak-webhook-certificate", conflicts_with = "cert_dir")]
    pub certificate_secret: String,
    /// ValidatingWebhookConfiguration that leads here: the entry for ConfigMaps is kept there, and caBundle without --cert-dir
    #[arg(long, value_name = "NAME", default_value = CONFIGURATION)]
    pub webhook_configuration: String,
    /// Lifetime of a self-made certificate (like 90d or 1h30m); it is renewed after two thirds
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = lifetime, conflicts_with = "cert_dir")]
    pub certificate_lifetime: Duration,
    /// How long new calls are still answered after the signal to stop, while the Service forgets this Pod
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub drain_delay: Duration,
    /// User name of the controller, who alone makes Bundles of BundleDeployments and pins Bundles
    /// [default: system:serviceaccount:NAMESPACE:core-admin]
    #[arg(long, value_name = "USER")]
    controller_username: Option<String>,
    /// Accepted for compatibility, without effect: the webhook speaks HTTP/1.1 only
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set)]
    pub enable_http2: bool,
    /// How log lines are written to stderr
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub log_format: LogFormat,
    /// Least level of log lines (error, warn, info, debug, trace), or directives such as info,rukpak_webhook=debug
    /// [default: $RUST_LOG, else info]
    #[arg(long, alias = "zap-log-level", value_name = "LEVEL", value_parser = level)]
    pub log_level: Option<String>,
    /// Kubeconfig with the cluster and the identity to use [default: $KUBECONFIG, ~/.kube/config, or those of the Pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
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

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Options {
    /// The namespace the webhook runs in: the flag, else the Pod's own, else `rukpak-system`.
    pub fn system_namespace(&self) -> String {
        let of_pod = || std::fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
        self.system_namespace
            .clone()
            .or_else(of_pod)
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// The user name of the controller: the flag, else the ServiceAccount of the manifests in the webhook's namespace.
    pub fn controller_username(&self) -> String {
        let of_manifests = || format!("system:serviceaccount:{}:{CONTROLLER_ACCOUNT}", self.system_namespace());
        self.controller_username.clone().unwrap_or_else(of_manifests)
    }
}

/// Upstream's logger also takes a number: the higher, the more is said.
fn level(text: &str) -> Result<String, String> {
    let level = match text.parse::<u32>() {
        Ok(0) => "info",
        Ok(_) => "debug",
        Err(_) => text,
    };
    let wrong =
        |error| format!("{error}; write error, warn, info, debug, trace, or directives such as info,kube=debug");
    EnvFilter::try_new(level).map(|_| level.to_owned()).map_err(wrong)
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration(text)?;
    if !(SHORTEST_LIFETIME..=LONGEST_LIFETIME).contains(&lifetime) {
        return Err("a certificate lives between 10s and 3650d".to_owned());
    }
    Ok(lifetime)
}

/// Reads a sum of whole numbers with a unit: `d`, `h`, `m` or `s`. A bare `0` is none at all.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90d, 1h30m or 10s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let unit = match tail.as_bytes().first() {
            Some(b'd') => 86_400,
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
        rest = &tail[1..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, seconds) in [("90d", 7_776_000), ("1h30m", 5400), ("10s", 10), ("0", 0), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1 h", "5ms", "99999999999999999999d", "300000000000000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(lifetime("9s").is_err());
        assert!(lifetime("4000d").is_err());
    }

    #[test]
    fn upstream_flags_are_accepted() {
        let options = Options::try_parse_from([
            "rukpak-webhook",
            "--system-namespace=elsewhere",
            "--system-namespace=somewhere",
            "--metrics-bind-address=:8080",
            "--health-probe-bind-address=127.0.0.1:8081",
            "--enable-http2",
            "--kubeconfig=/etc/kubeconfig",
            "--zap-devel",
            "--zap-encoder=json",
            "--zap-log-level=3",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=rfc3339",
        ])
        .unwrap();
        assert_eq!(options.log_level.as_deref(), Some("debug"));
        assert_eq!(options.kubeconfig.as_deref(), Some(std::path::Path::new("/etc/kubeconfig")));
        assert_eq!(options.system_namespace(), "somewhere");
        assert_eq!(options.webhook_configuration, CONFIGURATION);
        assert_eq!(options.controller_username(), "system:serviceaccount:somewhere:core-admin");
        assert!(options.enable_http2);
        assert!(!Options::try_parse_from(["rukpak-webhook", "--enable-http2=false"]).unwrap().enable_http2);
        assert!(Options::try_parse_from(["rukpak-webhook", "--cert-dir=/certs", "--certificate-lifetime=1h"]).is_err());
    }
}
