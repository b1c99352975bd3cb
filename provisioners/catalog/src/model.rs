//! What is kept of a catalog: enough to choose, to follow the graph, to check and to report, and icons of packages. No
//! descriptions or manifests: a catalog of 120 MiB becomes some 10 MiB.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Range, Version};

mod build;
pub(crate) mod weight;

pub use build::Builder;
pub use weight::MAX_KEPT_BYTES;

/// Packages by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// By name.
    pub packages: BTreeMap<String, Package>,
}

/// Everything a catalog says about one package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The channel that is used where none is named. `None` if the catalog does not say.
    pub default_channel: Option<String>,
    /// By name. Names are not validated: they may hold spaces and capitals.
    pub channels: BTreeMap<String, Channel>,
    /// By name (`<package>.v1.0.0` by custom, yet any name).
    pub bundles: BTreeMap<String, Bundle>,
    /// Why the package is deprecated, if it is.
    pub deprecation: Option<String>,
    /// Its picture, if it has one of at most 128 KiB.
    pub icon: Option<Arc<Icon>>,
    /// What is odd about it, for people: what was left out because the catalog contradicts itself, or could not be read.
    /// Sorted.
    pub remarks: Vec<String>,
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Icon {
    /// Its media type, such as `image/svg+xml`, as the catalog says.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A channel: a graph of upgrades.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// In the order of the catalog; names are unique in a valid one. An entry may name a bundle that is not there.
    pub entries: Vec<Entry>,
    /// Why the channel is deprecated, if it is.
    pub deprecation: Option<String>,
}

/// A bundle in a channel, and which others it can be reached from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name of the bundle.
    pub name: String,
    /// The bundle that it replaces. May be one that is not in the channel: the tail of a pruned one.
    pub replaces: Option<String>,
    /// Bundles that it replaces as well, and that nobody should begin with.
    pub skips: Vec<String>,
    /// Versions that it replaces, as written; see [`Range`]. One that cannot be parsed is no edge.
    pub skip_range: Option<String>,
}

/// A bundle, as far as the catalog tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Its name.
    pub name: String,
    /// The image it lies in; `None` for bundles whose manifests lie in the catalog.
    pub image: Option<String>,
    /// Its version; `None` if it is not a semantic one.
    pub version: Option<Version>,
    /// The version as written; empty if there is none.
    pub version_text: String,
    /// What it needs, and how it can be installed.
    pub facts: Facts,
    /// Why the bundle is deprecated, if it is.
    pub deprecation: Option<String>,
}

/// What a catalog states about the inside of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Install modes that it supports, such as `AllNamespaces`; `None` if the catalog does not say (catalogs before
    /// `olm.csv.metadata`).
    pub install_modes: Option<Vec<String>>,
    /// Names of the API services that it owns.
    pub owned_api_services: Vec<String>,
    /// APIs that it provides.
    pub provides: Vec<Gvk>,
    /// APIs that must be there.
    pub requires: Vec<Gvk>,
    /// Packages that must be installed.
    pub requires_packages: Vec<RequiredPackage>,
    /// Compound conditions (`olm.constraint`), as one line of JSON each.
    pub constraints: Vec<String>,
    /// The oldest Kubernetes it runs on.
    pub min_kube_version: Option<String>,
    /// The newest OpenShift it runs on, as written: `4.9`. A bare number has lost its last zero.
    pub max_openshift_version: Option<String>,
    /// Its name for people.
    pub display_name: Option<String>,
    /// The name of who offers it.
    pub provider: Option<String>,
    /// Where more is told of them, a URL.
    pub provider_url: Option<String>,
    /// Processors that it says it runs on, such as `arm64`: of those that operators are built for.
    pub architectures: Vec<&'static str>,
    /// Operating systems that it says it runs on, such as `linux`.
    pub operating_systems: Vec<&'static str>,
    /// What it says it can do, such as `disconnected`: of the features that OpenShift names.
    pub features: Vec<&'static str>,
}

/// An API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvk {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// A package that must be installed, in some range of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredPackage {
    /// Its name.
    pub name: String,
    /// Its versions, as written.
    pub range: String,
}

impl Entry {
    /// The range of [`Entry::skip_range`]; `None` if there is none or it cannot be parsed.
    pub fn skipped_versions(&self) -> Option<Range> {
        self.skip_range.as_deref().and_then(|text| Range::parse(text).ok())
    }
}

impl Package {
    /// The bundle whose image is `image`.
    pub fn bundle_of_image(&self, image: &str) -> Option<&Bundle> {
        self.bundles.values().find(|bundle| bundle.image.as_deref() == Some(image))
    }

    /// Channels that hold the bundle `name`.
    pub fn channels_of(&self, name: &str) -> impl Iterator<Item = &Channel> {
        self.channels.values().filter(move |channel| channel.entries.iter().any(|entry| entry.name == name))
    }
}
