//! The manifests beside CSV and definitions.

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
/// definitions name, and has the certificate.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    for manifest in &context.bundle.others {
        if is_replaced(context.bundle, manifest) {
            continue;
        }
        // Validation has refused the others.
        let Ok(object) = &manifest.object else { continue };
        if !is_namespaced(&manifest.kind) || object.namespace() == Some(context.namespace()) {
            context.objects.push(object.clone());
            continue;
        }
        let mut value = object.as_value();
        value["metadata"]["namespace"] = Value::from(context.namespace());
        let origin = manifest.origin.clone();
        let object = Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })?;
        context.objects.push(object);
    }
    Ok(())
}

/// Whether a generated Service takes the place of this manifest.
pub(crate) fn is_replaced(bundle: &Bundle, manifest: &Manifest) -> bool {
    manifest.kind == "Service" && webhook_services(bundle).any(|service| service == manifest.name)
}
