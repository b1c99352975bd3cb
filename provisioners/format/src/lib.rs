//! The formats of bundles: what of a tree belongs to one, whether a tree is one, and which objects it means.
//!
//! The one place that knows `plain+v0`, `registry+v1` and `helm+v3`. CPU only; a tree is handed in, objects come out. Of a chart the tree
//! is what Helm rendered ([`helm::rendering`]).

use std::collections::BTreeSet;
use std::time::SystemTime;

use rukpak_content::{BundleTree, Digest, Limits, RelativePath};
use rukpak_crds::{BundleProperty, config};
use rukpak_plain::{Gvk, Object, ObjectKey, manifests};
pub use rukpak_plan::Format;
use rukpak_plan::Release;
use rukpak_registry::gate::Refusal;
use rukpak_registry::metadata::Property;
use rukpak_registry::render::ServingCertificate;
pub use rukpak_registry::validate::BUILT_IN_GROUPS;
pub use rukpak_registry::{Proxy, proxy};
use serde_json::{Map, Value, json};

pub mod helm;
mod registry;

pub use registry::Certificates;

/// The type of a kind that is provided.
const PROVIDES_KIND: &str = "olm.gvk";
/// What a bundle may provide and require: every write of a status has it, and every cache.
const PROPERTIES_BYTES: usize = 16 << 10;

/// The objects that a bundle means, and what the cluster must have for them.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The objects, in the order of the format.
    pub objects: Vec<Object>,
    /// The hooks of a chart, which are no objects of a release.
    pub hooks: Vec<Object>,
    /// Those that may be left out where their kind is not served.
    pub optional: BTreeSet<ObjectKey>,
    /// Kinds that somebody else has to bring.
    pub required: BTreeSet<Gvk>,
    /// What the bundle provides and requires, in the words of catalogs.
    pub properties: Vec<BundleProperty>,
    /// The Namespace that was made for the bundle and is one of the objects.
    pub namespace: Option<String>,
    /// TLS Secrets among the objects that hold a [placeholder](rukpak_registry::render::PLACEHOLDER) where a certificate belongs.
    pub certificates: Vec<ServingCertificate>,
    /// When the certificates that were put in are to be looked at again.
    pub certificates_due: Option<SystemTime>,
    /// Stands for all authorities that were put in, if any were.
    pub authorities: Option<Digest>,
}

impl Rendered {
    /// Of a format that says nothing but its objects.
    fn of(objects: Vec<Object>) -> Self {
        Self { properties: properties(Vec::new(), &objects), objects, ..Self::default() }
    }
}

/// What a user and an administrator set. Only `registry+v1` has a use for it; a `plain+v0` bundle refuses what the user set.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `spec.config` of the BundleDeployment.
    pub config: Option<Map<String, Value>>,
    /// The namespace of what is installed: the same setting by which it was made keeps it, whatever a later version asks for.
    pub namespace: Option<String>,
    /// Who makes the certificates of webhooks.
    pub certificates: Certificates,
    /// Whether dependencies that only a catalog could resolve are somebody else's business.
    pub ignores_dependencies: bool,
    /// `gitVersion` of the API server that the bundle has to be for; `None`: it may be for any.
    pub kubernetes: Option<String>,
    /// The proxy that operators are told of.
    pub proxy: Proxy,
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
    /// It is not a `helm+v3` bundle that can be installed, or not with these values.
    #[error(transparent)]
    Helm(#[from] helm::Error),
    /// Settings for a format that has none. Holds their names.
    #[error("spec.config: unknown field{} {}: a plain+v0 bundle takes no settings; remove spec.config", if .0.len() == 1 { "" } else { "s" }, .0.join(", "))]
    NoSettings(Vec<String>),
}

impl Error {
    /// Whether the settings of a BundleDeployment have to say which namespaces its operator watches: the bundle is none for all of them.
    pub fn wants_watched_namespace(&self) -> bool {
        matches!(self, Self::Registry(registry::Error::Refused(Refusal::NotAllNamespaces)))
    }
}

/// What a format does with a tree.
pub trait BundleFormat {
    /// Whether the format looks at `path`, be it a folder or a file.
    fn has_part(self, path: &RelativePath) -> bool;

    /// Whether `tree` is a bundle of the format; what its author should know although nothing is refused.
    ///
    /// `watches_namespace`: the settings of a BundleDeployment will say what is watched, so that a bundle need not support
    /// all namespaces.
    #[expect(clippy::result_large_err, reason = "made once a bundle, and boxed by whoever keeps it")]
    fn check(self, tree: &BundleTree, limits: &Limits, watches_namespace: bool) -> Result<Vec<String>, Error>;

    /// Renders the objects. The tree of a chart is what Helm rendered.
    #[expect(clippy::result_large_err, reason = "made once a bundle, and boxed by whoever keeps it")]
    fn render(self, tree: &BundleTree, limits: &Limits, settings: &Settings) -> Result<Rendered, Error>;
}

impl BundleFormat for Format {
    fn has_part(self, path: &RelativePath) -> bool {
        match (self, path.components().next()) {
            (Self::Helm, _) | (_, Some(manifests::FOLDER)) => true,
            (Self::Registry, Some(first)) => first == registry::METADATA,
            _ => false,
        }
    }

    fn check(self, tree: &BundleTree, limits: &Limits, watches_namespace: bool) -> Result<Vec<String>, Error> {
        match self {
            Self::Plain => Ok(rukpak_plain::load(tree, limits)?.warnings.lines()),
            Self::Registry => Ok(registry::check(tree, limits, watches_namespace)?),
            Self::Helm => Ok(helm::check(tree, limits)?),
        }
    }

    fn render(self, tree: &BundleTree, limits: &Limits, settings: &Settings) -> Result<Rendered, Error> {
        match self {
            Self::Plain => {
                let names: Vec<String> =
                    settings.config.iter().flatten().map(|(name, _)| format!("{name:?}")).collect();
                if !names.is_empty() {
                    return Err(Error::NoSettings(names));
                }
                Ok(Rendered::of(rukpak_plain::load(tree, limits)?.objects))
            }
            Self::Registry => Ok(registry::render(tree, limits, settings)?),
            Self::Helm => {
                let (objects, hooks) = helm::render(tree, limits)?;
                Ok(Rendered { hooks, ..Rendered::of(objects) })
            }
        }
    }
}

/// What makes the objects of a release: part of the digest over an installation.
pub fn renderer(release: &Release, certificates: Certificates) -> String {
    match (release.format, &release.config) {
        (Format::Plain, _) => release.format.renderer().to_owned(),
        (Format::Registry, None) => format!("{} {certificates:?}", release.format.renderer()),
        // What was rendered changes with the release alone.
        (Format::Helm, config) => {
            let digest = Digest::sha256(Value::Object(config.clone().unwrap_or_default()).to_string().as_bytes());
            format!("{} {digest}", release.format.renderer())
        }
        (Format::Registry, Some(config)) => {
            let digest = Digest::sha256(Value::Object(config.clone()).to_string().as_bytes());
            format!("{} {certificates:?} {digest}", release.format.renderer())
        }
    }
}

/// Whether the settings of a BundleDeployment say which namespaces its operator watches, or where it is installed: then they are looked
/// at with the bundle, in the words of OLM v1.
pub fn watches_namespace(config: Option<&Map<String, Value>>) -> bool {
    let value = |key| config.and_then(|config| config.get(key));
    let is_set = |key| value(key).is_some_and(|value| !value.is_null());
    is_set("watchNamespace")
        || is_set("watchNamespaces")
        || is_set(config::INSTALL_NAMESPACE)
        || value(config::CREATE_NAMESPACE) == Some(&Value::Bool(true))
}

/// What a bundle provides and requires, as the status of its BundleDeployment says it: what it `states` of itself, and the kinds that the
/// CRDs among its objects serve, as many as fit.
fn properties(states: Vec<Property>, objects: &[Object]) -> Vec<BundleProperty> {
    let own = states.into_iter().map(|Property { kind, value }| BundleProperty { type_: kind, value });
    let provided = objects.iter().filter(|object| object.kind() == "CustomResourceDefinition").flat_map(served_kinds);
    let provided = provided.map(|value| BundleProperty { type_: PROVIDES_KIND.to_owned(), value });
    let mut room = PROPERTIES_BYTES;
    let fits = |property: &BundleProperty| {
        let size = property.type_.len() + property.value.to_string().len();
        room.checked_sub(size).inspect(|left| room = *left).is_some()
    };
    // What it needs comes first: who provides it must know.
    own.chain(provided).filter(fits).collect()
}

/// The kinds that a CRD serves.
fn served_kinds(definition: &Object) -> Vec<Value> {
    let (group, kind) = (definition.field(&["spec", "group"]), definition.field(&["spec", "names", "kind"]));
    let versions = definition.field(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served.map(|version| json!({"group": group, "version": version["name"], "kind": kind})).collect()
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;

    use super::*;

    fn definition(versions: usize) -> Object {
        let version = |number| json!({"name": format!("v{number}"), "served": number != 2});
        let versions: Vec<Value> = (1..=versions).map(version).collect();
        let spec = json!({"group": "g.io", "names": {"kind": "K"}, "versions": versions});
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                          "metadata": {"name": "ks.g.io"}, "spec": spec});
        Object::new(body, Origin::made_from("test")).unwrap()
    }

    #[test]
    fn served_kinds_are_provided_and_what_does_not_fit_is_left_out() {
        let needed = Property { kind: "olm.package.required".to_owned(), value: json!({"packageName": "p"}) };
        let found = properties(vec![needed.clone()], &[definition(3)]);
        let named: Vec<&Value> = found.iter().map(|property| &property.value["version"]).collect();
        assert_eq!(named, [&Value::Null, &json!("v1"), &json!("v3")]);

        let found = properties(vec![needed], &[definition(1000)]);
        assert_eq!(found[0].type_, "olm.package.required");
        let size: usize = found.iter().map(|one| one.type_.len() + one.value.to_string().len()).sum();
        assert!(found.len() > 200 && size <= PROPERTIES_BYTES, "{} of {size} bytes", found.len());
    }
}
