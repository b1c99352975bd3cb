//! ConfigMaps of the system namespace.

use rukpak_runtime::error::Chain;

use super::{READS, not_known, other_kind, other_operation};
use crate::call::{Call, Shared};
use crate::metrics::Operation;
use crate::review::Response;
use crate::rules::config_map;

pub(crate) async fn answer(call: Call, shared: &Shared) -> Response {
    let request = &call.request;
    if !request.is("", "v1", "ConfigMap") {
        return other_kind(call.request, "ConfigMap of v1");
    }
    let operation = request.operation();
    // The data of an immutable ConfigMap cannot be updated, and Bundles name ConfigMaps of one namespace.
    if !request.sub_resource.is_empty() || request.namespace != *shared.namespace || operation == Operation::Update {
        return Response::allow(call.request.uid);
    }
    let object = match operation {
        Operation::Create if config_map::is_immutable(&request.object) => return Response::allow(call.request.uid),
        Operation::Create => &request.object,
        Operation::Delete => &request.old_object,
        Operation::Update | Operation::Other => return other_operation(call.request),
    };
    // Neither a generated name nor that of one object of a collection is in the request.
    let name = object["metadata"]["name"].as_str().unwrap_or(&request.name);
    let uses = async {
        let _pass = call.turn(&shared.gates.lists).await;
        shared.reads.uses(name).await
    };
    let uses = match tokio::time::timeout(READS, uses).await {
        Ok(Ok(uses)) => uses,
        Ok(Err(error)) => return not_known(call.request.uid, &Chain(&error).to_string()),
        Err(_) => return not_known(call.request.uid, &format!("the bundles were not listed within {READS:?}")),
    };
    let verdict = match operation {
        Operation::Create => config_map::check_creation(name, &uses),
        _ => config_map::check_deletion(name, &uses),
    };
    match verdict {
        Ok(()) => Response::allow(call.request.uid),
        Err(denial) => Response::deny(call.request.uid, 403, &denial.to_string()),
    }
}
