//! The Bundle of the template is created, and those of earlier templates are deleted.

use std::collections::HashSet;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::{Bundle, BundleSource, names};
use rukpak_plan::observed::Desired;
use rukpak_plan::owner::controller;
use rukpak_plan::retry::Class;
use rukpak_runtime::error::Chain;
use serde_json::{Map, Value, json};

use crate::cluster::{self, Error};
use crate::deployment::observe::{Run, generated, owned};

/// Creates the Bundle of the template. Returns how far it is.
#[tracing::instrument(level = "debug", name = "create_bundle", skip_all)]
pub(super) async fn create(run: &Run, name: &str, hash: &str) -> Desired {
    let deployment = &run.view.observed.deployment;
    let mut new = generated(&run.view.owner, deployment, name, hash);
    run.view.reads.settings.shard.hand_down(deployment.meta().labels.as_ref(), new.labels_mut());
    let api: Api<Bundle> = Api::all(run.context.client.clone());
    if let Err(error) = make_room(run, &api).await {
        let class = if error.is_transient() { Class::Transient } else { Class::Terminal };
        return Desired::Unknown { message: format!("cannot delete an old Bundle: {}", Chain(&error)), class };
    }
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &new).await.map_err(Error::from) {
        Ok(_) => Desired::Waiting { bundle: name.to_owned(), why: None, is_stalled: false },
        Err(error) if error.is_conflict() => existing(run, &api, name, error).await,
        Err(error) => {
            let class = if error.is_transient() { Class::Transient } else { Class::Terminal };
            let mut message = Chain(&error).to_string();
            if let Some(hint) = members(&deployment.spec.template.spec.source).filter(|_| error.is_invalid()) {
                message.push_str("; ");
                message.push_str(&hint);
            }
            Desired::Unknown { message, class }
        }
    }
}

/// Deletes the oldest Bundles of earlier templates whose content is neither installed nor begun, if another one would be more than a
/// deployment may have: whoever writes templates need not look after the Bundles of those that failed. The history has their pins.
async fn make_room(run: &Run, api: &Api<Bundle>) -> Result<(), Error> {
    let own = owned(&run.view.reads, &run.view.owner, &run.view.observed.deployment);
    let surplus = (own.len() + 1).saturating_sub(names::GENERATED_BUNDLES_MAX);
    let begun = run.view.observed.pending().map(|(begun, _)| begun);
    let needed =
        [run.view.observed.installed(), begun].map(|release| release.map(|release| release.content.to_string()));
    let is_needed = |bundle: &Bundle| {
        let pin = bundle.status.as_ref().and_then(|status| status.pin.as_ref());
        let is_active = run.view.observed.status.active_bundle == bundle.metadata.name;
        is_active || pin.is_some_and(|pin| needed.iter().flatten().any(|content| *content == pin.content_digest))
    };
    for bundle in own.iter().filter(|bundle| !is_needed(bundle)).take(surplus) {
        delete(run, api, bundle).await?;
    }
    Ok(())
}

/// The name is taken: by the Bundle that we made a moment ago and the watch has not shown yet, or by somebody else.
async fn existing(run: &Run, api: &Api<Bundle>, name: &str, refusal: Error) -> Desired {
    let deployment = &run.view.observed.deployment;
    let is_ours = |bundle: &Bundle| {
        controller(&bundle.metadata).is_some_and(|owner| owner.uid == run.view.owner.uid)
            && crate::deployment::observe::is_generated(bundle, &run.view.owner, deployment)
    };
    match api.get_opt(name).await.map_err(Error::from) {
        Ok(Some(bundle)) if is_ours(&bundle) => match relabel(run, api).await {
            // How far it is, is seen when the watch shows it: before, it is not among those that are counted.
            Ok(()) => Desired::Waiting { bundle: name.to_owned(), why: None, is_stalled: false },
            Err(error) => Desired::Unknown { message: error.to_string(), class: Class::Transient },
        },
        Ok(Some(bundle)) if bundle.meta().deletion_timestamp.is_some() => {
            Desired::Waiting { bundle: name.to_owned(), why: None, is_stalled: false }
        }
        Ok(_) => Desired::Unknown { message: refusal.to_string(), class: Class::Terminal },
        Err(error) => Desired::Unknown { message: error.to_string(), class: Class::Transient },
    }
}

/// A deployment that came from another shard brings its Bundles along. One that has left, and of which no watch has told that yet,
/// leaves them alone: its next controller would take them back at once, again and again.
async fn relabel(run: &Run, api: &Api<Bundle>) -> Result<(), Error> {
    let view = &run.view;
    if view.reads.settings.shard.id().is_none() {
        return Ok(());
    }
    let selector =
        format!("{}={},{}={}", names::OWNER_KIND, names::OWNER_KIND_VALUE, names::OWNER_NAME, view.owner.name);
    let listed = api.list_metadata(&ListParams::default().labels(&selector)).await?;
    let own = |bundle: &PartialObjectMeta<Bundle>| {
        controller(&bundle.metadata).is_some_and(|owner| owner.uid == view.owner.uid)
    };
    for bundle in listed.items.into_iter().filter(own) {
        let mut labels = bundle.labels().clone();
        view.reads.settings.shard.hand_down(view.observed.deployment.meta().labels.as_ref(), &mut labels);
        let gone =
            bundle.labels().keys().filter(|key| !labels.contains_key(*key)).map(|key| (key.clone(), Value::Null));
        let kept = labels.iter().filter(|(key, value)| bundle.labels().get(*key) != Some(*value));
        let changes: Map<String, Value> =
            kept.map(|(key, value)| (key.clone(), Value::String(value.clone()))).chain(gone).collect();
        if changes.is_empty() {
            continue;
        }
        if !run.is_wanted().await? {
            return Ok(());
        }
        let params = PatchParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"metadata": {"labels": changes, "uid": bundle.uid()}}));
        api.patch_metadata(&bundle.name_any(), &params, &patch).await?;
        tracing::info!(deployment = %view.owner.name, bundle = %bundle.name_any(), "Bundle labelled for the shard of its BundleDeployment");
    }
    Ok(())
}

/// Deletes every Bundle of this deployment but the desired one.
pub(in crate::deployment) async fn delete_old(run: &Run) -> Result<(), cluster::Error> {
    let api: Api<Bundle> = Api::all(run.context.client.clone());
    let own = owned(&run.view.reads, &run.view.owner, &run.view.observed.deployment);
    let uids: HashSet<String> = own.iter().filter_map(|bundle| bundle.uid()).collect();
    run.view.tracker.tracked().deleted_bundles.retain(|uid| uids.contains(uid));
    let old = own
        .into_iter()
        .filter(|bundle| Some(bundle.name_any().as_str()) != run.view.observed.desired.bundle())
        .filter(|bundle| bundle.meta().deletion_timestamp.is_none());
    for bundle in old {
        let uid = bundle.uid().unwrap_or_default();
        if run.view.tracker.tracked().deleted_bundles.contains(&uid) {
            continue;
        }
        delete(run, &api, &bundle).await?;
    }
    Ok(())
}

async fn delete(run: &Run, api: &Api<Bundle>, bundle: &Bundle) -> Result<(), Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: bundle.uid(), resource_version: None }),
        ..DeleteParams::background()
    };
    match api.delete(&bundle.name_any(), &params).await.map_err(Error::from) {
        Ok(_) => {
            tracing::info!(deployment = %run.view.owner.name, bundle = %bundle.name_any(), "old Bundle deleted");
            run.view.tracker.tracked().deleted_bundles.extend(bundle.uid());
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

/// What to do about a source that has not exactly one member. The API server refuses it in words of its schema, which name
/// neither the members nor the field.
fn members(source: &BundleSource) -> Option<String> {
    let members = [
        ("image", source.image.is_some()),
        ("git", source.git.is_some()),
        ("configMaps", source.config_maps.is_some()),
        ("upload", source.upload.is_some()),
        ("http", source.http.is_some()),
    ];
    let has: Vec<&str> = members.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let type_ = source.type_.as_str();
    let is_known = members.iter().any(|(name, _)| *name == type_);
    let way_out = match has.as_slice() {
        [_] => return None,
        [] if is_known => format!("set {type_}"),
        [] => "set the one that type names".to_owned(),
        many if many.contains(&type_) => {
            let others: Vec<&str> = many.iter().copied().filter(|name| *name != type_).collect();
            format!("remove {}", others.join(" and "))
        }
        _ => "keep the one that type names".to_owned(),
    };
    let has = if has.is_empty() { "none of its members".to_owned() } else { has.join(" and ") };
    Some(format!("spec.template.spec.source has {has}: {way_out}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_members_of_a_source_that_are_too_many_are_named() {
        let (image, git) = (json!({"ref": "r"}), json!({"repository": "r", "ref": {"branch": "main"}}));
        for (source, hint) in [
            (json!({"type": "git", "image": image, "git": git}), Some("has image and git: remove image")),
            (json!({"type": "image", "image": image, "git": git, "upload": {}}), Some("remove git and upload")),
            (
                json!({"type": "http", "image": image, "git": git}),
                Some("has image and git: keep the one that type names"),
            ),
            (json!({"type": "git"}), Some("has none of its members: set git")),
            (json!({"type": "Git"}), Some("set the one that type names")),
            (json!({"type": "git", "git": git}), None),
            // The webhook has clear words for it.
            (json!({"type": "git", "image": image}), None),
        ] {
            let found = members(&serde_json::from_value(source.clone()).unwrap());
            assert_eq!(found.is_some(), hint.is_some(), "{source}: {found:?}");
            assert!(found.as_deref().unwrap_or_default().ends_with(hint.unwrap_or_default()), "{source}: {found:?}");
        }
    }
}
