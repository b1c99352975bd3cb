//! Bundles that are made up.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: crane.v1.0.0
spec:
  displayName: Crane
  version: 1.0.0
  installModes:
  - {type: AllNamespaces, supported: true}
  customresourcedefinitions:
    owned:
    - {name: cranes.bench.example.com, version: v1, kind: Crane}
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: crane
        rules:
        - {apiGroups: [bench.example.com], resources: [cranes], verbs: [get, list, watch, update]}
      deployments:
      - name: crane
        spec:
          replicas: 1
          selector: {matchLabels: {app: crane}}
          template:
            metadata: {labels: {app: crane}}
            spec:
              serviceAccountName: crane
              containers:
              - {name: crane, image: registry.example.com/crane:v1.0.0}
";

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.package.v1: crane
";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: cranes.bench.example.com
spec:
  group: bench.example.com
  scope: Namespaced
  names: {kind: Crane, listKind: CraneList, plural: cranes, singular: crane}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: Crane is an API whose definition is as large as is asked for.
        type: object
        properties:
          spec:
            description: CraneSpec says what a crane shall lift.
            type: object
            properties:
";

/// Writes a bundle with one definition of about `kibibytes` KiB.
pub(super) fn write_bundle(folder: &Path, kibibytes: usize) -> Result<()> {
    let files = [
        ("metadata/annotations.yaml", ANNOTATIONS.to_owned()),
        ("manifests/crane.clusterserviceversion.yaml", CSV.to_owned()),
        ("manifests/cranes.crd.yaml", definition(kibibytes * 1024)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().context("a file lies in a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Written as controller-gen writes definitions: nested properties, descriptions over several lines, lists of names.
fn definition(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 2000);
    text.push_str(CRD);
    let mut group = 0;
    while text.len() < bytes {
        group += 1;
        let indent = " ".repeat(14);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{indent}load{group}:\n{indent}  description: |-\n{indent}    Load{group} is what the crane lifts in turn {group}.\n\n{indent}    It must be set when the crane is told to lift at all.\n{indent}  properties:\n"
        );
        for field in 0..8 {
            let indent = " ".repeat(18);
            let _ = write!(
                text,
                "{indent}field{field}:\n{indent}  description: Field{field} of a load is used while the crane turns, and defaults to the\n{indent}    value that the scheduler finds in the pod's volume when none is specified.\n{indent}  items:\n{indent}    properties:\n{indent}      name:\n{indent}        type: string\n{indent}      weight:\n{indent}        anyOf:\n{indent}        - type: integer\n{indent}        - type: string\n{indent}        pattern: ^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$\n{indent}        x-kubernetes-int-or-string: true\n{indent}    required:\n{indent}    - name\n{indent}    type: object\n{indent}  type: array\n"
            );
        }
        let _ = write!(text, "{indent}  required:\n{indent}  - field0\n{indent}  type: object\n");
    }
    text
}
