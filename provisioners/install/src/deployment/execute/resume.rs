//! After a restart: if the cluster has what the status says was applied, there is nothing to do but to remember it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::{Inventory, InventoryKind};
use rukpak_plan::applied::Applied;
use rukpak_plan::memory::{Installation, later};
use rukpak_plan::plan::Missing;
use rukpak_plan::{Identity, Release};

use super::{health, used_name};
use crate::deployment::observe::View;

/// How long a restart waits for the first lists of its watches before it applies everything again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes what the watches show as what is installed, if its digest is the one in the status.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn resume(view: &mut View, release: &Release) {
    let now = Timestamp::now();
    let since = *view.memory.resuming_since.get_or_insert(now);
    let inventory = view.observed.inventory();
    let Some(missing) = still_missing(view, &inventory).await else { return differs(view, release) };
    let mut kinds = Vec::new();
    for kind in &inventory.kinds {
        match view.reads.kinds.any_version(kind, &BTreeSet::new()).await {
            Ok(Some(kind)) => kinds.push(kind),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(deployment = %view.owner.name, kind = %kind.kind, %error, "cannot look up a kind");
                return differs(view, release);
            }
        }
    }
    let ids: BTreeSet<(String, String)> =
        kinds.iter().map(|kind| (kind.resource.group.clone(), kind.resource.kind.clone())).collect();
    view.tracker.tracked().awaited_kinds.clone_from(&ids);
    view.reads.dependents.ensure(&kinds);
    if !view.reads.dependents.are_listed(&ids) {
        view.memory.awaits_lists_until = Some(later(since, PATIENCE)).filter(|until| *until > now);
        if view.memory.awaits_lists_until.is_none() {
            differs(view, release);
        }
        return;
    }
    view.tracker.tracked().awaited_kinds.clear();
    view.memory.awaits_lists_until = None;
    let observed = view.reads.dependents.of(&view.owner);
    let mut objects = health::adopt(view, observed).await;
    // What is there in another version than the declared one cannot be applied.
    for key in missing.iter().flat_map(|missing| missing.keys(&view.reads.settings.system_namespace)) {
        objects.remove(&key);
    }
    let renderer = view.renderer(release);
    let resumed = Applied::resumed(&inventory, release, &renderer, &objects, missing);
    // What is there is looked at, even if it is not as it was left, and the content to repair it is missing.
    view.tracker.tracked().objects = objects;
    match resumed {
        Some(applied) => {
            view.memory.learn_resumed(&view.observed, applied, now);
            resume_shared(view);
        }
        None => differs(view, release),
    }
}

/// What is used with others was not applied: its end is drift, as after an installation.
fn resume_shared(view: &mut View) {
    let keys: Vec<_> = view.reads.dependents.shared(&view.owner).iter().map(Identity::key).collect();
    for key in &keys {
        view.reads.trackers.block(&view.owner.name, key);
    }
    if let Installation::Applied { differences, .. } = &mut view.memory.installation {
        differences.used = keys.iter().map(used_name).collect();
    }
}

/// What the status says is missing, if it still is: `None` if a kind is served by now, or nobody can say.
async fn still_missing(view: &View, inventory: &Inventory) -> Option<Vec<Missing>> {
    // From now on the CRD of a kind wakes us.
    view.tracker.tracked().missing_groups = inventory.missing.iter().map(|object| object.group.clone()).collect();
    let mut missing = Vec::with_capacity(inventory.missing.len());
    for object in &inventory.missing {
        let (group, version, kind) = (object.group.clone(), object.version.clone(), object.kind.clone());
        let kind = InventoryKind { group, version, kind };
        match view.reads.kinds.any_version(&kind, &BTreeSet::new()).await {
            Ok(found) if found.as_ref().is_none_or(|found| found.resource.version != kind.version) => {
                missing.push(Missing::read(object, found));
            }
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(deployment = %view.owner.name, kind = %kind.kind, %error, "cannot look up a kind");
                return None;
            }
        }
    }
    Some(missing)
}

fn differs(view: &mut View, release: &Release) {
    tracing::info!(deployment = %view.owner.name, "objects differ from what was applied; applying all of them again");
    view.memory.awaits_lists_until = None;
    view.tracker.tracked().awaited_kinds.clear();
    view.memory.installation = Installation::Partial { release: release.clone() };
}
