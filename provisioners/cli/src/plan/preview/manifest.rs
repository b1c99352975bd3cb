//! What is looked at: objects of files and of stdin, as they would be applied, and objects of the cluster.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use kube::ResourceExt as _;
use rukpak_content::{Limit, Limits};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_plain::{Budget, yaml};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::extension::existing;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};

/// What something is installed by.
pub(super) enum Manifest {
    Deployment(Box<BundleDeployment>),
    Operator(Box<PlatformOperator>),
    Extension(Box<ClusterExtension>),
}

/// As `kubectl get --output name` writes it, without the group.
impl fmt::Display for Manifest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment(object) => write!(formatter, "bundledeployment/{}", object.name_any()),
            Self::Operator(object) => write!(formatter, "platformoperator/{}", object.name_any()),
            Self::Extension(object) => write!(formatter, "clusterextension/{}", object.name_any()),
        }
    }
}

/// Reads what the argument names. A path that exists wins.
pub(super) async fn read(what: &OsStr, cluster: &Cluster) -> Result<Vec<Manifest>, Failure> {
    let path = Path::new(what);
    let name = path.display().to_string();
    let fault = |error: std::io::Error| Failure::unknown(format!("read {name}: {error}"));
    if name == "-" {
        let mut text = Vec::new();
        let most = Limits::default().manifest_bytes;
        // One more byte tells that it does not end there.
        std::io::stdin().lock().take(most + 1).read_to_end(&mut text).map_err(fault)?;
        return parsed("stdin", &text);
    }
    if path.exists() {
        return parsed(&name, &std::fs::read(path).map_err(fault)?);
    }
    let Some((kind, object)) = name.split_once('/').filter(|_| !name.starts_with(['.', '/'])) else {
        let text = format!("{name}: no such file, and not KIND/NAME of an object in the cluster");
        return Err(Failure::unknown(text).hint("rukpakctl plan --help"));
    };
    let found = match kind.split('.').next().unwrap_or_default() {
        "bundledeployment" | "bundledeployments" | "bd" => {
            Manifest::Deployment(Box::new(cluster.existing(object).await?))
        }
        "platformoperator" | "platformoperators" => Manifest::Operator(Box::new(cluster.get(object).await?)),
        "clusterextension" | "clusterextensions" => Manifest::Extension(Box::new(existing(cluster, object).await?)),
        other => {
            let text = format!("{other:?} is none of bundledeployment, platformoperator and clusterextension");
            return Err(Failure::unknown(text).hint("rukpakctl plan --help"));
        }
    };
    Ok(vec![found])
}

/// The documents that install something. Others are named: they may be what is missing afterwards.
fn parsed(name: &str, text: &[u8]) -> Result<Vec<Manifest>, Failure> {
    let limits = Limits::default();
    let is_small = Limit::ManifestBytes.check(text.len() as u64, limits.manifest_bytes, || name.to_owned());
    is_small.map_err(|error| Failure::no(error.to_string()))?;
    let documents = yaml::parse(&Arc::from(name), text, &mut Budget::new(&limits));
    let documents = documents.map_err(|error| Failure::no(format!("{name}: {}", chain(&error))))?;
    let mut manifests = Vec::new();
    for value in documents.into_iter().flat_map(|document| items(document.value)) {
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        manifests.push(match kind.as_str() {
            "BundleDeployment" => Manifest::Deployment(typed(name, value)?),
            "PlatformOperator" => Manifest::Operator(typed(name, value)?),
            "ClusterExtension" => Manifest::Extension(typed(name, value)?),
            _ => {
                let object = value["metadata"]["name"].as_str().unwrap_or_default();
                to_stderr(&format!("note: {name}: {kind} {object:?} installs no bundle, and is not looked at"));
                continue;
            }
        });
    }
    if manifests.is_empty() {
        let text = format!("{name} has no BundleDeployment, PlatformOperator or ClusterExtension");
        return Err(Failure::no(text));
    }
    Ok(manifests)
}

/// The objects of a document: a list has several.
fn items(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        _ => vec![document],
    }
}

fn typed<K: DeserializeOwned>(name: &str, value: Value) -> Result<Box<K>, Failure> {
    serde_json::from_value(value).map(Box::new).map_err(|error| Failure::no(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_hold_several_objects_and_others() {
        let text = "kind: Namespace\nmetadata: {name: pumps}\n---\nkind: ClusterExtension\nmetadata: {name: pump}\n\
                    spec: {namespace: pumps, source: {sourceType: Catalog, catalog: {packageName: pump}}}\n";
        let found: Vec<String> = parsed("f", text.as_bytes()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["clusterextension/pump"]);
        let list = "kind: List\nitems:\n- {kind: BundleDeployment, metadata: {name: a}, spec: {provisionerClassName: c, template: {spec: \
                    {provisionerClassName: c, source: {type: image}}}}}\n";
        assert_eq!(parsed("f", list.as_bytes()).unwrap()[0].to_string(), "bundledeployment/a");
        let none = parsed("f", b"kind: Namespace\n").err().unwrap();
        assert_eq!(none.text, "f has no BundleDeployment, PlatformOperator or ClusterExtension");
    }
}
