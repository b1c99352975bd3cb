//! Before definitions are replaced: would stored data or existing objects break? Reads definitions and their objects, writes
//! nothing. The rules are `rukpak_plan::crd_upgrade`'s.

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_plan::crd_upgrade::{self, ObjectCheck, ObjectValidator, SAFE_UPGRADE_ANNOTATION, UnsafeChange};
use serde_json::{Value, json};

use super::Pass;
use super::apply::{Before, is_changed};
use super::plan::{Plan, Step};
use crate::cluster::{Error, Written};

/// Objects are listed this many at a time: a page of them is all that is held.
const PAGE: u32 = 250;
/// So many invalid objects of a version are told; nobody reads more.
const TOLD: usize = 20;

/// Definitions that are looked at at once.
const PARALLEL: usize = 8;
/// A list that grows too old on the way is begun anew, this often in all.
const ATTEMPTS: usize = 3;
/// The status of a list that is too old.
const GONE: u16 = 410;

/// What could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Unseen {
    what: String,
    #[source]
    source: Error,
}

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
    let new = plan.steps.values().filter(|step| is_definition(step) && is_changed(step, before));
    let looks: Vec<_> = new.map(|step| async move { (&step.key.name, definition(pass, step).await) }).collect();
    let mut found = futures::stream::iter(looks).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    found.sort_by_key(|(name, _)| *name);
    let mut texts = Vec::new();
    let mut is_transient = true;
    for (name, looked) in found {
        let reason = match looked {
            Ok(changes) if changes.is_empty() => continue,
            Ok(changes) => {
                is_transient = false;
                crd_upgrade::refusal(name, &changes)
            }
            Err(error) => {
                is_transient &= error.source.is_transient();
                crate::error::Chain(&error).to_string()
            }
        };
        texts.push(crd_upgrade::denial("UPDATE", name, &reason));
    }
    if texts.is_empty() { Ok(()) } else { Err(Refused { message: texts.join("; "), is_transient }) }
}

/// Whether the object is a CustomResourceDefinition.
pub(crate) fn is_definition(step: &Step) -> bool {
    step.key.group == "apiextensions.k8s.io" && step.key.kind == "CustomResourceDefinition"
}

/// What refuses the replacement of one definition.
async fn definition(pass: &Pass, step: &Step) -> Result<Vec<UnsafeChange>, Unseen> {
    if crd_upgrade::is_switched_off(&step.body) {
        return Ok(Vec::new());
    }
    let unseen = |source| Unseen { what: "the definition in the cluster".to_owned(), source };
    let live = pass.context.cluster.writer.get(&step.identity).await.map_err(unseen)?;
    let Some(live) = live else { return Ok(Vec::new()) };
    let live = as_definition(step, live);
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

fn as_definition(step: &Step, live: Written) -> Value {
    let mut object = live.body;
    object["apiVersion"] = json!(step.identity.kind.resource.api_version);
    object["kind"] = json!(step.identity.kind.resource.kind);
    object["metadata"] = json!({"name": step.key.name});
    object
}

/// The existing objects that would not be valid any more.
async fn objects(pass: &Pass, check: &ObjectCheck, new: &Value) -> Result<Vec<UnsafeChange>, Unseen> {
    let Some(schema) = crd_upgrade::schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let gvk = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &check.plural);
    let first = ListParams::default().limit(PAGE);
    let (mut parameters, mut changes, mut begun) = (first.clone(), Vec::new(), 1);
    loop {
        let page = match pass.context.cluster.writer.list(&resource, &parameters).await {
            Ok(page) => page,
            // A definition that was never served has no objects.
            Err(error) if error.is_not_found() => return Ok(changes),
            // The list is older than what the API server still knows.
            Err(error) if error.code() == GONE && begun < ATTEMPTS => {
                (parameters, changes, begun) = (first.clone(), Vec::new(), begun + 1);
                continue;
            }
            Err(source) => {
                return Err(Unseen {
                    what: format!("error listing objects for {}/{}, Kind={}", gvk.group, gvk.version, gvk.kind),
                    source,
                });
            }
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
