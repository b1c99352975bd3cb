//! What would be lost with an object that is deleted.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use rukpak_plain::ObjectKey;
use rukpak_plan::Identity;
use rukpak_plan::prune::{self, Answer, Guard};
use rukpak_runtime::error::Chain;

use crate::cluster::Error;
use crate::deployment::observe::Run;

/// Whether anything would be lost with an object. `going`: objects that are about to be deleted, or are.
pub(super) async fn would_lose(run: &Run, identity: &Identity, guard: Guard, going: &BTreeSet<ObjectKey>) -> Answer {
    let (what, lost) = match guard {
        Guard::None | Guard::Data => return Answer::WouldLose(None),
        Guard::Instances => ("it has instances", instances(run, identity, going).await),
        // An API that does not answer (of a broken APIService) may hold the one object that counts.
        Guard::Contents => ("it is empty", contents(run, &identity.name, going).await),
    };
    match lost {
        Ok(lost) => Answer::WouldLose(lost),
        Err(error) => Answer::Unseen {
            why: format!("it cannot be seen whether {what}: {}", Chain(&error)),
            is_transient: error.is_transient(),
        },
    }
}

/// Whether a CRD has instances, in words.
async fn instances(run: &Run, crd: &Identity, going: &BTreeSet<ObjectKey>) -> Result<Option<String>, Error> {
    let Some(crd) = run.context.cluster.reader.get(crd).await? else { return Ok(None) };
    let Some(resource) = prune::instances(&crd.body) else { return Ok(Some(prune::NONE_SERVED.to_owned())) };
    let found = living(run, &resource, None, going).await?;
    Ok(found.map(|name| format!("it has instances, {name} among them")))
}

/// Whether a namespace holds anything that would be lost with it, in words.
async fn contents(run: &Run, namespace: &str, going: &BTreeSet<ObjectKey>) -> Result<Option<String>, Error> {
    for kind in run.context.cluster.kinds.listable().await?.iter().filter(|kind| kind.namespaced) {
        if let Some(name) = living(run, &kind.resource, Some(namespace), going).await? {
            return Ok(Some(format!("it is not empty: {name} is in it")));
        }
    }
    Ok(None)
}

/// The first object that is not being deleted, is not derived from another, and is not there in every namespace.
async fn living(
    run: &Run,
    resource: &ApiResource,
    namespace: Option<&str>,
    going: &BTreeSet<ObjectKey>,
) -> Result<Option<String>, Error> {
    let mut page = ListParams::default().limit(500);
    loop {
        let list = match run.context.cluster.reader.list_metadata_in(resource, namespace, &page).await {
            Ok(list) => list,
            Err(error) if matches!(error.code(), 404 | 405) => return Ok(None),
            Err(error) => return Err(error),
        };
        let living = list.items.into_iter().find(|object: &kube::core::PartialObjectMeta<DynamicObject>| {
            prune::would_be_lost(&resource.group, &resource.kind, &object.metadata, namespace.is_some(), going)
        });
        if let Some(object) = living {
            return Ok(Some(format!("{} {:?}", resource.kind, object.name_any())));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(None),
        }
    }
}
