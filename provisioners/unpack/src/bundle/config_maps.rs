//! Content that lies in ConfigMaps of the system namespace. Read when needed, never kept.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use rukpak_content::{Limit, LimitExceeded};
use rukpak_crds::ConfigMapSource;
use rukpak_plan::retry::Class;
use rukpak_runtime::api;
use rukpak_source::files::{self, FileSet};

use crate::context::Context;

/// Why ConfigMaps give no content. The texts are upstream's where it has them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A ConfigMap is not there.
    #[error("get configmap {namespace}/{name}: ConfigMap {name:?} not found")]
    NotFound { namespace: String, name: String },
    /// A ConfigMap may not or cannot be read.
    #[error("get configmap {0}")]
    Get(String, #[source] api::Error),
    /// They are too large together.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Their keys make no bundle.
    #[error(transparent)]
    Files(#[from] files::Error),
}

impl Error {
    /// When to try again. A ConfigMap that comes or changes wakes its Bundles besides.
    pub fn retry(&self) -> Class {
        match self {
            Self::Get(..) | Self::Files(files::Error::Stage(_)) => Class::Transient,
            Self::NotFound { .. } | Self::Limit(_) | Self::Files(_) => Class::Terminal,
        }
    }
}

/// Reads the ConfigMaps, each once, in the order of the spec.
pub async fn read(entries: &[ConfigMapSource], context: &Context) -> Result<Vec<FileSet>, Error> {
    let mut read: BTreeMap<&str, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    let mut sets = Vec::with_capacity(entries.len());
    let mut total_bytes = 0;
    for entry in entries {
        let name = entry.config_map.name.as_deref().unwrap_or_default();
        if !read.contains_key(name) {
            read.insert(name, get(name, context).await?);
        }
        let files = read.get(name).cloned().unwrap_or_default();
        total_bytes += files.iter().map(|(_, body)| body.len() as u64).sum::<u64>();
        Limit::TreeBytes.check(total_bytes, context.limits.tree_bytes, || format!("configmap {name:?}"))?;
        let path = entry.path.clone().unwrap_or_default();
        sets.push(FileSet { name: name.to_owned(), path, files });
    }
    Ok(sets)
}

async fn get(name: &str, context: &Context) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let namespace = &context.system_namespace;
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(found)) => Ok(files_of(found)),
        // The API server names the resource, upstream's client the kind.
        Ok(None) => Err(Error::NotFound { namespace: namespace.clone(), name: name.to_owned() }),
        Err(error) => Err(Error::Get(format!("{namespace}/{name}"), error.into())),
    }
}

/// The API server sees to it that no key is in both.
fn files_of(found: ConfigMap) -> Vec<(String, Vec<u8>)> {
    let text = found.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
    let binary = found.binary_data.unwrap_or_default().into_iter().map(|(key, ByteString(bytes))| (key, bytes));
    text.chain(binary).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_one_is_named_in_upstreams_words() {
        let error = Error::NotFound { namespace: "rukpak-system".into(), name: "non-exist".into() };
        assert_eq!(error.to_string(), "get configmap rukpak-system/non-exist: ConfigMap \"non-exist\" not found");
        assert_eq!(error.retry(), Class::Terminal);
    }

    #[test]
    fn text_and_bytes_are_files_alike() {
        let found: ConfigMap =
            serde_json::from_value(json!({"data": {"a": "text"}, "binaryData": {"b": "/wA="}})).unwrap();
        assert_eq!(files_of(found), [("a".into(), b"text".to_vec()), ("b".into(), vec![0xff, 0])]);
        assert_eq!(files_of(ConfigMap::default()), []);
    }
}
