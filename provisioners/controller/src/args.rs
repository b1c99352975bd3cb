//! The flags of `rukpak-controller`: those of RukPak v0.16's `core`, and our own.

mod feature_gates;
mod limits;
mod sources;
mod storage;
mod uploads;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Command, CommandFactory as _, Parser, ValueEnum};
use rukpak_content::Limits;
use rukpak_format::Certificates;
use rukpak_install::Shard;
use rukpak_runtime::args::{
    Address, LeaderElection, LeaderElectionArgs, Shared, SharedArgs, certificate_lifetime, duration, leader_elect_help,
    system_namespace,
};
use rukpak_source::Registries;
use rukpak_unpack::SourcePolicy;

use limits::LimitArgs;
use storage::StorageArgs;
use uploads::UploadArgs;

use rukpak_unpack::content_service::UploadLimits;
use sources::SourceArgs;

pub use feature_gates::{FeatureGates, FeatureGatesError};

/// Name of the Lease that whoever writes holds.
pub(crate) const LEASE: &str = "core.rukpak.io";
const DEFAULT_NAMESPACE: &str = "rukpak-system";
const SOURCE_CA_FILE: &str =
    "CA certificates (PEM) for registries, git servers and web servers, beside the system's; may be repeated";

/// What the process is to do, read from the flags.
#[derive(Clone, Debug)]
pub struct Options {
    /// What every program is told.
    pub shared: Shared,
    /// `None`: this process is the only one that writes.
    pub leader_election: Option<LeaderElection>,
    /// How registries, and other servers, are reached.
    pub registries: Registries,
    /// Where `/metrics` is served.
    pub http_address: Address,
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
    /// Whom tokens have to be made out to that callers of the content service show; the API server, if this is empty.
    pub content_audiences: Vec<String>,
    /// Upper bounds on uploads.
    pub uploads: UploadLimits,
    /// Who makes the certificates that webhooks of bundles serve with.
    pub bundle_certificates: Certificates,
    /// How long a certificate lives that we make for a bundle.
    pub bundle_certificate_lifetime: Duration,
    /// Whether the rules of OLM v1 refuse an upgrade of a CRD too.
    pub strict_crd_upgrades: bool,
    /// Whether nothing is written for a BundleDeployment that names no ServiceAccount.
    pub require_service_account: bool,
    /// Whether operators are told of this program's proxy where the cluster has no kind for it.
    pub proxy_operators: bool,
    /// The program that renders charts; `None`: the one beside this program, or in `PATH`.
    pub helm: Option<PathBuf>,
    /// ClusterRole of the webhook whose rules are kept.
    pub webhook_objects_role: String,
    /// Where Secrets are read, and where objects without a namespace go.
    pub system_namespace: String,
    /// Root of the content store.
    pub storage_dir: PathBuf,
    /// Where uploads are kept.
    pub upload_dir: PathBuf,
    /// The bucket that is used in place of both folders, if any.
    pub storage: StorageArgs,
    /// How often uploads without a Bundle are removed.
    pub upload_sync_interval: Duration,
    /// Which gates are open.
    pub feature_gates: FeatureGates,
    /// What sources may do.
    pub sources: SourcePolicy,
    /// Upper bounds on content.
    pub limits: Limits,
    /// What this process works on.
    pub shard: Shard,
    /// Objects of one kind that are reconciled at once, and bundles that are fetched at once. At least 1.
    pub concurrency: usize,
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

/// Unpacks Bundles and installs BundleDeployments.
#[derive(Parser, Debug)]
#[command(name = "rukpak-controller", version, max_term_width = 120, args_override_self = true)]
#[command(mut_arg("leader_elect", |flag| flag.help(leader_elect_help(LEASE))))]
#[command(mut_arg("source_ca_file", |flag| flag.help(SOURCE_CA_FILE)))]
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
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = certificate_lifetime)]
    content_certificate_lifetime: Duration,
    /// Audience that tokens shown to the content service must be made out to; may be repeated, or have commas [default: the API
    /// server's own]
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',')]
    content_audiences: Vec<String>,
    /// Accepted and unused: uploads are read where they lie
    #[arg(long, value_name = "URL", hide = true, default_value = "")]
    base_upload_manager_url: String,
    /// Accepted and unused: content is read where it lies
    #[arg(long, value_name = "FILE", hide = true)]
    bundle_ca_file: Option<PathBuf>,
    /// Namespace of Secrets, and of objects that name none [default: the Pod's namespace, else rukpak-system]
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    system_namespace: String,
    /// Accepted and unused: images are pulled by this process, no unpack Pod is started
    #[arg(long, value_name = "IMAGE", hide = true, default_value = "")]
    unpack_image: String,
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
    #[arg(long, value_name = "DURATION", default_value = "17520h", value_parser = certificate_lifetime)]
    bundle_cert_lifetime: Duration,
    /// Refuse CRD upgrades that OLM v1 refuses (schema changes), not only those that break stored data or existing objects
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    strict_crd_upgrade_safety: bool,
    /// Write nothing for BundleDeployments that name no spec.serviceAccount, but for those of PlatformOperators and ClusterExtensions. Give
    /// it to the webhook too
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    require_service_account: bool,
    /// Give the operators of registry+v1 bundles HTTP_PROXY, HTTPS_PROXY and NO_PROXY of this program's environment. Where the cluster
    /// has OpenShift's Proxy, they get those of Proxy/cluster in any case
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    proxy_operators: bool,
    /// Helm 3, linked statically, which renders charts [default: helm beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    helm: Option<PathBuf>,
    /// ClusterRole of the webhook whose rules are kept: list of what CRDs of BundleDeployments define
    #[arg(long, value_name = "NAME", default_value = "rukpak-webhook-objects")]
    webhook_objects_role: String,
    /// Work only on BundleDeployments and Bundles with these labels, such as shard=one; other controllers work on the others
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    watch_label_selector: Shard,
    /// Objects of one kind that are reconciled at once, and bundles that are fetched at once
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = count)]
    concurrency: usize,
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    leader_election: LeaderElectionArgs,
    #[command(flatten)]
    registries: Registries,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    uploads: UploadArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    limits: LimitArgs,
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
}

impl From<Args> for Options {
    fn from(args: Args) -> Self {
        Self {
            shared: args.shared.into(),
            leader_election: args.leader_election.times(),
            registries: args.registries,
            http_address: args.http_bind_address,
            external_url: args.http_external_address,
            content_address: args.content_bind_address,
            content_certificates: args.content_certificates,
            content_certificate_secret: args.content_certificate_secret,
            content_certificate_lifetime: args.content_certificate_lifetime,
            content_audiences: args.content_audiences,
            uploads: args.uploads.into(),
            bundle_certificates: args.bundle_cert_provider,
            bundle_certificate_lifetime: args.bundle_cert_lifetime,
            strict_crd_upgrades: args.strict_crd_upgrade_safety,
            require_service_account: args.require_service_account,
            proxy_operators: args.proxy_operators,
            helm: args.helm,
            webhook_objects_role: args.webhook_objects_role,
            system_namespace: system_namespace(Some(args.system_namespace), DEFAULT_NAMESPACE),
            shard: args.watch_label_selector,
            storage_dir: args.provisioner_storage_dir,
            upload_dir: args.upload_storage_dir,
            storage: args.storage,
            upload_sync_interval: args.upload_storage_sync_interval,
            feature_gates: args.feature_gates,
            sources: args.sources.into(),
            limits: args.limits.into(),
            concurrency: args.concurrency,
        }
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
