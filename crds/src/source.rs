//! Where a bundle comes from. The fields have upstream's order: the hash in the names of Bundles is of their JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bundle's source: a type and the one member of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleSource {
    /// Type defines the kind of bundle content being sourced: image, git, configMaps, upload or http.
    #[serde(rename = "type")]
    pub type_: String,
    /// Image is the bundle image that backs the content of this bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// Git is the git repository that backs the content of this bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// ConfigMaps are the ConfigMaps that back the content of this bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_maps: Option<Vec<ConfigMapSource>>,
    /// Upload is a source that takes its content from a client, through the upload service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadSource>,
    /// HTTP is the remote archive that backs the content of this bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
}

/// A container image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// Ref contains the reference to a container image with the bundle's contents.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Name of the pull secret, in the system namespace.
    #[serde(rename = "pullSecret", default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<String>,
}

/// A git repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// URL of the repository: https, http or ssh.
    pub repository: String,
    /// Directory in the repository that is the bundle's root. Defaults to the repository's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What to check out: exactly one of branch, tag and commit.
    #[serde(rename = "ref")]
    pub reference: GitRef,
    /// How to authenticate with the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// A git reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitRef {
    /// A branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// A full commit id, 40 hexadecimal characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// An archive behind a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpSource {
    /// URL of a tar.gz archive.
    pub url: String,
    /// How to authenticate with the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Authorization>,
}

/// Credentials of a git or http source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Secret in the system namespace: username and password, or ssh-privatekey and ssh-knownhosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<LocalObjectReference>,
    /// Do not verify the server's certificate or host key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
}

/// A ConfigMap whose keys are files of the bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// The ConfigMap, in the system namespace.
    pub config_map: LocalObjectReference,
    /// Folder in the bundle that the ConfigMap's keys become files of. Defaults to the bundle's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Kind is Secret where the name is that of a Secret. It has to be immutable, of type core.rukpak.io/content, and to name the
    /// BundleDeployment that it is meant for in the annotation core.rukpak.io/content-of. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FilesKind>,
}

/// What holds files of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FilesKind {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Content that a client uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UploadSource {}

/// The name of an object in the system namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalObjectReference {
    /// Name of the referent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ConfigMapSource {
    /// Whether a Secret is named.
    pub fn is_secret(&self) -> bool {
        self.kind == Some(FilesKind::Secret)
    }
}

impl Authorization {
    /// The Secret's name, unless absent or empty.
    pub fn secret_name(&self) -> Option<&str> {
        self.secret.as_ref().and_then(|secret| secret.name.as_deref()).filter(|name| !name.is_empty())
    }

    /// Whether the server's identity goes unchecked.
    pub fn skips_verification(&self) -> bool {
        self.insecure_skip_verify.unwrap_or(false)
    }
}
