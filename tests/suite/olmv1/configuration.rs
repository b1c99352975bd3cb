//! What an extension configures, and what is wrong with it. The numbers are those of operator-controller's scenarios.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, is_observed, rolled_out};
use crate::platform::packages::{ALL, DEPLOYMENT, OWN, bundle, with_deployment};

fn invalid(message: &str) -> Expected<'_> {
    Expected::is_false("Progressing", "InvalidConfiguration").saying(message)
}

fn inline(config: &Value) -> Value {
    json!({"config": {"configType": "Inline", "inline": config}})
}

async fn offer(case: &Case<'_>, mode: &str) {
    let image = case.push("1.0.0", with_deployment(bundle(&case.name, "1.0.0", mode))).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
}

fn deployment(case: &Case<'_>) -> Target {
    Target::namespaced("apps/v1", "Deployment", &case.space(), DEPLOYMENT)
}

/// 5, 6, 8: what may be watched follows from what the bundle supports.
#[tokio::test]
async fn the_namespace_to_watch_is_asked_for_where_a_bundle_needs_it() {
    let case = Case::new("own").await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    offer(&case, OWN).await;
    case.extend(json!({}), json!({})).await;
    let prefix = format!(
        "error for resolved bundle \"{}.v1.0.0\" with version \"1.0.0\": invalid ClusterExtension configuration: invalid \
         configuration: ",
        case.name
    );
    let text = format!("{prefix}required field \"watchNamespace\" is missing");
    let object = case.until_at(&case.extension(), invalid(&text)).await;
    assert!(
        Expected::is_false("Installed", "Failed").saying("No bundle installed").met_by(&object),
        "{:#}",
        object.data
    );
    case.merge_into(&case.extension(), &json!({"spec": inline(&json!({"watchNamespace": "some-ns"}))})).await;
    let own = format!("invalid value \"some-ns\": must be \"{}\"", case.space());
    case.until_at(&case.extension(), invalid(&own)).await;
    case.merge_into(&case.extension(), &json!({"spec": inline(&json!({"watchNamespace": "invalid-namespace-"}))}))
        .await;
    case.until_at(&case.extension(), invalid("must match pattern")).await;
    case.merge_into(&case.extension(), &json!({"spec": inline(&json!({"watchNamespace": case.space()}))})).await;
    case.until_version("1.0.0").await;
    let made = case.get(&deployment(&case)).await;
    let annotations = &made.data["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], json!(case.space()));
}

/// 9, and what is ours alone.
#[tokio::test]
async fn keys_that_a_bundle_does_not_know_are_refused() {
    let case = Case::new("keys").await;
    offer(&case, ALL).await;
    case.extend(json!({}), inline(&json!({"watchNamespace": "a"}))).await;
    case.until_at(&case.extension(), invalid("unknown field \"watchNamespace\"")).await;
    let set = async |config: Value| {
        let clear = json!({"watchNamespace": null, "installNamespace": null, "deploymentConfig": null});
        let mut config = config;
        for (key, value) in clear.as_object().into_iter().flatten() {
            config.as_object_mut().unwrap().entry(key).or_insert(value.clone());
        }
        case.merge_into(&case.extension(), &json!({"spec": inline(&config)})).await;
    };
    set(json!({"installNamespace": "kube-system"})).await;
    case.until_at(&case.extension(), invalid("unknown field \"installNamespace\"")).await;
    set(json!({"deploymentConfig": {"nodeSelector": 7}})).await;
    case.until_at(&case.extension(), invalid("deploymentConfig")).await;
}

/// 15, 90.
#[tokio::test]
async fn the_deployment_is_configured_reconfigured_and_left_alone_again() {
    let case = Case::new("deployed").await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    offer(&case, ALL).await;
    case.extend(json!({}), inline(&json!({"deploymentConfig": {"nodeSelector": {"disk": "ssd"}}}))).await;
    case.until_at(&case.extension(), rolled_out()).await;
    let selector = |object: &DynamicObject| object.data["spec"]["template"]["spec"]["nodeSelector"].clone();
    assert_eq!(selector(&case.get(&deployment(&case)).await), json!({"disk": "ssd"}));
    let other = json!({"deploymentConfig": {"nodeSelector": {"disk": "hdd"}, "env": [{"name": "A", "value": "b"}]}});
    case.merge_into(&case.extension(), &json!({"spec": inline(&other)})).await;
    let is_other = |object: &DynamicObject| selector(object) == json!({"disk": "hdd"});
    let made = case.until_object(&deployment(&case), "the other selector", is_other).await;
    let container = &made.data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{"name": "A", "value": "b"}]));
    case.merge_into(&case.extension(), &json!({"spec": {"config": null}})).await;
    case.until_object(&deployment(&case), "no selector", |object| selector(object).is_null()).await;
    case.until_object(&case.extension(), "the new spec", |object| is_observed(object) && rolled_out().met_by(object))
        .await;
}

/// 91: what the schema alone refuses.
#[tokio::test]
async fn the_api_server_refuses_what_is_no_configuration() {
    let case = Case::new("schema").await;
    for (config, field) in [
        (json!({"configType": "Other", "inline": {"a": "b"}}), "spec.config.configType"),
        (json!({"inline": {"a": "b"}}), "spec.config.configType"),
        (json!({"configType": "Inline", "inline": "text"}), "spec.config.inline"),
        (json!({"configType": "Inline", "inline": {}}), "spec.config.inline"),
    ] {
        let object = case.object(&json!({}), &json!({"config": config}));
        let denial = verbs::create_expecting_denial(&case.client, &object).await.unwrap();
        assert!(denial.message.contains(field), "{config}: {}", denial.message);
    }
}
