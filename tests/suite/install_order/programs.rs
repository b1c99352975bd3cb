//! The programs of the Deployments, in the namespace and with the certificates of OpenShift.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::process::DeployedOptions;
use rukpak_tests::verbs::{self, Denial, Expected, PATIENCE, Target, unique_name};
use rukpak_tests::{Plane, Process};
use serde_json::{Value, json};

use super::service_ca::ServiceCa;
use super::{CONFIGURATION, NAMESPACE, WEBHOOK_SERVICE};

const CORE: &str = "platform-operators-rukpak-core";
/// Between two tries at what cannot be watched.
const INTERVAL: Duration = Duration::from_millis(100);

/// What runs.
pub struct Works {
    bundle: String,
    _programs: [Process; 3],
}

/// Starts all programs and sees that each does its part.
pub async fn run(
    plane: &Plane,
    client: &Client,
    objects: &[Value],
    service_ca: &ServiceCa,
    webhook_port: u16,
) -> Works {
    // It fails closed before anything of it runs.
    until("a Bundle is refused", async || refused(client, &bundle(&unique_name("early"))).await.map(|_| ())).await;
    service_ca.act(client).await;

    let webhook =
        DeployedOptions { ports: BTreeMap::from([("https".to_owned(), webhook_port)]), arguments: Vec::new() };
    let webhook = start(plane, objects, "platform-operators-rukpak-webhooks", &webhook).await;
    let name = unique_name("order");
    until("a Bundle is taken", async || verbs::create(client, &bundle(&name)).await.map(|_| ())).await;
    registered(client).await;
    // The entry that the webhook adds has the right namespace and a caBundle, so this is asked, and let through.
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}});
    until("a ConfigMap is taken", async || verbs::create(client, &config_map).await.map(|_| ())).await;

    let core = start(plane, objects, CORE, &DeployedOptions::default()).await;
    until("content is served", async || content(&core, service_ca).await).await;

    let manager = "platform-operators-controller-manager";
    let manager = start(plane, objects, manager, &DeployedOptions::default()).await;
    summary(client).await;
    let works = Works { bundle: name, _programs: [webhook, core, manager] };
    works.still(client).await;
    works
}

impl Works {
    /// A Bundle with another spec is denied, still.
    pub async fn still(&self, client: &Client) {
        let change = json!({"spec": {"provisionerClassName": "other"}});
        let denial = verbs::merge_expecting_denial(client, &Target::bundle(&self.bundle), &change).await;
        let denial = denial.unwrap_or_else(|error| panic!("{error:#}"));
        assert!(denial.message.ends_with("bundle.spec is immutable") && denial.code == 403, "{denial:?}");
    }
}

async fn start(plane: &Plane, objects: &[Value], name: &str, options: &DeployedOptions) -> Process {
    let mut deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let deployment = deployments.find(|deployment| deployment["metadata"]["name"] == name).unwrap();
    let process = plane.start_deployment(deployment, options).await.unwrap_or_else(|error| panic!("{error:#}"));
    process.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    process
}

/// A Bundle that no controller touches.
fn bundle(name: &str) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
           "spec": {"provisionerClassName": "nobody", "source": {"type": "image", "image": {"ref": "example.test/a:v1"}}}})
}

async fn refused(client: &Client, object: &Value) -> Result<Denial> {
    let denial = verbs::create_expecting_denial(client, object).await;
    if denial.is_err() {
        verbs::delete(client, &Target::of(object)?).await?;
    }
    denial
}

/// The entries for ConfigMaps, BundleDeployments and deletions are the webhook's own: beside the others, with the same way to it.
async fn registered(client: &Client) {
    let target = Target::cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", CONFIGURATION);
    let there = |object: Option<&DynamicObject>| {
        let webhooks = object.and_then(|object| object.data["webhooks"].as_array());
        webhooks.is_some_and(|webhooks| webhooks.iter().any(|entry| entry["name"] == "vconfigmaps.core.rukpak.io"))
    };
    let found = verbs::await_object(client, &target, "the entry for ConfigMaps", PATIENCE, there).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}")).unwrap();
    let webhooks = found.data["webhooks"].as_array().unwrap();
    let bundles = &webhooks[0]["clientConfig"];
    let [.., config_maps, deployments, needed] = webhooks.as_slice() else { panic!("three entries: {webhooks:?}") };
    assert_eq!(config_maps["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}));
    assert_eq!(deployments["name"], "vbundledeployments.core.rukpak.io");
    assert_eq!(needed["name"], "vneeded.core.rukpak.io");
    for own in [config_maps, deployments, needed] {
        let client_config = &own["clientConfig"];
        assert_eq!(client_config["caBundle"], bundles["caBundle"]);
        assert_eq!(
            (&client_config["service"]["name"], &client_config["service"]["namespace"]),
            (&json!(WEBHOOK_SERVICE), &json!(NAMESPACE))
        );
        assert_eq!(client_config["service"]["port"], bundles["service"]["port"]);
    }
}

/// Asks for content with the service CA as the only authority. Who does not say who he is gets no content, but TLS.
async fn content(core: &Process, service_ca: &ServiceCa) -> Result<()> {
    let host = format!("{CORE}.{NAMESPACE}.svc");
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(service_ca.pem().as_bytes())?])
        .resolve(&host, ([127, 0, 0, 1], core.content_port).into())
        .build()?;
    let answer = client.get(format!("https://{host}:{}/bundles/a.tgz", core.content_port)).send().await?;
    anyhow::ensure!(answer.status() == 401, "{}", answer.status());
    Ok(())
}

/// The manager tells of the example, which no catalog has here, in the ClusterOperator that was installed.
async fn summary(client: &Client) {
    let target = Target::cluster("config.openshift.io/v1", "ClusterOperator", "platform-operators-aggregated");
    let expected = Expected::is_false("Available", "PlatformOperatorError").saying("service-mesh");
    let found = verbs::await_condition(client, &target, expected, PATIENCE).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}"));
    let versions = json!([{"name": "operator", "version": env!("CARGO_PKG_VERSION")}]);
    assert_eq!(found.data["status"]["versions"], versions);
}

/// Tries until it works: how far the API server is behind its own objects, or a program behind a Secret, cannot be watched.
async fn until(what: &str, mut attempt: impl AsyncFnMut() -> Result<()>) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while let Err(error) = attempt().await {
        assert!(tokio::time::Instant::now() < end, "not yet after {PATIENCE:?}: {what}: {error:#}");
        tokio::time::sleep(INTERVAL).await;
    }
}
