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

const ARCHITECTURE: &str = "operatorframework.io/arch.";
const OPERATING_SYSTEM: &str = "operatorframework.io/os.";
const FEATURE: &str = "features.operators.openshift.io/";

/// Whole names: what is kept of a bundle is bounded, whatever it makes up behind these prefixes.
const LABELS: &[(&str, Keep)] = &[
    ("operatorframework.io/arch.386", Keep::TEXT),
    ("operatorframework.io/arch.amd64", Keep::TEXT),
    ("operatorframework.io/arch.arm", Keep::TEXT),
    ("operatorframework.io/arch.arm64", Keep::TEXT),
    ("operatorframework.io/arch.ppc64le", Keep::TEXT),
    ("operatorframework.io/arch.riscv64", Keep::TEXT),
    ("operatorframework.io/arch.s390x", Keep::TEXT),
    ("operatorframework.io/os.linux", Keep::TEXT),
    ("operatorframework.io/os.windows", Keep::TEXT),
    ("operatorframework.io/os.zos", Keep::TEXT),
];
const ANNOTATIONS: &[(&str, Keep)] = &[
    ("features.operators.openshift.io/cnf", Keep::TEXT),
    ("features.operators.openshift.io/cni", Keep::TEXT),
    ("features.operators.openshift.io/csi", Keep::TEXT),
    ("features.operators.openshift.io/disconnected", Keep::TEXT),
    ("features.operators.openshift.io/fips-compliant", Keep::TEXT),
    ("features.operators.openshift.io/proxy-aware", Keep::TEXT),
    ("features.operators.openshift.io/tls-profiles", Keep::TEXT),
    ("features.operators.openshift.io/token-auth-aws", Keep::TEXT),
    ("features.operators.openshift.io/token-auth-azure", Keep::TEXT),
    ("features.operators.openshift.io/token-auth-gcp", Keep::TEXT),
    ("olm.properties", Keep::TEXT),
];
const MODES: Keep = Keep::Items(&Keep::Fields(&[("type", Keep::TEXT), ("supported", Keep::TEXT)]));
const OWNED: Keep = Keep::Items(&Keep::Fields(&[("name", Keep::TEXT), ("group", Keep::TEXT), ("version", Keep::TEXT)]));
const SERVICES: Keep = Keep::Fields(&[("owned", OWNED)]);

/// What is kept of `olm.csv.metadata`.
pub(super) const METADATA: Keep = Keep::Fields(&[
    ("annotations", Keep::Fields(ANNOTATIONS)),
    ("apiServiceDefinitions", SERVICES),
    ("displayName", Keep::TEXT),
    ("installModes", MODES),
    ("labels", Keep::Fields(LABELS)),
    ("minKubeVersion", Keep::TEXT),
    ("provider", Keep::Fields(&[("name", Keep::TEXT), ("url", Keep::TEXT)])),
]);

const OBJECT_METADATA: Keep =
    Keep::Fields(&[("annotations", Keep::Fields(ANNOTATIONS)), ("labels", Keep::Fields(LABELS))]);

/// What is kept of a manifest.
const MANIFEST: Keep = Keep::Fields(&[("kind", Keep::TEXT), ("metadata", OBJECT_METADATA), ("spec", METADATA)]);

/// Takes the facts from an `olm.csv.metadata`.
pub(super) fn metadata(facts: &mut Facts, fields: &Fields<'_>) -> Result<(), String> {
    describe(facts, fields)?;
    read_metadata(facts, fields);
    Ok(())
}

/// Takes from a whole ClusterServiceVersion in JSON what its labels and annotations say.
pub(crate) fn add_metadata(facts: &mut Facts, json: &str) -> Result<(), serde_json::Error> {
    const DOCUMENT: Keep = Keep::Fields(&[("metadata", OBJECT_METADATA)]);
    let value = Sieve(DOCUMENT).deserialize(&mut serde_json::Deserializer::from_str(json))?;
    if let Ok(fields) = Fields::at("metadata".to_owned(), &value["metadata"]) {
        read_metadata(facts, &fields);
    }
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
        read_metadata(facts, &metadata);
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
    // Only shown, so one that cannot be read says nothing.
    if let Ok(Some(provider)) = fields.object("provider") {
        set(&mut facts.provider, provider.optional_text("name").unwrap_or_default());
        set(&mut facts.provider_url, provider.optional_text("url").unwrap_or_default());
    }
    Ok(())
}

/// API services are named `<version>.<group>`.
fn service_name(fields: &Fields<'_>) -> Result<String, String> {
    let (version, group) = (fields.text("version")?, fields.text("group")?);
    if version.is_empty() || group.is_empty() { fields.text("name") } else { Ok(format!("{version}.{group}")) }
}

/// Reads labels and annotations. They are not the catalog's own, so those that cannot be read say nothing.
///
/// The annotation `olm.properties` is a list of properties as JSON text; of these only the newest OpenShift is read.
fn read_metadata(facts: &mut Facts, fields: &Fields<'_>) {
    if let Ok(Some(labels)) = fields.object("labels") {
        let is_supported = |prefix| known(LABELS, prefix, &labels, "supported");
        fill(&mut facts.architectures, is_supported(ARCHITECTURE));
        fill(&mut facts.operating_systems, is_supported(OPERATING_SYSTEM));
    }
    let Ok(Some(annotations)) = fields.object("annotations") else { return };
    fill(&mut facts.features, known(ANNOTATIONS, FEATURE, &annotations, "true"));
    let text = annotations.text("olm.properties").unwrap_or_default();
    let Ok(Value::Array(properties)) = serde_json::from_str(&text) else { return };
    if let Some(item) = properties.iter().find(|item| item["type"] == MAX_OPENSHIFT) {
        max_openshift_version(facts, &item["value"]);
    }
}

/// Returns what follows `prefix` in the names of those fields that have this value.
fn known(names: &[(&'static str, Keep)], prefix: &str, fields: &Fields<'_>, wanted: &str) -> Vec<&'static str> {
    let has = |name: &str| fields.get(name).and_then(Value::as_str) == Some(wanted);
    names.iter().filter(|(name, _)| has(name)).filter_map(|(name, _)| name.strip_prefix(prefix)).collect()
}

fn fill(slot: &mut Vec<&'static str>, found: Vec<&'static str>) {
    if slot.is_empty() {
        *slot = found;
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
