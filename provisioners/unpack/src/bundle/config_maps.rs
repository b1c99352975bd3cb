//! Content that lies in ConfigMaps, or Secrets, of the system namespace. Read when needed, never kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _};
use rukpak_content::{Limit, LimitExceeded};
use rukpak_crds::names::{CONTENT_OF, CONTENT_TYPE};
use rukpak_crds::{BundleDeployment, ConfigMapSource};
use rukpak_plan::owner::controller;
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
    /// A Secret is not there.
    #[error("get secret {namespace}/{name}: Secret {name:?} not found")]
    NoSecret { namespace: String, name: String },
    /// A Secret may not or cannot be read.
    #[error("get secret {0}")]
    GetSecret(String, #[source] api::Error),
    /// A Secret is not meant for the BundleDeployment of the Bundle.
    #[error(
        "secret {0:?} holds no content of this Bundle: it has to be immutable, of type {CONTENT_TYPE}, and to name the \
         BundleDeployment of the Bundle in its annotation {CONTENT_OF}"
    )]
    NotMeant(String),
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
            // Nothing tells of Secrets.
            Self::Get(..) | Self::GetSecret(..) | Self::NoSecret { .. } | Self::Files(files::Error::Stage(_)) => {
                Class::Transient
            }
            Self::NotFound { .. } | Self::NotMeant(_) | Self::Limit(_) | Self::Files(_) => Class::Terminal,
        }
    }
}

/// Reads what is named, each once, in the order of the spec. `deployment` is the one that the Bundle was made for.
pub async fn read(
    entries: &[ConfigMapSource],
    deployment: Option<&BundleDeployment>,
    context: &Context,
) -> Result<Vec<FileSet>, Error> {
    let mut read: BTreeMap<(bool, &str), Files> = BTreeMap::new();
    let mut sets = Vec::with_capacity(entries.len());
    let mut total_bytes = 0;
    for entry in entries {
        let name = entry.config_map.name.as_deref().unwrap_or_default();
        let files = match read.entry((entry.is_secret(), name)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if entry.is_secret() => place.insert(secret(name, deployment, context).await?),
            Entry::Vacant(place) => place.insert(get(name, context).await?),
        }
        .clone();
        total_bytes += files.iter().map(|(_, body)| body.len() as u64).sum::<u64>();
        Limit::TreeBytes.check(total_bytes, context.limits.tree_bytes, || format!("configmap {name:?}"))?;
        let path = entry.path.clone().unwrap_or_default();
        sets.push(FileSet { name: name.to_owned(), path, files });
    }
    Ok(sets)
}

/// Names of files and what they hold.
type Files = Vec<(String, Vec<u8>)>;

/// What a Secret holds, if it is meant for the Bundle: whoever may write Bundles need not be allowed to read Secrets.
async fn secret(name: &str, deployment: Option<&BundleDeployment>, context: &Context) -> Result<Files, Error> {
    let namespace = &context.system_namespace;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(found)) if is_meant(&found, deployment) => {
            Ok(found.data.unwrap_or_default().into_iter().map(|(key, ByteString(bytes))| (key, bytes)).collect())
        }
        Ok(Some(_)) => Err(Error::NotMeant(name.to_owned())),
        Ok(None) => Err(Error::NoSecret { namespace: namespace.clone(), name: name.to_owned() }),
        Err(error) => Err(Error::GetSecret(format!("{namespace}/{name}"), error.into())),
    }
}

/// Whether a Secret is meant for the BundleDeployment. One that something controls goes with its controller, and so does what it is meant
/// for: whoever makes a BundleDeployment of that name later does not read it.
fn is_meant(secret: &Secret, deployment: Option<&BundleDeployment>) -> bool {
    let Some(deployment) = deployment else { return false };
    let keeper = controller(&secret.metadata).map(|owner| &owner.uid);
    secret.immutable == Some(true)
        && secret.type_.as_deref() == Some(CONTENT_TYPE)
        && secret.annotations().get(CONTENT_OF).is_some_and(|name| deployment.metadata.name.as_ref() == Some(name))
        && (keeper.is_none() || keeper == controller(&deployment.metadata).map(|owner| &owner.uid))
}

async fn get(name: &str, context: &Context) -> Result<Files, Error> {
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
fn files_of(found: ConfigMap) -> Files {
    let text = found.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
    let binary = found.binary_data.unwrap_or_default().into_iter().map(|(key, ByteString(bytes))| (key, bytes));
    text.chain(binary).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, owners: &serde_json::Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "configMaps"}}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_missing_one_is_named_in_upstreams_words() {
        let error = Error::NotFound { namespace: "rukpak-system".into(), name: "non-exist".into() };
        assert_eq!(error.to_string(), "get configmap rukpak-system/non-exist: ConfigMap \"non-exist\" not found");
        assert_eq!(error.retry(), Class::Terminal);
    }

    #[test]
    fn a_secret_is_read_for_the_deployment_alone_that_it_names() {
        let secret = |change: &serde_json::Value| -> Secret {
            let mut secret = json!({"immutable": true, "type": CONTENT_TYPE,
                                    "metadata": {"annotations": {CONTENT_OF: "d"}}, "data": {"a": "eA=="}});
            for (key, value) in change.as_object().into_iter().flatten() {
                secret[key] = value.clone();
            }
            serde_json::from_value(secret).unwrap()
        };
        let (ours, other) = (deployment("d", &json!([])), deployment("e", &json!([])));
        assert!(is_meant(&secret(&json!({})), Some(&ours)));
        for deployment in [None, Some(&other)] {
            assert!(!is_meant(&secret(&json!({})), deployment), "{deployment:?}");
        }
        for change in [json!({"immutable": false}), json!({"type": "Opaque"}), json!({"metadata": {}})] {
            assert!(!is_meant(&secret(&change), Some(&ours)), "{change}");
            assert!(!is_meant(&secret(&change), None), "{change}");
        }
    }

    #[test]
    fn a_secret_that_something_controls_is_read_for_what_the_same_controls() {
        let owners =
            |uid: &str| json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}]);
        let secret: Secret = serde_json::from_value(json!({
            "immutable": true, "type": CONTENT_TYPE,
            "metadata": {"annotations": {CONTENT_OF: "d"}, "ownerReferences": owners("1")},
        }))
        .unwrap();
        assert!(is_meant(&secret, Some(&deployment("d", &owners("1")))));
        for owners in [json!([]), owners("2")] {
            assert!(!is_meant(&secret, Some(&deployment("d", &owners))), "{owners}");
        }
    }

    #[test]
    fn text_and_bytes_are_files_alike() {
        let found: ConfigMap =
            serde_json::from_value(json!({"data": {"a": "text"}, "binaryData": {"b": "/wA="}})).unwrap();
        assert_eq!(files_of(found), [("a".into(), b"text".to_vec()), ("b".into(), vec![0xff, 0])]);
        assert_eq!(files_of(ConfigMap::default()), []);
    }
}
