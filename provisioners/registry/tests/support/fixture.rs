//! A bundle of our own, small, with everything that is rendered.

use bytes::Bytes;
use rukpak_content::{BundleTree, RelativePath};

/// The files of a bundle that watches all namespaces and has three webhooks.
pub const FILES: [(&str, &str); 6] = [
    ("metadata/annotations.yaml", include_str!("../fixtures/kite/metadata/annotations.yaml")),
    ("metadata/properties.yaml", include_str!("../fixtures/kite/metadata/properties.yaml")),
    ("metadata/dependencies.yaml", include_str!("../fixtures/kite/metadata/dependencies.yaml")),
    (
        "manifests/kite.clusterserviceversion.yaml",
        include_str!("../fixtures/kite/manifests/kite.clusterserviceversion.yaml"),
    ),
    ("manifests/kites.crd.yaml", include_str!("../fixtures/kite/manifests/kites.crd.yaml")),
    ("manifests/more.yaml", include_str!("../fixtures/kite/manifests/more.yaml")),
];

/// The fixture with files replaced, added, or taken out where the text is empty.
pub fn kite(changes: &[(&str, &str)]) -> BundleTree {
    let mut tree = BundleTree::new();
    let unchanged = FILES.iter().filter(|(path, _)| !changes.iter().any(|(changed, _)| changed == path));
    for (path, text) in unchanged.chain(changes).filter(|(_, text)| !text.is_empty()) {
        tree.add_file(
            RelativePath::new(path).expect("a relative path"),
            false,
            Bytes::copy_from_slice(text.as_bytes()),
        );
    }
    tree
}

/// The text of a file of the fixture.
pub fn text(path: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text).expect("a file of the fixture")
}

/// The path of the CSV.
pub const CSV: &str = "manifests/kite.clusterserviceversion.yaml";
