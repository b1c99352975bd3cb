//! Which bundle a verb is about, and how it is read, rendered and printed.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, ValueEnum};

use super::{AnswerForm, ClusterArgs, ServiceArgs, TrustArgs, ValuesArgs, namespace};
use crate::format::{self, Format};

/// Flags of `render`.
#[derive(Args, Debug)]
pub struct RenderArgs {
    /// How the objects are written: documents of YAML, or one JSON array
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: ObjectForm,
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// Flags of `validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    /// How the findings are written: a line each, or one JSON object
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: AnswerForm,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Flags of `examples`.
#[derive(Args, Debug)]
pub struct ExamplesArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Only examples of this kind, in any case
    pub kind: Option<String>,
    /// How the objects are written: documents of YAML, or one JSON array
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: ObjectForm,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectForm {
    /// Documents of YAML
    Yaml,
    /// One array of objects
    Json,
}

/// Where a bundle is and how it is read.
#[derive(Args, Debug)]
pub struct SourceArgs {
    /// A folder with manifests/ or a chart in it, an archive of one (.tar, .tar.gz, .tgz, .tar.zst), or an image such as
    /// registry.example.com/pump-operator:v1.0.0. What exists here wins over an image
    pub bundle: OsString,
    /// Format of the bundle [default: helm+v3 if it is a chart, registry+v1 if it has metadata/, else plain+v0]
    #[arg(long, value_name = "FORMAT", value_parser = format::parser())]
    pub format: Option<Format>,
    #[command(flatten)]
    pub chart: ChartArgs,
    #[command(flatten)]
    pub trust: TrustArgs,
}

impl SourceArgs {
    /// The name in bundledeployment/NAME, where no file or folder is called so.
    pub fn deployment(&self) -> Option<&str> {
        let (kind, name) = self.bundle.to_str()?.split_once('/')?;
        let is_deployment = matches!(kind, "bundledeployment" | "bundledeployments" | "bd");
        (is_deployment && !name.is_empty() && !self.exists()).then_some(name)
    }

    /// Whether a file or folder has this name: it wins over an image and a BundleDeployment.
    pub fn exists(&self) -> bool {
        Path::new(&self.bundle).exists()
    }
}

/// How a chart is rendered.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rendering of helm+v3 bundles")]
pub struct ChartArgs {
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Name of the release, which is that of the BundleDeployment
    #[arg(long, value_name = "NAME", default_value = "release-name")]
    pub release_name: String,
}

/// How a registry+v1 bundle is rendered.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Rendering of registry+v1 bundles")]
pub struct RegistryArgs {
    /// Namespace of the operator [default: the one the bundle suggests, else <package>-system]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace::parse)]
    pub install_namespace: Option<String>,
    /// Namespaces that the operator watches, separated by commas; empty means all; may be repeated [default: all]
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',', value_parser = namespace::parse_or_all)]
    pub target_namespaces: Option<Vec<String>>,
    /// Who makes the certificates of webhooks [default: self]
    #[arg(long, value_name = "PROVIDER")]
    pub cert_provider: Option<CertProvider>,
}

/// Who makes the certificates that webhooks serve with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CertProvider {
    /// RukPak's controller: the objects hold a placeholder where certificates, keys and authorities belong
    #[value(name = "self")]
    Own,
    /// cert-manager
    CertManager,
    /// The service CA of OpenShift
    ServiceCa,
}
