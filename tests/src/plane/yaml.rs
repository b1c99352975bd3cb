//! Kubernetes objects from YAML files.
//!
//! The reader is `serde-saphyr`, which kube reads kubeconfigs with. The project's own reader is not used on purpose: what the
//! tests feed into a cluster must not pass through the code under test.

use std::path::Path;

use anyhow::{Context, Result};
use kube::api::DynamicObject;
use serde_json::Value;

/// The objects of a stream of YAML documents; empty documents are skipped.
pub fn objects(text: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let documents = documents.into_iter().filter(|document| !document.is_null());
    documents.map(|document| serde_json::from_value(document).context("read an object")).collect()
}

/// The objects of a YAML file.
pub fn objects_of_file(path: &Path) -> Result<Vec<DynamicObject>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    objects(&text).with_context(|| format!("parse {}", path.display()))
}
