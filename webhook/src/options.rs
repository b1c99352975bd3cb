//! The flags. Names and meaning are RukPak v0.16's where it has them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use rukpak_runtime::args::{Address, Shared, SharedArgs, certificate_lifetime, required, system_namespace};

use crate::CONFIGURATION;

const DEFAULT_NAMESPACE: &str = "rukpak-system";
/// ServiceAccount of the controller, as the manifests name it.
const CONTROLLER_ACCOUNT: &str = "core-admin";

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
    /// Address for /metrics: host:port, :port, or 0 for none
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: Address,
    /// Folder with tls.crt and tls.key, kept by someone else and read again when they change. Without it the webhook
    /// makes its own certificate and keeps it in the Secret rukpak-webhook-certificate
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// ValidatingWebhookConfiguration that leads here: the entries for ConfigMaps and BundleDeployments are kept there, and caBundle without --cert-dir
    #[arg(long, value_name = "NAME", default_value = CONFIGURATION)]
    pub webhook_configuration: String,
    /// Lifetime of the certificate that this program makes for its own server; it is renewed after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = certificate_lifetime, conflicts_with = "cert_dir")]
    pub certificate_lifetime: Duration,
    /// User name of the controller, who alone makes Bundles of BundleDeployments and pins Bundles
    /// [default: system:serviceaccount:NAMESPACE:core-admin]
    #[arg(long, value_name = "USER")]
    controller_username: Option<String>,
    /// Refuse what is accepted otherwise; may be repeated, or have commas; the name none takes back the names before it
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    require: Vec<Requirement>,
    /// Accepted for compatibility, without effect: the webhook speaks HTTP/1.1 only
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, hide = true)]
    pub enable_http2: bool,
    #[command(flatten)]
    shared: SharedArgs,
}

/// What `--require` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Requirement {
    /// Nothing of what stands before it
    #[value(name = "none", hide = true)]
    Nothing,
    /// Whoever creates or changes a BundleDeployment without spec.serviceAccount must be allowed to impersonate the controller
    ServiceAccount,
}

impl Options {
    /// What every program is told.
    pub fn shared(&self) -> Shared {
        self.shared.clone().into()
    }

    /// The namespace the webhook runs in: the flag, else the Pod's own, else `rukpak-system`.
    pub fn system_namespace(&self) -> String {
        system_namespace(self.system_namespace.clone(), DEFAULT_NAMESPACE)
    }

    /// Whether whoever names no account must be allowed to impersonate the controller.
    pub fn require_service_account(&self) -> bool {
        required(&self.require, Requirement::Nothing).contains(&Requirement::ServiceAccount)
    }

    /// The user name of the controller: the flag, else the ServiceAccount of the manifests in the webhook's namespace.
    pub fn controller_username(&self) -> String {
        let of_manifests = || format!("system:serviceaccount:{}:{CONTROLLER_ACCOUNT}", self.system_namespace());
        self.controller_username.clone().unwrap_or_else(of_manifests)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_fit_each_other() {
        Options::command().debug_assert();
    }

    #[test]
    fn requires_an_account_where_it_is_told_to() {
        let requires = |flags: &[&str]| {
            let arguments = [&["rukpak-webhook"], flags].concat();
            Options::try_parse_from(arguments).map(|options| options.require_service_account()).ok()
        };
        assert_eq!(requires(&[]), Some(false));
        assert_eq!(requires(&["--require=service-account"]), Some(true));
        assert_eq!(requires(&["--require=service-account", "--require=none"]), Some(false));
        assert_eq!(requires(&["--require=secret-hosts"]), None, "that is the controller's");
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
        let shared = options.shared();
        assert_eq!(shared.logging.filter, "debug");
        assert_eq!(shared.kubeconfig.as_deref(), Some(std::path::Path::new("/etc/kubeconfig")));
        assert_eq!(shared.probe_address, Address::Host("127.0.0.1".to_owned(), 8081));
        assert_eq!(options.system_namespace(), "somewhere");
        assert_eq!(options.webhook_configuration, CONFIGURATION);
        assert_eq!(options.controller_username(), "system:serviceaccount:somewhere:core-admin");
        assert!(options.enable_http2);
        assert!(!Options::try_parse_from(["rukpak-webhook", "--enable-http2=false"]).unwrap().enable_http2);
        assert!(Options::try_parse_from(["rukpak-webhook", "--cert-dir=/certs", "--certificate-lifetime=1h"]).is_err());
    }
}
