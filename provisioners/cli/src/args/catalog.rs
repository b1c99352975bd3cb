//! Flags of what looks into catalogs.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use rukpak_catalog::{Range, Version};

use super::{AnswerForm, ClusterArgs, EXIT_CODES, TrustArgs};

/// What is to be told of a catalog.
#[derive(Subcommand, Debug)]
pub enum CatalogCommand {
    /// Print the packages of a catalog, or the channels and bundles of one package
    List(ListArgs),
    /// Print which bundle a PlatformOperator would get, and why
    Show(ShowArgs),
}

/// Where a catalog is.
#[derive(Args, Debug)]
pub struct CatalogArgs {
    /// A folder or file of a catalog, else dir:PATH, image:REFERENCE, https://HOST/PATH (catalogd), grpc:HOST:PORT (a running
    /// catalog) or cluster:NAME (a ClusterCatalog). What exists here wins
    #[arg(value_name = "WHERE")]
    pub catalog: OsString,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub server: CatalogServerArgs,
}

/// Who serves the content of ClusterCatalogs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub struct CatalogServerArgs {
    /// Namespace that RukPak runs in, whose Secret catalogd-ca says whom to trust for the content of ClusterCatalogs
    #[arg(long, value_name = "NAMESPACE", default_value = "rukpak-system")]
    pub system_namespace: String,
}

/// Flags of `catalog list`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ListArgs {
    #[command(flatten)]
    pub place: CatalogArgs,
    /// A package [default: all]
    pub package: Option<String>,
    /// How the answer is written: a table, or one JSON object
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: AnswerForm,
}

/// Flags of `catalog show`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ShowArgs {
    #[command(flatten)]
    pub place: CatalogArgs,
    /// The package, as spec.package.name has it
    pub package: String,
    /// A bundle, or a version, which is short for --version [default: what is chosen]
    #[arg(value_name = "BUNDLE|VERSION", conflicts_with = "range")]
    pub bundle: Option<String>,
    /// The channel, as spec.package.channel has it
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// The versions, as spec.package.version has them: 1.2.3, ">=1.2.0 <2.0.0"
    #[arg(id = "range", long = "version", value_name = "RANGE", value_parser = Range::parse)]
    pub range: Option<Range>,
    /// A bundle that is installed, or its version: which upgrades lead on from there, in each channel
    #[arg(long, value_name = "BUNDLE|VERSION")]
    pub from: Option<String>,
    /// Its version, if the catalog has that bundle no longer
    #[arg(long, value_name = "VERSION", requires = "from", value_parser = Version::parse)]
    pub from_version: Option<Version>,
    /// As if the PlatformOperator had the annotation core.rukpak.io/ignore-dependencies="true"
    #[arg(long)]
    pub ignore_dependencies: bool,
    /// How the answer is written: a line for each fact, or one JSON object
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: AnswerForm,
}
