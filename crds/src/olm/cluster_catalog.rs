//! ClusterCatalog: an image with a file-based catalog, unpacked and served over HTTP.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{self, Violation};
use crate::Condition;

/// Condition of a ClusterCatalog: whether its content is served.
pub const SERVING: &str = "Serving";
/// Reason of [`SERVING`]: it is.
pub const AVAILABLE: &str = "Available";
/// Reason of [`SERVING`]: the spec says that it is not to be.
pub const USER_SPECIFIED_UNAVAILABLE: &str = "UserSpecifiedUnavailable";

/// ClusterCatalogSpec defines the desired state of ClusterCatalog.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    plural = "clustercatalogs",
    singular = "clustercatalog",
    status = "ClusterCatalogStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"LastUnpacked","type":"date","jsonPath":".status.lastUnpacked"}"#,
    printcolumn = r#"{"name":"Serving","type":"string","jsonPath":".status.conditions[?(@.type==\"Serving\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogSpec {
    /// Source is where the content comes from.
    pub source: CatalogSource,
    /// Priority decides between catalogs that offer a package alike: the highest wins.
    #[serde(default)]
    pub priority: i32,
    /// AvailabilityMode says whether the content is unpacked and served. Unavailable removes it.
    #[serde(default)]
    pub availability_mode: AvailabilityMode,
}

/// CatalogSource is a union: the member that the type names is set, and no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogSource {
    /// Type names the member.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,
    /// Image is set if the type is Image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<CatalogImage>,
}

/// Where catalogs come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CatalogSourceType {
    /// A container image.
    #[default]
    Image,
}

/// CatalogImage is an image in a container registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogImage {
    /// Ref is the whole reference: a registry, a name, and a tag or a digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub reference: String,
    /// PollIntervalMinutes is how often the registry is asked what the tag names. Without it, once for each change of the spec
    /// and each start of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub poll_interval_minutes: Option<i64>,
}

/// Whether a catalog is there for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AvailabilityMode {
    /// It is unpacked and served.
    #[default]
    Available,
    /// Its content is removed.
    Unavailable,
}

/// ClusterCatalogStatus defines the observed state of ClusterCatalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// Conditions: Progressing and Serving; beside them Verified, where a rule of a ContentPolicy is for the image. (Not in OLM v1.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// ResolvedSource is what the content was unpacked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedCatalogSource>,
    /// URLs lead to the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<CatalogUrls>,
    /// LastUnpacked is when this content was unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_unpacked: Option<Timestamp>,
}

/// What the content was unpacked from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedCatalogSource {
    /// Type names the member.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,
    /// Image is the image by its digest.
    pub image: ResolvedCatalogImage,
}

/// An image by its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedCatalogImage {
    /// Ref is registry, name and digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub reference: String,
}

/// Where clients find the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogUrls {
    /// Base is the URL that `/api/v1/all` and `/api/v1/metas` are appended to.
    #[schemars(length(max = 525))]
    pub base: String,
}

impl CatalogImage {
    /// Whether the reference names its image by digest: then it never means another.
    pub fn is_pinned(&self) -> bool {
        self.reference.contains("@sha256:")
    }
}

impl ClusterCatalogSpec {
    /// The image of the source.
    ///
    /// # Errors
    /// The first rule of the definition that the spec breaks, for specs that were stored before the rule was.
    pub fn image(&self) -> Result<&CatalogImage, Violation> {
        let image = self.source.image.as_ref().ok_or(Violation::of(rules::CATALOG_SOURCE))?;
        rules::check(&rules::IMAGE_REFERENCE, &image.reference)?;
        if image.poll_interval_minutes.is_some() && image.reference.contains('@') {
            return Err(Violation::of(rules::POLL_INTERVAL));
        }
        Ok(image)
    }
}
