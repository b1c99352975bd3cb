//! Calls of the webhook's own port, as the API server makes them: what an API server would never send, or would prune.

use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::direct::{answer, review, webhook};
use super::helpers::{bundle, image};

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
}
