//! The manifests beside CSV and CRDs.

use std::collections::HashSet;

use rukpak_plain::Object;
use serde_json::Value;

use super::certificates::generated_services;
use super::services::is_service;
use super::{Context, Error};
use crate::Bundle;
use crate::load::Manifest;
use crate::validate::is_namespaced;

/// As they are; what lies in a namespace goes to the install namespace, wherever it wanted to go.
///
/// A Service that has the name of one that we generate becomes part of that one: see
/// [`services`](super::services).
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let merged = GeneratedServices::of(context.bundle);
    for manifest in &context.bundle.others {
        // Validation has refused the others.
        let Ok(object) = &manifest.object else { continue };
        if merged.has(manifest) {
            continue;
        }
        if !is_namespaced(&manifest.kind) || object.namespace() == Some(context.namespace()) {
            context.share(object.clone())?;
            continue;
        }
        context.count(object)?;
        let mut value = object.as_value();
        value["metadata"]["namespace"] = Value::from(context.namespace());
        let origin = manifest.origin.clone();
        let object = Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })?;
        context.share(object)?;
    }
    Ok(())
}

/// The names of the Services that are generated for webhooks and aggregated APIs.
pub(crate) struct GeneratedServices(HashSet<String>);

impl GeneratedServices {
    pub(crate) fn of(bundle: &Bundle) -> Self {
        Self(generated_services(bundle).collect())
    }

    /// Whether this manifest and a generated Service are one object.
    pub(crate) fn has(&self, manifest: &Manifest) -> bool {
        manifest.object.as_ref().is_ok_and(is_service) && self.0.contains(&manifest.name)
    }
}
