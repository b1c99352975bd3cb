//! Whether everything is as it was declared.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use rukpak_tests::verbs::{self, PATIENCE, Target};
use serde_json::{Value, json};

const SERVED: Duration = Duration::from_secs(30);

/// Every object is there as it was declared, every kind is served, and every Deployment has its Pods: the namespace lets them
/// in, and their ServiceAccounts exist.
pub async fn check(client: &Client, objects: &[Value]) {
    for object in objects {
        let target = Target::of(object).unwrap();
        let live = verbs::get(client, &target).await.unwrap_or_else(|error| panic!("{error:#}"));
        let live = serde_json::to_value(live.unwrap_or_else(|| panic!("there is no {target}"))).unwrap();
        let mut declared = object.clone();
        // A subresource, and of the API server or a controller.
        declared.as_object_mut().unwrap().remove("status");
        if let Err(place) = holds(&live, &declared) {
            panic!("{target}: {place} is {:?} and should be {:?}", live.pointer(&place), declared.pointer(&place));
        }
        match target.kind.as_str() {
            "CustomResourceDefinition" => served(client, object).await,
            "Deployment" => has_pods(client, &target, &object["spec"]["replicas"]).await,
            _ => {}
        }
    }
}

/// Whether `live` says all that `declared` says; else the JSON pointer to what it does not.
fn holds(live: &Value, declared: &Value) -> Result<(), String> {
    match (live, declared) {
        (Value::Object(live), Value::Object(declared)) => declared.iter().try_for_each(|(name, declared)| {
            let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            let live = live.get(name).ok_or_else(|| place.clone())?;
            holds(live, declared).map_err(|rest| place + &rest)
        }),
        // What somebody adds comes behind.
        (Value::Array(live), Value::Array(declared)) if live.len() >= declared.len() => {
            let mut pairs = live.iter().zip(declared).enumerate();
            pairs.try_for_each(|(index, (live, declared))| {
                holds(live, declared).map_err(|rest| format!("/{index}{rest}"))
            })
        }
        (Value::Number(live), Value::Number(declared)) if live.as_f64() == declared.as_f64() => Ok(()),
        (live, declared) if live == declared => Ok(()),
        _ => Err(String::new()),
    }
}

async fn served(client: &Client, definition: &Value) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"].as_str().unwrap();
    let established = await_condition(definitions, name, conditions::is_crd_established());
    let established = tokio::time::timeout(SERVED, established).await;
    established.unwrap_or_else(|_| panic!("{name} is not established after {SERVED:?}")).unwrap();
    let spec = &definition["spec"];
    for version in spec["versions"].as_array().unwrap().iter().filter(|version| version["served"] == true) {
        let api_version = format!("{}/{}", spec["group"].as_str().unwrap(), version["name"].as_str().unwrap());
        let kind = spec["names"]["kind"].as_str().unwrap();
        verbs::await_served(client, &api_version, kind, SERVED).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

async fn has_pods(client: &Client, deployment: &Target, replicas: &Value) {
    let all = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["replicas"] == *replicas)
    };
    let found = verbs::await_object(client, deployment, "its Pods", PATIENCE, all).await;
    let found = found.unwrap_or_else(|error| panic!("{error:#}")).unwrap();
    assert!(verbs::condition(&found, "ReplicaFailure").is_none_or(|failure| failure["status"] != "True"), "{found:?}");
}

#[test]
fn what_is_declared_must_be_there_and_more_may() {
    let live = json!({"a": {"b": 1.0, "x": 0}, "l": [{"n": "1", "d": true}, {"n": "2"}]});
    for declared in [json!({}), json!({"a": {"b": 1}}), json!({"l": [{"n": "1"}]}), json!({"l": [{}, {"n": "2"}]})] {
        assert_eq!(holds(&live, &declared), Ok(()), "{declared}");
    }
    for (declared, place) in
        [(json!({"a": {"c/d": 1}}), "/a/c~1d"), (json!({"l": [{"n": "2"}]}), "/l/0/n"), (json!({"l": [1, 2, 3]}), "/l")]
    {
        assert_eq!(holds(&live, &declared), Err(place.to_owned()));
    }
}
