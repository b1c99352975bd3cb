//! The formats of bundles: what of a tree belongs to one, whether a tree is one, and which objects it means.
//!
//! The one place that knows both `plain+v0` and `registry+v1`. CPU only; a tree is handed in, objects come out.

use std::collections::BTreeSet;
use std::fmt;
use std::time::SystemTime;

use rukpak_content::{BundleTree, Digest, Limits, RelativePath};
use rukpak_crds::names;
use rukpak_plain::{Gvk, Object, ObjectKey, manifests};
use rukpak_registry::render::ServingCertificate;
use serde_json::{Map, Value};

mod registry;

pub use registry::Certificates;

/// A format, as the provisioner class of a Bundle names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `plain+v0`: the objects themselves.
    Plain,
    /// `registry+v1`: OLM's; objects are rendered from a ClusterServiceVersion.
    Registry,
}

/// The objects that a bundle means, and what the cluster must have for them.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The objects, in the order of the format.
    pub objects: Vec<Object>,
    /// Those that may be left out where their kind is not served.
    pub optional: BTreeSet<ObjectKey>,
    /// Kinds that somebody else has to bring.
    pub required: BTreeSet<Gvk>,
    /// TLS Secrets among the objects that hold a [placeholder](rukpak_registry::render::PLACEHOLDER) where a certificate belongs.
    pub certificates: Vec<ServingCertificate>,
    /// When the certificates that were put in are to be looked at again.
    pub certificates_due: Option<SystemTime>,
    /// Stands for all authorities that were put in, if any were.
    pub authorities: Option<Digest>,
}

/// What a user and an administrator set. Only `registry+v1` has a use for it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `spec.config` of the BundleDeployment.
    pub config: Option<Map<String, Value>>,
    /// Who makes the certificates of webhooks.
    pub certificates: Certificates,
    /// Whether dependencies that only a catalog could resolve are somebody else's business.
    pub ignores_dependencies: bool,
}

/// Why a tree is not a bundle of the format, or cannot be rendered as asked. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not a `plain+v0` bundle.
    #[error(transparent)]
    Plain(#[from] rukpak_plain::bundle::Error),
    /// It is not a `registry+v1` bundle that can be installed. The text is upstream's.
    #[error("convert registry+v1 bundle to plain+v0 bundle")]
    Registry(#[from] registry::Error),
}

impl Format {
    /// The format that Bundles of a provisioner class have; `None` for classes of other provisioners.
    pub fn of_class(class: &str) -> Option<Self> {
        match class {
            names::CLASS_PLAIN => Some(Self::Plain),
            names::CLASS_REGISTRY => Some(Self::Registry),
            _ => None,
        }
    }

    /// The format that [`Display`](fmt::Display) printed.
    pub fn read(name: &str) -> Option<Self> {
        [Self::Plain, Self::Registry].into_iter().find(|format| format.to_string() == name)
    }

    /// Whether the format looks at `path`, be it a folder or a file.
    pub fn has_part(self, path: &RelativePath) -> bool {
        match (self, path.components().next()) {
            (_, Some(manifests::FOLDER)) => true,
            (Self::Registry, Some(first)) => first == registry::METADATA,
            _ => false,
        }
    }

    /// Whether `tree` is a bundle of the format; what its author should know although nothing is refused.
    ///
    /// `watches_namespace`: the settings of a BundleDeployment will say what is watched, so that a bundle need not support
    /// all namespaces.
    pub fn check(self, tree: &BundleTree, limits: &Limits, watches_namespace: bool) -> Result<Vec<String>, Error> {
        match self {
            Self::Plain => {
                let loaded = rukpak_plain::load(tree, limits)?;
                Ok(loaded.warnings.iter().map(ToString::to_string).collect())
            }
            Self::Registry => Ok(registry::check(tree, limits, watches_namespace)?),
        }
    }

    /// Renders the objects.
    pub fn render(self, tree: &BundleTree, limits: &Limits, settings: &Settings) -> Result<Rendered, Error> {
        match self {
            Self::Plain => Ok(Rendered { objects: rukpak_plain::load(tree, limits)?.objects, ..Rendered::default() }),
            Self::Registry => Ok(registry::render(tree, limits, settings)?),
        }
    }

    /// Part of the digest over an installation: a change of what we make of the same content applies it anew.
    pub fn renderer(self) -> &'static str {
        match self {
            Self::Plain => "plain/1",
            Self::Registry => "registry/1",
        }
    }
}

/// As media types name it.
impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain+v0",
            Self::Registry => "registry+v1",
        })
    }
}

/// Part of the refusal of a bundle whose settings have to say what is watched. Upstream's words.
pub const ALL_NAMESPACES_REQUIRED: &str = "AllNamespace install mode must be enabled";

/// Whether the settings of a BundleDeployment say which namespaces its operator watches.
pub fn watches_namespace(config: Option<&Map<String, Value>>) -> bool {
    let is_set = |key| config.and_then(|config| config.get(key)).is_some_and(|value| !value.is_null());
    is_set("watchNamespace") || is_set("watchNamespaces")
}
