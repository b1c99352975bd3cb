//! APIs that an operator serves itself: the API server asks it, trusts it and lets it ask back.

use http::Request;
use kube::api::DynamicObject;
use rukpak_tests::tools;
use rukpak_tests::verbs::{Expected, Target, condition};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::case::{Case, installed};
use super::serving::{Operator, reach, with_free_port};
use crate::cli::hands::Hands;

#[tokio::test]
async fn an_aggregated_api_is_served_through_the_api_server_and_removed_with_its_operator() {
    // An API that does not answer would disturb the discovery of whoever shares the world.
    let world = World::start(Vec::new()).await.unwrap();
    let case = Case::in_world(&world, "aggregated").await;
    let port = tools::free_port().unwrap();
    case.deploy(with_free_port(&case, "apiservice", port), &Value::Null).await;
    case.until(installed()).await;
    let service = Target::cluster("apiregistration.k8s.io/v1", "APIService", &format!("v1.{}", case.group()));
    case.until(Expected::is_false("Healthy", "Unhealthy").saying("Kind=APIService")).await;

    // Others go on without it, and say so.
    let is_known_silent =
        |object: &DynamicObject| condition(object, "Available").is_some_and(|available| available["status"] == "False");
    case.until_object(&service, "the API server knows that it does not answer", is_known_silent).await;
    let did = Hands::admin_of(&world).await.run_alone(&["why", "apiservice", &service.name]).await;
    let warning = format!("warning: the API {}/v1 does not answer: what it serves is not known\n", case.group());
    assert!(did.code == Some(0) && did.err == warning, "{did:?}");

    // The API server trusts the certificate of the Secret by what the APIService says.
    reach(&case).await;
    let operator = Operator::start(&case, port).await;
    let is_available =
        |object: &DynamicObject| condition(object, "Available").is_some_and(|available| available["status"] == "True");
    case.until_object(&service, "it is available", is_available).await;
    // No Pods run here, so the Deployment stays unhealthy.
    let is_told = |object: &DynamicObject| {
        condition(object, "Healthy")
            .and_then(|healthy| healthy["message"].as_str())
            .is_some_and(|text| !text.contains("APIService"))
    };
    case.until_object(&case.target(), "the API counts as healthy", is_told).await;
    let path = format!("/apis/{}/v1/namespaces/{}/pumps", case.group(), case.namespace());
    let pumps: Value = case.client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(pumps["items"][0]["metadata"]["name"], "first");

    // Its server may ask who calls, and what they may do.
    let delegator = Target::cluster(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "mill-manager-service-system:auth-delegator",
    );
    let account = json!([{"kind": "ServiceAccount", "name": "mill-manager", "namespace": case.namespace()}]);
    assert_eq!(case.get(&delegator).await.data["subjects"], account);
    let reader = Target::namespaced(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "kube-system",
        "mill-manager-service-auth-reader",
    );
    assert_eq!(case.get(&reader).await.data["subjects"], account);

    case.remove().await;
    for target in [&service, &delegator, &reader] {
        case.until_gone(target).await;
    }
    drop(operator);
}
