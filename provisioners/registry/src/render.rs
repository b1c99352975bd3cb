//! A [`Bundle`] to objects, in a fixed order. Pure: equal bundles and options give equal objects.

use std::collections::BTreeMap;

use rukpak_content::LimitExceeded;
use rukpak_plain::manifests::{self, merge_repeated};
use rukpak_plain::{Budget, Object, Origin, object};
use serde_json::{Value, json};

use crate::validate::{Findings, validate};
use crate::{Bundle, DeploymentConfig, FieldError, NamespaceTemplate, install_mode};

pub(crate) mod additional;
mod api_roles;
mod api_services;
mod certificates;
mod crds;
mod deployments;
mod operator_condition;
mod overrides;
mod rbac;
mod services;
mod volumes;
mod webhooks;

pub use certificates::{CA_ANNOTATION, PLACEHOLDER, ServingCertificate, serving_certificates};

/// How a bundle is rendered.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// The namespace that all namespaced objects go to.
    pub install_namespace: String,
    /// The namespaces that are watched: one empty name means all. `None` takes what the bundle supports by default.
    pub target_namespaces: Option<Vec<String>>,
    /// Whether the install namespace is part of the objects, as in RukPak v1alpha1, and in OLM v1 where nobody names one.
    pub with_namespace: bool,
    /// Labels and annotations of the install namespace, if it is part of the objects.
    pub namespace_template: NamespaceTemplate,
    /// Who makes the certificates of webhooks.
    pub certificates: Certificates,
    /// What the user changes in the Deployments.
    pub deployment_config: Option<DeploymentConfig>,
    /// Labels of all objects, beside their own, and in place of those of the same name.
    pub object_labels: BTreeMap<String, String>,
    /// Whether there are aggregated ClusterRoles for the owned APIs, as in OLM v0.
    pub api_roles: bool,
    /// Whether there is an OperatorCondition, which Pods are told the name of, as in OLM v0.
    pub operator_condition: bool,
    /// In how many namespaces the package may be installed.
    pub places: Places,
}

/// In how many namespaces a package may be installed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// In one: generated names are those of OLM v1, and CRDs are as they are.
    #[default]
    One,
    /// In several, as in OLM v0: names of generated objects without a namespace tell it, and CRDs have [`IN_COMMON`].
    Several,
}

/// Annotation on a CRD: the package whose installations have it in common. It outlives all of them.
pub const IN_COMMON: &str = "core.rukpak.io/in-common";

/// Who makes the certificates that webhooks serve with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// cert-manager: an Issuer and a Certificate for each Deployment with webhooks.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// Whoever applies the objects: `placeholder` stands for `caBundle` and for both values of each TLS Secret, see
    /// [`serving_certificates`]. It must be base64 text, for that is what the fields hold.
    SelfManaged {
        /// The text to be replaced before the objects are applied.
        placeholder: String,
    },
}

/// Why a bundle is not rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bundle makes no sense. The texts are the reference's.
    #[error("{0}")]
    Invalid(Findings),
    /// The install namespace is missing or the target namespaces do not fit. The text is the reference's.
    #[error("invalid option(s): {}", .0.join("\n"))]
    Options(Vec<String>),
    /// The bundle asks for a namespace that cannot be.
    #[error("{origin}")]
    Namespace {
        /// The CSV.
        origin: Origin,
        /// What is wrong in it.
        source: FieldError,
    },
    /// A CRD that is converted keeps unknown fields. The text is the reference's.
    #[error(
        "custom resource definition '{0}' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion"
    )]
    PreserveUnknownFields(String),
    /// An object cannot be sent as it is, mostly because of its name.
    #[error("{origin}")]
    Object {
        /// What it is made from.
        origin: Origin,
        /// What is wrong with it.
        source: object::Error,
    },
    /// A part of the CSV has no JSON form.
    #[error("{origin}: write as JSON")]
    Json {
        /// What it is made from.
        origin: Origin,
        /// The cause.
        source: serde_json::Error,
    },
    /// The objects would be too many or too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Two different objects would have the same identity.
    #[error("render the bundle")]
    Repeated(#[source] manifests::Error),
}

/// What every generator works with.
struct Context<'a> {
    bundle: &'a Bundle,
    options: &'a RenderOptions,
    targets: Vec<String>,
    objects: Vec<Object>,
    budget: Budget<'a>,
}

impl Bundle {
    /// Where OLM v1 installs it if nobody says where: the namespace that the template of the CSV names, else the suggested one.
    ///
    /// # Errors
    /// The template cannot be read, or the name is none of a namespace.
    pub fn managed_namespace(&self) -> Result<String, Error> {
        self.managed_name().map_err(|source| Error::Namespace { origin: self.csv_origin.clone(), source })
    }
}

impl RenderOptions {
    /// RukPak's v1alpha1 defaults: the suggested namespace, made if need be; all namespaces are watched.
    pub fn v1alpha1(bundle: &Bundle, certificates: Certificates) -> Self {
        Self { with_namespace: true, ..Self::into_namespace(bundle.suggested_namespace(), certificates) }
    }

    /// OLM v1's: into a namespace that exists already.
    pub fn into_namespace(install_namespace: String, certificates: Certificates) -> Self {
        Self {
            install_namespace,
            target_namespaces: None,
            with_namespace: false,
            namespace_template: NamespaceTemplate::default(),
            certificates,
            deployment_config: None,
            object_labels: BTreeMap::new(),
            api_roles: false,
            operator_condition: false,
            places: Places::One,
        }
    }
}

/// Renders a bundle: Namespace (if asked), service accounts, roles, cluster roles (those for APIs if asked), the
/// OperatorCondition (if asked), CRDs, other manifests, Deployments, validating and mutating webhooks, Services, certificates,
/// aggregated APIs. The order is the reference's.
///
/// An object that would stand there twice with the same content is rendered once; a service account that the bundle
/// ships takes the place of the generated one, and a webhook Service that it ships is merged with the generated one.
pub fn render(bundle: &Bundle, options: &RenderOptions) -> Result<Vec<Object>, Error> {
    validate(bundle).map_err(Error::Invalid)?;
    let targets = targets(bundle, options)?;
    let budget = Budget::after(&bundle.limits, bundle.spent);
    let mut context = Context { bundle, options, targets, objects: Vec::new(), budget };
    namespace(&mut context)?;
    rbac::service_accounts(&mut context)?;
    rbac::roles(&mut context)?;
    rbac::cluster_roles(&mut context)?;
    api_roles::generate(&mut context)?;
    operator_condition::generate(&mut context)?;
    crds::generate(&mut context)?;
    additional::generate(&mut context)?;
    deployments::generate(&mut context)?;
    webhooks::generate(&mut context)?;
    services::generate(&mut context)?;
    certificates::generate(&mut context)?;
    api_services::generate(&mut context)?;
    let mut objects = merge_repeated(context.objects, &mut context.budget).map_err(Error::Repeated)?;
    if options.places == Places::Several {
        let package = bundle.package();
        objects = objects.into_iter().map(|object| in_common(object, package)).collect::<Result<_, _>>()?;
    }
    if options.object_labels.is_empty() {
        return Ok(objects);
    }
    objects.into_iter().map(|object| labelled(object, &options.object_labels)).collect()
}

/// Says on a CRD that other installations of the package may use it, too.
fn in_common(object: Object, package: &str) -> Result<Object, Error> {
    if package.is_empty() || object.kind() != "CustomResourceDefinition" {
        return Ok(object);
    }
    let origin = object.origin().clone();
    let mut value = object.into_value();
    let annotations = &mut value["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[IN_COMMON] = json!(package);
    Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })
}

fn labelled(object: Object, labels: &BTreeMap<String, String>) -> Result<Object, Error> {
    let origin = object.origin().clone();
    let mut value = object.into_value();
    let present = &mut value["metadata"]["labels"];
    if !present.is_object() {
        *present = json!({});
    }
    for (key, label) in labels {
        present[key] = json!(label);
    }
    Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })
}

/// The target namespaces in effect. All problems with the options are told at once.
fn targets(bundle: &Bundle, options: &RenderOptions) -> Result<Vec<String>, Error> {
    let targets = options.target_namespaces.clone().unwrap_or_else(|| install_mode::default_targets(&bundle.csv));
    let mut problems = Vec::new();
    if options.install_namespace.is_empty() {
        problems.push("install namespace must be specified".to_owned());
    }
    if let Err(problem) = install_mode::check_targets(&bundle.csv, &options.install_namespace, &targets) {
        problems.push(format!("invalid target namespaces [{}]: {problem}", targets.join(" ")));
    }
    if problems.is_empty() { Ok(targets) } else { Err(Error::Options(problems)) }
}

fn namespace(context: &mut Context<'_>) -> Result<(), Error> {
    if !context.options.with_namespace {
        return Ok(());
    }
    let mut metadata = json!({"name": context.options.install_namespace});
    let template = &context.options.namespace_template;
    for (field, texts) in [("labels", &template.labels), ("annotations", &template.annotations)] {
        if !texts.is_empty() {
            metadata[field] = json!(texts);
        }
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    context.push(namespace, "install namespace")
}

impl Context<'_> {
    fn namespace(&self) -> &str {
        &self.options.install_namespace
    }

    /// Adds an object, and counts it, that comes from `field` of the CSV.
    fn push(&mut self, value: Value, field: &str) -> Result<(), Error> {
        self.push_from(value, self.bundle.origin_of(field))
    }

    /// Adds an object, and counts it, that comes from `origin`.
    fn push_from(&mut self, value: Value, origin: Origin) -> Result<(), Error> {
        self.budget.add_copies(&value, 1, || origin.to_string())?;
        let object = Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })?;
        self.share(object)
    }

    /// Adds an object that is not copied, or was counted.
    fn share(&mut self, object: Object) -> Result<(), Error> {
        self.budget.add_object(|| object.origin().to_string())?;
        self.objects.push(object);
        Ok(())
    }

    /// Counts an object that is about to be copied.
    fn count(&mut self, object: &Object) -> Result<(), Error> {
        Ok(self.budget.add_object_copy(object)?)
    }

    /// Writes a typed value as JSON.
    fn json<T: serde::Serialize>(&self, value: &T, field: &str) -> Result<Value, Error> {
        serde_json::to_value(value).map_err(|source| Error::Json { origin: self.bundle.origin_of(field), source })
    }
}
