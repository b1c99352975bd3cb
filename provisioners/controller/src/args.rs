//! The flags of `rukpak-controller`: those of RukPak v0.16's `core`, and our own.

mod address;
mod feature_gates;
mod limits;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use jiff::SignedDuration;
use rukpak_content::Limits;

use limits::LimitArgs;

use crate::format::Certificates;

pub use address::{Address, AddressError};
pub use feature_gates::{FeatureGates, FeatureGatesError};

/// Where Kubernetes tells a Pod its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "rukpak-system";

/// What the process is to do, read from the flags.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/metrics` is served.
    pub http_address: Address,
    /// Where `/healthz` and `/readyz` are served.
    pub probe_address: Address,
    /// Base URL of the content service, as clients in the cluster reach it.
    pub external_url: String,
    /// Where content is served and uploads are taken, over HTTPS.
    pub content_address: Address,
    /// Who keeps the content service's certificate.
    pub content_certificates: ContentCertificates,
    /// The Secret with it, in the system namespace.
    pub content_certificate_secret: String,
    /// How long a certificate of the content service lives that we make.
    pub content_certificate_lifetime: Duration,
    /// CA certificates for registries and git servers, beside the system's.
    pub source_ca_files: Vec<PathBuf>,
    /// Mirrors of registries, as `registries.conf`.
    pub registries_conf: Option<PathBuf>,
    /// Registries that are spoken to without TLS.
    pub plain_http_registries: Vec<String>,
    /// Who makes the certificates that webhooks of bundles serve with.
    pub bundle_certificates: Certificates,
    /// How long a certificate lives that we make for a bundle.
    pub bundle_certificate_lifetime: Duration,
    /// Whether the rules of OLM v1 refuse an upgrade of a definition too.
    pub strict_crd_upgrades: bool,
    /// Where Secrets are read, and where objects without a namespace go.
    pub system_namespace: String,
    /// `None`: this process is the only one that writes.
    pub leader_election: Option<LeaderElection>,
    /// Root of the content store.
    pub storage_dir: PathBuf,
    /// Where uploads are kept.
    pub upload_dir: PathBuf,
    /// How often uploads without a Bundle are removed.
    pub upload_sync_interval: Duration,
    /// Which gates are open.
    pub feature_gates: FeatureGates,
    /// Upper bounds on content.
    pub limits: Limits,
    /// Objects of one kind that are reconciled at once, and bundles that are fetched at once. At least 1.
    pub concurrency: usize,
    /// Writes to the API server that are under way at once. At least 1.
    pub requests_in_flight: usize,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written, as `tracing_subscriber::EnvFilter` reads it.
    pub log_filter: String,
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

/// Who keeps the Secret with the content service's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ContentCertificates {
    /// This program, with an authority of its own.
    #[default]
    #[value(name = "self")]
    SelfMade,
    /// Somebody else: cert-manager, the service CA of OpenShift, a person.
    External,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Unpacks Bundles and installs BundleDeployments.
#[derive(Parser, Debug)]
#[command(name = "rukpak-controller", version, max_term_width = 120)]
struct Args {
    /// Address for /metrics: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    http_bind_address: Address,
    /// Base URL under which clients in the cluster reach the content service
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    http_external_address: String,
    /// Address of the content service, over HTTPS: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    content_bind_address: Address,
    /// Who keeps the certificate of the content service
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    content_certificates: ContentCertificates,
    /// Secret in the system namespace with the certificate of the content service
    #[arg(long, value_name = "NAME", default_value = "core-cert")]
    content_certificate_secret: String,
    /// How long a certificate of the content service lives that is made here; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = lifetime)]
    content_certificate_lifetime: Duration,
    /// Accepted and unused: uploads are read where they lie
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    base_upload_manager_url: String,
    /// Accepted and unused: content is read where it lies
    #[arg(long, value_name = "FILE")]
    bundle_ca_file: Option<PathBuf>,
    /// Mirrors of registries, a file in the form of registries.conf (version 2)
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// CA certificates (PEM) for registries, git servers and web servers, beside the system's; may be repeated
    #[arg(long, value_name = "FILE")]
    source_ca_file: Vec<PathBuf>,
    /// Registry (host or host:port) to speak to without TLS; credentials go to it in the clear; may be repeated
    #[arg(long, value_name = "REGISTRY")]
    plain_http_registry: Vec<String>,
    /// Address for /healthz and /readyz: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: Address,
    /// Namespace of Secrets, and of objects that name none [default: the Pod's namespace, else rukpak-system]
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    system_namespace: String,
    /// Accepted and unused: images are pulled by this process, no unpack Pod is started
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true)]
    unpack_image: String,
    /// Write only while holding the Lease core.rukpak.io in the system namespace
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
    /// Folder of the content store
    #[arg(long, value_name = "DIR", default_value = "/var/cache/bundles")]
    provisioner_storage_dir: PathBuf,
    /// Folder of uploads
    #[arg(long, value_name = "DIR", default_value = "/var/cache/uploads")]
    upload_storage_dir: PathBuf,
    /// Time between two removals of uploads without a Bundle
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    upload_storage_sync_interval: Duration,
    /// Feature gates, such as BundleDeploymentHealth=true
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true)]
    feature_gates: FeatureGates,
    /// Who makes the certificates that webhooks of registry+v1 bundles serve with
    #[arg(long, value_name = "PROVIDER", value_enum, default_value_t)]
    bundle_cert_provider: Certificates,
    /// How long such a certificate lives that is made here; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "17520h", value_parser = lifetime)]
    bundle_cert_lifetime: Duration,
    /// Refuse CRD upgrades that OLM v1 refuses (schema changes), not only those that break stored data or existing objects
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    strict_crd_upgrade_safety: bool,
    /// Objects of one kind that are reconciled at once, and bundles that are fetched at once
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = count)]
    concurrency: usize,
    /// Writes to the API server that are under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = count)]
    requests_in_flight: usize,
    /// Form of log lines [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least level of log lines (error, warn, info, debug, trace), or directives such as info,rukpak_controller=debug
    #[arg(long, alias = "zap-log-level", value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Accepted and unused: flags of upstream's logger
    #[arg(long = "zap-devel", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    _zap_devel: Option<bool>,
    #[arg(long = "zap-encoder", hide = true)]
    _zap_encoder: Option<String>,
    #[arg(long = "zap-stacktrace-level", hide = true)]
    _zap_stacktrace_level: Option<String>,
    #[arg(long = "zap-time-encoding", hide = true)]
    _zap_time_encoding: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
}

impl Options {
    /// Reads the flags of this process. Help, version and wrong flags end the process, as is the custom.
    pub fn parse() -> Self {
        Args::parse().into()
    }
}

impl From<Args> for Options {
    fn from(args: Args) -> Self {
        let leader_election = args.leader_elect.then_some(LeaderElection {
            lease_duration: args.leader_elect_lease_duration,
            renew_deadline: args.leader_elect_renew_deadline,
            retry_period: args.leader_elect_retry_period,
        });
        Self {
            http_address: args.http_bind_address,
            probe_address: args.health_probe_bind_address,
            external_url: args.http_external_address,
            content_address: args.content_bind_address,
            content_certificates: args.content_certificates,
            content_certificate_secret: args.content_certificate_secret,
            content_certificate_lifetime: args.content_certificate_lifetime,
            registries_conf: args.registries_conf.filter(|file| !file.as_os_str().is_empty()),
            source_ca_files: args.source_ca_file,
            plain_http_registries: args.plain_http_registry,
            bundle_certificates: args.bundle_cert_provider,
            bundle_certificate_lifetime: args.bundle_cert_lifetime,
            strict_crd_upgrades: args.strict_crd_upgrade_safety,
            system_namespace: system_namespace(args.system_namespace, DEFAULT_NAMESPACE),
            leader_election,
            storage_dir: args.provisioner_storage_dir,
            upload_dir: args.upload_storage_dir,
            upload_sync_interval: args.upload_storage_sync_interval,
            feature_gates: args.feature_gates,
            limits: args.limits.into(),
            concurrency: args.concurrency,
            requests_in_flight: args.requests_in_flight,
            log_format: args.log_format.unwrap_or_else(LogFormat::for_stderr),
            log_filter: level(args.log_level),
        }
    }
}

impl LogFormat {
    /// Text for people who look on, JSON for machines.
    pub(crate) fn for_stderr() -> Self {
        if std::io::IsTerminal::is_terminal(&std::io::stderr()) { Self::Text } else { Self::Json }
    }
}

/// What the flag says, else the Pod's namespace, else `usual`.
pub(crate) fn system_namespace(flag: String, usual: &str) -> String {
    let of_pod = || fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    Some(flag).filter(|name| !name.is_empty()).or_else(of_pod).unwrap_or_else(|| usual.to_owned())
}

/// Upstream's logger also takes a number: the higher, the more is said.
pub(crate) fn level(text: String) -> String {
    match text.parse::<u32>() {
        Ok(0) => "info".to_owned(),
        Ok(_) => "debug".to_owned(),
        Err(_) => text,
    }
}

/// Reads what Go's `time.ParseDuration` reads: `1m30s`, `500ms`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a duration: write 30s, 1m30s or 500ms");
    let signed: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// Shorter ones cannot be renewed in time; longer ones cannot be said.
fn lifetime(text: &str) -> Result<Duration, String> {
    const YEAR: Duration = Duration::from_hours(366 * 24);
    match duration(text)? {
        lifetime if (Duration::from_secs(10)..=YEAR * 10).contains(&lifetime) => Ok(lifetime),
        _ => Err("a certificate lives from 10s to 10 years".to_owned()),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1024) => Ok(count),
        _ => Err(format!("{text:?} is not a number from 1 to 1024")),
    }
}

#[cfg(test)]
mod tests;
