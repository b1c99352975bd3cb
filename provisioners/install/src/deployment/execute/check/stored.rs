//! Before the objects of a CRD are migrated: can each of them be stored in the version that is kept, and is nothing of it lost? Lists
//! them, and sends a dry run of each rewrite.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{Migration, ObjectValidator, UnsafeChange};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use super::crds::Unseen;
use crate::cluster::Error;
use crate::deployment::execute::fill;
use crate::deployment::execute::migrate::{PAGE, PARALLEL, Pace};
use crate::deployment::observe::Run;

/// So many objects are named that cannot be migrated; then nobody looks further.
const TOLD: usize = 5;

/// The objects that cannot be stored in the version that is kept, the first of them.
///
/// They are read through the versions that are given up, so that what only those show is not lost unnoticed.
pub(super) async fn prove(run: &Run, migration: &Migration, new: &Value) -> Result<Vec<UnsafeChange>, Unseen> {
    let validator = ObjectValidator::new(crd_upgrade::schema_of(new, &migration.to).unwrap_or(&Value::Null));
    let mut found = Vec::new();
    for view in &migration.views {
        let mut page = ListParams::default().limit(PAGE);
        loop {
            if !run.view.is_current() {
                return Err(Unseen::Superseded);
            }
            let begun = Pace::begin();
            let list = match run.view.reads.reader.list(&resource(migration, view), None, &page).await {
                Ok(list) => list,
                // It takes too long for one list: the rest is as good as it is by now, for the rewrite asks again.
                Err(error) => match error.continuation() {
                    Some(token) => {
                        page.continue_token = Some(token);
                        continue;
                    }
                    None => return Err(unseen(migration, error)),
                },
            };
            found.extend(try_page(run, migration, view, &validator, list.items).await?);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) if found.len() < TOLD => page.continue_token = Some(token),
                _ => break,
            }
            begun.end().await;
        }
    }
    found.truncate(TOLD);
    Ok(found)
}

async fn try_page(
    run: &Run,
    migration: &Migration,
    view: &str,
    validator: &ObjectValidator<'_>,
    page: Vec<DynamicObject>,
) -> Result<Vec<UnsafeChange>, Unseen> {
    let (mut waiting, mut tries, mut found) = (page.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        fill(&mut tries, PARALLEL, &mut waiting, |object| try_one(run, migration, view, validator, object));
        match tries.next().await {
            Some(answer) => found.extend(answer?),
            None => return Ok(found),
        }
        if found.len() >= TOLD {
            return Ok(found);
        }
    }
}

/// Tries to rewrite an object. What somebody has changed or deleted since the list is not looked at again: the rewrite itself will tell.
async fn try_one(
    run: &Run,
    migration: &Migration,
    view: &str,
    validator: &ObjectValidator<'_>,
    object: DynamicObject,
) -> Result<Option<UnsafeChange>, Unseen> {
    let after = match run.objects.try_rewrite(&resource(migration, &migration.to), &object.metadata).await {
        Ok(after) => whole(migration, &migration.to, &after),
        Err(error) if error.is_conflict() || error.is_not_found() => return Ok(None),
        Err(error) if error.to_string().contains("does not support dry run") => return Ok(None),
        Err(error) if error.is_transient() => return Err(unseen(migration, error)),
        Err(error) => {
            let object = whole(migration, view, &object);
            return Ok(Some(migration.refused_by(&object, &Chain(&error).to_string())));
        }
    };
    let before = whole(migration, view, &object);
    let lost = if migration.is_relabelling { crd_upgrade::lost_field(&before, &after) } else { None };
    let why = match (validator.validate(&after).first(), lost) {
        (Some(violation), _) => violation.to_string(),
        (None, Some(field)) => format!("{field} of version {view} would be lost, for no webhook converts it"),
        (None, None) => return Ok(None),
    };
    Ok(Some(migration.refused_by(&before, &why)))
}

fn resource(migration: &Migration, version: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk(&migration.group, version, &migration.kind);
    ApiResource::from_gvk_with_plural(&gvk, &migration.plural)
}

fn whole(migration: &Migration, version: &str, object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Items of a list do not say what they are.
    value["apiVersion"] = json!(format!("{}/{version}", migration.group));
    value["kind"] = json!(migration.kind);
    value
}

fn unseen(migration: &Migration, source: Error) -> Unseen {
    let Migration { crd, to, .. } = migration;
    Unseen::Unread { what: format!("cannot try to store the objects of {crd} as version {to}"), source }
}
