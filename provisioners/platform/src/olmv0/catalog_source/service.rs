//! The Service by which clients read the catalog of a CatalogSource: another name for ours, since what they dial says which catalog they
//! mean. API server.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_crds::olmv0::CatalogSource;
use rukpak_runtime::api::Error;
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use super::super::context::{Context, FIELD_MANAGER};
use super::shown::{self, PORT};
use crate::owned::going_with;

/// What OLM compares to know whether a Service is still as it made it. Where OLM runs again, it has to make it anew.
const HASH: &str = "olm.service-spec-hash";

/// Has the Service lead to `host`; returns since when it is there. Words say why it does not.
pub(super) async fn ensure(source: &CatalogSource, host: &str, context: &Context) -> Result<Timestamp, String> {
    let (namespace, name) = (source.namespace().unwrap_or_default(), shown::service(&source.name_any()));
    let api: Api<Service> = Api::namespaced(context.client.clone(), &namespace);
    let words = |error: kube::Error| Chain(&Error::from(error)).to_string();
    let live = api.get_opt(&name).await.map_err(words)?;

    let mut body = desired(source, &name, host);
    match &live {
        // Also that which led to the Pod, where OLM was.
        Some(live) if live.owner_references().iter().any(|owner| Some(&owner.uid) == source.uid().as_ref()) => {
            body["metadata"]["uid"] = json!(live.uid());
            if live.labels().contains_key(HASH) {
                body["metadata"]["labels"] = json!({HASH: ""});
            }
        }
        Some(_) => {
            return Err(format!("Service {name} is not of this CatalogSource; delete it, or give that another name"));
        }
        // Creates, or conflicts with one that was made meanwhile.
        None => body["metadata"]["resourceVersion"] = json!("1"),
    }
    let live = if let Some(live) = live.filter(|live| is_as_desired(live, host)) {
        live
    } else {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(body)).await.map_err(words)?
    };
    Ok(live.creation_timestamp().map_or_else(Timestamp::now, |time| time.0))
}

fn is_as_desired(live: &Service, host: &str) -> bool {
    live.spec.as_ref().is_some_and(|spec| spec.external_name.as_deref() == Some(host))
}

/// Goes with the CatalogSource.
fn desired(source: &CatalogSource, name: &str, host: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": source.namespace(), "ownerReferences": going_with(source)},
        "spec": {
            "type": "ExternalName",
            "externalName": host,
            "ports": [{"name": "grpc", "port": PORT, "protocol": "TCP"}],
        },
    })
}
