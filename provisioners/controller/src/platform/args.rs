//! The flags of `rukpak-platform`: those of OpenShift's manager, and our own.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Parser};
use rukpak_catalog::origin::Origin;

use crate::args::{Address, LeaderElection, LogFormat, duration, level, system_namespace};

const DEFAULT_NAMESPACE: &str = "openshift-platform-operators";
/// What is reported where nobody says the release: OpenShift's manager has the same.
const UNKNOWN_RELEASE: &str = "0.0.1-snapshot";

/// What the process is to do, read from the flags.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/metrics` is served.
    pub metrics_address: Address,
    /// Where `/healthz` and `/readyz` are served.
    pub probe_address: Address,
    /// `None`: this process is the only one that writes.
    pub leader_election: Option<LeaderElection>,
    /// Where the Lease is, and what the ClusterOperator refers to.
    pub system_namespace: String,
    /// Version of the release that this is a part of.
    pub release_version: String,
    /// Catalogs that are read here, in the order in which they are asked.
    pub catalogs: Vec<ConfiguredCatalog>,
    /// CatalogSources of OLM, in the order in which they are asked, after [`Options::catalogs`].
    pub catalog_sources: Vec<CatalogSourceName>,
    /// How often catalogs are looked at for a new revision.
    pub catalog_poll_interval: Duration,
    /// CA certificates for registries and web servers, beside the system's.
    pub source_ca_files: Vec<PathBuf>,
    /// Registries that are spoken to without TLS.
    pub plain_http_registries: Vec<String>,
    /// Mirrors of registries, as `registries.conf`.
    pub registries_conf: Option<PathBuf>,
    /// Logins of registries.
    pub registry_auth_file: Option<PathBuf>,
    /// Where images are spooled.
    pub storage_dir: PathBuf,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written, as `tracing_subscriber::EnvFilter` reads it.
    pub log_filter: String,
}

/// A catalog that is read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredCatalog {
    /// What PlatformOperators call it.
    pub name: String,
    /// Where it is.
    pub origin: Origin,
}

/// The name of a CatalogSource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogSourceName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Installs OLM packages by name: keeps a BundleDeployment for each PlatformOperator.
#[derive(Parser, Debug)]
#[command(name = "rukpak-platform", version, max_term_width = 120)]
struct Args {
    /// Address for /metrics: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    metrics_bind_address: Address,
    /// Address for /healthz and /readyz: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: Address,
    /// Write only while holding the Lease ffdf93bc.openshift.io in the system namespace
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
    /// Namespace of the Lease; in a Pod always the Pod's
    #[arg(long, value_name = "NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    system_namespace: String,
    /// Version of the release that this is a part of, for the ClusterOperator
    #[arg(long, value_name = "VERSION", env = "RELEASE_VERSION", default_value = UNKNOWN_RELEASE)]
    release_version: String,
    /// A file-based catalog: NAME=image:REFERENCE, NAME=dir:PATH or NAME=https://...; may be repeated. Asked in this order, the
    /// first that has a package provides it
    #[arg(long, value_name = "NAME=WHERE")]
    catalog: Vec<ConfiguredCatalog>,
    /// A CatalogSource of OLM, read if the cluster has OLM; may be repeated. Asked after --catalog, in this order
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "openshift-marketplace/redhat-operators")]
    catalog_source: Vec<CatalogSourceName>,
    /// How often catalogs are looked at for a new revision; an unchanged one is not fetched again
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = interval)]
    catalog_poll_interval: Duration,
    /// CA certificates (PEM) for registries and catalog servers, beside the system's; may be repeated; read at the start
    #[arg(long, value_name = "FILE")]
    source_ca_file: Vec<PathBuf>,
    /// Registry (host or host:port) to speak to without TLS; credentials go to it in the clear; may be repeated
    #[arg(long, value_name = "REGISTRY")]
    plain_http_registry: Vec<String>,
    /// Mirrors of registries, a file in the form of registries.conf (version 2)
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// Logins of registries, a file in the form of Docker's config.json; read at the start
    #[arg(long, value_name = "FILE")]
    registry_auth_file: Option<PathBuf>,
    /// Folder for spool files, which have no names
    #[arg(long, value_name = "DIR", default_value = "/var/cache/catalogs")]
    storage_dir: PathBuf,
    /// Form of log lines [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least level of log lines (error, warn, info, debug, trace), or directives such as info,rukpak_controller=debug
    #[arg(long, alias = "zap-log-level", value_name = "LEVEL", default_value = "info")]
    log_level: String,
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
            metrics_address: args.metrics_bind_address,
            probe_address: args.health_probe_bind_address,
            leader_election,
            // The Pod's own namespace wins over the flag, as in OpenShift's manager.
            system_namespace: system_namespace(String::new(), &args.system_namespace),
            release_version: args.release_version,
            catalogs: args.catalog,
            catalog_sources: args.catalog_source,
            catalog_poll_interval: args.catalog_poll_interval,
            source_ca_files: args.source_ca_file,
            plain_http_registries: args.plain_http_registry,
            registries_conf: args.registries_conf,
            registry_auth_file: args.registry_auth_file,
            storage_dir: args.storage_dir,
            log_format: args.log_format.unwrap_or_else(LogFormat::for_stderr),
            log_filter: level(args.log_level),
        }
    }
}

impl FromStr for ConfiguredCatalog {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no catalog: write NAME=image:REFERENCE, NAME=dir:PATH or NAME=https://HOST/PATH");
        let (name, origin) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let origin = origin.parse().map_err(|error| format!("catalog {name}: {error}"))?;
        Ok(Self { name: name.to_owned(), origin })
    }
}

impl FromStr for CatalogSourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("{text:?} is no CatalogSource: write NAMESPACE/NAME")),
        }
    }
}

/// More often than every second is no polling but hammering.
fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        interval if interval >= Duration::from_secs(1) => Ok(interval),
        _ => Err("at least 1s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let arguments = [&["rukpak-platform"], arguments].concat();
        Args::try_parse_from(arguments).map(Options::from).map_err(|error| error.to_string())
    }

    #[test]
    fn the_flags_fit_each_other() {
        Args::command().debug_assert();
        let options = options(&[]).unwrap();
        assert_eq!(options.catalog_sources[0].namespace, "openshift-marketplace");
        assert_eq!(options.catalog_sources[0].name, "redhat-operators");
    }

    #[test]
    fn catalogs_keep_their_order() {
        let options = options(&["--catalog=b=dir:/b", "--catalog", "a=dir:/a", "--catalog-source=x/y"]).unwrap();
        let names: Vec<_> = options.catalogs.iter().map(|catalog| catalog.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(options.catalog_sources, [CatalogSourceName { namespace: "x".into(), name: "y".into() }]);
    }

    #[test]
    fn wrong_ones_say_how_to_write_them() {
        for (flag, hint) in [
            ("--catalog=dir:/x", "NAME=dir:PATH"),
            ("--catalog==dir:/x", "NAME=dir:PATH"),
            ("--catalog=a=/x", "dir:PATH"),
            ("--catalog-source=x", "NAMESPACE/NAME"),
            ("--catalog-poll-interval=1ms", "at least 1s"),
        ] {
            let error = options(&[flag]).unwrap_err();
            assert!(error.contains(hint), "{flag}: {error}");
        }
    }
}
