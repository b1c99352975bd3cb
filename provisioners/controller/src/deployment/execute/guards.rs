//! What would be lost with an object that is deleted.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use rukpak_plain::ObjectKey;
use rukpak_plan::prune::{self, Decision, Guard, decide};
use rukpak_runtime::error::Chain;

use super::members::Member;
use crate::cluster::Error;
use crate::deployment::observe::Run;

/// Objects that are going to be deleted: nothing is lost with what only they hang on.
pub(super) type Going = BTreeSet<ObjectKey>;

/// It cannot be seen whether data hangs on an object.
pub(super) struct Unseen {
    /// In words.
    pub why: String,
    /// Whether it may be seen in a moment.
    pub is_transient: bool,
}

/// Why an object is left in the cluster and not deleted; `None` if it is deleted.
pub(super) async fn reason_to_keep(
    run: &Run,
    key: &ObjectKey,
    member: &Member,
    going: &Going,
) -> Result<Option<String>, Unseen> {
    let unseen = |what: &str, error: &Error| Unseen {
        why: format!("it cannot be seen whether {what}: {}", Chain(error)),
        is_transient: error.is_transient(),
    };
    match decide(&key.group, &key.kind, &member.metadata) {
        Decision::Delete | Decision::DeleteUnless(Guard::None | Guard::Data) => Ok(None),
        Decision::Release => Ok(Some("its data would be lost".to_owned())),
        Decision::DeleteUnless(Guard::Instances) => {
            instances(run, member, going).await.map_err(|error| unseen("it has instances", &error))
        }
        // An API that does not answer (of a broken APIService) may hold the one object that counts.
        Decision::DeleteUnless(Guard::Contents) => {
            let contents = contents(run, &member.identity.name, going).await;
            contents.map_err(|error| unseen("it is empty", &error))
        }
    }
}

/// Whether a CRD has instances, in words.
async fn instances(run: &Run, member: &Member, going: &Going) -> Result<Option<String>, Error> {
    let Some(crd) = run.context.cluster.reader.get(&member.identity).await? else { return Ok(None) };
    let Some(resource) = prune::instances(&crd.body) else { return Ok(Some(prune::NONE_SERVED.to_owned())) };
    let found = living(run, &resource, None, going).await?;
    Ok(found.map(|name| format!("it has instances, {name} among them")))
}

/// Whether a namespace holds anything that would be lost with it, in words.
async fn contents(run: &Run, namespace: &str, going: &Going) -> Result<Option<String>, Error> {
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
    going: &Going,
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
