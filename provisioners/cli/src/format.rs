//! Which format a bundle has.

use std::fmt;

use clap::ValueEnum;
use rukpak_content::{BundleTree, Entry, Limits};
use rukpak_format::helm;
use rukpak_plain::Budget;
use rukpak_plain::manifests::FOLDER as MANIFESTS;
use rukpak_registry::metadata::Metadata;

/// The annotation of `metadata/annotations.yaml` that names the format.
const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const METADATA: &str = "metadata";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// OLM's: manifests with a ClusterServiceVersion, and metadata
    #[value(name = "registry+v1")]
    Registry,
    #[value(name = "plain+v0")]
    Plain,
    /// A chart, which Helm renders
    #[value(name = "helm+v3")]
    Helm,
}

/// A format and how it was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    pub format: Format,
    /// Why this one, as the end of a sentence.
    pub why: String,
}

impl Format {
    /// The format of a tree: helm+v3 if it is a chart; else what its annotations say; without any, registry+v1 if there is a folder
    /// `metadata`.
    ///
    /// A media type that is neither is taken for registry+v1, whose readers ignore it.
    pub fn detect(tree: &BundleTree, limits: &Limits) -> Detected {
        if let Some(chart) = chart(tree) {
            return Detected { format: Self::Helm, why: format!("it has a {chart}") };
        }
        if !matches!(tree.get(METADATA), Some(Entry::Directory)) {
            return Detected { format: Self::Plain, why: "it has no folder metadata".to_owned() };
        }
        let mut budget = Budget::new(limits);
        let media_type =
            Metadata::read(tree, &mut budget).ok().and_then(|metadata| metadata.annotations.get(MEDIA_TYPE).cloned());
        let format = if media_type.as_deref() == Some("plain+v0") { Self::Plain } else { Self::Registry };
        let why = match media_type {
            Some(media_type) => format!("metadata/annotations.yaml says media type {media_type}"),
            None => "it has a folder metadata".to_owned(),
        };
        Detected { format, why }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Registry => "registry+v1",
            Self::Plain => "plain+v0",
            Self::Helm => "helm+v3",
        })
    }
}

/// Where a chart says what it is, if the tree is one. A folder `manifests` makes it a bundle that has a chart beside it.
fn chart(tree: &BundleTree) -> Option<String> {
    let folder = helm::chart_folder(tree);
    let path = if folder.is_empty() { helm::CHART.to_owned() } else { format!("{folder}/{}", helm::CHART) };
    let is_chart = matches!(tree.get(&path), Some(Entry::File { .. })) && tree.get(MANIFESTS).is_none();
    is_chart.then_some(path)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rukpak_content::RelativePath;

    use super::*;

    fn detect(files: &[(&str, &'static str)]) -> Format {
        let mut tree = BundleTree::new();
        for (path, text) in files {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(text.as_bytes()));
        }
        Format::detect(&tree, &Limits::default()).format
    }

    #[test]
    fn the_media_type_decides_then_the_folder() {
        const FILE: &str = "metadata/annotations.yaml";
        assert_eq!(detect(&[("manifests/a.yaml", "")]), Format::Plain);
        assert_eq!(detect(&[("Chart.yaml", ""), ("templates/a.yaml", "")]), Format::Helm);
        assert_eq!(detect(&[("pump/Chart.yaml", "")]), Format::Helm);
        assert_eq!(detect(&[("Chart.yaml", ""), ("manifests/a.yaml", "")]), Format::Plain);
        assert_eq!(detect(&[(FILE, "annotations: {}")]), Format::Registry);
        assert_eq!(detect(&[("metadata/properties.yaml", "")]), Format::Registry);
        assert_eq!(detect(&[(FILE, "a: [")]), Format::Registry);
        let of = |text| detect(&[(FILE, text)]);
        assert_eq!(
            of("annotations: {operators.operatorframework.io.bundle.mediatype.v1: registry+v1}"),
            Format::Registry
        );
        assert_eq!(of("annotations: {operators.operatorframework.io.bundle.mediatype.v1: plain+v0}"), Format::Plain);
    }
}
