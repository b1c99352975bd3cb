//! Before definitions are replaced: would stored data or existing objects break? Reads definitions and their objects, writes
//! nothing. The rules are `rukpak_plan::crd_upgrade`'s.

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_plan::crd_upgrade::{self, ObjectCheck, ObjectValidator, SAFE_UPGRADE_ANNOTATION, UnsafeChange};
use serde_json::{Value, json};

use super::Pass;
use super::apply::Before;
use super::plan::{Plan, Step};
use crate::cluster::{Error, Written};

/// Objects are listed this many at a time: a page of them is all that is held.
const PAGE: u32 = 250;
/// So many invalid objects of a version are told; nobody reads more.
const TOLD: usize = 20;

/// Why definitions are not replaced.
#[derive(Debug)]
pub(crate) struct Refused {
    /// In upstream's words; every definition and every finding.
    pub message: String,
    /// Whether it may pass by itself soon.
    pub is_transient: bool,
}

/// Checks every definition of `plan` that is in the cluster and would change.
pub(crate) async fn definitions(pass: &Pass, plan: &Plan, before: &Before<'_>) -> Result<(), Refused> {
    let annotations = pass.deployment.metadata.annotations.as_ref();
    if annotations
        .and_then(|annotations| annotations.get(SAFE_UPGRADE_ANNOTATION))
        .is_some_and(|value| value == "false")
    {
        return Ok(());
    }
    let mut texts = Vec::new();
    for step in plan.steps.values().filter(|step| is_definition(step) && super::apply::is_changed(step, before)) {
        let name = &step.key.name;
        match definition(pass, step).await {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                texts.push(crd_upgrade::denial("UPDATE", name, &crd_upgrade::refusal(name, &changes)));
            }
            Err(error) => {
                let message =
                    format!("failed to validate safety of UPDATE for CRD {name:?}: {}", crate::error::Chain(&error));
                return Err(Refused { message, is_transient: error.is_transient() });
            }
        }
    }
    if texts.is_empty() { Ok(()) } else { Err(Refused { message: texts.join("; "), is_transient: false }) }
}

fn is_definition(step: &Step) -> bool {
    step.key.group == "apiextensions.k8s.io" && step.key.kind == "CustomResourceDefinition"
}

/// What refuses the replacement of one definition.
async fn definition(pass: &Pass, step: &Step) -> Result<Vec<UnsafeChange>, Error> {
    if crd_upgrade::is_switched_off(&step.body) {
        return Ok(Vec::new());
    }
    let Some(live) = pass.context.cluster.writer.get(&step.identity).await? else { return Ok(Vec::new()) };
    let live = whole(step, live);
    let report = match crd_upgrade::check(&live, &step.body, pass.context.crd_upgrades) {
        Ok(report) => report,
        Err(error) => {
            // The API server says what is wrong with a definition that cannot be read.
            tracing::warn!(deployment = %pass.owner.name, %error, "the upgrade of a definition is not checked");
            return Ok(Vec::new());
        }
    };
    for warning in report.warnings() {
        tracing::warn!(deployment = %pass.owner.name, definition = step.key.name, %warning, "an upgrade that may break clients");
    }
    let mut changes: Vec<UnsafeChange> = report.errors().cloned().collect();
    for check in &report.object_checks {
        changes.extend(objects(pass, check, &step.body).await?);
    }
    Ok(changes)
}

fn whole(step: &Step, live: Written) -> Value {
    let mut object = live.body;
    object["apiVersion"] = json!(step.identity.kind.resource.api_version);
    object["kind"] = json!(step.identity.kind.resource.kind);
    object["metadata"] = json!({"name": step.key.name});
    object
}

/// The existing objects that would not be valid any more.
async fn objects(pass: &Pass, check: &ObjectCheck, new: &Value) -> Result<Vec<UnsafeChange>, Error> {
    let Some(schema) = crd_upgrade::schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let gvk = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
    let api = pass.context.cluster.writer.scoped(&ApiResource::from_gvk_with_plural(&gvk, &check.plural), None);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut changes = Vec::new();
    loop {
        let page = match api.list(&parameters).await.map_err(Error::from) {
            Ok(page) => page,
            // A definition that was never served has no objects.
            Err(error) if error.is_not_found() => return Ok(changes),
            Err(error) => return Err(error),
        };
        for object in page.items {
            let object = value(&object, check);
            changes.extend(check.change(&object, &validator.validate(&object)));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if changes.len() < TOLD => parameters.continue_token = Some(token),
            _ => return Ok(changes),
        }
    }
}

fn value(object: &DynamicObject, check: &ObjectCheck) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Items of a list do not say what they are.
    value["apiVersion"] = json!(format!("{}/{}", check.group, check.list_version));
    value["kind"] = json!(check.kind);
    value
}
