//! Validating and mutating webhook configurations, one for each definition.

use serde_json::{Map, Value, json};

use super::certificates::Names;
use super::{Context, Error, Places};
use crate::csv::{Webhook, WebhookKind};

/// The validating ones first.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let kinds = [
        (WebhookKind::Validating, "ValidatingWebhookConfiguration"),
        (WebhookKind::Mutating, "MutatingWebhookConfiguration"),
    ];
    for (kind, name) in kinds {
        for (index, webhook) in context.bundle.csv.spec.webhooks.iter().enumerate() {
            if webhook.webhook_kind() == Some(kind) {
                configuration(context, webhook, name, &format!("spec.webhookdefinitions[{index}]"))?;
            }
        }
    }
    Ok(())
}

fn configuration(context: &mut Context<'_>, webhook: &Webhook, kind: &str, field: &str) -> Result<(), Error> {
    let name = webhook.generate_name.strip_suffix('-').unwrap_or(&webhook.generate_name);
    let own_name = match context.options.places {
        Places::One => name.to_owned(),
        Places::Several => format!("{name}-{}", context.namespace()),
    };
    let names = Names::of(&webhook.deployment_name);
    // No namespace: the reference sets one on this cluster-scoped kind, which a strict API server refuses.
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": own_name},
    });
    let mut service = json!({"namespace": context.namespace(), "name": names.service, "port": webhook.port()});
    if let Some(path) = &webhook.webhook_path {
        service["path"] = Value::from(path.as_str());
    }
    let mut client = json!({"service": service});
    context.inject_ca(&names, &mut object, std::slice::from_mut(&mut client));
    let mut inner = optional_fields(context, webhook, field)?;
    inner.insert("name".to_owned(), Value::from(name));
    inner.insert("clientConfig".to_owned(), client);
    inner.insert("admissionReviewVersions".to_owned(), json!(webhook.admission_review_versions));
    if webhook.webhook_kind() != Some(WebhookKind::Mutating) {
        inner.remove("reinvocationPolicy");
    }
    object["webhooks"] = json!([inner]);
    context.push(object, field)
}

/// What is only there if the definition says something.
fn optional_fields(context: &Context<'_>, webhook: &Webhook, field: &str) -> Result<Map<String, Value>, Error> {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    if !webhook.rules.is_empty() {
        add("rules", context.json(&webhook.rules, field)?);
    }
    add("failurePolicy", json!(webhook.failure_policy));
    add("matchPolicy", json!(webhook.match_policy));
    add("objectSelector", context.json(&webhook.object_selector, field)?);
    add("sideEffects", json!(webhook.side_effects));
    add("timeoutSeconds", json!(webhook.timeout_seconds));
    add("reinvocationPolicy", json!(webhook.reinvocation_policy));
    if !context.targets.iter().any(String::is_empty) {
        let in_targets = json!({
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": context.targets,
        });
        add("namespaceSelector", json!({"matchExpressions": [in_targets]}));
    }
    Ok(fields)
}
