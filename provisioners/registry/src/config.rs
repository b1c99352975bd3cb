//! `spec.config` of a BundleDeployment for a registry+v1 bundle: what is watched, and changes to the Deployments.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvFromSource, EnvVar, LocalObjectReference, ResourceRequirements, Toleration, Volume, VolumeMount,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::csv::Csv;
use crate::decode::{decode, drop_nulls};
use crate::install_mode::{ALL, MULTI, OWN, SINGLE, supports};
use crate::render::Places;

const WATCH_NAMESPACE: &str = "watchNamespace";
const WATCH_NAMESPACES: &str = "watchNamespaces";
const DEPLOYMENT_CONFIG: &str = "deploymentConfig";
/// Key of the namespace that the objects go to.
pub const INSTALL_NAMESPACE: &str = "installNamespace";
/// Key of whether the namespace is chosen and made as by OLM v1 where nobody names one.
pub const CREATE_NAMESPACE: &str = "createNamespace";
/// Key of the labels of all objects.
pub const OBJECT_LABELS: &str = "objectLabels";
const API_ROLES: &str = "apiRoles";
const OPERATOR_CONDITION: &str = "operatorCondition";
const SEVERAL_NAMESPACES: &str = "severalNamespaces";
/// The longest name of a namespace, in bytes.
const NAMESPACE_BYTES: usize = 63;
const NAMESPACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// What a user configures, checked against what the bundle can do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The namespaces to watch; `None` leaves it to the bundle.
    pub target_namespaces: Option<Vec<String>>,
    /// Changes to the Deployments.
    pub deployment: Option<DeploymentConfig>,
    /// Labels of all objects, beside their own.
    pub object_labels: BTreeMap<String, String>,
    /// Whether who has `admin`, `edit` or `view` in a namespace may use the bundle's APIs there.
    pub api_roles: bool,
    /// Whether the operator has an OperatorCondition, as in OLM v0.
    pub operator_condition: bool,
    /// In how many namespaces the package may be installed, as in OLM v0.
    pub places: Places,
}

/// Changes to all Deployments of a bundle and, where not said otherwise, to all their containers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentConfig {
    /// Replaces the node selector of the pods.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Added to those of the pods.
    pub tolerations: Vec<Toleration>,
    /// Replaces the resources.
    pub resources: Option<ResourceRequirements>,
    /// Added, or replaces the variable of that name.
    pub env: Vec<EnvVar>,
    /// Added.
    pub env_from: Vec<EnvFromSource>,
    /// Added to the pods, or replaces the volume of that name.
    pub volumes: Vec<Volume>,
    /// Added, or replaces the mount of that volume.
    pub volume_mounts: Vec<VolumeMount>,
    /// Replaces the parts of the pods' affinity that it has. Empty: erases.
    pub affinity: Option<Affinity>,
    /// Added to Deployments and pods where they have no annotation of that name.
    pub annotations: BTreeMap<String, String>,
    /// Added to those of the pods. Beyond the reference: Secrets with logins for the operator's own images.
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// The configuration does not fit. The texts are the reference's; of several problems all are told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid configuration: {}", joined(.0))]
pub struct Error(pub Vec<String>);

fn joined(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        several => several.iter().fold("multiple errors found:".to_owned(), |text, problem| text + "\n  - " + problem),
    }
}

impl Config {
    /// Reads a configuration; null is an empty one.
    ///
    /// `watchNamespace` names one namespace; what it may be follows from the bundle's install modes. Beyond the reference,
    /// `watchNamespaces` lists several, for bundles that support MultiNamespace.
    pub fn read(csv: &Csv, install_namespace: &str, value: &Value) -> Result<Self, Error> {
        let empty = Map::new();
        let fields = match value {
            Value::Null => &empty,
            Value::Object(fields) => fields,
            _ => return Err(Error(vec!["input is not a valid JSON object".to_owned()])),
        };
        let mut problems: Vec<String> =
            fields.keys().filter(|key| !is_known(csv, key)).map(|key| unknown(csv, key)).collect();
        let watched = watch_namespaces(csv, fields).and_then(|several| match several {
            Some(namespaces) => Ok(Some(namespaces)),
            None => Ok(watch_namespace(csv, install_namespace, fields)?.map(|namespace| vec![namespace])),
        });
        let config = Self {
            target_namespaces: noted(watched, &mut problems),
            object_labels: noted(object_labels(fields.get(OBJECT_LABELS)), &mut problems),
            api_roles: noted(flag(API_ROLES, fields.get(API_ROLES)), &mut problems),
            operator_condition: noted(flag(OPERATOR_CONDITION, fields.get(OPERATOR_CONDITION)), &mut problems),
            places: if noted(flag(SEVERAL_NAMESPACES, fields.get(SEVERAL_NAMESPACES)), &mut problems) {
                Places::Several
            } else {
                Places::One
            },
            deployment: noted(deployment_config(fields.get(DEPLOYMENT_CONFIG)), &mut problems),
        };
        if problems.is_empty() { Ok(config) } else { Err(Error(problems)) }
    }
}

/// The namespace that all namespaced objects go to, where the configuration names one.
///
/// # Errors
/// It is no name of a namespace.
pub fn install_namespace(config: &Value) -> Result<Option<String>, Error> {
    let value = config.get(INSTALL_NAMESPACE).filter(|value| !value.is_null());
    let read = value.map(|value| namespace(INSTALL_NAMESPACE, value)).transpose();
    read.map_err(|problem| Error(vec![problem]))
}

/// Whether the namespace is chosen and made as by OLM v1 where nobody names one.
///
/// # Errors
/// It is no boolean, or the configuration names a namespace all the same.
pub fn creates_namespace(config: &Value) -> Result<bool, Error> {
    let creates = flag(CREATE_NAMESPACE, config.get(CREATE_NAMESPACE)).map_err(|problem| Error(vec![problem]))?;
    let is_named = config.get(INSTALL_NAMESPACE).is_some_and(|value| !value.is_null());
    if creates && is_named {
        let problem = format!("fields \"{INSTALL_NAMESPACE}\" and \"{CREATE_NAMESPACE}\" exclude each other");
        return Err(Error(vec![problem]));
    }
    Ok(creates)
}

/// Returns what was read; adds to `problems` and returns the default if that failed.
fn noted<T: Default>(read: Result<T, String>, problems: &mut Vec<String>) -> T {
    read.map_err(|problem| problems.push(problem)).unwrap_or_default()
}

/// A boolean; absent it is false.
fn flag(field: &str, value: Option<&Value>) -> Result<bool, String> {
    match value.unwrap_or(&Value::Null) {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        other => Err(format!("invalid type for field \"{field}\": got {}, want boolean", json_type(other))),
    }
}

/// Whether a label is one, the API server says.
fn object_labels(value: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(BTreeMap::new()) };
    decode(value, OBJECT_LABELS)
        .map_err(|error| format!("invalid value for field \"{}\": {}", error.field, error.problem))
}

/// Which of Own and Single decides over `watchNamespace`; without both there is no such field.
fn takes_namespace(csv: &Csv) -> bool {
    supports(csv, OWN) || supports(csv, SINGLE)
}

fn is_known(csv: &Csv, key: &str) -> bool {
    match key {
        WATCH_NAMESPACE => takes_namespace(csv),
        WATCH_NAMESPACES => supports(csv, MULTI),
        API_ROLES | CREATE_NAMESPACE | DEPLOYMENT_CONFIG | INSTALL_NAMESPACE | OBJECT_LABELS | OPERATOR_CONDITION
        | SEVERAL_NAMESPACES => true,
        _ => false,
    }
}

/// Returns the reference's words, and why a field that is documented is none here.
fn unknown(csv: &Csv, key: &str) -> String {
    let words = format!("unknown field \"{key}\"");
    match key {
        WATCH_NAMESPACE | WATCH_NAMESPACES => {
            format!("{words} for a bundle with install modes [{}]", csv.supported_modes().join(" "))
        }
        _ => words,
    }
}

fn watch_namespaces(csv: &Csv, fields: &Map<String, Value>) -> Result<Option<Vec<String>>, String> {
    let Some(value) = fields.get(WATCH_NAMESPACES).filter(|value| !value.is_null() && supports(csv, MULTI)) else {
        return Ok(None);
    };
    if fields.get(WATCH_NAMESPACE).is_some_and(|value| !value.is_null()) {
        return Err(format!("fields \"{WATCH_NAMESPACE}\" and \"{WATCH_NAMESPACES}\" exclude each other"));
    }
    let Value::Array(items) = value else {
        return Err(format!("invalid type for field \"{WATCH_NAMESPACES}\": got {}, want array", json_type(value)));
    };
    if items.is_empty() {
        return Err(format!("field \"{WATCH_NAMESPACES}\" must have at least one item"));
    }
    let mut namespaces = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        namespaces.push(namespace(&format!("{WATCH_NAMESPACES}[{index}]"), item)?);
    }
    Ok(Some(namespaces))
}

fn watch_namespace(csv: &Csv, install_namespace: &str, fields: &Map<String, Value>) -> Result<Option<String>, String> {
    if !takes_namespace(csv) {
        return Ok(None);
    }
    let Some(value) = fields.get(WATCH_NAMESPACE).filter(|value| !value.is_null()) else {
        let is_optional = supports(csv, ALL) || (supports(csv, MULTI) && fields.contains_key(WATCH_NAMESPACES));
        let missing = || format!("required field \"{WATCH_NAMESPACE}\" is missing");
        return if is_optional { Ok(None) } else { Err(missing()) };
    };
    let watched = namespace(WATCH_NAMESPACE, value)?;
    let refusal = match (supports(csv, OWN), supports(csv, SINGLE)) {
        (true, false) if watched != install_namespace => format!(
            "must be \"{install_namespace}\" (the namespace where the operator is installed) because this operator only \
             supports OwnNamespace install mode"
        ),
        (false, true) if watched == install_namespace => format!(
            "must be different from \"{install_namespace}\" (the install namespace) because this operator uses \
             SingleNamespace install mode to watch a different namespace"
        ),
        _ => return Ok(Some(watched)),
    };
    Err(format!("invalid format for field \"{WATCH_NAMESPACE}\": invalid value \"{watched}\": {refusal}"))
}

fn namespace(field: &str, value: &Value) -> Result<String, String> {
    let Value::String(name) = value else {
        return Err(format!("invalid type for field \"{field}\": got {}, want string", json_type(value)));
    };
    if name.is_empty() {
        return Err(format!("field \"{field}\" must have minimum length of 1 (len=0)"));
    }
    if name.len() > NAMESPACE_BYTES {
        return Err(format!("field \"{field}\" must have maximum length of {NAMESPACE_BYTES} (len={})", name.len()));
    }
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(is_inner) || name.starts_with('-') || name.ends_with('-') {
        return Err(format!("field \"{field}\" must match pattern \"{NAMESPACE_PATTERN}\""));
    }
    Ok(name.clone())
}

fn deployment_config(value: Option<&Value>) -> Result<Option<DeploymentConfig>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    if !value.is_object() {
        return Err(format!("invalid type for field \"{DEPLOYMENT_CONFIG}\": got {}, want object", json_type(value)));
    }
    let mut value = value.clone();
    drop_nulls(&mut value);
    decode(&value, DEPLOYMENT_CONFIG)
        .map(Some)
        .map_err(|error| format!("invalid value for field \"{}\": {}", error.field, error.problem))
}

/// The type's name in JSON schema.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
