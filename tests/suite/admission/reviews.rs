//! Calls of the webhook's own port, as the API server makes them: what an API server would never send, or would prune.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use kube::Client;
use kube::api::{Patch, PatchParams};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::direct::{answer, review, webhook};
use super::helpers::{bundle, create, deployment, image, patch, patch_refused, refused};

#[tokio::test]
async fn fields_that_no_schema_knows_are_immutable_too() {
    let old = bundle("b", &image());
    let mut new = old.clone();
    new["spec"]["source"]["unknown"] = json!("");
    let response = answer(&review("UPDATE", &old, &new)).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(status["code"], 403);
    assert_eq!(
        (&status["reason"], &status["message"]),
        (&json!("bundle.spec is immutable"), &json!("bundle.spec is immutable"))
    );
    assert_eq!(answer(&review("UPDATE", &new, &old)).await["allowed"], false, "nor may they go");
    assert_eq!(answer(&review("UPDATE", &new, &new)).await["allowed"], true);
}

#[tokio::test]
async fn deletions_and_subresources_pass() {
    let old = bundle("b", &image());
    assert_eq!(answer(&review("DELETE", &old, &Value::Null)).await["allowed"], true);
    let mut new = old.clone();
    new["spec"]["source"]["image"]["ref"] = json!("other");
    let mut status = review("UPDATE", &old, &new);
    status["request"]["subResource"] = json!("status");
    assert_eq!(answer(&status).await["allowed"], true);
}

#[tokio::test]
async fn what_is_no_review_is_refused_and_the_next_call_is_answered() {
    let (client, url) = webhook().await;
    let post = |body: &'static str, media_type: &'static str| {
        let request = client.post(&url).header(CONTENT_TYPE, media_type).body(body);
        async { request.send().await.expect("the webhook answers").status() }
    };
    assert_eq!(post("{", "application/json").await, StatusCode::BAD_REQUEST);
    assert_eq!(post("{}", "application/json").await, StatusCode::BAD_REQUEST);
    assert_eq!(post("{}", "text/plain").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(client.get(&url).send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
    let other = url.replace("-bundle", "-other");
    assert_eq!(client.post(other).send().await.unwrap().status(), StatusCode::NOT_FOUND);
    // The limit is 8 MiB.
    let large = client.post(&url).header(CONTENT_TYPE, "application/json").body(vec![b' '; 9 << 20]).send().await;
    assert!(large.map_or(true, |answer| answer.status() == StatusCode::PAYLOAD_TOO_LARGE));
    let fine = review("CREATE", &Value::Null, &bundle("b", &image()));
    assert_eq!(answer(&fine).await["allowed"], true);
}

#[tokio::test]
async fn answers_are_counted() {
    let world = World::shared().await;
    let old = bundle("b", &image());
    let mut new = old.clone();
    new["spec"]["provisionerClassName"] = json!("other");
    answer(&review("UPDATE", &old, &new)).await;
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let metrics = plain.get(format!("{}/metrics", world.webhook.http_url)).send().await.unwrap();
    assert_eq!(metrics.status(), StatusCode::OK);
    let text = metrics.text().await.unwrap();
    let value = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim().parse().unwrap()
    };
    assert!(value("rukpak_webhook_reviews_total{operation=\"update\",verdict=\"denied\"}") >= 1);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(value("rukpak_webhook_certificate_expiry_timestamp_seconds ") > now);
    let documented = rukpak_tests::metrics::until_as_documented(&world.webhook, "webhook").await;
    documented.unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn the_pin_of_a_bundle_is_set_by_nobody_else_than_the_controller() {
    let world = World::shared().await;
    let (client, name) = (world.admin().await, unique_name("pin"));
    create(&client, &bundle(&name, &image())).await;
    let target = Target::bundle(&name);
    let controller = world.plane.as_account(CONTROLLER_ACCOUNT).await.unwrap();
    let set = async |client: &Client, pin: &Value| {
        let api = target.api(client).await.unwrap();
        let patch = Patch::Merge(json!({"status": {"phase": "Pending", "pin": pin}}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
    };
    let pin = |digit: &str| json!({"imageDigest": format!("sha256:{}", digit.repeat(64)), "contentDigest": format!("sha256:{}", digit.repeat(64))});
    let refused = set(&client, &pin("0")).await.unwrap_err();
    assert!(refused.contains("bundle.status.pin is set by the controller alone"), "{refused}");
    set(&controller, &pin("1")).await.unwrap();
    for by in [&client, &controller] {
        for other in [pin("2"), Value::Null] {
            let refused = set(by, &other).await.unwrap_err();
            assert!(refused.contains("bundle.status.pin never changes"), "{refused}");
        }
        set(by, &pin("1")).await.unwrap();
    }
    let live = verbs::get(&client, &target).await.unwrap().unwrap();
    assert_eq!(live.data["status"]["pin"], pin("1"));
}

#[tokio::test]
async fn a_bundle_that_says_it_is_a_deployments_is_refused_from_anybody_else() {
    let world = World::shared().await;
    let client = world.admin().await;
    let owner = create(&client, &deployment(&unique_name("owner"), &image())).await;
    let reference = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "controller": true,
                           "name": owner.metadata.name, "uid": owner.metadata.uid});
    let marks = [
        json!({"labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "d"}}),
        json!({"labels": {"core.rukpak.io/bundle-template-hash": "h"}}),
        json!({"ownerReferences": [reference]}),
    ];
    let controller = world.plane.as_account(CONTROLLER_ACCOUNT).await.unwrap();
    for mark in marks {
        let name = unique_name("planted");
        let mut planted = bundle(&name, &image());
        for (field, value) in mark.as_object().unwrap() {
            planted["metadata"][field] = value.clone();
        }
        let denial = refused(&client, &planted).await;
        assert_eq!(denial.code, 403, "{denial:?}");
        assert!(denial.message.contains("which only the controller may say"), "{denial:?}");
        // Nor later.
        create(&client, &bundle(&name, &image())).await;
        let target = Target::bundle(&name);
        patch_refused(&client, &target, &json!({"metadata": mark})).await;
        verbs::merge(&controller, &target, &json!({"metadata": mark})).await.unwrap();
        // What is there may stay while something else changes, and go.
        patch(&client, &target, &json!({"metadata": {"annotations": {"a": "b"}}})).await;
        let gone = json!({"metadata": {"ownerReferences": null, "labels": null}});
        patch(&client, &target, &gone).await;
    }
}
