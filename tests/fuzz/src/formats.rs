//! Manifests, cluster service versions, catalogs.

use std::sync::Arc;

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_plain::{Budget, yaml};
use rukpak_registry::{Certificates, RenderOptions};

/// Bounds that an input of a few kilobytes can reach.
fn limits() -> Limits {
    Limits { yaml_nodes: 20_000, objects: 200, ..Limits::default() }
}

fn tree(files: &[(&str, &[u8])]) -> BundleTree {
    let mut tree = BundleTree::new();
    for (path, body) in files {
        let path = RelativePath::new(path).expect("because the path is ours");
        tree.add_file(path, false, Bytes::copy_from_slice(body));
    }
    tree
}

/// A file of manifests, YAML or JSON. What it says can be written as JSON and says the same then.
pub fn yaml(input: &[u8]) {
    let _ = rukpak_plain::load(&tree(&[("manifests/input.yaml", input)]), &limits());
    let parse =
        |name: &str, bytes: &[u8], limits: &Limits| yaml::parse(&Arc::from(name), bytes, &mut Budget::new(limits));
    let Ok(documents) = parse("input.yaml", input, &limits()) else { return };
    for document in documents.iter().filter(|document| document.value.is_object()) {
        let json = document.value.to_string();
        let again = parse("again.json", json.as_bytes(), &Limits::default());
        let same = matches!(again.as_deref(), Ok([again]) if again.value == document.value);
        assert!(same, "{json} was read as {again:?}");
    }
}

const ANNOTATIONS: &[u8] = b"annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: pump
  operators.operatorframework.io.bundle.channels.v1: stable
";

const DEFINITION: &[u8] = b"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pumps.example.com}
spec:
  group: example.com
  names: {kind: Pump, plural: pumps, singular: pump, listKind: PumpList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

/// A cluster service version beside the definition of the kind `Pump`. Rendering it twice gives the same objects, and a bundle
/// without findings renders or says why not.
pub fn csv(input: &[u8]) {
    let files = [
        ("metadata/annotations.yaml", ANNOTATIONS),
        ("manifests/pumps.yaml", DEFINITION),
        ("manifests/csv.yaml", input),
    ];
    let Ok(bundle) = rukpak_registry::load(&tree(&files), &limits()) else { return };
    let _ = bundle.remarks();
    for certificates in [Certificates::CertManager, Certificates::SelfManaged { placeholder: "bm8=".to_owned() }] {
        let options = RenderOptions::v1alpha1(&bundle, certificates);
        let render = || rukpak_registry::render(&bundle, &options).map_err(|error| error.to_string());
        assert_eq!(render(), render());
    }
}

/// A stream of catalog documents: the catalog, and what is wrong with the graph of each package.
pub fn fbc(input: &[u8]) {
    use rukpak_catalog::{graph, read};
    let Ok(catalog) = read::catalog_of_stream("input", &mut { input }, &limits()) else { return };
    for package in catalog.packages.values() {
        let _ = graph::faults(package);
    }
}
