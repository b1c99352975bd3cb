//! The HTTP face, call by call.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use axum::body::Body;
use axum::http::{Request, StatusCode};
use rukpak_webhook::BUNDLE_PATH;
use rukpak_webhook::router::{BODY_LIMIT_BYTES, Shared, router};
use serde_json::{Value, json};
use tower::ServiceExt as _;

async fn call(shared: &Shared, content_type: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post(BUNDLE_PATH).header("content-type", content_type).body(body.into()).unwrap();
    let response = router(shared.clone()).oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn review(request: Value) -> Value {
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let (status, text) = call(&Shared::default(), "application/json", body.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&body["apiVersion"], &body["kind"]));
    assert_eq!(answer["response"]["uid"], request["uid"]);
    answer["response"].clone()
}

fn request(operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "uid": "u-1",
        "kind": {"group": "core.rukpak.io", "version": "v1alpha1", "kind": "Bundle"},
        "resource": {"group": "core.rukpak.io", "version": "v1alpha1", "resource": "bundles"},
        "name": "b", "operation": operation, "userInfo": {"username": "someone"},
        "oldObject": old, "object": new, "dryRun": false, "options": null,
    })
}

fn bundle(tag: &str) -> Value {
    json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b"},
        "spec": {"provisionerClassName": "core-rukpak-io-plain",
                 "source": {"type": "git", "git": {"repository": "r", "ref": {"tag": tag}}}},
    })
}

#[tokio::test]
async fn a_changed_spec_is_denied_with_the_literal_text_twice() {
    let response = review(request("UPDATE", &bundle("v1"), &bundle("v2"))).await;
    let status = json!({
        "status": "Failure", "code": 403,
        "message": "bundle.spec is immutable", "reason": "bundle.spec is immutable",
    });
    assert_eq!(response, json!({"uid": "u-1", "allowed": false, "status": status}));
}

#[tokio::test]
async fn what_changes_no_spec_is_admitted() {
    let allowed = json!({"uid": "u-1", "allowed": true});
    assert_eq!(review(request("CREATE", &Value::Null, &bundle("v1"))).await, allowed);
    assert_eq!(review(request("UPDATE", &bundle("v1"), &bundle("v1"))).await, allowed);
    assert_eq!(review(request("DELETE", &bundle("v1"), &Value::Null)).await, allowed);
    let mut status = request("UPDATE", &bundle("v1"), &bundle("v2"));
    status["subResource"] = json!("status");
    assert_eq!(review(status).await, allowed);
}

#[tokio::test]
async fn a_broken_source_is_denied() {
    let mut broken = bundle("v1");
    broken["spec"]["source"]["type"] = json!("image");
    let response = review(request("CREATE", &Value::Null, &broken)).await;
    assert_eq!(response["status"]["code"], 403);
    assert_eq!(response["status"]["message"], r#"bundle.spec.source.image must be set for source type "image""#);
}

#[tokio::test]
async fn another_kind_or_operation_is_refused_clearly() {
    let mut other = request("CREATE", &Value::Null, &bundle("v1"));
    other["kind"]["version"] = json!("v1alpha2");
    let response = review(other).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
    assert_eq!(
        response["status"]["message"],
        "this webhook answers for Bundle of core.rukpak.io/v1alpha1, not for Bundle of core.rukpak.io/v1alpha2"
    );
    let response = review(request("CONNECT", &Value::Null, &Value::Null)).await;
    assert_eq!(response["status"]["message"], r#"operation "CONNECT" is unknown to this webhook"#);
}

#[tokio::test]
async fn what_is_no_review_gets_no_review() {
    let shared = Shared::default();
    for (body, text) in [
        ("{", "the body is not an AdmissionReview: EOF"),
        ("", "the body is not an AdmissionReview: EOF"),
        ("[]", "the body is not an AdmissionReview: "),
        ("{}", r#"the body is "" of "", expected "AdmissionReview" of "admission.k8s.io/v1""#),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}"#,
            r#"the body is "AdmissionReview" of "admission.k8s.io/v1beta1", expected"#,
        ),
        (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "the AdmissionReview has no request"),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#,
            "the body is not an AdmissionReview: missing field `uid`",
        ),
    ] {
        let (status, answer) = call(&shared, "application/json", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.starts_with(text), "{answer}");
    }
    let (status, answer) = call(&shared, "text/yaml", "{}").await;
    assert_eq!(
        (status, answer.as_str()),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json\n")
    );
    let counted = shared.metrics.render();
    assert!(counted.contains(r#"{operation="other",verdict="invalid"} 8"#), "{counted}");
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused_by_its_limit() {
    let shared = Shared::default();
    let (status, answer) = call(&shared, "application/json", vec![b' '; BODY_LIMIT_BYTES + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.contains("8388608 bytes"), "{answer}");
    let (status, _) = call(&shared, "application/json", vec![b' '; BODY_LIMIT_BYTES]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "exactly the limit is read");
}

#[tokio::test]
async fn deep_nesting_is_an_error_and_not_a_crash() {
    let body = format!(r#"{{"request":{}"#, "[".repeat(1_000_000));
    let (status, answer) = call(&Shared::default(), "application/json", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer.contains("recursion limit"), "{answer}");
}
