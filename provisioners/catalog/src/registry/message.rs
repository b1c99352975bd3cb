//! The messages of `api.Registry`, written by hand: a build needs no protoc.
//!
//! Source of names and numbers: `pkg/api/registry.proto` of operator-registry, and `health.proto` of gRPC.

/// Names of the methods, as paths.
pub mod method {
    /// Every package.
    pub const LIST_PACKAGES: &str = "/api.Registry/ListPackages";
    /// One package.
    pub const GET_PACKAGE: &str = "/api.Registry/GetPackage";
    /// One bundle, with its ClusterServiceVersion.
    pub const GET_BUNDLE: &str = "/api.Registry/GetBundle";
    /// Every bundle, once for each channel it is in, mostly without its ClusterServiceVersion.
    pub const LIST_BUNDLES: &str = "/api.Registry/ListBundles";
    /// The bundle at the head of a channel.
    pub const GET_BUNDLE_FOR_CHANNEL: &str = "/api.Registry/GetBundleForChannel";
    /// Entries of any channel that replace a bundle.
    pub const GET_CHANNEL_ENTRIES_THAT_REPLACE: &str = "/api.Registry/GetChannelEntriesThatReplace";
    /// The bundle of a channel that replaces another one.
    pub const GET_BUNDLE_THAT_REPLACES: &str = "/api.Registry/GetBundleThatReplaces";
    /// Entries of any channel whose bundle provides an API.
    pub const GET_CHANNEL_ENTRIES_THAT_PROVIDE: &str = "/api.Registry/GetChannelEntriesThatProvide";
    /// The same, of heads alone.
    pub const GET_LATEST_CHANNEL_ENTRIES_THAT_PROVIDE: &str = "/api.Registry/GetLatestChannelEntriesThatProvide";
    /// The bundle at the head of a default channel that provides an API.
    pub const GET_DEFAULT_BUNDLE_THAT_PROVIDES: &str = "/api.Registry/GetDefaultBundleThatProvides";
    /// Whether the server is well.
    pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
}

/// Asks for every package.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListPackageRequest {}

/// The name of a package.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PackageName {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for one package.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPackageRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for one bundle.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetBundleRequest {
    /// Its package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// A channel that it is in.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub csv_name: String,
}

/// Asks for every bundle.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListBundlesRequest {}

/// Asks for the bundle at the head of a channel.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetBundleInChannelRequest {
    /// The package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// The channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
}

/// Asks for everything that replaces a bundle.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetAllReplacementsRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub csv_name: String,
}

/// Asks for what replaces a bundle in a channel.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetReplacementRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// The package.
    #[prost(string, tag = "2")]
    pub pkg_name: String,
    /// The channel.
    #[prost(string, tag = "3")]
    pub channel_name: String,
}

/// An entry of a channel: one for each edge that ends at its bundle.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChannelEntry {
    /// The package.
    #[prost(string, tag = "1")]
    pub package_name: String,
    /// The channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// The bundle.
    #[prost(string, tag = "3")]
    pub bundle_name: String,
    /// Where the edge begins; empty where there is none.
    #[prost(string, tag = "4")]
    pub replaces: String,
}

/// Asks whether a server is well.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HealthCheckRequest {
    /// The service that is asked about. OLM asks about `Registry`.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// Whether a server is well.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HealthCheckResponse {
    /// 1 is `SERVING`, 2 `NOT_SERVING`.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

/// A package.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Package {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// By name.
    #[prost(message, repeated, tag = "2")]
    pub channels: Vec<Channel>,
    /// The channel that is used where none is named.
    #[prost(string, tag = "3")]
    pub default_channel_name: String,
    /// Why it is deprecated, if it is.
    #[prost(message, optional, tag = "4")]
    pub deprecation: Option<Deprecation>,
}

/// A channel of a [`Package`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Channel {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The bundle at its head.
    #[prost(string, tag = "2")]
    pub csv_name: String,
    /// Why it is deprecated, if it is.
    #[prost(message, optional, tag = "3")]
    pub deprecation: Option<Deprecation>,
}

/// Says that something is deprecated.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Deprecation {
    /// Why, for people.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// A bundle in a channel.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Bundle {
    /// Its name.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// Its package.
    #[prost(string, tag = "2")]
    pub package_name: String,
    /// The channel that `replaces`, `skips` and `skip_range` are about.
    #[prost(string, tag = "3")]
    pub channel_name: String,
    /// Its ClusterServiceVersion as JSON. `ListBundles` leaves it out where there is an image.
    #[prost(string, tag = "4")]
    pub csv_json: String,
    /// Its manifests as JSON. `ListBundles` leaves them out where there is an image.
    #[prost(string, repeated, tag = "5")]
    pub object: Vec<String>,
    /// Its image; empty for a bundle whose manifests lie in the catalog.
    #[prost(string, tag = "6")]
    pub bundle_path: String,
    /// APIs that it provides.
    #[prost(message, repeated, tag = "7")]
    pub provided_apis: Vec<GroupVersionKind>,
    /// APIs that must be there.
    #[prost(message, repeated, tag = "8")]
    pub required_apis: Vec<GroupVersionKind>,
    /// Its version.
    #[prost(string, tag = "9")]
    pub version: String,
    /// Versions that it replaces. `GetBundle` keeps it.
    #[prost(string, tag = "10")]
    pub skip_range: String,
    /// What it depends on, as older clients read it.
    #[prost(message, repeated, tag = "11")]
    pub dependencies: Vec<Property>,
    /// Its properties, without the manifests.
    #[prost(message, repeated, tag = "12")]
    pub properties: Vec<Property>,
    /// The bundle that it replaces. `GetBundle` leaves it out.
    #[prost(string, tag = "13")]
    pub replaces: String,
    /// Bundles that it replaces as well. `GetBundle` leaves them out.
    #[prost(string, repeated, tag = "14")]
    pub skips: Vec<String>,
    /// Why it is deprecated, if it is.
    #[prost(message, optional, tag = "15")]
    pub deprecation: Option<Deprecation>,
}

/// An API. Requests for what provides one have the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GroupVersionKind {
    /// API group.
    #[prost(string, tag = "1")]
    pub group: String,
    /// API version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Kind.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// The resource's name; empty where a file-based catalog is served.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// A property or a dependency.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Property {
    /// Its type, such as `olm.gvk`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Its value as JSON.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Text that is there. The wire format has no other way to say that there is none.
pub(super) fn said(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
