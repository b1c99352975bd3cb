//! The flags of `rukpak-platform`: those of OpenShift's manager, and our own.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Command, CommandFactory as _, Parser, ValueEnum};
use rukpak_catalog::origin::Origin;
use rukpak_runtime::args::{
    Address, FeatureGatesError, LeaderElection, LeaderElectionArgs, Shared, SharedArgs, duration, is_gate_open,
    required, system_namespace,
};
use rukpak_source::Registries;

use super::catalog_server::SERVICE;

const DEFAULT_NAMESPACE: &str = "openshift-platform-operators";
/// Name of the Lease that whoever writes holds; that of OpenShift's manager.
pub(super) const LEASE: &str = "ffdf93bc.openshift.io";
/// The variable with the version of the release that this is a part of; OpenShift sets it.
const RELEASE_VERSION: &str = "RELEASE_VERSION";
/// What is reported where nobody says the release: OpenShift's manager has the same.
const UNKNOWN_RELEASE: &str = "0.0.1-snapshot";

/// What the process is to do, read from the flags.
#[derive(Clone, Debug)]
pub struct Options {
    /// What every program is told.
    pub shared: Shared,
    /// `None`: this process is the only one that writes.
    pub leader_election: Option<LeaderElection>,
    /// How registries, and other servers of catalogs, are reached.
    pub registries: Registries,
    /// Where `/metrics` is served.
    pub metrics_address: Address,
    /// Where the Lease is, and what the ClusterOperator refers to.
    pub system_namespace: String,
    /// Version of the release that this is a part of.
    pub release_version: String,
    /// Catalogs that are read here, in the order in which they are asked.
    pub catalogs: Vec<ConfiguredCatalog>,
    /// CatalogSources of OLM, in the order in which they are asked, after [`Options::catalogs`].
    pub catalog_sources: Vec<CatalogSourceName>,
    /// The CatalogSources that are asked over TLS, and the files with the authorities of their servers.
    pub catalog_authorities: Vec<CatalogAuthority>,
    /// Whether only bundles are installed whose image a catalog names by digest.
    pub require_digests: bool,
    /// Whether images of catalogs are refused that no rule of a ContentPolicy covers.
    pub require_content_policy: bool,
    /// How often catalogs are looked at for a new revision.
    pub catalog_poll_interval: Duration,
    /// Logins of registries.
    pub registry_auth_file: Option<PathBuf>,
    /// Where images are spooled.
    pub storage_dir: PathBuf,
    /// Whether revisions of ClusterExtensions are shown as ClusterObjectSets.
    pub shows_revisions: bool,
    /// Where the content of ClusterCatalogs is served.
    pub catalogs_address: Address,
    /// How clients reach it: host, perhaps with a port.
    pub catalogs_external_address: Option<String>,
    /// Whether Subscriptions of OLM v0's API are followed.
    pub olmv0: Olmv0,
    /// The namespace whose CatalogSources all Subscriptions may name.
    pub olmv0_global_namespace: String,
    /// Where PackageManifests are served.
    pub packages_address: Address,
    /// Where the catalogs of CatalogSources are served.
    pub registry_address: Address,
}

/// Whether OLM v0's API is this program's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Olmv0 {
    /// It is left alone.
    #[default]
    Off,
    /// It is, unless OLM itself runs.
    On,
    /// It is, whoever runs.
    TakeOver,
}

/// What `--require` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Requirement {
    /// Nothing of what stands before it
    #[value(name = "none", hide = true)]
    Nothing,
    /// Install only bundles whose image the catalog names by digest: whoever holds a registry can move a tag
    Digests,
    /// Refuse images of catalogs that no rule of a ContentPolicy accepts, or requires a signature of
    ContentPolicy,
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

/// A CatalogSource that is asked over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogAuthority {
    /// Which one.
    pub source: CatalogSourceName,
    /// PEM certificates of the authorities that may have signed its server's.
    pub file: PathBuf,
}

impl CatalogSourceName {
    /// Whether a PlatformOperator means it by `name`.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.to_string() == name
    }
}

impl fmt::Display for CatalogSourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Installs OLM packages by name: keeps a BundleDeployment for each PlatformOperator.
#[derive(Parser, Debug)]
#[command(name = "rukpak-platform", version, max_term_width = 120, args_override_self = true)]
struct Args {
    /// Address for /metrics: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    metrics_bind_address: Address,
    /// Namespace of the Lease; in a Pod always the Pod's
    #[arg(long, value_name = "NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    system_namespace: String,
    /// A file-based catalog: NAME=image:REFERENCE, NAME=dir:PATH or NAME=https://...; may be repeated. Asked in this order, the
    /// first that has a package provides it
    #[arg(long, value_name = "NAME=WHERE")]
    catalog: Vec<ConfiguredCatalog>,
    /// A CatalogSource of OLM, read if the cluster has OLM; may be repeated, or none. Asked after --catalog, in this order. Whoever
    /// may make that namespace offers packages [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    catalog_source: Vec<AskedSource>,
    /// Ask a CatalogSource over TLS; its server proves who it is by a certificate of these authorities (PEM). Catalog Pods of OLM
    /// serve without TLS; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME=FILE")]
    catalog_ca: Vec<CatalogAuthority>,
    /// Refuse what is accepted otherwise; may be repeated, or have commas; the name none takes back the names before it
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    require: Vec<Requirement>,
    /// How often catalogs are looked at for a new revision; an unchanged one is not fetched again
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = interval)]
    catalog_poll_interval: Duration,
    /// Logins of registries, a file in the form of Docker's config.json; read again whenever a catalog is looked at
    #[arg(long, value_name = "FILE")]
    registry_auth_file: Option<PathBuf>,
    /// Folder for what is fetched of images until it is read; what a process that was killed left there is removed at the start
    #[arg(long, value_name = "DIR", default_value = "/var/cache/catalogs")]
    storage_dir: PathBuf,
    /// Feature gates: BoxcutterRuntime=true shows the revisions of ClusterExtensions as ClusterObjectSets
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, value_parser = shows_revisions, action = ArgAction::Set)]
    feature_gates: bool,
    /// Address for the content of ClusterCatalogs over HTTPS: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    catalogs_bind_address: Address,
    /// Host, or host:port, by which clients reach that; part of status.urls.base of ClusterCatalogs [default: the Service
    /// catalogd-service of the system namespace]
    #[arg(long, value_name = "HOST[:PORT]")]
    catalogs_external_address: Option<String>,
    /// Follow Subscriptions, CatalogSources and OperatorGroups of OLM v0's API (operators.coreos.com). "on" does nothing while a
    /// Deployment olm-operator or catalog-operator runs, "take-over" does not look for one
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    olmv0: Olmv0,
    /// The namespace whose CatalogSources the Subscriptions of all namespaces may name. Whoever may write CatalogSources there offers
    /// packages to all of them
    #[arg(long, value_name = "NAMESPACE", default_value = "olm")]
    olmv0_global_namespace: String,
    /// Address for PackageManifests over HTTPS, for the API server's aggregator: host:port, :port, or 0 for none. They show what
    /// CatalogSources offer, with --olmv0
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    packages_bind_address: Address,
    /// Address for the catalogs of CatalogSources by image over gRPC without TLS, as catalog Pods serve them: host:port, :port, or 0
    /// for none. With --olmv0, each gets a Service that leads there
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    registry_bind_address: Address,
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    leader_election: LeaderElectionArgs,
    #[command(flatten)]
    registries: Registries,
}

/// The flags, for the documentation.
pub fn command() -> Command {
    Args::command()
}

impl Options {
    /// Reads the flags of this process. Help, version and wrong flags end the process, as is the custom.
    pub fn parse() -> Self {
        Args::parse().into()
    }

    /// Reads other flags, after the name of the program.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(flags: &[&str]) -> Result<Self, clap::Error> {
        Args::try_parse_from(flags).map(Self::from)
    }

    /// Scheme and host of the content of ClusterCatalogs; `None` if it is not served.
    pub fn catalogs_url(&self) -> Option<String> {
        if matches!(self.catalogs_address, Address::Disabled) {
            return None;
        }
        let named = self.catalogs_external_address.clone();
        Some(format!("https://{}", named.unwrap_or_else(|| format!("{SERVICE}.{}.svc", self.system_namespace))))
    }
}

impl From<Args> for Options {
    fn from(args: Args) -> Self {
        let names = required(&args.require, Requirement::Nothing);
        Self {
            shared: args.shared.into(),
            leader_election: args.leader_election.times(),
            registries: args.registries,
            metrics_address: args.metrics_bind_address,
            // The Pod's own namespace wins over the flag, as in OpenShift's manager.
            system_namespace: system_namespace(None, &args.system_namespace),
            release_version: std::env::var(RELEASE_VERSION).unwrap_or_else(|_| UNKNOWN_RELEASE.to_owned()),
            catalogs: args.catalog,
            catalog_sources: args.catalog_source.into_iter().filter_map(|source| source.0).collect(),
            catalog_authorities: args.catalog_ca,
            require_digests: names.contains(&Requirement::Digests),
            require_content_policy: names.contains(&Requirement::ContentPolicy),
            catalog_poll_interval: args.catalog_poll_interval,
            registry_auth_file: args.registry_auth_file,
            storage_dir: args.storage_dir,
            shows_revisions: args.feature_gates,
            catalogs_address: args.catalogs_bind_address,
            catalogs_external_address: args.catalogs_external_address,
            olmv0: args.olmv0,
            olmv0_global_namespace: args.olmv0_global_namespace,
            packages_address: args.packages_bind_address,
            registry_address: args.registry_bind_address,
        }
    }
}

impl FromStr for ConfiguredCatalog {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no catalog: write NAME=image:REFERENCE, NAME=dir:PATH or NAME=https://HOST/PATH");
        let (name, origin) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        if name.contains('/') {
            return Err(format!("catalog {name}: a name with a slash is that of a CatalogSource; leave the slash out"));
        }
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
            _ => Err(format!("{text:?} is no CatalogSource: write NAMESPACE/NAME, or none")),
        }
    }
}

impl FromStr for CatalogAuthority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} names no CatalogSource and file: write NAMESPACE/NAME=FILE");
        let (source, file) = text.split_once('=').filter(|(_, file)| !file.is_empty()).ok_or_else(wrong)?;
        Ok(Self { source: source.parse().map_err(|_| wrong())?, file: file.into() })
    }
}

/// `none` or the name of one.
#[derive(Clone, Debug)]
struct AskedSource(Option<CatalogSourceName>);

impl FromStr for AskedSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(Some).map(Self) }
    }
}

/// Whether the gate is open that has upstream install by ClusterObjectSets.
fn shows_revisions(text: &str) -> Result<bool, FeatureGatesError> {
    is_gate_open(text, "BoxcutterRuntime")
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
        // On any cluster but OpenShift a user may make the namespace openshift-marketplace, and offer packages from there.
        assert_eq!(options.catalog_sources, []);
    }

    #[test]
    fn catalogs_keep_their_order() {
        let options = options(&["--catalog=b=dir:/b", "--catalog", "a=dir:/a", "--catalog-source=x/y"]).unwrap();
        let names: Vec<_> = options.catalogs.iter().map(|catalog| catalog.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(options.catalog_sources, [CatalogSourceName { namespace: "x".into(), name: "y".into() }]);
    }

    #[test]
    fn a_source_is_called_by_its_name_with_or_without_its_namespace() {
        let source: CatalogSourceName = "a/b".parse().unwrap();
        assert!(source.is_called("b") && source.is_called("a/b"));
        assert!(!source.is_called("a") && !source.is_called("c/b"));
    }

    #[test]
    fn no_catalog_source_need_be_asked() {
        assert_eq!(options(&["--catalog-source=none"]).unwrap().catalog_sources, []);
    }

    #[test]
    fn revisions_are_shown_behind_upstreams_gate() {
        assert!(!options(&[]).unwrap().shows_revisions);
        assert!(options(&["--feature-gates=BoxcutterRuntime=true"]).unwrap().shows_revisions);
    }

    #[test]
    fn each_name_of_require_closes_its_own_door() {
        let required = |flags: &[&str]| {
            let options = options(flags).unwrap();
            (options.require_digests, options.require_content_policy)
        };
        assert_eq!(required(&[]), (false, false));
        assert_eq!(required(&["--require=digests"]), (true, false));
        assert_eq!(required(&["--require=content-policy"]), (false, true));
        assert_eq!(required(&["--require=digests", "--require=content-policy"]), (true, true));
        assert_eq!(required(&["--require=digests,none,content-policy"]), (false, true));
    }

    #[test]
    fn wrong_ones_say_how_to_write_them() {
        for (flag, hint) in [
            ("--catalog=dir:/x", "NAME=dir:PATH"),
            ("--catalog==dir:/x", "NAME=dir:PATH"),
            ("--catalog=a=/x", "dir:PATH"),
            ("--catalog=a/b=dir:/x", "leave the slash out"),
            ("--catalog-source=x", "NAMESPACE/NAME"),
            ("--catalog-ca=x=/f", "NAMESPACE/NAME=FILE"),
            ("--catalog-ca=a/b", "NAMESPACE/NAME=FILE"),
            ("--catalog-poll-interval=1ms", "at least 1s"),
            ("--feature-gates=HelmChartSupport=true", "only BoxcutterRuntime"),
            ("--require=secret-hosts", "digests"),
        ] {
            let error = options(&[flag]).unwrap_err();
            assert!(error.contains(hint), "{flag}: {error}");
        }
    }
}
