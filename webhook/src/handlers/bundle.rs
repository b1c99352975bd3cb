//! Bundles.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::{READS, not_known, other_kind, other_operation};
use crate::chain;
use crate::metrics::Operation;
use crate::reads::{Error, Reads};
use crate::review::{Request, Response};
use crate::rules::bundle::{self, Change};

/// So many ConfigMaps are asked for at once.
const AT_ONCE: usize = 8;

pub(crate) async fn answer(request: Request, reads: &dyn Reads) -> Response {
    if !request.is("core.rukpak.io", "v1alpha1", "Bundle") {
        return other_kind(request, "Bundle of core.rukpak.io/v1alpha1");
    }
    // The spec cannot change through a subresource, and nothing of a Bundle forbids its deletion.
    if !request.sub_resource.is_empty() || request.operation() == Operation::Delete {
        return Response::allow(request.uid);
    }
    let change = match request.operation() {
        Operation::Create => Change::Create { new: &request.object },
        Operation::Update => Change::Update { old: &request.old_object, new: &request.object },
        Operation::Delete | Operation::Other => return other_operation(request),
    };
    let mutable = match tokio::time::timeout(READS, mutable(bundle::config_maps(change), reads)).await {
        Ok(Ok(mutable)) => mutable,
        Ok(Err(error)) => return not_known(request.uid, &chain(&error)),
        Err(_) => return not_known(request.uid, &format!("the configmaps were not read within {READS:?}")),
    };
    match bundle::check(change, &mutable) {
        Ok(()) => Response::allow(request.uid),
        Err(denial) => Response::deny(request.uid, 403, &denial.to_string()),
    }
}

/// Those of the ConfigMaps that exist and can be changed.
async fn mutable(names: BTreeSet<String>, reads: &dyn Reads) -> Result<BTreeSet<String>, Error> {
    stream::iter(names)
        .map(async |name| {
            let is_mutable = reads.is_immutable(&name).await? == Some(false);
            Ok(is_mutable.then_some(name))
        })
        .buffer_unordered(AT_ONCE)
        .try_filter_map(async |name| Ok(name))
        .try_collect()
        .await
}
