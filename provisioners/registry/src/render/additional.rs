//! The manifests beside CSV and CRDs.

use std::collections::HashSet;

use rukpak_plain::Object;
use serde_json::Value;

use super::certificates::webhook_services;
use super::{Context, Error};
use crate::Bundle;
use crate::load::Manifest;
use crate::validate::is_namespaced;

/// As they are; what lies in a namespace goes to the install namespace, wherever it wanted to go.
///
/// A Service that has the name of the one we generate for webhooks is left out: ours leads to the ports that the webhook
/// CRDs name, and has the certificate.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let replaced = Replaced::of(context.bundle);
    for manifest in &context.bundle.others {
        if replaced.has(manifest) {
            continue;
        }
        // Validation has refused the others.
        let Ok(object) = &manifest.object else { continue };
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

/// The Services that are generated for webhooks, in whose place no manifest stands.
pub(crate) struct Replaced(HashSet<String>);

impl Replaced {
    pub(crate) fn of(bundle: &Bundle) -> Self {
        Self(webhook_services(bundle).collect())
    }

    /// Whether a generated Service takes the place of this manifest.
    pub(crate) fn has(&self, manifest: &Manifest) -> bool {
        manifest.kind == "Service" && self.0.contains(&manifest.name)
    }
}
