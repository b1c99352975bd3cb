//! Before CRDs are replaced: would stored data or existing objects break? Reads CRDs and their objects, writes
//! nothing. The rules are `rukpak_crd_upgrade`'s.

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{ObjectCheck, ObjectValidator, SAFE_UPGRADE_ANNOTATION, UnsafeChange};
use rukpak_plan::kind::is_crd;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::retry::Class;
use rukpak_plan::{Plan, Step};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use crate::cluster::{Error, Written};
use crate::deployment::execute::apply::Bases;
use crate::deployment::observe::View;

/// Objects are listed this many at a time: a page of them is all that is held.
const PAGE: u32 = 250;
/// So many invalid objects of a version are told; nobody reads more.
const TOLD: usize = 20;

/// CRDs that are looked at at once.
const PARALLEL: usize = 8;
/// A list that grows too old on the way is begun again, this often in all.
const ATTEMPTS: usize = 3;
/// The value of the annotation that has the rules of OLM v1 refuse as well.
const STRICT: &str = "strict";
/// What the note of upstream leaves open.
const SWITCHED_WHERE: &str = "; the annotation goes on the CustomResourceDefinition in the bundle or on the BundleDeployment, and \
                              existing objects may then be invalid or lost";
/// Who sets that annotation by a spec of its own.
const EXTENSION: &str = "ClusterExtension";
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

/// Checks every CRD of `plan` that is in the cluster and would change.
pub(super) async fn check(view: &View, plan: &Plan, bases: &Bases) -> Result<(), Problem> {
    if view.observed.annotation(SAFE_UPGRADE_ANNOTATION) == Some("false") {
        return Ok(());
    }
    let new = plan.steps.values().filter(|step| is_crd(&step.key) && bases.is_changed(step) && !step.is_paused);
    let looks: Vec<_> = new.map(|step| async move { (&step.key.name, one(view, step).await) }).collect();
    let mut found = futures::stream::iter(looks).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    found.sort_by_key(|(name, _)| *name);
    let extension = view.observed.deployment.keeper().filter(|(kind, _)| *kind == EXTENSION).map(|(_, name)| name);
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
                Chain(&error).to_string()
            }
        };
        texts.push(match extension {
            Some(extension) => crd_upgrade::denial_for_extension("UPDATE", name, extension, &reason),
            None => crd_upgrade::denial("UPDATE", name, &reason),
        });
    }
    if texts.is_empty() {
        return Ok(());
    }
    let class = if is_transient { Class::Transient } else { Class::Terminal };
    let mut message = texts.join("; ");
    if !is_transient && extension.is_none() {
        message.push_str(SWITCHED_WHERE);
    }
    Err(Problem { stage: Stage::Check, message, class, is_definite: !is_transient, can_go_back: true })
}

/// What refuses the replacement of one CRD.
async fn one(view: &View, step: &Step) -> Result<Vec<UnsafeChange>, Unseen> {
    let declared = step.body();
    if crd_upgrade::is_switched_off(&declared) {
        return Ok(Vec::new());
    }
    let unseen = |source| Unseen { what: "the CRD in the cluster".to_owned(), source };
    let live = view.reads.reader.get(&step.identity).await.map_err(unseen)?;
    let Some(live) = live else { return Ok(Vec::new()) };
    let live = as_crd(step, live);
    let mut options = view.reads.settings.crd_upgrades;
    options.strict |= view.observed.annotation(SAFE_UPGRADE_ANNOTATION) == Some(STRICT);
    let report = match crd_upgrade::check(&live, &declared, options) {
        Ok(report) => report,
        Err(error) => {
            // The API server says what is wrong with a CRD that cannot be read.
            tracing::warn!(deployment = %view.owner.name, %error, "cannot check the upgrade of a CRD");
            return Ok(Vec::new());
        }
    };
    // Said at the first attempt, not at each.
    let is_first = view.memory.failure.is_none() && view.memory.failed_upgrade.is_none();
    for warning in report.warnings().filter(|_| is_first) {
        tracing::warn!(deployment = %view.owner.name, crd = step.key.name, %warning, "the upgrade of a CRD may break clients");
    }
    let mut changes: Vec<UnsafeChange> = report.errors().cloned().collect();
    for check in &report.object_checks {
        changes.extend(objects(view, check, &declared).await?);
    }
    Ok(changes)
}

fn as_crd(step: &Step, live: Written) -> Value {
    let mut object = live.body;
    object["apiVersion"] = json!(step.identity.kind.resource.api_version);
    object["kind"] = json!(step.identity.kind.resource.kind);
    object["metadata"] = json!({"name": step.key.name});
    object
}

/// The existing objects that would not be valid any more.
async fn objects(view: &View, check: &ObjectCheck, new: &Value) -> Result<Vec<UnsafeChange>, Unseen> {
    let Some(schema) = crd_upgrade::schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let gvk = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &check.plural);
    let first = ListParams::default().limit(PAGE);
    let (mut parameters, mut changes, mut begun) = (first.clone(), Vec::new(), 1);
    loop {
        let page = match view.reads.reader.list(&resource, &parameters).await {
            Ok(page) => page,
            // A CRD that was never served has no objects.
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
