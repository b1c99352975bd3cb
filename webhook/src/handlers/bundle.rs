//! Bundles.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rukpak_runtime::error::Chain;

use super::{READS, apart, not_known, other_kind, other_operation};
use crate::call::{Call, Shared};
use crate::metrics::Operation;
use crate::reads::{Error, Reads};
use crate::review::{Request, Response};
use crate::rules::bundle::{self, Change};
use crate::rules::{marks, pin};

/// So many ConfigMaps are asked for at once.
const AT_ONCE: usize = 4;
/// ConfigMaps of a Bundle at most: each is asked for.
pub const MAX_CONFIG_MAPS: usize = 1_000;

pub(crate) async fn answer(call: Call, shared: &Shared) -> Response {
    let Call { request, is_large, .. } = &call;
    let is_large = *is_large;
    if !request.is("core.rukpak.io", "v1alpha1", "Bundle") {
        return other_kind(call.request, "Bundle of core.rukpak.io/v1alpha1");
    }
    match (request.operation(), request.sub_resource.as_str()) {
        // Nothing of a Bundle forbids its deletion, and its spec does not change through a subresource.
        (Operation::Delete, _) => return Response::allow(call.request.uid),
        (Operation::Update, "status") => return verdict(&call.request, of_status(&call.request, &shared.controller)),
        (_, sub_resource) if !sub_resource.is_empty() => return Response::allow(call.request.uid),
        (Operation::Create | Operation::Update, _) => {}
        (Operation::Other, _) => return other_operation(call.request),
    }
    let (call, controller) = (Arc::new(call), Arc::clone(&shared.controller));
    let request = Arc::clone(&call);
    let needs = apart(is_large, move || needs(&request.request, &controller)).await;
    let mutable = match needs {
        Err(denial) => return verdict(&call.request, Err(denial)),
        Ok(names) if names.is_empty() => BTreeSet::new(),
        Ok(names) => match tokio::time::timeout(READS, mutable(names, shared, &call)).await {
            Ok(Ok(mutable)) => mutable,
            Ok(Err(error)) => return not_known(call.request.uid.clone(), &Chain(&error).to_string()),
            Err(_) => {
                return not_known(call.request.uid.clone(), &format!("the configmaps were not read within {READS:?}"));
            }
        },
    };
    let request = Arc::clone(&call);
    let checked = apart(is_large, move || match change(&request.request) {
        Some(change) => bundle::check(change, &mutable).map_err(|denial| denial.to_string()),
        None => Ok(()),
    });
    verdict(&call.request, checked.await)
}

fn verdict(request: &Request, checked: Result<(), String>) -> Response {
    match checked {
        Ok(()) => Response::allow(request.uid.clone()),
        Err(text) => Response::deny(request.uid.clone(), 403, &text),
    }
}

fn change(request: &Request) -> Option<Change<'_>> {
    match request.operation() {
        Operation::Create => Some(Change::Create { new: &request.object }),
        Operation::Update => Some(Change::Update { old: &request.old_object, new: &request.object }),
        Operation::Delete | Operation::Other => None,
    }
}

fn of_status(request: &Request, controller: &str) -> Result<(), String> {
    let is_controller = request.user_info.username == controller;
    pin::check(&request.old_object, &request.object, is_controller).map_err(|denial| denial.to_string())
}

/// The ConfigMaps that must be looked at, unless it is refused without.
fn needs(request: &Request, controller: &str) -> Result<BTreeSet<String>, String> {
    let Some(change) = change(request) else { return Ok(BTreeSet::new()) };
    // What RukPak refuses too is said first, in its words.
    let names = bundle::config_maps(change).map_err(|denial| denial.to_string())?;
    if request.user_info.username != controller {
        marks::check(&request.old_object, &request.object, controller).map_err(|denial| denial.to_string())?;
    }
    if names.len() > MAX_CONFIG_MAPS {
        let field = "bundle.spec.source.configmaps";
        return Err(format!("{field} names {} configmaps, more than the limit of {MAX_CONFIG_MAPS}", names.len()));
    }
    Ok(names)
}

/// Those of the ConfigMaps that exist and can be changed.
async fn mutable(names: BTreeSet<String>, shared: &Shared, call: &Call) -> Result<BTreeSet<String>, Error> {
    let reads: &dyn Reads = &*shared.reads;
    stream::iter(names)
        .map(async |name| {
            // A turn for each: one review may name a thousand, and others wait for their few.
            let _pass = call.turn(&shared.gates.reads).await;
            let is_mutable = reads.is_immutable(&name).await? == Some(false);
            Ok(is_mutable.then_some(name))
        })
        .buffer_unordered(AT_ONCE)
        .try_filter_map(async |name| Ok(name))
        .try_collect()
        .await
}
