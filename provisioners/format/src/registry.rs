//! `registry+v1` with the defaults of RukPak v1alpha1.

use std::collections::BTreeSet;

use clap::ValueEnum;
use rukpak_content::{BundleTree, Limits};
use rukpak_crds::config::REFUSED;
use rukpak_crds::names::IGNORE_DEPENDENCIES;
use rukpak_plain::Object;
use rukpak_registry::config::{self, Config};
use rukpak_registry::gate::{self, Refusal};
use rukpak_registry::render::{self, PLACEHOLDER, serving_certificates};
use rukpak_registry::{Bundle, RenderOptions, TooOld, Unresolvable, load};
use serde_json::Value;

use super::{Rendered, Settings, properties, watches_namespace};

/// The folder of the package's metadata.
pub(super) const METADATA: &str = "metadata";

/// Who makes the certificates that webhooks of bundles serve with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Certificates {
    /// This program.
    #[default]
    #[value(name = "self")]
    SelfManaged,
    /// cert-manager, which must be installed.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
}

/// Why a `registry+v1` bundle cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] load::Error),
    /// It is never installed, or not without settings. The first part of the text is upstream's. The refusal is no source:
    /// its own text says the same in the words of OLM v1.
    #[error("{}: {}", .0.v1alpha1_text(), .0.hint())]
    Refused(Refusal),
    /// It needs what only a catalog could find. The text is OLM v1's, with the way out.
    #[error("{}; install what it needs, and say so with the annotation {IGNORE_DEPENDENCIES}=\"true\" on the BundleDeployment", joined(.0))]
    Dependencies(BTreeSet<Unresolvable>),
    /// It is for a newer Kubernetes. The text is OLM's, with the way out.
    #[error(
        "{0}; upgrade the cluster, or say that it will do with the annotation {IGNORE_DEPENDENCIES}=\"true\" on the BundleDeployment"
    )]
    Kubernetes(TooOld),
    /// The settings do not fit it.
    #[error("{REFUSED}")]
    Config(#[from] config::Error),
    /// It makes no sense, or no object can be made of a part of it.
    #[error(transparent)]
    Render(#[from] render::Error),
}

fn joined(dependencies: &BTreeSet<Unresolvable>) -> String {
    let texts: Vec<String> = dependencies.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[expect(clippy::result_large_err, reason = "made once a bundle, and boxed by whoever keeps it")]
pub(super) fn check(tree: &BundleTree, limits: &Limits, watches_namespace: bool) -> Result<Vec<String>, Error> {
    let bundle = load(tree, limits)?;
    gate::check_v1alpha1(&bundle, watches_namespace).map_err(Error::Refused)?;
    if watches_namespace {
        rukpak_registry::validate(&bundle).map_err(render::Error::Invalid)?;
    } else {
        rukpak_registry::render(&bundle, &options(&bundle, Certificates::SelfManaged))?;
    }
    Ok(bundle.remarks())
}

#[expect(clippy::result_large_err, reason = "made once a bundle, and boxed by whoever keeps it")]
pub(super) fn render(tree: &BundleTree, limits: &Limits, settings: &Settings) -> Result<Rendered, Error> {
    let bundle = load(tree, limits)?;
    gate::check_v1alpha1(&bundle, watches_namespace(settings.config.as_ref())).map_err(Error::Refused)?;
    if let Some(server) = &settings.kubernetes {
        bundle.check_kubernetes(server).map_err(Error::Kubernetes)?;
    }
    let unresolvable = bundle.unresolvable();
    if !unresolvable.is_empty() && !settings.ignores_dependencies {
        return Err(Error::Dependencies(unresolvable));
    }
    let config = settings.config.clone().map_or(Value::Null, Value::Object);
    let mut options = options(&bundle, settings.certificates);
    let creates_namespace = config::creates_namespace(&config)?;
    let install_namespace = config::install_namespace(&config)?;
    if creates_namespace || install_namespace.is_some() {
        gate::check(&bundle).map_err(Error::Refused)?;
    }
    if let Some(namespace) = install_namespace {
        options = RenderOptions::into_namespace(namespace, options.certificates);
    } else if creates_namespace {
        // Also where the name is known already: a template that cannot be read would leave out what its author wants.
        let managed = bundle.managed_namespace()?;
        options.namespace_template = bundle.namespace_template().unwrap_or_default();
        options.install_namespace = settings.namespace.clone().unwrap_or(managed);
    }
    let config = Config::read(&bundle.csv, &options.install_namespace, &config)?;
    options.target_namespaces = config.target_namespaces;
    options.deployment_config = config.deployment;
    settings.proxy.add_to(&mut options.deployment_config);
    options.object_labels = config.object_labels;
    options.api_roles = config.api_roles;
    options.operator_condition = config.operator_condition;
    options.places = config.places;
    let objects = rukpak_registry::render(&bundle, &options)?;
    let made_here = settings.certificates == Certificates::SelfManaged;
    Ok(Rendered {
        optional: bundle.optional(&objects).map(Object::key).collect(),
        required: bundle.required_apis(),
        certificates: if made_here { serving_certificates(&bundle, &options.install_namespace) } else { Vec::new() },
        properties: properties(bundle.properties(), &objects),
        namespace: creates_namespace.then_some(options.install_namespace),
        objects,
        ..Rendered::default()
    })
}

fn options(bundle: &Bundle, certificates: Certificates) -> RenderOptions {
    let provider = match certificates {
        Certificates::SelfManaged => rukpak_registry::Certificates::SelfManaged { placeholder: PLACEHOLDER.to_owned() },
        Certificates::CertManager => rukpak_registry::Certificates::CertManager,
        Certificates::ServiceCa => rukpak_registry::Certificates::ServiceCa,
    };
    RenderOptions::v1alpha1(bundle, provider)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_mark_that_is_rendered_is_the_one_that_is_read() {
        assert_eq!(rukpak_registry::render::IN_COMMON, rukpak_crds::names::IN_COMMON);
    }
}
