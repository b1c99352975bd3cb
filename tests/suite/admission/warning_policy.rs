//! The policies that warn and refuse nothing (`manifests/*-warning.yaml`), judged by an API server: it finds no mistake in their expressions,
//! and warns of what they are about alone.

use axum::http::Request;
use kube::Client;
use kube::api::DynamicObject;
use kube::client::Body;
use rukpak_tests::kubectl::{Printed, Terminal};
use rukpak_tests::plane::{InstallOptions, yaml};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::SOON;
use rukpak_tests::{Plane, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant, sleep};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const CLASS: &str = "rukpak-provisioner-class-served";
const SERVICE_ACCOUNT: &str = "clusterextension-serviceaccount-deprecated";
const OWN: &str = "core.rukpak.io/v1alpha1";
const OLM: &str = "olm.operatorframework.io/v1";

static PLANE: OnceCell<Plane> = OnceCell::const_new();

/// A plane with all of our kinds and these policies, where nobody acts on objects.
async fn plane() -> &'static Plane {
    PLANE.get_or_init(start).await
}

async fn start() -> Plane {
    let plane = Plane::start().await.unwrap_or_else(|error| panic!("{error:#}"));
    let manifests = InstallOptions { without_webhooks: true, ..InstallOptions::with_olm() };
    plane.install(&manifests).await.unwrap_or_else(|error| panic!("{error:#}"));
    let client = admin(&plane).await;
    until_types_are_known(&client).await;
    for file in ["class-warning.yaml", "olm-service-account-warning.yaml"] {
        let file = tools::workspace_folder().join("manifests").join(file);
        for object in yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}")) {
            apply(&client, &serde_json::to_value(object).expect("JSON")).await;
        }
    }
    plane
}

async fn admin(plane: &Plane) -> Client {
    plane.admin().await.expect("the admin kubeconfig is good")
}

async fn apply(client: &Client, object: &Value) -> DynamicObject {
    verbs::apply(client, object).await.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Waits until the types of the policy's present expressions have been checked; returns what is wrong with them.
async fn type_warnings(client: &Client, name: &str) -> Vec<Value> {
    let target = Target::cluster(ADMISSION, "ValidatingAdmissionPolicy", name);
    let is_checked = |object: &DynamicObject| {
        let observed = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
        observed.is_some() && observed == object.metadata.generation
    };
    let found =
        verbs::await_object(client, &target, "its types are checked", SOON, |object| object.is_some_and(is_checked));
    let policy = found.await.unwrap_or_else(|error| panic!("{error:#}")).expect("absence is not wanted");
    policy
        .data
        .pointer("/status/typeChecking/expressionWarnings")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

/// Waits until a policy with a field that no kind has is found wrong for each kind: kinds that are not known yet are not checked.
async fn until_types_are_known(client: &Client) {
    let rule = |group: &str, version: &str, resources: Value| json!({"apiGroups": [group], "apiVersions": [version], "resources": resources, "operations": ["CREATE"]});
    let kinds = ["Kind=Bundle", "Kind=BundleDeployment", "Kind=ClusterExtension"];
    let end = Instant::now() + SOON;
    for round in 0.. {
        // A policy is checked once, until its spec changes.
        let validation = json!({"expression": format!("object.spec.noSuchField == {round}")});
        let rules = [
            rule("core.rukpak.io", "v1alpha1", json!(["bundles", "bundledeployments"])),
            rule("olm.operatorframework.io", "v1", json!(["clusterextensions"])),
        ];
        let policy = json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "mistaken"},
            "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [validation]}});
        apply(client, &policy).await;
        let warnings = json!(type_warnings(client, "mistaken").await).to_string();
        if kinds.iter().all(|kind| warnings.contains(&format!("{kind}:"))) && warnings.contains("noSuchField") {
            return;
        }
        assert!(Instant::now() < end, "kinds are not known: {warnings}");
    }
}

/// Asks whether an object would be created; returns the warnings that come with the answer.
async fn warnings(client: &Client, object: &Value) -> Vec<String> {
    let text = |field: &str| object[field].as_str().expect("text");
    let (resource, _) = verbs::discover(client, text("apiVersion"), text("kind")).await.expect("it is served");
    let path = format!("/apis/{}/{}?dryRun=All", text("apiVersion"), resource.plural);
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(object.to_string().into_bytes())).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), 201, "{object}");
    let found = answer.headers().get_all("warning").iter();
    found.map(|warning| warning.to_str().expect("text").to_owned()).collect()
}

/// Waits until a policy warns of an object; returns the warning. That a policy is in force cannot be watched.
async fn until_warned(client: &Client, object: &Value) -> String {
    let end = Instant::now() + SOON;
    loop {
        let mut found = warnings(client, object).await;
        if let Some(warning) = found.pop() {
            assert!(found.is_empty(), "one is enough: {warning} {found:?}");
            return warning;
        }
        assert!(Instant::now() < end, "nobody warns of {object}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn bundle(class: &str) -> Value {
    json!({"apiVersion": OWN, "kind": "Bundle", "metadata": {"name": "pump"},
        "spec": {"provisionerClassName": class, "source": super::helpers::image()}})
}

fn deployment(class: &str, template: &str) -> Value {
    json!({"apiVersion": OWN, "kind": "BundleDeployment", "metadata": {"name": "pump"},
        "spec": {"provisionerClassName": class, "template": {"spec": bundle(template)["spec"]}}})
}

#[tokio::test]
async fn policies_have_no_mistakes_of_types() {
    let client = admin(plane().await).await;
    for name in [CLASS, SERVICE_ACCOUNT] {
        assert_eq!(type_warnings(&client, name).await, Vec::<Value>::new(), "{name}");
    }
}

#[tokio::test]
async fn warns_of_class_that_nobody_serves() {
    let client = admin(plane().await).await;
    let (plain, unserved) = ("core-rukpak-io-plain", "core-rukpak-io-cue");
    for object in [bundle(unserved), deployment(unserved, plain), deployment(plain, unserved)] {
        let warning = until_warned(&client, &object).await;
        assert!(warning.contains(CLASS), "{warning}");
        assert!(warning.contains("core-rukpak-io-registry and core-rukpak-io-helm are served"), "{warning}");
    }
    for class in [plain, "core-rukpak-io-registry", "core-rukpak-io-helm", "provisioner-example-com"] {
        for object in [bundle(class), deployment(class, class)] {
            assert_eq!(warnings(&client, &object).await, Vec::<String>::new(), "{object}");
        }
    }
}

#[tokio::test]
async fn shows_warning_to_whoever_uses_kubectl() {
    let plane = plane().await;
    let unserved = "core-rukpak-io-cue";
    until_warned(&admin(plane).await, &bundle(unserved)).await;
    let terminal = Terminal::new(plane.kubeconfig_path()).unwrap_or_else(|error| panic!("{error:#}"));
    for class in [unserved, "provisioner-example-com"] {
        let (mut object, name) = (deployment(class, class), unique_name("kubectl"));
        object["metadata"]["name"] = json!(name);
        let printed = terminal.enter(&format!("kubectl apply -f - <<'END'\n{object}\nEND")).await;
        let mut lines = printed.and_then(Printed::of_success).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(lines.pop(), Some(format!("bundledeployment.core.rukpak.io/{name} created")), "{lines:?}");
        let expected =
            format!("Warning: Validation failed for ValidatingAdmissionPolicy '{CLASS}' with binding '{CLASS}': ");
        let is_warned = lines.len() == 1 && lines[0].starts_with(&expected);
        assert!(if class == unserved { is_warned } else { lines.is_empty() }, "{class}: {lines:?}");
    }
}

#[tokio::test]
async fn warns_of_service_account_of_cluster_extension() {
    let client = admin(plane().await).await;
    let extension = |further: Value| {
        let mut spec = json!({"namespace": "pumps",
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "pump-operator"}}});
        spec.as_object_mut().expect("an object").extend(further.as_object().expect("an object").clone());
        json!({"apiVersion": OLM, "kind": "ClusterExtension", "metadata": {"name": "pump"}, "spec": spec})
    };
    let warning = until_warned(&client, &extension(json!({"serviceAccount": {"name": "installer"}}))).await;
    assert!(warning.contains("spec.serviceAccount is deprecated, ignored, and will be removed"), "{warning}");
    assert_eq!(warnings(&client, &extension(json!({}))).await, Vec::<String>::new());
}
