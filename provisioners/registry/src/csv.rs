//! The ClusterServiceVersion: what this crate reads of it. Unknown fields are ignored, wrong types are refused.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rukpak_plain::{Few, shortened};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FieldError;
use crate::decode::{decode, drop_nulls};

mod deployment;

/// The longest name that is read. Kubernetes allows 253, which a rule of [`validate`](crate::validate()) says.
const NAME_BYTES: usize = 1024;

/// A ClusterServiceVersion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Csv {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its specification.
    pub spec: Spec,
}

/// The metadata that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name of this version of the operator, such as `prometheusoperator.v0.22.2`.
    pub name: String,
    /// Annotations; all of them go to the pods.
    pub annotations: BTreeMap<String, String>,
}

/// What the operator is made of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// For people.
    pub display_name: String,
    /// The version, usually of semantic versioning.
    pub version: String,
    /// The oldest Kubernetes version it runs on: [`Bundle::check_kubernetes`](crate::Bundle::check_kubernetes).
    pub min_kube_version: String,
    /// How it is installed.
    pub install: Install,
    /// Which namespaces it can watch.
    pub install_modes: Vec<InstallMode>,
    /// Its CRDs.
    #[serde(rename = "customresourcedefinitions")]
    pub crds: Crds,
    /// Its aggregated APIs.
    #[serde(rename = "apiservicedefinitions")]
    pub api_services: ApiServices,
    /// Its webhooks.
    #[serde(rename = "webhookdefinitions")]
    pub webhooks: Vec<Webhook>,
}

/// `spec.install`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Install {
    /// `deployment`, the only one that exists.
    pub strategy: String,
    /// Its details.
    pub spec: Strategy,
}

/// `spec.install.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Strategy {
    /// The Deployments.
    pub deployments: Vec<Deployment>,
    /// What service accounts may do in each namespace that is watched.
    pub permissions: Vec<Permission>,
    /// What service accounts may do in the cluster.
    pub cluster_permissions: Vec<Permission>,
}

/// A Deployment of the operator.
#[derive(Clone, Debug, Default)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub label: BTreeMap<String, String>,
    /// Its specification.
    pub spec: DeploymentSpec,
    /// Fields of the specification that Kubernetes does not know; they are left out.
    pub unknown_fields: Few<String>,
}

/// What a service account may do. It serialises as it is hashed: see [`crate::name::hash`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Permission {
    /// The service account; empty means `default`.
    pub service_account_name: String,
    /// The rules; absent and empty differ in the hash.
    pub rules: Option<Vec<PolicyRule>>,
}

/// An RBAC rule. The order of the fields is that of the reference, for the hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    /// Verbs; absent and empty differ in the hash.
    pub verbs: Option<Vec<String>>,
    /// API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names the rule is limited to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// URLs that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Whether a way to install is supported.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InstallMode {
    /// Its name, such as `AllNamespaces`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is supported.
    pub supported: bool,
}

/// `spec.customresourcedefinitions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Crds {
    /// The bundle brings these.
    pub owned: Vec<CrdReference>,
    /// Somebody else must bring these.
    pub required: Vec<CrdReference>,
}

/// A CRD, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CrdReference {
    /// The name, `<plural>.<group>`.
    pub name: String,
    /// The version of the API.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// `spec.apiservicedefinitions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiServices {
    /// The bundle brings these.
    pub owned: Vec<ApiReference>,
    /// Somebody else must bring these.
    pub required: Vec<ApiReference>,
}

/// An API, by group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ApiReference {
    /// The resource, a plural.
    pub name: String,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The Deployment that serves it, if the bundle brings it.
    pub deployment_name: String,
    /// The port of the Service and of the container; 0 means 443.
    pub container_port: i32,
}

/// A webhook that a Deployment of the operator serves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    /// Its name; one trailing `-` is left out.
    pub generate_name: String,
    /// `ValidatingAdmissionWebhook`, `MutatingAdmissionWebhook` or `ConversionWebhook`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The Deployment that serves it.
    pub deployment_name: String,
    /// The port of the Service; 0 means 443.
    pub container_port: i32,
    /// The port of the container; absent means the Service's.
    pub target_port: Option<IntOrString>,
    /// What it is asked about.
    pub rules: Vec<RuleWithOperations>,
    /// What happens when it does not answer.
    pub failure_policy: Option<String>,
    /// How rules match equivalent requests.
    pub match_policy: Option<String>,
    /// Which objects it is asked about.
    pub object_selector: Option<LabelSelector>,
    /// Whether it has side effects.
    pub side_effects: Option<String>,
    /// How long it may take, in seconds.
    pub timeout_seconds: Option<i32>,
    /// The versions of AdmissionReview or ConversionReview it speaks.
    pub admission_review_versions: Vec<String>,
    /// Whether a mutating webhook is asked again.
    pub reinvocation_policy: Option<String>,
    /// The path of its URL.
    pub webhook_path: Option<String>,
    /// The CRDs whose objects it converts.
    #[serde(rename = "conversionCRDs")]
    pub conversion_crds: Vec<String>,
}

/// What a webhook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookKind {
    /// Refuses requests.
    Validating,
    /// Changes requests.
    Mutating,
    /// Converts objects between versions.
    Conversion,
}

impl Csv {
    /// Reads a CSV from the value of its manifest.
    pub fn read(mut value: Value) -> Result<Self, FieldError> {
        drop_nulls(&mut value);
        let csv: Self = decode(&value, "")?;
        let too_long = csv.names().find(|(_, name)| name.len() > NAME_BYTES).map(|(field, name)| FieldError {
            field: field.to_owned(),
            problem: format!("{:?} is longer than {NAME_BYTES} bytes", shortened(name, 64)),
        });
        too_long.map_or(Ok(csv), Err)
    }

    /// Names that are repeated in what is made of the CSV and in what is said about it.
    fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Spec { install, install_modes, crds, api_services, webhooks, .. } = &self.spec;
        let Strategy { deployments, permissions, cluster_permissions } = &install.spec;
        let apis = api_services.owned.iter().chain(&api_services.required);
        std::iter::once(("metadata.name", self.metadata.name.as_str()))
            .chain(install_modes.iter().map(|mode| ("spec.installModes[].type", mode.kind.as_str())))
            .chain(deployments.iter().map(|one| ("spec.install.spec.deployments[].name", one.name.as_str())))
            .chain(permissions.iter().chain(cluster_permissions).map(|permission| {
                ("spec.install.spec.permissions[].serviceAccountName", permission.service_account_name.as_str())
            }))
            .chain(crds.owned.iter().chain(&crds.required).flat_map(|crd| {
                [&crd.name, &crd.version, &crd.kind].map(|text| ("spec.customresourcedefinitions", text.as_str()))
            }))
            .chain(apis.flat_map(|api| {
                [&api.name, &api.group, &api.version, &api.kind, &api.deployment_name]
                    .map(|text| ("spec.apiservicedefinitions", text.as_str()))
            }))
            .chain(webhooks.iter().flat_map(|webhook| {
                [&webhook.generate_name, &webhook.kind, &webhook.deployment_name]
                    .into_iter()
                    .chain(&webhook.conversion_crds)
                    .map(|text| ("spec.webhookdefinitions", text.as_str()))
            }))
    }

    /// The names of the supported install modes, sorted, each once.
    pub fn supported_modes(&self) -> Vec<&str> {
        let supported = self.spec.install_modes.iter().filter(|mode| mode.supported);
        let mut names: Vec<_> = supported.map(|mode| mode.kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Permission {
    /// The service account in effect.
    pub fn account(&self) -> &str {
        if self.service_account_name.is_empty() { "default" } else { &self.service_account_name }
    }
}

impl ApiReference {
    /// The port of the Service, and of the container.
    pub fn port(&self) -> i32 {
        if self.container_port > 0 { self.container_port } else { 443 }
    }
}

impl Webhook {
    /// What it does; `None` for a type that does not exist, which the reference silently leaves out.
    pub(crate) fn webhook_kind(&self) -> Option<WebhookKind> {
        match self.kind.as_str() {
            "ValidatingAdmissionWebhook" => Some(WebhookKind::Validating),
            "MutatingAdmissionWebhook" => Some(WebhookKind::Mutating),
            "ConversionWebhook" => Some(WebhookKind::Conversion),
            _ => None,
        }
    }

    /// The port of the Service.
    pub fn port(&self) -> i32 {
        if self.container_port > 0 { self.container_port } else { 443 }
    }
}

#[cfg(test)]
#[path = "csv/tests.rs"]
mod tests;
