//! plain+v0 bundles.

use rukpak_content::{BundleTree, Entry, Limits};
use rukpak_plain::manifests::{self, FOLDER, Loaded};
use rukpak_plain::{Budget, Object, bundle, yaml};

use super::Examined;
use crate::finding::Finding;
use crate::output::chain;

pub(super) fn examine(tree: &BundleTree, limits: &Limits) -> Examined {
    match bundle::load(tree, limits) {
        Ok(Loaded { objects, warnings }) => {
            let mut warnings = warnings.lines();
            warnings.extend(objects.iter().find(|object| is_csv(object)).map(|csv| {
                format!(
                    "{}: a ClusterServiceVersion in a plain+v0 bundle is applied as it stands: for a registry+v1 bundle add metadata/annotations.yaml",
                    csv.origin()
                )
            }));
            Examined { objects, warnings, findings: Vec::new() }
        }
        Err(error) => Examined { findings: findings(tree, limits, &error), ..Examined::default() },
    }
}

fn is_csv(object: &Object) -> bool {
    object.kind() == "ClusterServiceVersion" && object.group() == "operators.coreos.com"
}

/// One finding for each file that is wrong, where `first` tells of the first one only. A limit ends it: it is that of all files.
fn findings(tree: &BundleTree, limits: &Limits, first: &bundle::Error) -> Vec<Finding> {
    let bundle::Error::Objects(error) = first else { return vec![Finding::new("load", chain(first))] };
    let (mut budget, mut objects) = (Budget::new(limits), Vec::new());
    let mut findings = Vec::new();
    for (name, entry) in tree.list(FOLDER).into_iter().flatten() {
        let read = match entry {
            Entry::Directory => Err(manifests::Error::Subdirectory(name.to_owned())),
            Entry::File { body, .. } => {
                manifests::read_file(&format!("{FOLDER}/{name}"), body, &mut budget, &mut objects)
            }
        };
        let is_limit = matches!(read, Err(manifests::Error::Limit(_) | manifests::Error::Yaml(yaml::Error::Limit(_))));
        findings.extend(read.err().map(|error| Finding::of_manifests(&error)));
        if is_limit {
            break;
        }
    }
    // Something that no file by itself is guilty of.
    if findings.is_empty() { vec![Finding::of_manifests(error)] } else { findings }
}
