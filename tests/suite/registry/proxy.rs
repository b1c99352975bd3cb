//! What operators are told of the proxy of the cluster. OpenShift's operators do not run: what they would say is said here.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, WorldOptions};
use serde_json::{Value, json};

use super::case::{Case, installed};
use crate::engine::audit::{at_rest, requests, writes};

const API_VERSION: &str = "config.openshift.io/v1";
const DEFINITION: &str = "proxies.config.openshift.io";

/// A cluster that becomes an OpenShift, and one no more.
#[tokio::test]
async fn operators_are_told_of_the_proxy_and_of_its_changes_and_written_for_nothing_else() {
    let arguments = vec!["--proxy-operators".to_owned()];
    let options = WorldOptions { arguments, audit: true, ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    world.controller.set_environment("NO_PROXY", ".own").expect("the harness works");
    restart(&world).await;
    let case = Case::in_world(&world, "proxy").await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.namespace());
    case.deploy(case.files("own"), &json!({"watchNamespace": case.namespace()})).await;
    case.until(installed()).await;
    until_told(&case, &[("NO_PROXY", ".own")]).await;

    define(&case).await;
    say(&case, &json!({"httpProxy": "http://one:3128", "httpsProxy": "http://one:3129", "noProxy": ".svc"})).await;
    let all = [("HTTP_PROXY", "http://one:3128"), ("HTTPS_PROXY", "http://one:3129"), ("NO_PROXY", ".svc")];
    until_told(&case, &all).await;
    say(&case, &json!({"httpProxy": "", "httpsProxy": "http://two:3129"})).await;
    until_told(&case, &[("HTTPS_PROXY", "http://two:3129"), ("NO_PROXY", ".svc")]).await;

    case.until(Expected::is_true("Ready", "Succeeded")).await;
    at_rest(&world).await;
    let before = requests(&world).len();
    restart(&world).await;
    at_rest(&world).await;
    let written = writes(&world, before);
    assert!(written.is_empty(), "the proxy is the same: {written:#?}");

    world.controller.terminate().await.expect("the controller obeys");
    say(&case, &json!({"noProxy": ".svc,.local"})).await;
    restart(&world).await;
    until_told(&case, &[("HTTPS_PROXY", "http://two:3129"), ("NO_PROXY", ".svc,.local")]).await;

    let target = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION);
    case.delete(&target).await;
    until_told(&case, &[("NO_PROXY", ".own")]).await;
}

async fn restart(world: &World) {
    world.controller.restart().await.expect("the controller starts");
    world.controller.wait_ready().await.expect("the controller is ready");
}

/// Waits until the operator has these of the three variables, and no other.
async fn until_told(case: &Case<'_>, expected: &[(&str, &str)]) {
    let operator = case.inside("apps/v1", "Deployment", "pump-manager");
    let expected: BTreeMap<&str, &str> = expected.iter().copied().collect();
    let is_told = |object: &DynamicObject| proxy_of(object) == expected;
    case.until_object(&operator, &format!("{expected:?}"), is_told).await;
}

/// The variables about the proxy. Their order is the API server's.
fn proxy_of(operator: &DynamicObject) -> BTreeMap<&str, &str> {
    let env = operator.data.pointer("/spec/template/spec/containers/0/env").and_then(Value::as_array);
    let variables = env.into_iter().flatten().map(|variable| (text(variable, "name"), text(variable, "value")));
    variables.filter(|(name, _)| name.ends_with("_PROXY")).collect()
}

fn text<'a>(variable: &'a Value, field: &str) -> &'a str {
    variable[field].as_str().unwrap_or_default()
}

/// Makes the kind, and the one Proxy that counts.
async fn define(case: &Case<'_>) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "Proxy", "plural": "proxies", "singular": "proxy", "listKind": "ProxyList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    case.create(&definition).await;
    let served = verbs::await_served(&case.client, API_VERSION, "Proxy", Duration::from_secs(30)).await;
    served.unwrap_or_else(|error| panic!("{error:#}"));
    // What is asked for counts when it was checked, and stands in the status.
    let spec = json!({"httpProxy": "http://not-checked"});
    case.create(&json!({"apiVersion": API_VERSION, "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": spec}))
        .await;
}

/// Merges into the status of the Proxy.
async fn say(case: &Case<'_>, status: &Value) {
    let target = Target::cluster(API_VERSION, "Proxy", "cluster");
    let api = target.api(&case.client).await.expect("the kind is served");
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(&target.name, &PatchParams::default(), &patch).await.expect("the API server agrees");
}
