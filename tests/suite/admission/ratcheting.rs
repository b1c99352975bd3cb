//! Objects that were stored before a CRD came to refuse one of their fields: they can be changed as long as that field stays as it is, and
//! their controllers write their statuses.

use kube::Client;
use kube::api::{DynamicObject, PostParams};
use rukpak_tests::plane::yaml;
use rukpak_tests::process::{PlatformOptions, Process};
use rukpak_tests::verbs::{self, Denial, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, WorldOptions, image};
use rukpak_tests::{ImageBuilder, InstallOptions, tools};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant, sleep};

/// The fields of the spec, in a CRD.
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

/// A world with all of our kinds, for CRDs that change.
struct Scene {
    world: World,
    _manager: Process,
}

static SCENE: OnceCell<Scene> = OnceCell::const_new();

async fn scene() -> &'static World {
    let start = async || {
        let options = WorldOptions { install: InstallOptions::with_olm(), ..WorldOptions::default() };
        let world = World::start_with(options).await?;
        let catalogs = format!("localhost:{}", tools::free_port()?);
        let arguments =
            vec![format!("--catalogs-bind-address={catalogs}"), format!("--catalogs-external-address={catalogs}")];
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = world.plane.start_platform(options).await?;
        manager.wait_ready().await?;
        anyhow::Ok(Scene { world, _manager: manager })
    };
    let scene = SCENE.get_or_try_init(start).await;
    &scene.unwrap_or_else(|error| panic!("the world could not be started: {error:#}")).world
}

/// A CRD of the manifests.
fn definition(name: &str) -> Value {
    let file = tools::workspace_folder().join("manifests/install-olm.yaml");
    let objects = yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}"));
    let found = objects.into_iter().find(|object| object.metadata.name.as_deref() == Some(name));
    serde_json::to_value(found.expect("one of ours")).expect("JSON")
}

/// Stores an object that a rule refuses, while the CRD is without that rule.
async fn store(client: &Client, definition_name: &str, (field, rule): (&str, &str), object: &Value) {
    let strict = definition(definition_name);
    let denial = verbs::create_expecting_denial(client, object).await;
    assert_invalid(&denial.unwrap_or_else(|error| panic!("{error:#}")), field);

    let mut loose = strict.clone();
    let pointer = field.strip_prefix("spec.").expect("a field of the spec").replace('.', "/properties/");
    let schema = loose.pointer_mut(&format!("{SPEC}/{pointer}")).and_then(Value::as_object_mut);
    assert!(schema.expect("it has a schema").remove(rule).is_some(), "{field} has no {rule}");
    verbs::apply(client, &loose).await.unwrap_or_else(|error| panic!("{error:#}"));
    until_judged(client, object, true).await;
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));

    verbs::apply(client, &strict).await.unwrap_or_else(|error| panic!("{error:#}"));
    let mut other = object.clone();
    other["metadata"]["name"] = json!(unique_name("other"));
    until_judged(client, &other, false).await;
}

/// Waits until the API server would take an object, or refuse it: a CRD counts some time after it has changed, which cannot be watched.
async fn until_judged(client: &Client, object: &Value, taken: bool) {
    let api = Target::of(object).expect("an object").api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
    let new: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let end = Instant::now() + SOON;
    loop {
        let answer = api.create(&PostParams { dry_run: true, ..PostParams::default() }, &new).await;
        match &answer {
            Ok(_) if taken => return,
            Err(kube::Error::Api(status)) if status.code == 422 && !taken => return,
            _ => assert!(Instant::now() < end, "the changed CRD does not count: {answer:?}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn assert_invalid(denial: &Denial, field: &str) {
    assert_eq!((denial.code, denial.reason.as_str()), (422, "Invalid"), "{denial:?}");
    assert!(denial.message.contains(field), "{denial:?}");
}

async fn refused(client: &Client, target: &Target, patch: &Value, field: &str) {
    let denial = verbs::merge_expecting_denial(client, target, patch).await;
    assert_invalid(&denial.unwrap_or_else(|error| panic!("{error:#}")), field);
}

async fn merged(client: &Client, target: &Target, patch: &Value) -> DynamicObject {
    verbs::merge(client, target, patch).await.unwrap_or_else(|error| panic!("{error:#}"))
}

#[tokio::test]
async fn upgrades_deployment_whose_stored_deadline_is_refused_now() {
    let world = scene().await;
    let client = world.admin().await;
    let (name, field) = (unique_name("deadline"), "spec.progressDeadline");
    let version = |version: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"version": version}});
        ImageBuilder::of_files([("manifests/settings.yaml", object.to_string())])
    };
    let mut object = world::deployment(&name, image(&world.push(&name, &version("v1")).await));
    object["spec"]["progressDeadline"] = json!("soon");
    store(&client, "bundledeployments.core.rukpak.io", (field, "pattern"), &object).await;
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let before = world::until(&client, &name, installed).await;

    let target = Target::bundle_deployment(&name);
    let pushed = world.registry.push(&format!("bundles/{name}"), "v2", &version("v2")).await.expect("it takes it");
    let source = json!({"spec": {"template": {"spec": {"source": image(&pushed.reference)}}}});
    let changed = merged(&client, &target, &source).await;
    let is_upgraded = |object: &DynamicObject| {
        let status = &object.data["status"];
        status["activeBundle"] != before.data["status"]["activeBundle"]
            && status["observedGeneration"].as_i64() == changed.metadata.generation
            && installed.met_by(object)
    };
    let found = verbs::await_object(&client, &target, "v2", SOON, |object| object.is_some_and(is_upgraded)).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}")).expect("absence is not wanted");
    assert_eq!(found.data.pointer("/spec/progressDeadline"), Some(&json!("soon")));
    let settings = verbs::get(&client, &Target::namespaced("v1", "ConfigMap", "default", &name)).await;
    assert_eq!(settings.expect("an answer").expect("it is installed").data["data"], json!({"version": "v2"}));

    let deadline = |text: &str| json!({"spec": {"progressDeadline": text}});
    refused(&client, &target, &deadline("later"), field).await;
    merged(&client, &target, &deadline("10m")).await;
    refused(&client, &target, &deadline("soon"), field).await;
}

#[tokio::test]
async fn writes_status_of_extension_whose_stored_version_is_refused_now() {
    let client = scene().await.admin().await;
    let (name, field) = (unique_name("version"), "spec.source.catalog.version");
    let catalog = json!({"packageName": name, "version": "newest"});
    let object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": "default", "source": {"sourceType": "Catalog", "catalog": catalog}}});
    store(&client, "clusterextensions.olm.operatorframework.io", (field, "x-kubernetes-validations"), &object).await;

    let target = Target::of(&object).expect("it has a name");
    let catalog = |field: &str, value: Value| json!({"spec": {"source": {"catalog": {field: value}}}});
    let changed = merged(&client, &target, &catalog("channels", json!(["stable"]))).await;
    let is_reported = |object: &DynamicObject| {
        let progressing = verbs::condition(object, "Progressing");
        progressing.is_some_and(|found| found["observedGeneration"].as_i64() == changed.metadata.generation)
    };
    let found = verbs::await_object(&client, &target, "a status", SOON, |object| object.is_some_and(is_reported)).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}")).expect("absence is not wanted");
    assert_eq!(found.data.pointer("/spec/source/catalog/version"), Some(&json!("newest")));

    refused(&client, &target, &catalog("version", json!("latest")), field).await;
    merged(&client, &target, &catalog("version", json!("1.x"))).await;
    refused(&client, &target, &catalog("version", json!("newest")), field).await;
}
