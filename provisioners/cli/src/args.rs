//! The flags.

mod catalog;
mod cluster;
mod limits;
mod namespace;
mod trust;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rukpak_content::Limits;

use crate::format::Format;
pub use catalog::{AnswerForm, CatalogCommand, GraphArgs, ListArgs, PlaceArgs, ShowArgs, ValidateCatalogArgs};
pub use cluster::{ClusterArgs, ContentArgs, RunArgs, ServiceArgs, StatusArgs};
use limits::LimitArgs;
pub use trust::TrustArgs;

const EXIT_CODES: &str = "Exit codes: 0 yes, 1 no (what is wrong is said), 2 could not find out (also: wrong flags)";

/// Renders and validates bundles and looks into catalogs without a cluster, puts folders on one, and says how it is
#[derive(Parser, Debug)]
#[command(name = "rukpakctl", version, max_term_width = 120, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Print the objects that a bundle installs
    Render(RenderArgs),
    /// Print everything that is wrong with a bundle
    Validate(ValidateArgs),
    /// Install a folder as a bundle, or replace what was installed from it
    Run(RunArgs),
    /// Print the names of the files that a Bundle of the cluster holds, or write the files to a folder
    Content(ContentArgs),
    /// Look into a catalog of packages, without a cluster
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Print how the PlatformOperators of the cluster, or a BundleDeployment, are
    Status(StatusArgs),
    /// Print the version
    Version,
}

/// Flags of `render`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RenderArgs {
    /// How the objects are written: documents of YAML, or one JSON array
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: ObjectForm,
    /// Where the bundle is.
    #[command(flatten)]
    pub source: SourceArgs,
    /// How it is rendered.
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// Flags of `validate`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ValidateArgs {
    /// How the findings are written: a line each, or one JSON object
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: FindingForm,
    /// Where the bundle is.
    #[command(flatten)]
    pub source: SourceArgs,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectForm {
    /// Documents of YAML
    Yaml,
    /// One array of objects
    Json,
}

/// How findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindingForm {
    /// One line each
    Text,
    /// One object
    Json,
}

/// Where a bundle is and how it is read.
#[derive(Args, Debug)]
pub struct SourceArgs {
    /// A folder with manifests/ in it, an archive of one (.tar, .tar.gz, .tgz, .tar.zst), or an image such as
    /// registry.example.com/pump-operator:v1.0.0. What exists here wins over an image
    pub bundle: OsString,
    /// Format of the bundle [default: registry+v1 if it has metadata/, else plain+v0]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// How its registry is spoken to.
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

impl SourceArgs {
    /// How much a bundle may hold.
    pub fn limits(&self) -> Limits {
        self.limits.to_limits()
    }
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

/// Reads the flags of this process. Help, version and wrong flags end the process, as is the custom.
pub fn parse() -> Command {
    Cli::parse().command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_fit_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn target_namespaces_are_separated_by_commas_and_repeated() {
        let targets = |arguments: &[&str]| {
            let arguments = [&["rukpakctl", "render", "x"], arguments].concat();
            let Command::Render(render) = Cli::try_parse_from(arguments).unwrap().command else { panic!("render") };
            render.registry.target_namespaces
        };
        assert_eq!(targets(&[]), None);
        assert_eq!(targets(&["--target-namespaces="]), Some(vec![String::new()]));
        let several = targets(&["--target-namespaces", "a,b", "--target-namespaces=c"]);
        assert_eq!(several.unwrap(), ["a", "b", "c"]);
    }
}
