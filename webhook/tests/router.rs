//! The HTTP face, call by call.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "router/definitions.rs"]
mod definitions;
mod support;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use rukpak_webhook::call::Shared;
use rukpak_webhook::router::{BODY_LIMIT_BYTES, router};
use rukpak_webhook::{BUNDLE_PATH, CONFIG_MAP_PATH, DEPLOYMENT_PATH};
use serde_json::{Value, json};
use support::Known;
use tower::ServiceExt as _;

async fn call(shared: &Shared, path: &str, content_type: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post(path).header("content-type", content_type).body(body.into()).unwrap();
    let response = router(shared).oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn ask(known: &Known, path: &str, request: Value) -> Value {
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let (status, text) = call(&known.clone().shared(), path, "application/json", body.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&body["apiVersion"], &body["kind"]));
    assert_eq!(answer["response"]["uid"], request["uid"]);
    answer["response"].clone()
}

async fn review(request: Value) -> Value {
    ask(&Known::default(), BUNDLE_PATH, request).await
}

fn of_kind((group, version, kind): (&str, &str, &str), operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": kind},
        "name": "b", "operation": operation, "userInfo": {"username": "someone"},
        "oldObject": old, "object": new, "dryRun": false, "options": null,
    })
}

fn request(operation: &str, old: &Value, new: &Value) -> Value {
    of_kind(("core.rukpak.io", "v1alpha1", "Bundle"), operation, old, new)
}

fn denied(code: u16, text: &str) -> Value {
    let status = json!({"status": "Failure", "code": code, "message": text, "reason": text});
    json!({"uid": "u-1", "allowed": false, "status": status})
}

fn allowed() -> Value {
    json!({"uid": "u-1", "allowed": true})
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
    assert_eq!(response, denied(403, "bundle.spec is immutable"));
}

#[tokio::test]
async fn what_changes_no_spec_is_admitted() {
    assert_eq!(review(request("CREATE", &Value::Null, &bundle("v1"))).await, allowed());
    assert_eq!(review(request("UPDATE", &bundle("v1"), &bundle("v1"))).await, allowed());
    assert_eq!(review(request("DELETE", &bundle("v1"), &Value::Null)).await, allowed());
    let mut status = request("UPDATE", &bundle("v1"), &bundle("v2"));
    status["subResource"] = json!("status");
    assert_eq!(review(status).await, allowed());
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
    let shared = Known::default().shared();
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
        let (status, answer) = call(&shared, BUNDLE_PATH, "application/json", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.starts_with(text), "{answer}");
    }
    let (status, answer) = call(&shared, BUNDLE_PATH, "text/yaml", "{}").await;
    assert_eq!(
        (status, answer.as_str()),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json\n")
    );
    let counted = rukpak_runtime::metrics::text(&shared.metrics.registry());
    assert!(counted.contains(r#"{operation="other",verdict="invalid"} 8"#), "{counted}");
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused_by_its_limit() {
    let shared = Known::default().shared();
    let (status, answer) = call(&shared, BUNDLE_PATH, "application/json", vec![b' '; BODY_LIMIT_BYTES + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.contains("8388608 bytes"), "{answer}");
    let (status, _) = call(&shared, BUNDLE_PATH, "application/json", vec![b' '; BODY_LIMIT_BYTES]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "exactly the limit is read");
}

#[tokio::test]
async fn deep_nesting_is_an_error_and_not_a_crash() {
    let body = format!(r#"{{"request":{}"#, "[".repeat(1_000_000));
    let (status, answer) = call(&Known::default().shared(), BUNDLE_PATH, "application/json", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer.contains("recursion limit"), "{answer}");
}

fn made_of(name: &str, entries: &Value) -> Value {
    let mut bundle = bundle("v1");
    bundle["metadata"]["name"] = json!(name);
    bundle["spec"]["source"] = json!({"type": "configMaps", "configMaps": entries});
    bundle
}

#[tokio::test]
async fn a_bundle_is_not_made_of_mutable_config_maps() {
    let known = Known { mutable: vec!["m"], ..Known::default() };
    let entries = json!([{"configMap": {"name": "m"}, "path": "../x"}, {"configMap": {"name": "missing"}}]);
    let question = request("CREATE", &Value::Null, &made_of("b", &entries));
    let text = "[bundle.spec.source.configmaps[0].path is invalid: \"../x\" is outside bundle root, \
                bundle.spec.source.configmaps[0].configmap.name is invalid: configmap \"m\" is not immutable \
                (kubectl patch configmap m --type=merge -p '{\"immutable\": true}')]";
    assert_eq!(ask(&known, BUNDLE_PATH, question.clone()).await, denied(403, text));
    let silent = Known { is_silent: true, ..known };
    let response = ask(&silent, BUNDLE_PATH, question).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
    assert!(response["status"]["message"].as_str().unwrap().starts_with("cannot get configmap \"m"), "{response}");
    // Other sources need no answer.
    assert_eq!(ask(&silent, BUNDLE_PATH, request("CREATE", &Value::Null, &bundle("v1"))).await, allowed());
}

fn of_config_map(operation: &str, object: &Value) -> Value {
    let (old, new) = if operation == "DELETE" { (object, &Value::Null) } else { (&Value::Null, object) };
    let mut question = of_kind(("", "v1", "ConfigMap"), operation, old, new);
    question["namespace"] = json!("rukpak-system");
    question
}

#[tokio::test]
async fn config_maps_in_use_stay_as_they_are() {
    let bundles = ["b2", "b1"].map(|name| made_of(name, &json!([{"configMap": {"name": "m"}}])));
    let known = Known { bundles: bundles.into(), ..Known::default() };
    let config_map = |name: &str| json!({"metadata": {"name": name}});
    let answer =
        async |operation: &str, object: &Value| ask(&known, CONFIG_MAP_PATH, of_config_map(operation, object)).await;
    let text = "configmap \"m\" is referenced in .spec.source.configMaps[].configMap.name by bundles [b1 b2]; \
                referenced configmaps must have .immutable == true";
    assert_eq!(answer("CREATE", &config_map("m")).await, denied(403, text));
    assert_eq!(answer("DELETE", &config_map("m")).await, denied(403, "configmap \"m\" is in-use by bundle \"b1\""));
    assert_eq!(answer("CREATE", &json!({"metadata": {"name": "m"}, "immutable": true})).await, allowed());
    assert_eq!(answer("UPDATE", &config_map("m")).await, allowed());
    for operation in ["CREATE", "DELETE"] {
        assert_eq!(answer(operation, &config_map("other")).await, allowed());
        let mut elsewhere = of_config_map(operation, &config_map("m"));
        elsewhere["namespace"] = json!("elsewhere");
        assert_eq!(ask(&known, CONFIG_MAP_PATH, elsewhere).await, allowed());
    }

    let silent = Known { is_silent: true, ..Known::default() };
    let response = ask(&silent, CONFIG_MAP_PATH, of_config_map("DELETE", &config_map("m"))).await;
    assert_eq!(response["status"]["code"], 500, "{response}");
    let response = ask(&known, CONFIG_MAP_PATH, request("CREATE", &Value::Null, &bundle("v1"))).await;
    let text = "this webhook answers for ConfigMap of v1, not for Bundle of core.rukpak.io/v1alpha1";
    assert_eq!(response, denied(400, text));
}

#[tokio::test]
async fn a_service_account_is_used_by_whoever_may_impersonate_it() {
    let account = "system:serviceaccount:shop:installer";
    let spec = json!({"serviceAccount": {"name": "installer", "namespace": "shop"}});
    let create = |spec: &Value| {
        let new = json!({"metadata": {"name": "b"}, "spec": spec});
        of_kind(("core.rukpak.io", "v1alpha1", "BundleDeployment"), "CREATE", &Value::Null, &new)
    };
    let nobody = Known::default();
    let denial = ask(&nobody, DEPLOYMENT_PATH, create(&spec)).await;
    let text = "bundledeployment.spec.serviceAccount: user \"someone\" may not decide what is installed with the rights of this \
                ServiceAccount, which takes verb impersonate on serviceaccounts \"installer\" in namespace \"shop\"";
    assert_eq!(denial, denied(403, text));
    assert_eq!(*nobody.log.lock().unwrap(), [format!("access someone as {account}")]);
    let anybody = Known { impersonable: vec![account], ..Known::default() };
    assert_eq!(ask(&anybody, DEPLOYMENT_PATH, create(&spec)).await, allowed());
    let quiet = Known::default();
    assert_eq!(ask(&quiet, DEPLOYMENT_PATH, create(&json!({}))).await, allowed());
    let mut itself = create(&spec);
    itself["userInfo"]["username"] = json!(account);
    assert_eq!(ask(&quiet, DEPLOYMENT_PATH, itself).await, allowed());
    let mut scale = create(&spec);
    scale["subResource"] = json!("scale");
    assert_eq!(ask(&quiet, DEPLOYMENT_PATH, scale).await, allowed());
    assert!(quiet.log.lock().unwrap().is_empty(), "nothing to ask");

    let silent = Known { is_silent: true, ..Known::default() };
    let response = ask(&silent, DEPLOYMENT_PATH, create(&spec)).await;
    assert_eq!(response["status"]["code"], 500, "{response}");
    let response = ask(&quiet, DEPLOYMENT_PATH, request("CREATE", &Value::Null, &bundle("v1"))).await;
    let text = "this webhook answers for BundleDeployment of core.rukpak.io/v1alpha1, not for Bundle of core.rukpak.io/v1alpha1";
    assert_eq!(response, denied(400, text));
}

#[tokio::test]
async fn the_marks_of_a_subscription_are_set_by_whoever_may_create_its_versions() {
    let new =
        json!({"metadata": {"name": "b", "labels": {"core.rukpak.io/subscription-namespace": "team-b"}}, "spec": {}});
    let create = || of_kind(("core.rukpak.io", "v1alpha1", "BundleDeployment"), "CREATE", &Value::Null, &new);
    let nobody = Known::default();
    let denial = ask(&nobody, DEPLOYMENT_PATH, create()).await;
    let text = "bundledeployment.metadata.labels[\"core.rukpak.io/subscription-namespace\"] and the annotations beside it say what a \
                Subscription in namespace \"team-b\" has installed: user \"someone\" may not, which takes verb create on \
                clusterserviceversions.operators.coreos.com in that namespace; create a Subscription, or a BundleDeployment without them";
    assert_eq!(denial, denied(403, text));
    assert_eq!(*nobody.log.lock().unwrap(), ["versions someone in team-b"]);
    let anybody = Known { open_namespaces: vec!["team-b"], ..Known::default() };
    assert_eq!(ask(&anybody, DEPLOYMENT_PATH, create()).await, allowed());
}

#[tokio::test]
async fn the_status_of_a_deployment_is_the_controllers() {
    let with = |digest: &str| json!({"metadata": {"name": "b"}, "spec": {}, "status": {"history": [{"contentDigest": digest}]}});
    let by = |user: &str, new: &Value| {
        let kind = ("core.rukpak.io", "v1alpha1", "BundleDeployment");
        let mut question = of_kind(kind, "UPDATE", &with("a"), new);
        question["subResource"] = json!("status");
        question["userInfo"]["username"] = json!(user);
        question
    };
    let nobody = Known::default();
    let denial = ask(&nobody, DEPLOYMENT_PATH, by("eve", &with("b"))).await;
    assert_eq!(denial["status"]["code"], 403, "{denial}");
    let text = denial["status"]["message"].as_str().unwrap();
    assert!(text.starts_with("bundledeployment.status says what is installed") && text.contains("\"eve\""), "{text}");
    assert_eq!(ask(&nobody, DEPLOYMENT_PATH, by("eve", &with("a"))).await, allowed(), "nothing changes");
    assert_eq!(ask(&nobody, DEPLOYMENT_PATH, by(support::CONTROLLER, &with("b"))).await, allowed());
    let admin = Known { impersonable: vec![support::CONTROLLER], ..Known::default() };
    assert_eq!(ask(&admin, DEPLOYMENT_PATH, by("admin", &with("b"))).await, allowed());
}

#[tokio::test]
async fn a_rollback_by_annotation_takes_what_one_by_the_spec_takes() {
    let account = "system:serviceaccount:shop:installer";
    let old =
        json!({"metadata": {"name": "b"}, "spec": {"serviceAccount": {"name": "installer", "namespace": "shop"}}});
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({"core.rukpak.io/rollback-to": "1"});
    let question = || of_kind(("core.rukpak.io", "v1alpha1", "BundleDeployment"), "UPDATE", &old, &new);
    let denial = ask(&Known::default(), DEPLOYMENT_PATH, question()).await;
    assert_eq!(denial["status"]["code"], 403, "{denial}");
    let installer = Known { impersonable: vec![account], ..Known::default() };
    assert_eq!(ask(&installer, DEPLOYMENT_PATH, question()).await, allowed());

    let mut other = old.clone();
    other["spec"]["serviceAccount"]["name"] = json!("other");
    let question = of_kind(("core.rukpak.io", "v1alpha1", "BundleDeployment"), "UPDATE", &old, &other);
    let one = Known { impersonable: vec!["system:serviceaccount:shop:other"], ..Known::default() };
    assert_eq!(
        ask(&one, DEPLOYMENT_PATH, question).await["status"]["code"],
        403,
        "the account that is taken away is asked for"
    );
}

#[tokio::test]
async fn marks_of_a_deployment_are_the_controllers() {
    let mut marked = bundle("v1");
    marked["metadata"]["labels"] = json!({"core.rukpak.io/bundle-template-hash": "h"});
    let by = |user: &str, old: &Value| {
        let mut question = request(if old.is_null() { "CREATE" } else { "UPDATE" }, old, &marked);
        question["userInfo"]["username"] = json!(user);
        question
    };
    for old in [Value::Null, bundle("v1")] {
        let response = review(by("someone", &old)).await;
        assert_eq!(response["status"]["code"], 403);
        let text = response["status"]["message"].as_str().unwrap();
        assert!(text.contains("bundle-template-hash") && text.contains(support::CONTROLLER), "{text}");
        assert_eq!(review(by(support::CONTROLLER, &old)).await, allowed());
    }
    assert_eq!(review(by("someone", &marked)).await, allowed(), "who has it keeps it");
}

#[tokio::test]
async fn the_pin_is_the_controllers_and_for_ever() {
    let with = |commit: &str| {
        let mut pinned = bundle("v1");
        pinned["status"] = json!({"pin": {"gitCommit": commit}});
        pinned
    };
    let by = |user: &str, old: &Value, new: &Value| {
        let mut question = request("UPDATE", old, new);
        question["subResource"] = json!("status");
        question["userInfo"]["username"] = json!(user);
        question
    };
    let (free, one, two) = (bundle("v1"), with("1"), with("2"));
    assert_eq!(review(by(support::CONTROLLER, &free, &one)).await, allowed());
    assert_eq!(review(by("someone", &one, &one)).await, allowed());
    let text =
        "bundle.status.pin is set by the controller alone, when the content is unpacked (flag --controller-username)";
    assert_eq!(review(by("someone", &free, &one)).await, denied(403, text));
    let text = "bundle.status.pin never changes: delete the Bundle and create it again";
    for user in ["someone", support::CONTROLLER] {
        for new in [&two, &free] {
            assert_eq!(review(by(user, &one, new)).await, denied(403, text));
        }
    }
}

#[tokio::test]
async fn reviews_that_name_many_config_maps_share_one_gate() {
    let entries: Vec<_> = (0..1_000).map(|index| json!({"configMap": {"name": format!("c-{index}")}})).collect();
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                      "request": request("CREATE", &Value::Null, &made_of("b", &json!(entries)))});
    let known = Known::default();
    let (log, reading, shared) = (known.log.clone(), known.reading.clone(), known.shared());
    let calls = (0..16).map(|_| call(&shared, BUNDLE_PATH, "application/json", body.to_string()));
    for (status, text) in futures::future::join_all(calls).await {
        assert_eq!(status, StatusCode::OK, "{text}");
    }
    assert_eq!(log.lock().unwrap().len(), 16_000);
    let most = reading.1.load(std::sync::atomic::Ordering::SeqCst);
    assert!(most <= 8, "{most} at once, of a gate of 16 of which one peer has half");
}

#[tokio::test]
async fn a_bundle_of_too_many_config_maps_is_refused_before_they_are_read() {
    let entries: Vec<_> = (0..1_001).map(|index| json!({"configMap": {"name": format!("c-{index}")}})).collect();
    let known = Known::default();
    let response = ask(&known, BUNDLE_PATH, request("CREATE", &Value::Null, &made_of("b", &json!(entries)))).await;
    let text = "bundle.spec.source.configmaps names 1001 configmaps, more than the limit of 1000";
    assert_eq!(response, denied(403, text));
    assert!(known.log.lock().unwrap().is_empty());
}
