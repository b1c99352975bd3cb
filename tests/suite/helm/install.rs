//! Installing, upgrading and going back.

use std::process::Command;

use rukpak_content::Limits;
use rukpak_plain::{Budget, Object, manifests};
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::plane::yaml;
use rukpak_tests::tools;
use rukpak_tests::verbs::Target;
use rukpak_tests::world::image;
use serde_json::{Value, json};

use super::case::{Chart, Charts as _, of_image, world};
use crate::engine::case::{Case, definition, definition_target, gadget};

/// A hook that nobody runs here.
const TEST: &str = r"
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test}
spec: {containers: [{name: main, image: example.com/none}]}
";

/// What Helm prints, run as a user would in the folder of a chart.
pub(super) fn helm(chart: &Chart, arguments: &[&[&str]]) -> Vec<u8> {
    let folder = tools::temp_folder("chart").expect("a folder can be made");
    chart.write(folder.path());
    let mut last = Vec::new();
    for arguments in arguments {
        let mut helm = Command::new(tools::helm().expect("Helm is built"));
        let output = helm
            .args(*arguments)
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .output()
            .expect("Helm can be started");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        last = output.stdout;
    }
    last
}

/// What `helm template` makes of a chart.
fn template(case: &Case<'_>, chart: &Chart, kubernetes: &str) -> Vec<Object> {
    let mut arguments = vec!["template", &case.name, "chart"];
    arguments.extend(["--namespace", SYSTEM_NAMESPACE, "--set", "size=2", "--include-crds", "--skip-tests"]);
    arguments.extend(["--kube-version", kubernetes, "--api-versions", "core.rukpak.io/v1alpha1/BundleDeployment"]);
    let (limits, mut objects) = (Limits::default(), Vec::new());
    let printed = helm(chart, &[&arguments]);
    manifests::read_file("manifest.yaml", &printed, &mut Budget::new(&limits), &mut objects)
        .expect("Helm prints manifests");
    objects
}

/// Whether `live` has all that `declared` says.
pub(super) fn has(live: &Value, declared: &Value) -> bool {
    match (live, declared) {
        (Value::Object(live), Value::Object(declared)) => declared
            .iter()
            .all(|(key, value)| live.get(key).map_or_else(|| is_left_out(value), |live| has(live, value))),
        (Value::Array(live), Value::Array(declared)) => {
            live.len() == declared.len() && live.iter().zip(declared).all(|(live, declared)| has(live, declared))
        }
        (_, Value::Null) => true,
        (live, declared) => live == declared,
    }
}

/// Whether the API server leaves out a field with this value, as it does with most.
fn is_left_out(value: &Value) -> bool {
    [json!(null), json!(false), json!(0), json!(""), json!([]), json!({})].contains(value)
}

#[tokio::test]
async fn installs_what_helm_template_prints_with_the_values_and_the_cluster_that_there_are() {
    let case = Case::in_world(world().await, "chart").await;
    let (crd, group) = definition("chart");
    let object = gadget(&group, &case.namespace, "gadget", 3);
    let chart = Chart::new()
        .with("crds/gadgets.yaml", &crd.to_string())
        .with("templates/gadget.yaml", &object.to_string())
        .with("templates/tests/test.yaml", TEST);
    case.deploy_chart(&chart, json!({"values": "size: 2"})).await;
    case.installed().await;

    let kubernetes = case.client.apiserver_version().await.unwrap().git_version;
    let settings = case.settings().await;
    let expected = json!({"namespace": SYSTEM_NAMESPACE, "size": "2", "kubernetes": kubernetes, "knows": "true"});
    assert_eq!(settings, expected);
    let declared = template(&case, &chart, &kubernetes);
    assert_eq!(declared.len(), 3, "{declared:?}");
    for object in declared {
        let namespace = object.namespace().unwrap_or(SYSTEM_NAMESPACE);
        let target = match object.kind() {
            "CustomResourceDefinition" => Target::cluster(object.api_version(), object.kind(), object.name()),
            _ => Target::namespaced(object.api_version(), object.kind(), namespace, object.name()),
        };
        let live = serde_json::to_value(case.get(&target).await.expect("it is installed")).unwrap();
        assert!(has(&live, &object.as_value()), "{target}: {live:#}");
    }
    assert!(case.get(&case.system("Pod", "test")).await.is_none(), "tests are not installed");
    let of_release = format!("owner=helm,name={}", case.name);
    let releases = rukpak_tests::verbs::list(&case.client, "v1", "Secret", &of_release).await.unwrap();
    assert!(releases.is_empty(), "{releases:?}");
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

#[tokio::test]
async fn upgrades_to_other_values_and_to_another_chart() {
    let case = Case::in_world(world().await, "chart-upgrade").await;
    let chart = Chart::new();
    case.deploy_chart(&chart, json!({})).await;
    case.until_size("1").await;

    // As a mapping, which RukPak does not have.
    case.change_values(json!({"size": 5})).await;
    case.until_size("5").await;
    let other = r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-other"}}"#;
    case.change_chart("v2", &chart.without("templates/settings.yaml").with("templates/other.yaml", other)).await;
    case.until_gone(&case.system("ConfigMap", "settings")).await;
    assert!(case.get(&case.system("ConfigMap", "other")).await.is_some());
}

#[tokio::test]
async fn takes_chart_in_the_only_folder() {
    let case = Case::in_world(world().await, "chart-folder").await;
    let reference = case.push_chart("v1", &Chart::new(), "pump/").await;
    case.foreign(&of_image(&case.name, &reference, &json!({}))).await;
    case.until_size("1").await;
}

#[tokio::test]
async fn installs_the_example() {
    let case = Case::in_world(world().await, "chart-example").await;
    let file = tools::workspace_folder().join("examples/chart.yaml");
    let mut example = serde_json::to_value(yaml::objects_of_file(&file).unwrap().remove(0)).unwrap();
    example["metadata"]["name"] = json!(case.name);
    example["spec"]["template"]["spec"]["source"] = image(&case.push_chart("v1", &Chart::new(), "").await);
    case.foreign(&example).await;
    case.until_size("2").await;
}

/// A chart in a registry as Helm puts it there.
#[tokio::test]
async fn takes_chart_that_helm_has_pushed() {
    let case = Case::in_world(world().await, "chart-pushed").await;
    let (registry, name) = (&case.world.registry, case.name.as_str());
    let ca = tools::temp_folder("ca").unwrap();
    let ca_file = ca.path().join("ca.pem");
    std::fs::write(&ca_file, registry.ca_pem()).unwrap();
    let chart = Chart::new().with("Chart.yaml", &format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}"));
    let (archive, target) = (format!("{name}-1.0.0.tgz"), format!("oci://{}/charts", registry.host()));
    let push = ["push", &archive, &target, "--ca-file", ca_file.to_str().unwrap()];
    helm(&chart, &[&["package", "chart"], &push]);
    case.foreign(&of_image(name, &format!("{}/charts/{name}:1.0.0", registry.host()), &json!({}))).await;
    case.until_size("1").await;
}

#[tokio::test]
async fn puts_back_what_was_rendered_when_an_upgrade_fails() {
    let case = Case::in_world(world().await, "chart-back").await;
    case.deploy_chart(&Chart::new().with_password(), json!({})).await;
    case.until_size("1").await;
    let password = case.password().await;

    // What makes it fail after its first writes: an object that its own, new definition refuses.
    let (crd, group) = definition("chart-poison");
    let poison = gadget(&group, &case.namespace, "poison", 0);
    let next = Chart::new()
        .with_password()
        .with("values.yaml", "size: 2")
        .with("crds/poison.yaml", &crd.to_string())
        .with("templates/poison.yaml", &poison.to_string());
    case.change_chart("v2", &next).await;
    let message = case.refused("UpgradeFailed", "spec.size").await;
    assert!(!message.contains("putting the previous version back failed"), "{message}");
    assert_eq!(case.settings().await["size"], "1");
    assert_eq!(case.password().await, password, "it is not rendered anew");
}
