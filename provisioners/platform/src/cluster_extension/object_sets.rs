//! The revisions of an extension, shown as the ClusterObjectSets that upstream installs by. I/O.
//!
//! ```text
//! body    what a set says, and the Secrets with what it holds    pure
//! status  how the revision stands                                pure
//! ```
//!
//! Nothing is installed by them: the extension controls them, and ClusterObjectSets that something controls are left alone by whoever
//! installs those of users. What they hold the controller has kept when it installed the release, as the BundleDeployment asks for it.

mod body;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::Conditions as _;
use rukpak_crds::names::{MANIFESTS_TYPE, SHOWN_RELEASE};
use rukpak_crds::olm::cluster_extension::ClusterExtensionStatus;
use rukpak_crds::olm::cluster_object_set::LifecycleState;
use rukpak_crds::olm::{ClusterExtension, ClusterObjectSet, ClusterObjectSetStatus, PROGRESSING};
use rukpak_plan::{manifests, record};
use rukpak_runtime::api::Error;
use rukpak_runtime::clock;
use rukpak_runtime::status::StatusWriter;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Context;
use super::deployment::{self, FIELD_MANAGER};
use super::revisions::{self, ActiveRevision};
use crate::owned::{self, Existing};

/// Longest value of a label.
const LABEL_MAX: usize = 63;
/// So many archived ones are left, as by upstream.
const RETAINED: usize = 5;
/// Records of releases that no set has room for. It is held while a set is made: manifests take many times their size as trees, and many
/// extensions are upgraded at once.
static TOO_LARGE: Mutex<BTreeSet<String>> = Mutex::const_new(BTreeSet::new());

/// Shows the active revisions, with what the status of the extension says of them, and archives those that were before.
pub(super) async fn show(
    extension: &ClusterExtension,
    told: &ClusterExtensionStatus,
    context: &Context,
) -> Result<(), Error> {
    let Some(namespace) = &context.revisions_in else { return Ok(()) };
    let Some(Existing::Ours(deployment)) = deployment::find(extension, context).await? else { return Ok(()) };
    let (name, active) = (extension.name_any(), revisions::active(&deployment));
    let Some(newest) = active.iter().map(|revision| revision.number).max() else { return Ok(()) };
    if active.iter().any(|revision| revision.name(&name).len() > LABEL_MAX) {
        tracing::debug!(extension = name, "its revisions are not shown: no label has room for their names");
        return Ok(());
    }

    for revision in &active {
        let record = record::name_of(&deployment.name_any(), &revision.release);
        let Some(set) = current(extension, (revision, &record), (namespace, context)).await? else { continue };
        let name = revision.name(&name);
        let told = told.active_revisions.iter().find(|told| told.name == name);
        write(&set, &status::of_active(&set, revision, told, clock::now()), context).await?;
    }
    let is_active = |set: &ClusterObjectSet| active.iter().any(|revision| revision.number == set.spec.revision);
    let left = |set: &Arc<ClusterObjectSet>| is_shown(extension, set) && !is_active(set) && is_replaced(set, newest);
    archive(context.sets.state().into_iter().filter(left).collect(), context).await
}

/// Whether the set was made here for this extension. Upstream's own have the same owner.
fn is_shown(extension: &ClusterExtension, set: &ClusterObjectSet) -> bool {
    let mut owners = set.owner_references().iter();
    let is_controller =
        owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == extension.meta().uid.as_ref());
    is_controller && set.annotations().contains_key(SHOWN_RELEASE)
}

/// Whether another revision has taken the place of this one. One that failed keeps its number, and may be tried again.
fn is_replaced(set: &ClusterObjectSet, newest: i64) -> bool {
    let has_succeeded =
        |status: &ClusterObjectSetStatus| status.conditions.is(status::SUCCEEDED, ConditionStatus::True);
    set.spec.revision < newest || set.status.as_ref().is_some_and(has_succeeded)
}

/// Whether the set was made for this release, and wholly: its status comes last.
fn is_current(set: &ClusterObjectSet, record: &str) -> bool {
    let release = set.annotations().get(SHOWN_RELEASE);
    release.is_some_and(|release| release == record)
        && set.spec.lifecycle_state == LifecycleState::Active
        && set.status.as_ref().is_some_and(|status| status.conditions.find(PROGRESSING).is_some())
        && set.meta().deletion_timestamp.is_none()
}

/// The set that shows the revision; `None` if it cannot be shown now.
async fn current(
    extension: &ClusterExtension,
    (revision, record): (&ActiveRevision, &str),
    (namespace, context): (&str, &Context),
) -> Result<Option<ClusterObjectSet>, Error> {
    let name = revision.name(&extension.name_any());
    let found = match api(context).get_opt(&name).await? {
        Some(set) if !is_shown(extension, &set) => {
            tracing::debug!(set = name, "a ClusterObjectSet of somebody else has the name of a revision");
            return Ok(None);
        }
        Some(set) if is_current(&set, record) => return Ok(Some(set)),
        other => other,
    };

    let mut too_large = TOO_LARGE.lock().await;
    if too_large.contains(record) {
        return Ok(None);
    }
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let Some(manifests) = kept(record, &secrets).await? else { return Ok(None) };
    // Other Secrets each time: those of a set that is gone are about to go.
    let nonce = format!("{record} {}", clock::now());
    let packed = match body::pack(&extension.name_any(), (&name, &nonce), namespace, manifests) {
        Ok(packed) => packed,
        Err(why) => {
            tracing::warn!(revision = name, why, "a revision of ClusterExtension cannot be shown");
            too_large.insert(record.to_owned());
            return Ok(None);
        }
    };
    if let Some(set) = found {
        delete(&set, context).await?;
    }
    let set = body::set(extension, (revision, record), &packed);
    make(&set, packed.secrets, &secrets, context).await.map(Some)
}

/// The manifests of a release, if the controller has kept them.
async fn kept(record: &str, secrets: &Api<Secret>) -> Result<Option<Vec<Value>>, Error> {
    let mut packed = Vec::new();
    for number in 0..manifests::PARTS {
        let found = secrets.get_opt(&manifests::name(record, number)).await?;
        let found = found.filter(|secret| secret.type_.as_deref() == Some(MANIFESTS_TYPE));
        let Some(part) = found.and_then(|secret| secret.data?.remove(manifests::KEY)) else { break };
        packed.extend(part.0);
    }
    Ok(manifests::unpack(&packed))
}

/// Creates the set, and the Secrets that it names: they go with it.
async fn make(
    set: &ClusterObjectSet,
    parts: Vec<Secret>,
    secrets: &Api<Secret>,
    context: &Context,
) -> Result<ClusterObjectSet, Error> {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let made = api(context).create(&params, set).await?;
    for secret in parts {
        secrets.create(&params, &body::owned(secret, &made)).await?;
    }
    tracing::info!(set = %made.name_any(), "ClusterObjectSet shows a revision of ClusterExtension");
    Ok(made)
}

/// Archives them; of those that are archived the oldest go.
async fn archive(mut sets: Vec<Arc<ClusterObjectSet>>, context: &Context) -> Result<(), Error> {
    sets.sort_by_key(|set| set.spec.revision);
    let obsolete = sets.len().saturating_sub(RETAINED);
    for (index, set) in sets.into_iter().enumerate() {
        if index < obsolete {
            delete(&set, context).await?;
            continue;
        }
        let Some(set) = latest(set, context).await? else { continue };
        let is_archived = set.spec.lifecycle_state == LifecycleState::Archived;
        let set = if is_archived { set } else { Arc::new(close(&set, context).await?) };
        write(&set, &status::of_archived(&set, clock::now()), context).await?;
    }
    Ok(())
}

/// The set as it is now, if we have written it since it was seen.
async fn latest(set: Arc<ClusterObjectSet>, context: &Context) -> Result<Option<Arc<ClusterObjectSet>>, Error> {
    if !context.written.is_stale(&*set) {
        return Ok(Some(set));
    }
    Ok(api(context).get_opt(&set.name_any()).await?.map(Arc::new))
}

async fn close(set: &ClusterObjectSet, context: &Context) -> Result<ClusterObjectSet, Error> {
    let version = set.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"lifecycleState": LifecycleState::Archived}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    Ok(api(context).patch(&set.name_any(), &params, &Patch::Merge(patch)).await?)
}

async fn delete(set: &ClusterObjectSet, context: &Context) -> Result<(), Error> {
    let preconditions = Preconditions { uid: set.uid(), resource_version: None };
    owned::delete(&api(context), &set.name_any(), preconditions).await
}

async fn write(set: &ClusterObjectSet, status: &ClusterObjectSetStatus, context: &Context) -> Result<(), Error> {
    let mut writer = StatusWriter::new(&context.client, set, set.status.as_ref());
    writer.write(status, &context.written).await.map(drop)
}

fn api(context: &Context) -> Api<ClusterObjectSet> {
    Api::all(context.client.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension() -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e", "uid": "u"},
            "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        }))
        .unwrap()
    }

    /// Revision 2, of an owner with this UID.
    fn set(owner: &str, annotations: &Value, state: &str, conditions: &[&str]) -> ClusterObjectSet {
        let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": owner, "controller": true});
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "e-2", "annotations": annotations, "ownerReferences": [owner]},
            "spec": {"lifecycleState": state, "revision": 2, "collisionProtection": "Prevent"},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    #[test]
    fn a_set_of_another_owner_and_one_of_upstream_are_left_alone() {
        let marked = json!({SHOWN_RELEASE: "r"});
        assert!(is_shown(&extension(), &set("u", &marked, "Active", &[])));
        assert!(!is_shown(&extension(), &set("other", &marked, "Active", &[])), "of an earlier extension");
        assert!(!is_shown(&extension(), &set("u", &json!({}), "Active", &[])), "of upstream");
        let mut owned = set("u", &marked, "Active", &[]);
        owned.owner_references_mut()[0].controller = None;
        assert!(!is_shown(&extension(), &owned), "not controlled");
    }

    #[test]
    fn a_set_is_made_anew_for_another_release_and_where_it_is_not_whole() {
        let of = |state: &str, conditions: &[&str]| set("u", &json!({SHOWN_RELEASE: "r"}), state, conditions);
        assert!(is_current(&of("Active", &["Progressing"]), "r"));
        assert!(!is_current(&of("Active", &["Progressing"]), "other"));
        assert!(!is_current(&of("Active", &[]), "r"), "its Secrets may not be there");
        assert!(!is_current(&of("Archived", &["Progressing"]), "r"), "it cannot be taken back");
    }

    #[test]
    fn a_revision_that_failed_is_not_archived_before_another_comes() {
        let of = |conditions: &[&str]| set("u", &json!({SHOWN_RELEASE: "r"}), "Active", conditions);
        assert!(!is_replaced(&of(&["Progressing"]), 1), "it failed");
        assert!(is_replaced(&of(&["Progressing"]), 3));
        assert!(is_replaced(&of(&["Progressing", "Succeeded"]), 1), "rolled back");
    }
}
