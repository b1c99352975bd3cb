//! OpenShift's service CA, as far as the manifests ask for it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use kube::api::{Patch, PatchParams};
use rukpak_tests::TestCa;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

const SERVE: &str = "service.beta.openshift.io/serving-cert-secret-name";
const INJECT: &str = "service.beta.openshift.io/inject-cabundle";

/// Makes certificates for Services, and has webhook configurations trust them.
pub struct ServiceCa(TestCa);

impl ServiceCa {
    pub fn new() -> Self {
        Self(TestCa::new("openshift-service-serving-signer").unwrap())
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// One look at the annotated objects.
    pub async fn act(&self, client: &Client) {
        let services = verbs::list(client, "v1", "Service", "").await.unwrap_or_else(|error| panic!("{error:#}"));
        for service in services {
            let Some(secret) = service.metadata.annotations.as_ref().and_then(|all| all.get(SERVE)) else { continue };
            let (namespace, name) = (service.metadata.namespace.as_deref().unwrap(), service.metadata.name.unwrap());
            self.serve(client, namespace, &name, secret).await;
        }
        let registration = "admissionregistration.k8s.io/v1";
        let configurations = verbs::list(client, registration, "ValidatingWebhookConfiguration", "").await;
        for configuration in configurations.unwrap_or_else(|error| panic!("{error:#}")) {
            let annotations = configuration.metadata.annotations.as_ref();
            if annotations.and_then(|all| all.get(INJECT)).is_some_and(|value| value == "true") {
                let name = configuration.metadata.name.unwrap();
                let count = configuration.data["webhooks"].as_array().map_or(0, Vec::len);
                self.inject(client, &Target::cluster(registration, "ValidatingWebhookConfiguration", &name), count)
                    .await;
            }
        }
    }

    async fn serve(&self, client: &Client, namespace: &str, service: &str, secret: &str) {
        let target = Target::namespaced("v1", "Secret", namespace, secret);
        if verbs::get(client, &target).await.unwrap().is_some() {
            return;
        }
        let name = format!("{service}.{namespace}.svc");
        let leaf = self.0.server(&[&name, &format!("{name}.cluster.local")]).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": secret, "namespace": namespace},
            "stringData": {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem},
        });
        verbs::create(client, &secret).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    async fn inject(&self, client: &Client, target: &Target, count: usize) {
        let bundle = BASE64_STANDARD.encode(self.pem());
        let operation = |index: usize| json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle});
        let operations = Value::Array((0..count).map(operation).collect());
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations).unwrap());
        let api = target.api(client).await.unwrap();
        api.patch(&target.name, &PatchParams::default(), &patch).await.unwrap();
    }
}
