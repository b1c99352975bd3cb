//! What a ClusterServiceVersion says that a catalog needs to know: from `olm.csv.metadata`, or from the manifest in an
//! `olm.bundle.object`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Limits;
use rukpak_plain::{Budget, yaml};
use serde::de::DeserializeSeed;
use serde_json::Value;

use super::fields::Fields;
use super::sieve::{Keep, Sieve};
use crate::model::Facts;

const KIND: &str = "ClusterServiceVersion";
const MAX_OPENSHIFT: &str = "olm.maxOpenShiftVersion";

const ANNOTATIONS: Keep = Keep::Fields(&[("olm.properties", Keep::TEXT)]);
const MODES: Keep = Keep::Items(&Keep::Fields(&[("type", Keep::TEXT), ("supported", Keep::TEXT)]));
const OWNED: Keep = Keep::Items(&Keep::Fields(&[("name", Keep::TEXT), ("group", Keep::TEXT), ("version", Keep::TEXT)]));
const SERVICES: Keep = Keep::Fields(&[("owned", OWNED)]);

/// What is kept of `olm.csv.metadata`.
pub(super) const METADATA: Keep = Keep::Fields(&[
    ("annotations", ANNOTATIONS),
    ("apiServiceDefinitions", SERVICES),
    ("displayName", Keep::TEXT),
    ("installModes", MODES),
    ("minKubeVersion", Keep::TEXT),
]);

/// What is kept of a manifest.
const MANIFEST: Keep = Keep::Fields(&[
    ("kind", Keep::TEXT),
    ("metadata", Keep::Fields(&[("annotations", ANNOTATIONS)])),
    ("spec", METADATA),
]);

/// Takes the facts from an `olm.csv.metadata`.
pub(super) fn metadata(facts: &mut Facts, fields: &Fields<'_>) -> Result<(), String> {
    describe(facts, fields)?;
    annotations(facts, fields);
    Ok(())
}

/// Takes the facts from the manifest of an `olm.bundle.object`, if it is a ClusterServiceVersion: base64 of JSON or YAML.
/// Fails if it is not base64. A manifest that cannot be read says nothing: it will be looked at when it is installed.
pub(super) fn object(facts: &mut Facts, data: &str) -> Result<(), String> {
    // Line breaks are allowed: Go's decoder skips them.
    let lines = data.contains(['\r', '\n']).then(|| data.replace(['\r', '\n'], ""));
    let bytes = STANDARD.decode(lines.as_deref().unwrap_or(data)).map_err(|error| format!("data: {error}"))?;
    if memchr::memmem::find(&bytes, KIND.as_bytes()).is_some() {
        let _ = manifest(facts, &bytes);
    }
    Ok(())
}

fn manifest(facts: &mut Facts, bytes: &[u8]) -> Result<(), String> {
    let value = if let Ok(value) = Sieve(MANIFEST).deserialize(&mut serde_json::Deserializer::from_slice(bytes)) {
        value
    } else {
        let limits = Limits::default();
        let documents = yaml::parse(&Arc::from("data"), bytes, &mut Budget::new(&limits));
        let documents = documents.map_err(|error| error.to_string())?;
        documents.first().map(|document| MANIFEST.of(&document.value)).unwrap_or_default()
    };
    let fields = Fields::at("manifest".to_owned(), &value)?;
    if fields.get("kind").and_then(Value::as_str) != Some(KIND) {
        return Ok(());
    }
    if let Some(metadata) = fields.object("metadata")? {
        annotations(facts, &metadata);
    }
    if let Some(spec) = fields.object("spec")? {
        describe(facts, &spec)?;
        // This is the whole of it: what it does not name it does not support.
        facts.install_modes.get_or_insert_default();
    }
    Ok(())
}

fn describe(facts: &mut Facts, fields: &Fields<'_>) -> Result<(), String> {
    if facts.install_modes.is_none() && fields.get("installModes").is_some() {
        let mut supported = Vec::new();
        for (path, value) in fields.items("installModes")? {
            let mode = Fields::at(path, value)?;
            if mode.get("supported") == Some(&Value::Bool(true)) {
                supported.push(mode.text("type")?);
            }
        }
        supported.sort();
        supported.dedup();
        facts.install_modes = Some(supported);
    }
    if facts.owned_api_services.is_empty()
        && let Some(services) = fields.object("apiServiceDefinitions")?
    {
        for (path, value) in services.items("owned")? {
            facts.owned_api_services.push(service_name(&Fields::at(path, value)?)?);
        }
    }
    set(&mut facts.min_kube_version, fields.optional_text("minKubeVersion")?);
    set(&mut facts.display_name, fields.optional_text("displayName")?);
    Ok(())
}

/// API services are named `<version>.<group>`.
fn service_name(fields: &Fields<'_>) -> Result<String, String> {
    let (version, group) = (fields.text("version")?, fields.text("group")?);
    if version.is_empty() || group.is_empty() { fields.text("name") } else { Ok(format!("{version}.{group}")) }
}

/// The annotation `olm.properties`, a list of properties as JSON text: of these only the newest OpenShift is read. It is not
/// the catalog's own, so one that cannot be read says nothing.
fn annotations(facts: &mut Facts, fields: &Fields<'_>) {
    let annotation = fields.object("annotations").ok().flatten();
    let text = annotation.and_then(|annotations| annotations.text("olm.properties").ok()).unwrap_or_default();
    let Ok(Value::Array(properties)) = serde_json::from_str(&text) else { return };
    if let Some(item) = properties.iter().find(|item| item["type"] == MAX_OPENSHIFT) {
        max_openshift_version(facts, &item["value"]);
    }
}

/// Takes the newest OpenShift: text, or a number that has lost its last zero. The first that says it counts; what is neither
/// says nothing, as upstream does not look at it.
pub(super) fn max_openshift_version(facts: &mut Facts, value: &Value) {
    let text = match value {
        Value::String(text) => Some(text.clone()),
        // The same spelling whether it came from JSON (5.0) or YAML (5).
        Value::Number(number) if number.is_f64() => number.as_f64().map(|float| float.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    set(&mut facts.max_openshift_version, text.filter(|text| !text.is_empty()));
}

fn set(slot: &mut Option<String>, value: Option<String>) {
    if slot.is_none() {
        *slot = value;
    }
}
