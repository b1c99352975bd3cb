//! Where a Service leads: a Pod behind it that is ready.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use super::{Cluster, Error};

/// Says of which Service an EndpointSlice is.
const SERVICE: &str = "kubernetes.io/service-name";

impl Cluster {
    /// The first Pod behind the Service that is ready, and the number of its port with this name.
    pub async fn ready_pod(&self, namespace: &str, service: &str, port: &str) -> Result<Option<(String, u16)>, Error> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let slices = slices.list(&ListParams::default().labels(&format!("{SERVICE}={service}"))).await;
        Ok(of_slices(&slices.map_err(|error| self.fault(error))?.items, port))
    }
}

fn of_slices(slices: &[EndpointSlice], name: &str) -> Option<(String, u16)> {
    slices.iter().find_map(|slice| {
        let port = slice.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name))?.port?;
        // What says nothing is ready.
        let is_ready = |ready: Option<bool>| ready != Some(false);
        let ready = slice
            .endpoints
            .iter()
            .flatten()
            .filter(|endpoint| is_ready(endpoint.conditions.as_ref().and_then(|conditions| conditions.ready)));
        let pod = ready.filter_map(|endpoint| endpoint.target_ref.as_ref()).find_map(pod)?;
        Some((pod, u16::try_from(port).ok()?))
    })
}

fn pod(target: &ObjectReference) -> Option<String> {
    target.name.clone().filter(|_| target.kind.as_deref() == Some("Pod"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    fn endpoint(ready: &Value, kind: &str, name: &str) -> Value {
        json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": kind, "name": name}})
    }

    fn slices(ports: &Value, endpoints: &[Value]) -> Value {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {}, "items": [
            {"metadata": {"name": "core-ipv6"}, "addressType": "IPv6", "endpoints": []},
            {"metadata": {"name": "core-x"}, "addressType": "IPv4", "ports": ports, "endpoints": endpoints},
        ]})
    }

    #[test]
    fn a_slice_names_its_pods_and_says_which_are_ready() {
        let found = |ports: Value, endpoints: &[Value]| {
            let list = slices(&ports, endpoints);
            of_slices(&serde_json::from_value::<Vec<_>>(list["items"].clone()).unwrap(), "https")
        };
        let ports = || json!([{"name": "metrics", "port": 8080}, {"name": "https", "port": 8443}]);
        let unready = endpoint(&json!(false), "Pod", "starting");
        let (ready, silent) = (endpoint(&json!(true), "Pod", "core-1"), endpoint(&json!(null), "Pod", "core-2"));
        let core = |number: u8| Some((format!("core-{number}"), 8443));
        let node = endpoint(&json!(true), "Node", "n");
        assert_eq!(found(ports(), &[node.clone(), unready.clone(), ready.clone()]), core(1));
        assert_eq!(found(ports(), &[unready.clone(), silent]), core(2), "what says nothing is ready");
        assert_eq!(found(ports(), &[unready, node]), None);
        assert_eq!(found(json!([{"name": "http", "port": 80}]), &[ready]), None);
    }

    /// A cluster that answers with this, and the paths that it is asked for.
    fn cluster(code: u16, answer: Value) -> (Cluster, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = asked.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            seen.lock().unwrap().push(request.uri().to_string());
            let answer = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
        });
        let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        (Cluster { config, client: kube::Client::new(service, "default"), name: "a test".to_owned() }, asked)
    }

    #[tokio::test]
    async fn slices_of_the_service_are_asked_for() {
        let ports = json!([{"name": "https", "port": 8443}]);
        let slices = slices(&ports, &[endpoint(&json!(true), "Pod", "core-1")]);
        let no = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "", "message": "no", "code": 403});
        for (code, answer, expected) in [(200, slices, Some(("core-1".to_owned(), 8443))), (403, no, None)] {
            let (cluster, asked) = cluster(code, answer);
            let found = cluster.ready_pod("rukpak-system", "core", "https").await;
            assert_eq!(found.ok().flatten(), expected, "{code}");
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), 1, "{asked:?}");
            assert!(asked[0].contains("/namespaces/rukpak-system/endpointslices?"), "{asked:?}");
            assert!(asked[0].ends_with("labelSelector=kubernetes.io%2Fservice-name%3Dcore"), "{asked:?}");
        }
    }
}
