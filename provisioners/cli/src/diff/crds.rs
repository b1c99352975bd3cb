//! Whether a CRD may replace the one in the cluster, by the rules of `rukpak_crd_upgrade`. Reads the objects that would have to
//! stay valid.

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{Migration, ObjectCheck, ObjectValidator, Options, Rule, Sharing, UnsafeChange};
use rukpak_crds::names::IN_COMMON;
use rukpak_plan::resolve::sharers;
use rukpak_plan::{Owner, Step, owner, put};
use serde_json::{Value, json};

use super::target::Target;
use crate::cluster::{Cluster, Error};

/// Objects are listed this many at a time.
const PAGE: u32 = 250;
/// So many invalid objects of a version are told.
const TOLD: usize = 20;

/// Returns the migration of stored objects that comes before the CRD is replaced.
pub(super) fn migration(target: &Target<'_>, step: &Step, live: &DynamicObject) -> Option<Migration> {
    needed_migration(&target.owner, step, live).filter(|_| target.why.policy().checks_definitions)
}

/// Returns the migration that it takes to replace a CRD which `owner` alone has.
pub(crate) fn needed_migration(owner: &Owner, step: &Step, live: &DynamicObject) -> Option<Migration> {
    let is_shared = !sharers(&step.body(), &live.metadata).is_empty() || owner::is_used_in_common(&live.metadata);
    let is_ours = owner.owns_fully(&live.metadata) && !is_shared;
    crd_upgrade::migration(&existing(step, live), &step.body()).ok().flatten().filter(|_| is_ours)
}

/// Whether the CRD in the cluster is one of other BundleDeployments that this one may have as well.
pub(super) fn is_shared(step: &Step, live: &DynamicObject) -> bool {
    let body = step.body();
    match put::Sharing::of(&step.key, &body) {
        put::Sharing::United => owner::owners(&live.metadata).next().is_some(),
        put::Sharing::InCommon => {
            let package = body["metadata"]["annotations"][IN_COMMON].as_str();
            owner::in_common(&live.metadata).is_some_and(|common| Some(common) == package)
        }
        _ => false,
    }
}

/// How it stands to the one of the bundle.
pub(super) fn share(step: &Step, live: &DynamicObject) -> Result<Sharing, crd_upgrade::Error> {
    crd_upgrade::share(&existing(step, live), &step.body())
}

/// Names the BundleDeployment that leads it.
pub(super) fn leader(live: &DynamicObject) -> String {
    let leader = owner::controller(&live.metadata).or_else(|| owner::owners(&live.metadata).next());
    leader.map_or_else(|| owner::claimed(&live.metadata).name, |leader| leader.name.clone())
}

/// Why the CRD may not be replaced, in the words of the refusal; `None` if it may.
pub(super) async fn refusal(
    cluster: &Cluster,
    target: &Target<'_>,
    step: &Step,
    live: &DynamicObject,
) -> Result<Option<String>, Error> {
    let mut declared = step.body();
    if target.crd_upgrades() == Some("false") || crd_upgrade::is_switched_off(&declared) {
        return Ok(None);
    }
    let existing = existing(step, live);
    let is_led = !sharers(&declared, &live.metadata).is_empty();
    if let Some(versions) = crd_upgrade::union(&existing, &declared).filter(|_| is_led) {
        declared["spec"]["versions"] = versions;
    }
    let options = Options { strict: is_led || target.crd_upgrades() == Some("strict") };
    // The API server says what is wrong with a CRD that cannot be read.
    let Ok(report) = crd_upgrade::check(&existing, &declared, options) else { return Ok(None) };
    let is_migrated = migration(target, step, live).is_some();
    let is_reason = |change: &&UnsafeChange| !(is_migrated && change.rule == Rule::StoredVersionRemoval);
    let mut changes: Vec<UnsafeChange> = report.errors().filter(is_reason).cloned().collect();
    for check in &report.object_checks {
        changes.extend(objects(cluster, check, &declared).await?);
    }
    Ok((!changes.is_empty()).then(|| crd_upgrade::refusal(&step.key.name, &changes)))
}

/// The CRD in the cluster, as the rules want it.
fn existing(step: &Step, live: &DynamicObject) -> Value {
    let mut existing = live.data.clone();
    existing["apiVersion"] = json!(step.identity.kind.resource.api_version);
    existing["kind"] = json!(step.identity.kind.resource.kind);
    existing["metadata"] = json!({"name": step.key.name});
    existing
}

/// The existing objects that would not be valid any more.
async fn objects(cluster: &Cluster, check: &ObjectCheck, new: &Value) -> Result<Vec<UnsafeChange>, Error> {
    let Some(schema) = crd_upgrade::schema_of(new, &check.schema_version) else { return Ok(Vec::new()) };
    let validator = ObjectValidator::new(schema);
    let gvk = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &check.plural);
    let (mut page, mut changes) = (ListParams::default().limit(PAGE), Vec::new());
    loop {
        let list = match cluster.page(&resource, &page).await {
            // A CRD that was never served has no objects.
            Err(Error::Refused(status)) if status.code == 404 => return Ok(changes),
            other => other?,
        };
        for object in &list.items {
            let mut value = serde_json::to_value(object).unwrap_or_default();
            value["apiVersion"] = json!(resource.api_version);
            value["kind"] = json!(check.kind);
            changes.extend(check.change(&value, &validator.validate(&value)));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if changes.len() < TOLD => page.continue_token = Some(token),
            _ => return Ok(changes),
        }
    }
}
