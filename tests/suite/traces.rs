//! Traces: what the programs send to an OpenTelemetry collector, and what they do without one.

use std::collections::BTreeSet;

use kube::Client;
use rukpak_tests::collector::{Collector, Span};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, bundle, deployment, image, until, until_bundle};
use rukpak_tests::{
    ControllerOptions, ImageBuilder, InstallOptions, Plane, PlatformOptions, Registry, RegistryOptions, WebhookOptions,
    tools,
};
use serde_json::json;

struct Cluster {
    plane: Plane,
    registry: Registry,
    client: Client,
    flags: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let plane = Plane::start().await.expect("the plane starts");
        plane.install(&InstallOptions::with_platform()).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let folder = tools::temp_folder("traces").expect("a folder");
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, registry.ca_pem()).expect("a file");
        let client = plane.admin().await.expect("the admin kubeconfig is good");
        Self { plane, registry, client, flags: vec![format!("--source-ca-file={}", file.display())], _folder: folder }
    }

    /// Creates a BundleDeployment of one ConfigMap.
    async fn deploy(&self, name: &str) {
        let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n");
        let content = ImageBuilder::of_files([("manifests/object.yaml", object)]);
        let pushed = self.registry.push(&format!("bundles/{name}"), "v1", &content).await.expect("it is taken");
        verbs::create(&self.client, &deployment(name, image(&pushed.reference))).await.expect("it is admitted");
    }

    fn flags(&self, collector: &str) -> Vec<String> {
        [self.flags.clone(), vec![format!("--otlp-endpoint={collector}")]].concat()
    }
}

/// Spans are sent ten times a second.
fn soon() -> Vec<(String, String)> {
    vec![("OTEL_BSP_SCHEDULE_DELAY".to_owned(), "100".to_owned())]
}

fn is_of(span: &Span, name: &str, object: &str) -> bool {
    span.name == name && span.attributes.get("k8s.object.name").is_some_and(|name| name == object)
}

async fn reconciled(collector: &Collector, kind: &str, object: &str, outcome: &str) -> Span {
    let name = format!("reconcile {kind}");
    let wanted = |span: &Span| {
        is_of(span, &name, object) && span.attributes.get("rukpak.outcome").is_some_and(|said| said == outcome)
    };
    let span = collector.span(SOON, wanted).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(span.attributes.get("k8s.object.kind").map(String::as_str), Some(kind));
    assert_eq!(span.attributes.get("rukpak.generation").map(String::as_str), Some("1"), "{span:?}");
    assert!(span.attributes.contains_key("k8s.object.uid") && !span.took.is_zero(), "{span:?}");
    span
}

fn stages(collector: &Collector, of: &Span) -> BTreeSet<String> {
    collector.children(of).into_iter().map(|span| span.name).collect()
}

#[tokio::test]
async fn reconciles_are_traced_and_a_collector_that_is_down_holds_nothing_up() {
    let cluster = Cluster::start().await;
    let (first, second) = (unique_name("untold"), unique_name("told"));

    // Nobody listens there.
    let nowhere = format!("http://127.0.0.1:{}", tools::free_port().expect("a port"));
    let options =
        ControllerOptions { arguments: cluster.flags(&nowhere), environment: soon(), ..ControllerOptions::default() };
    let webhook = cluster.plane.start_webhook(WebhookOptions::default()).await.expect("the webhook starts");
    let controller = cluster.plane.start_controller(options).await.expect("the controller starts");
    webhook.wait_ready().await.expect("it answers");
    controller.wait_ready().await.expect("it works");
    cluster.deploy(&first).await;
    until(&cluster.client, &first, Expected::is_true("Installed", "InstallationSucceeded")).await;
    assert_eq!(controller.terminate().await.expect("it ends"), "exit status: 0");
    let log = controller.log();
    assert_eq!(log.matches("cannot export traces").count(), 1, "{log}");

    let collector = Collector::start().await.expect("the collector starts");
    let options = ControllerOptions {
        arguments: cluster.flags(&collector.url()),
        environment: soon(),
        ..ControllerOptions::default()
    };
    let controller = cluster.plane.start_controller(options).await.expect("the controller starts");
    controller.wait_ready().await.expect("it works");
    cluster.deploy(&second).await;
    let status = until(&cluster.client, &second, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let bundle_name = status.data["status"]["activeBundle"].as_str().expect("it has one").to_owned();
    let unpacked = reconciled(&collector, "Bundle", &bundle_name, "succeeded").await;
    assert_eq!(unpacked.resource["service.name"], "rukpak-controller");
    assert_eq!(unpacked.error, None);
    let expected = ["wait", "resolve", "verify", "fetch", "seal", "check"].map(str::to_owned);
    assert!(stages(&collector, &unpacked).is_superset(&expected.into()), "{:?}", stages(&collector, &unpacked));
    let applied = |span: &Span| span.name == "apply" && span.attributes.get("rukpak.objects").is_some_and(|n| n == "1");
    let applied = collector.span(SOON, applied).await.unwrap_or_else(|error| panic!("{error:#}"));
    let parent = collector.span(SOON, |span| span.id == applied.parent).await.expect("its reconcile");
    assert!(is_of(&parent, "reconcile BundleDeployment", &second), "{parent:?}");
    reconciled(&collector, "BundleDeployment", &second, "succeeded").await;

    // What fails says why.
    let broken = unique_name("broken");
    let missing = format!("{}/no/such:v1", cluster.registry.host());
    verbs::create(&cluster.client, &bundle(&broken, image(&missing))).await.expect("it is admitted");
    let failed = until_bundle(&cluster.client, &broken, Expected::is_false("Unpacked", "UnpackPending")).await;
    let failing = reconciled(&collector, "Bundle", &broken, "failed").await;
    let message = verbs::condition(&failed, "Unpacked").expect("it is there")["message"].as_str().unwrap_or_default();
    assert!(failing.error.as_deref().is_some_and(|error| error.starts_with(message)), "{failing:?}");
    assert!(failing.events.iter().any(|event| event == "Bundle is not unpacked"), "{failing:?}");
}

#[tokio::test]
async fn the_environment_names_collector_and_service_and_the_end_sends_what_is_left() {
    let cluster = Cluster::start().await;
    let collector = Collector::start().await.expect("the collector starts");
    let environment = |service: &str| {
        let pairs = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
            ("OTEL_SERVICE_NAME", service.to_owned()),
            // Nothing is sent before the end.
            ("OTEL_BSP_SCHEDULE_DELAY", "86400000".to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
    };
    let options = WebhookOptions { environment: environment("admission"), ..WebhookOptions::default() };
    let webhook = cluster.plane.start_webhook(options).await.expect("the webhook starts");
    let options = PlatformOptions {
        environment: environment("packages"),
        arguments: vec!["--catalog-source=openshift-marketplace/redhat-operators".to_owned()],
        ..PlatformOptions::default()
    };
    let platform = cluster.plane.start_platform(options).await.expect("the manager starts");
    webhook.wait_ready().await.expect("it answers");
    platform.wait_ready().await.expect("it works");

    let name = unique_name("traced");
    let operator = json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": name}, "spec": {"package": {"name": "nowhere"}}});
    verbs::create(&cluster.client, &operator).await.expect("it is taken");
    let target = Target::of(&operator).expect("it has a name");
    verbs::await_condition(&cluster.client, &target, Expected::is_false("Installed", "SourceFailed"), SOON)
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    verbs::create(&cluster.client, &bundle(&name, image("localhost/a:v1"))).await.expect("it is admitted");
    let patch = json!({"spec": {"source": {"image": {"ref": "localhost/b:v1"}}}});
    verbs::merge_expecting_denial(&cluster.client, &Target::bundle(&name), &patch).await.expect("it is denied");

    for program in [&webhook, &platform] {
        assert_eq!(program.terminate().await.expect("it ends"), "exit status: 0");
    }
    let failed = reconciled(&collector, "PlatformOperator", &name, "failed").await;
    assert_eq!(failed.resource["service.name"], "packages");
    assert!(failed.error.is_some(), "{failed:?}");
    let denied = |span: &Span| is_of(span, "review Bundle", &name) && span.attributes["rukpak.outcome"] == "denied";
    let denied = collector.span(SOON, denied).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(denied.resource["service.name"], "admission");
    assert_eq!(denied.attributes["rukpak.operation"], "update");
    assert_eq!(denied.error, None, "a denial is an answer like any other");
}
