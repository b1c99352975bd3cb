//! ConfigMaps of the system namespace.

use super::{READS, not_known, other_kind, other_operation};
use crate::chain;
use crate::metrics::Operation;
use crate::reads::Reads;
use crate::review::{Request, Response};
use crate::rules::config_map;

pub(crate) async fn answer(request: Request, reads: &dyn Reads, namespace: &str) -> Response {
    if !request.is("", "v1", "ConfigMap") {
        return other_kind(request, "ConfigMap of v1");
    }
    let operation = request.operation();
    // The data of an immutable ConfigMap cannot be updated, and Bundles name ConfigMaps of one namespace.
    if !request.sub_resource.is_empty() || request.namespace != namespace || operation == Operation::Update {
        return Response::allow(request.uid);
    }
    let object = match operation {
        Operation::Create if config_map::is_immutable(&request.object) => return Response::allow(request.uid),
        Operation::Create => &request.object,
        Operation::Delete => &request.old_object,
        Operation::Update | Operation::Other => return other_operation(request),
    };
    // Neither a generated name nor that of one object of a collection is in the request.
    let name = object["metadata"]["name"].as_str().unwrap_or(&request.name);
    let uses = match tokio::time::timeout(READS, reads.uses(name)).await {
        Ok(Ok(uses)) => uses,
        Ok(Err(error)) => return not_known(request.uid, &chain(&error)),
        Err(_) => return not_known(request.uid, &format!("the bundles were not listed within {READS:?}")),
    };
    let verdict = match operation {
        Operation::Create => config_map::check_creation(name, &uses),
        _ => config_map::check_deletion(name, &uses),
    };
    match verdict {
        Ok(()) => Response::allow(request.uid),
        Err(denial) => Response::deny(request.uid, 403, &denial.to_string()),
    }
}
