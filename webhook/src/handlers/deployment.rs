//! BundleDeployments.

use std::collections::BTreeSet;

use rukpak_runtime::error::Chain;

use super::{READS, not_known, other_kind, other_operation};
use crate::call::{Call, Shared};
use crate::metrics::Operation;
use crate::reads::Error;
use crate::review::Response;
use crate::rules::account::{self, Identity};
use crate::rules::subscription;

pub(crate) async fn answer(call: Call, shared: &Shared) -> Response {
    let request = &call.request;
    if !request.is("core.rukpak.io", "v1alpha1", "BundleDeployment") {
        return other_kind(call.request, "BundleDeployment of core.rukpak.io/v1alpha1");
    }
    match request.operation() {
        Operation::Update if request.sub_resource == "status" => return of_status(call, shared).await,
        _ if !request.sub_resource.is_empty() => return Response::allow(call.request.uid),
        Operation::Delete => return Response::allow(call.request.uid),
        Operation::Create | Operation::Update => {}
        Operation::Other => return other_operation(call.request),
    }
    let (old, new) = (&request.old_object, &request.object);
    let identities = account::impersonated(old, new, &shared.controller, shared.requires_account);
    let verdict = match lacking(&call, shared, identities).await {
        Ok(None) => match closed(&call, shared, subscription::namespaces(old, new)).await {
            Ok(None) => return Response::allow(call.request.uid),
            Ok(Some(namespace)) => Ok(subscription::denial(&request.user_info.username, namespace)),
            Err(why) => Err(why),
        },
        Ok(Some(identity)) => {
            let is_named = new["spec"]["serviceAccount"].is_object();
            Ok(account::denial(&request.user_info.username, &identity, is_named))
        }
        Err(why) => Err(why),
    };
    refusal(call, verdict)
}

/// The status says what is installed, and what to go back to.
async fn of_status(call: Call, shared: &Shared) -> Response {
    let request = &call.request;
    if request.old_object["status"] == request.object["status"] {
        return Response::allow(call.request.uid);
    }
    let verdict = match lacking(&call, shared, vec![Identity::of_user(&shared.controller)]).await {
        Ok(None) => return Response::allow(call.request.uid),
        Ok(Some(_)) => Ok(account::status_denial(&request.user_info.username, &shared.controller)),
        Err(why) => Err(why),
    };
    refusal(call, verdict)
}

fn refusal(call: Call, verdict: Result<String, String>) -> Response {
    match verdict {
        Ok(text) => Response::deny(call.request.uid, 403, &text),
        Err(why) => not_known(call.request.uid, &why),
    }
}

/// The first of them that the user may not impersonate. Nobody needs a right to be who they are.
async fn lacking(call: &Call, shared: &Shared, identities: Vec<Identity>) -> Result<Option<Identity>, String> {
    let user = &call.request.user_info;
    let asked = async {
        for identity in identities.into_iter().filter(|identity| identity.user_name() != user.username) {
            let _pass = call.turn(&shared.gates.reads).await;
            if !shared.reads.may_impersonate(user, &identity).await? {
                return Ok(Some(identity));
            }
        }
        Ok(None)
    };
    in_time(asked).await
}

/// The first of the namespaces in which the user may not create ClusterServiceVersions.
async fn closed<'a>(call: &Call, shared: &Shared, namespaces: BTreeSet<&'a str>) -> Result<Option<&'a str>, String> {
    let asked = async {
        for namespace in namespaces {
            let _pass = call.turn(&shared.gates.reads).await;
            if !shared.reads.may_create_versions(&call.request.user_info, namespace).await? {
                return Ok(Some(namespace));
            }
        }
        Ok(None)
    };
    in_time(asked).await
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match tokio::time::timeout(READS, asked).await {
        Ok(answer) => answer.map_err(|error| Chain(&error).to_string()),
        Err(_) => Err(format!("the API server did not answer within {READS:?}")),
    }
}
