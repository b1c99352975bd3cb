//! The APIService, from which the API server has the way here and the authorities that it trusts. API server.

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_runtime::serving::TrustBundle;
use serde_json::json;

use super::SERVICE;

/// Its name: `VERSION.GROUP`.
const NAME: &str = "v1.packages.operators.coreos.com";

/// The APIService. It takes the rights to list, watch and patch this one object.
pub(super) struct Registered {
    services: Api<APIService>,
    namespace: String,
}

impl Registered {
    /// The one that leads to our Service in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { services: Api::all(client), namespace: namespace.to_owned() }
    }

    /// Whether it leads here. OLM has one of the same name.
    fn is_ours(&self, object: &APIService) -> bool {
        let service = object.spec.as_ref().and_then(|spec| spec.service.as_ref());
        service.is_some_and(|service| {
            service.name.as_deref() == Some(SERVICE) && service.namespace.as_ref() == Some(&self.namespace)
        })
    }
}

impl TrustBundle for Registered {
    type Object = APIService;

    fn api(&self) -> Api<APIService> {
        self.services.clone()
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn parts<'o>(&self, object: Option<&'o APIService>) -> Vec<&'o [u8]> {
        let ours = object.filter(|object| self.is_ours(object)).and_then(|object| object.spec.as_ref());
        ours.map(|spec| spec.ca_bundle.as_ref().map_or(&[][..], |bundle| &bundle.0)).into_iter().collect()
    }

    async fn publish(&self, seen: Option<&APIService>, authorities: Vec<u8>) -> Result<APIService, kube::Error> {
        // With the version that was looked at: OLM may have made it its own meanwhile.
        let version = seen.and_then(|seen| seen.metadata.resource_version.as_ref());
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"caBundle": ByteString(authorities)}});
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.services.patch(NAME, &parameters, &Patch::Merge(patch)).await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use axum::http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    fn object(service: &Value, bundle: &Value) -> APIService {
        serde_json::from_value(json!({"metadata": {"name": NAME}, "spec": {"groupPriorityMinimum": 1,
            "versionPriority": 1, "service": service, "caBundle": bundle}}))
        .unwrap()
    }

    #[tokio::test]
    async fn writes_the_authorities_of_an_api_service_that_leads_here_and_of_no_other() {
        let nobody = tower::service_fn(|_: Request<Body>| ready(Ok::<_, Infallible>(Response::new(Body::empty()))));
        let registered = Registered::new(Client::new(nobody, "default"), "rukpak-system");
        let (ours, olms) = (
            json!({"name": SERVICE, "namespace": "rukpak-system"}),
            json!({"name": "packageserver-service", "namespace": "olm"}),
        );
        assert_eq!(registered.parts(Some(&object(&ours, &json!("YQ==")))), [b"a"]);
        assert_eq!(registered.parts(Some(&object(&ours, &Value::Null))), [b""]);
        assert!(registered.parts(Some(&object(&olms, &json!("YQ==")))).is_empty());
        assert!(registered.parts(None).is_empty());
    }
}
