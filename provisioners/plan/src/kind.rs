//! Kinds that an API server serves, and objects of them.

use std::fmt;
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::InventoryKind;
use rukpak_plain::{Object, ObjectKey};
use serde_json::Value;

/// A kind that the API server serves, or will once a CRD of the same bundle is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural; shared by everything that is of the kind.
    pub resource: Arc<ApiResource>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// As an inventory lists it.
    pub fn inventory(&self) -> InventoryKind {
        let ApiResource { group, version, kind, .. } = &*self.resource;
        InventoryKind { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

/// Which object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Identity {
    /// The same without the version.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.kind.resource.group.clone(),
            kind: self.kind.resource.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.kind.resource.kind, self.name)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace:?}"),
            None => Ok(()),
        }
    }
}

/// A kind that nobody serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingKind {
    /// `group/version`, or `version` in the core group.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

impl MissingKind {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version, without the group.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for MissingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no matches for kind {:?} in version {:?}", self.kind, self.api_version)
    }
}

/// Whether the key is that of a CustomResourceDefinition.
pub fn is_crd(key: &ObjectKey) -> bool {
    key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition"
}

/// The kinds that a CRD of the bundle defines: they need no discovery.
pub fn defined_by(crd: &Object) -> Vec<Kind> {
    let text = |path: &[&str]| crd.field(path).and_then(Value::as_str).unwrap_or_default();
    let versions = crd.field(&["spec", "versions"]).and_then(Value::as_array);
    let listed = versions.into_iter().flatten().filter(|version| version["served"].as_bool().unwrap_or(false));
    let listed = listed.filter_map(|version| version["name"].as_str());
    // v1beta1 may name one version and list none.
    let only = Some(text(&["spec", "version"])).filter(|version| versions.is_none() && !version.is_empty());
    listed
        .chain(only)
        .map(|version| Kind {
            resource: Arc::new(ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(text(&["spec", "group"]), version, text(&["spec", "names", "kind"])),
                text(&["spec", "names", "plural"]),
            )),
            namespaced: text(&["spec", "scope"]) == "Namespaced",
        })
        .collect()
}
