//! Flags of `package`, `pull`, `export` and `import`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use rukpak_catalog::Range;

use super::{AnswerForm, CatalogArgs, CatalogServerArgs, ClusterArgs, SourceArgs, TrustArgs};
use crate::args::install::CheckArgs;
use crate::format::{self, Format};

/// Flags of `package`.
#[derive(Args, Debug)]
pub struct PackageArgs {
    /// The folder with manifests/ in it
    pub folder: PathBuf,
    /// Where the image goes: a registry (registry.example.com/pump:v1), an image layout (oci:FOLDER[:NAME]), or an archive of one
    /// (oci-archive:FILE[:NAME]); NAME is what the image is called there
    pub image: String,
    /// Format of the bundle [default: helm+v3 if it is a chart, registry+v1 if it has metadata/, else plain+v0]
    #[arg(long, value_name = "FORMAT", value_parser = format::parser())]
    pub format: Option<Format>,
    /// Label of the image, as KEY=VALUE, beside those of the format; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: AnswerForm,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Flags of `pull`.
#[derive(Args, Debug)]
pub struct PullArgs {
    /// The image
    pub image: String,
    /// Where its files are written: a folder that is empty or not there
    pub folder: PathBuf,
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: AnswerForm,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Flags of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Where it goes: a folder that becomes an image layout, or is one already
    pub layout: PathBuf,
    /// A further image, which neither the manifests nor the ClusterServiceVersion name; may be repeated
    #[arg(long, value_name = "IMAGE")]
    pub image: Vec<String>,
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: AnswerForm,
    #[command(flatten)]
    pub package: PackageChoiceArgs,
}

/// Which bundle of a package.
#[derive(Args, Debug)]
#[command(next_help_heading = "Package of a catalog")]
pub struct PackageChoiceArgs {
    /// Catalog of which BUNDLE is the name of a package, as `rukpakctl catalog` takes it: cluster:NAME, image:REFERENCE, a folder
    #[arg(long, value_name = "WHERE")]
    pub catalog: Option<OsString>,
    /// Channel [default: all of them]
    #[arg(long, value_name = "CHANNEL", requires = "catalog")]
    pub channel: Option<String>,
    /// Versions: 1.2.3, ">=1.2.0 <2.0.0" [default: all; of a channel, its head]
    #[arg(id = "range", long = "version", value_name = "RANGE", requires = "catalog", value_parser = Range::parse)]
    pub range: Option<Range>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub server: CatalogServerArgs,
}

/// Flags of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The image layout that `export` wrote
    pub layout: PathBuf,
    /// Where the images go: a registry, or a part of one, such as registry.example.com/mirror
    #[arg(value_name = "REGISTRY")]
    pub target: String,
    /// How the answer is written
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "text")]
    pub form: AnswerForm,
    #[command(flatten)]
    pub trust: TrustArgs,
}

impl ExportArgs {
    /// The catalog that has the package, if it is one.
    pub fn catalog(&self) -> Option<CatalogArgs> {
        Some(CatalogArgs {
            catalog: self.package.catalog.clone()?,
            trust: self.source.trust.clone(),
            cluster: self.package.cluster.clone(),
            server: self.package.server.clone(),
        })
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "write KEY=VALUE".to_owned())
}
