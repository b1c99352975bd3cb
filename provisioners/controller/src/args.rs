//! The flags of `rukpak-controller`: those of RukPak v0.16's `core`, and our own.

mod feature_gates;
mod limits;
mod require;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Command, CommandFactory as _, Parser, ValueEnum};
use rukpak_content::Limits;
use rukpak_format::Certificates;
use rukpak_install::Shard;
use rukpak_runtime::args::{
    Address, LeaderElection, LeaderElectionArgs, Shared, SharedArgs, certificate_lifetime, duration, required,
    system_namespace,
};
use rukpak_source::Registries;
use rukpak_store::s3::Location;
use rukpak_unpack::SourcePolicy;
use rukpak_unpack::content_service::UploadLimits;

use limits::LimitArgs;
use require::Requirement;

pub use feature_gates::FeatureGates;
pub use limits::{LIMITS, NamedLimit};

/// Name of the Lease that whoever writes holds.
pub(crate) const LEASE: &str = "core.rukpak.io";
const DEFAULT_NAMESPACE: &str = "rukpak-system";

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
#[derive(Clone, Debug, Parser)]
#[command(name = "rukpak-controller", version, max_term_width = 120, args_override_self = true)]
pub struct Options {
    /// Address for /metrics: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub http_bind_address: Address,
    /// Base URL under which clients in the cluster reach the content service
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    pub http_external_address: String,
    /// Address of the content service, over HTTPS: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    pub content_bind_address: Address,
    /// Who keeps the certificate of the content service
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    pub content_certificates: ContentCertificates,
    /// Secret in the system namespace with the certificate of the content service
    #[arg(long, value_name = "NAME", default_value = "core-cert")]
    pub content_certificate_secret: String,
    /// Lifetime of the certificate that this program makes for its own server; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = certificate_lifetime)]
    pub certificate_lifetime: Duration,
    /// Audience that tokens shown to the content service must be made out to; may be repeated, or have commas [default: the API
    /// server's own]
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',')]
    pub content_audiences: Vec<String>,
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
    pub provisioner_storage_dir: PathBuf,
    /// Folder of uploads
    #[arg(long, value_name = "DIR", default_value = "/var/cache/uploads")]
    pub upload_storage_dir: PathBuf,
    /// Time between two removals of uploads without a Bundle
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub upload_storage_sync_interval: Duration,
    /// Feature gates, such as BundleDeploymentHealth=true
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true)]
    pub feature_gates: FeatureGates,
    /// Who makes the certificates that webhooks of registry+v1 bundles serve with
    #[arg(long, value_name = "PROVIDER", value_enum, default_value_t)]
    pub bundle_cert_provider: Certificates,
    /// How long such a certificate lives that is made here; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "17520h", value_parser = certificate_lifetime)]
    pub bundle_cert_lifetime: Duration,
    /// Refuse CRD upgrades that OLM v1 refuses (schema changes), not only those that break stored data or existing objects
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub strict_crd_upgrade_safety: bool,
    /// Refuse what is accepted otherwise; may be repeated, or have commas; the name none takes back the names before it
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    require: Vec<Requirement>,
    /// Give the operators of registry+v1 bundles HTTP_PROXY, HTTPS_PROXY and NO_PROXY of this program's environment. Where the cluster
    /// has OpenShift's Proxy, they get those of Proxy/cluster in any case
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub proxy_operators: bool,
    /// Helm 3, linked statically, which renders charts [default: helm beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
    /// Bucket for contents and uploads that all replicas share: s3://BUCKET/PREFIX, with a prefix for each cluster [default: the
    /// folders alone]
    #[arg(long, value_name = "URL")]
    pub store: Option<Location>,
    /// Work only on BundleDeployments and Bundles with these labels, such as shard=one; other controllers work on the others
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub watch_label_selector: Shard,
    /// Objects of one kind that are reconciled at once, and bundles that are fetched at once
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = count)]
    pub concurrency: usize,
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    leader_election: LeaderElectionArgs,
    /// How registries, and other servers, are reached.
    #[command(flatten)]
    pub registries: Registries,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The flags, for the documentation.
pub fn command() -> Command {
    Options::command()
}

impl Options {
    /// What every program is told.
    pub fn shared(&self) -> Shared {
        self.shared.clone().into()
    }

    /// The times of leader election; `None` if this process is the only one that writes.
    pub fn leader_election(&self) -> Option<LeaderElection> {
        self.leader_election.times()
    }

    /// Upper bounds on uploads.
    pub fn uploads(&self) -> UploadLimits {
        self.limits.uploads()
    }

    /// What sources may do.
    pub fn sources(&self) -> SourcePolicy {
        SourcePolicy {
            require_secret_hosts: self.requires(Requirement::SecretHosts),
            forbid_insecure_skip_verify: self.requires(Requirement::TlsVerification),
            require_content_policy: self.requires(Requirement::ContentPolicy),
            strict_host_keys: self.requires(Requirement::SshKnownHosts),
            require_confinement: self.requires(Requirement::Confinement),
        }
    }

    /// Whether nothing is written for BundleDeployments that name no account.
    pub fn require_service_account(&self) -> bool {
        self.requires(Requirement::ServiceAccount)
    }

    fn requires(&self, name: Requirement) -> bool {
        required(&self.require, Requirement::Nothing).contains(&name)
    }

    /// Upper bounds on content.
    pub fn limits(&self) -> Limits {
        self.limits.content()
    }

    /// Where Secrets are read, and where objects without a namespace go.
    pub fn system_namespace(&self) -> String {
        system_namespace(Some(self.system_namespace.clone()), DEFAULT_NAMESPACE)
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
