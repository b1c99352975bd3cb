//! CRDs, with their conversion webhooks.

use std::collections::BTreeMap;

use rukpak_plain::Object;
use serde_json::json;

use super::certificates::Names;
use super::{Context, Error};
use crate::crd::Crd;
use crate::csv::{Webhook, WebhookKind};

/// Passed through, except those with a conversion webhook.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let mut converted = BTreeMap::new();
    for webhook in &context.bundle.csv.spec.webhooks {
        if webhook.webhook_kind() == Some(WebhookKind::Conversion) {
            converted.extend(webhook.conversion_crds.iter().map(|name| (name.as_str(), webhook)));
        }
    }
    for crd in &context.bundle.crds {
        let object = match converted.get(crd.name()) {
            Some(webhook) => {
                context.count(&crd.object)?;
                with_conversion(context, crd, webhook)?
            }
            None => crd.object.clone(),
        };
        context.share(object)?;
    }
    Ok(())
}

fn with_conversion(context: &mut Context<'_>, crd: &Crd, webhook: &Webhook) -> Result<Object, Error> {
    if crd.preserves_unknown_fields() {
        return Err(Error::PreserveUnknownFields(crd.name().to_owned()));
    }
    let names = Names::of(&webhook.deployment_name);
    let mut client = json!({"service": {
        "namespace": context.namespace(),
        "name": names.service,
        "path": webhook.webhook_path.as_deref().unwrap_or("/"),
        "port": webhook.port(),
    }});
    let mut value = crd.object.as_value();
    context.inject_ca(&names, &mut value, std::slice::from_mut(&mut client));
    let versions = json!(webhook.admission_review_versions);
    context.budget.add_copies(&versions, 1, || crd.object.origin().to_string())?;
    value["spec"]["conversion"] = if crd.object.version() == "v1" {
        json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}})
    } else {
        json!({"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": versions})
    };
    let origin = crd.object.origin().clone();
    Object::new(value, origin.clone()).map_err(|source| Error::Object { origin, source })
}
