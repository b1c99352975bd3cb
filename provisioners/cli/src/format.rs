//! Which format a bundle has.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rukpak_content::{BundleTree, Entry, Limits};
use rukpak_crds::names::{CLASS_HELM, CLASS_PLAIN, CLASS_REGISTRY};
pub use rukpak_format::Format;
use rukpak_format::helm;
use rukpak_plain::Budget;
use rukpak_plain::manifests::FOLDER as MANIFESTS;
use rukpak_registry::metadata::Metadata;

/// The annotation of `metadata/annotations.yaml` that names the format.
const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const METADATA: &str = "metadata";

/// Reads the name of a format.
pub fn parser() -> impl TypedValueParser<Value = Format> {
    let names = [
        PossibleValue::new("registry+v1").help("OLM's: manifests with a ClusterServiceVersion, and metadata"),
        PossibleValue::new("plain+v0"),
        PossibleValue::new("helm+v3").help("A chart, which Helm renders"),
    ];
    PossibleValuesParser::new(names).try_map(|name| Format::read(&name).ok_or("there is no such format"))
}

/// A format and how it was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    pub format: Format,
    /// Why this one, as the end of a sentence.
    pub why: String,
}

/// The format of a tree: helm+v3 if it is a chart; else what its annotations say; without any, registry+v1 if there is a folder
/// `metadata`.
///
/// A media type that is neither is taken for registry+v1, whose readers ignore it.
pub fn detect(tree: &BundleTree) -> Detected {
    if let Some(chart) = chart(tree) {
        return Detected { format: Format::Helm, why: format!("it has a {chart}") };
    }
    if !matches!(tree.get(METADATA), Some(Entry::Directory)) {
        return Detected { format: Format::Plain, why: "it has no folder metadata".to_owned() };
    }
    let metadata = Metadata::read(tree, &mut Budget::new(&Limits::default()));
    let media_type = metadata.ok().and_then(|metadata| metadata.annotations.get(MEDIA_TYPE).cloned());
    let format = if media_type.as_deref() == Some("plain+v0") { Format::Plain } else { Format::Registry };
    let why = match media_type {
        Some(media_type) => format!("metadata/annotations.yaml says media type {media_type}"),
        None => "it has a folder metadata".to_owned(),
    };
    Detected { format, why }
}

/// The format that was asked for, else that of the tree.
pub fn asked_or_detected(asked: Option<Format>, tree: &BundleTree) -> Detected {
    match asked {
        Some(format) => Detected { format, why: "--format says so".to_owned() },
        None => detect(tree),
    }
}

/// The provisioner class of a format.
pub fn class_of(format: Format) -> &'static str {
    match format {
        Format::Plain => CLASS_PLAIN,
        Format::Registry => CLASS_REGISTRY,
        Format::Helm => CLASS_HELM,
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
        super::detect(&tree).format
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
