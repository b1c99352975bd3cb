//! BundleDeployments.

use rukpak_runtime::error::Chain;

use super::{READS, not_known, other_kind, other_operation};
use crate::metrics::Operation;
use crate::review::Response;
use crate::router::{Call, Shared};
use crate::rules::account;

pub(crate) async fn answer(call: Call, shared: &Shared) -> Response {
    let request = &call.request;
    if !request.is("core.rukpak.io", "v1alpha1", "BundleDeployment") {
        return other_kind(call.request, "BundleDeployment of core.rukpak.io/v1alpha1");
    }
    match request.operation() {
        _ if !request.sub_resource.is_empty() => return Response::allow(call.request.uid),
        Operation::Delete => return Response::allow(call.request.uid),
        Operation::Create | Operation::Update => {}
        Operation::Other => return other_operation(call.request),
    }
    let (old, new) = (&request.old_object, &request.object);
    let Some(identity) = account::impersonated(old, new, &shared.controller, shared.requires_account) else {
        return Response::allow(call.request.uid);
    };
    // Nobody needs a right to be who they are.
    if request.user_info.username == identity.user_name() {
        return Response::allow(call.request.uid);
    }
    let asked = async {
        let _pass = call.turn(&shared.gates.reads).await;
        shared.reads.may_impersonate(&request.user_info, &identity).await
    };
    match tokio::time::timeout(READS, asked).await {
        Ok(Ok(true)) => Response::allow(call.request.uid),
        Ok(Ok(false)) => {
            let is_named = new["spec"]["serviceAccount"].is_object();
            let text = account::denial(&request.user_info.username, &identity, is_named);
            Response::deny(call.request.uid, 403, &text)
        }
        Ok(Err(error)) => not_known(call.request.uid, &Chain(&error).to_string()),
        Err(_) => not_known(call.request.uid, &format!("the API server did not answer within {READS:?}")),
    }
}
