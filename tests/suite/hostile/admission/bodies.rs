//! Bodies that are no reviews, or hardly.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};

use super::scene::{BUNDLES, CONFIG_MAPS, DEFINITIONS, Scene, calm, flood, large, of_definition, review};

const BUNDLE: [&str; 3] = ["core.rukpak.io", "v1alpha1", "Bundle"];
const PATHS: [&str; 3] = [BUNDLES, CONFIG_MAPS, DEFINITIONS];

fn bundle() -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b"},
           "spec": {"provisionerClassName": "p", "source": {"type": "image", "image": {"ref": "r"}}}})
}

/// A refusal is no answer of 5xx, no admission, and no closed connection.
async fn assert_refused(scene: &Scene, path: &str, body: &str) {
    let (status, text) = scene.post(&scene.http(), path, body.to_owned()).await;
    let shown: String = body.chars().take(200).collect();
    if status == 200 {
        let answer: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(answer["response"]["allowed"], false, "{path} {shown}: {text}");
    } else {
        assert!((400..500).contains(&status), "{path} {shown}: {status} {text}");
    }
}

#[tokio::test]
async fn what_is_no_review_is_refused() {
    let (scene, _turn) = large().await;
    let texts = [
        "",
        "{",
        "null",
        "[]",
        "\"x\"",
        "0",
        "{}",
        "\u{feff}{}",
        "\u{0}",
        "{\"request\":null}",
        "NaN",
        "{\"a\":1}{\"b\":2}",
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":[]}"#,
        r#"{"apiVersion":["admission.k8s.io/v1"],"kind":{},"request":7}"#,
    ];
    for path in PATHS {
        for text in texts {
            assert_refused(scene, path, text).await;
        }
        for size in [129, 1_000_000] {
            assert_refused(scene, path, &"[".repeat(size)).await;
            assert_refused(scene, path, &"{\"a\":".repeat(size)).await;
        }
    }
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn wrong_types_are_refused_field_by_field() {
    let (scene, _calm) = calm().await;
    let odd =
        [json!(null), json!(7), json!("x"), json!([]), json!([[]]), json!({}), json!({"a": {"b": []}}), json!(true)];
    let good = review(BUNDLE, "UPDATE", &bundle(), &bundle());
    let pointers = [
        "/request",
        "/request/uid",
        "/request/kind",
        "/request/kind/group",
        "/request/operation",
        "/request/object/spec",
        "/request/object/spec/source",
        "/request/object/spec/source/type",
        "/request/object/spec/source/image",
        "/request/object/spec/provisionerClassName",
        "/apiVersion",
        "/kind",
    ];
    for pointer in pointers {
        for value in &odd {
            let mut review = good.clone();
            *review.pointer_mut(pointer).expect("it is there") = value.clone();
            if pointer == "/request/uid" && value.is_string() {
                continue;
            }
            assert_refused(scene, BUNDLES, &review.to_string()).await;
        }
    }
    // Neither object, on each path: nothing is admitted that says nothing.
    for (path, kind) in PATHS.into_iter().zip([
        BUNDLE,
        ["", "v1", "ConfigMap"],
        ["apiextensions.k8s.io", "v1", "CustomResourceDefinition"],
    ]) {
        for operation in ["CREATE", "UPDATE", "CONNECT", "", "update"] {
            let is_free = path != BUNDLES && operation != "UPDATE";
            let mut review = review(kind, operation, &Value::Null, &Value::Null);
            review["request"]["namespace"] = json!("rukpak-system");
            let answer = scene.ask(path, &review).await;
            // A ConfigMap or a definition that says nothing is created, or updated, without being looked at.
            assert!(answer["allowed"] == false || is_free || path == CONFIG_MAPS, "{path} {operation}: {answer}");
        }
    }
    for metadata in &odd {
        let mut object = bundle();
        object["metadata"] = metadata.clone();
        scene.ask(BUNDLES, &review(BUNDLE, "CREATE", &Value::Null, &object)).await;
        let definition = json!({"metadata": metadata, "spec": metadata, "status": metadata});
        let mut other = definition.clone();
        other["spec"] = json!({"other": metadata});
        let answer = scene.ask(DEFINITIONS, &of_definition(&definition, &other)).await;
        assert_eq!(answer["allowed"], false, "{answer}");
    }
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn huge_ones_are_refused_by_the_limit_they_pass() {
    let (scene, _turn) = large().await;
    let http = scene.http();
    let limit = 8 << 20;
    // It is refused by its head, and in the middle where the head does not say: the connection may be closed before all is sent.
    let parts = stream::iter((0..40).map(|_| Ok::<_, std::io::Error>(vec![b' '; 256 << 10])));
    for body in [reqwest::Body::from(vec![b' '; limit + 1]), reqwest::Body::wrap_stream(parts)] {
        let call = http.post(scene.url(BUNDLES)).header("content-type", "application/json").body(body);
        if let Ok(answer) = call.send().await {
            assert_eq!(answer.status().as_u16(), 413);
            assert!(answer.text().await.is_ok_and(|text| text.contains("limit of 8388608 bytes")));
        }
    }
    // Two bytes a value.
    let list = format!("{{\"a\":[{}0]}}", "0,".repeat(limit / 2 - 10));
    let bodies = (0..12).map(|_| async { scene.post(&scene.http(), BUNDLES, list.clone()).await });
    let answers: Vec<_> = stream::iter(bodies).buffer_unordered(3).collect().await;
    for (status, text) in answers {
        assert!(status == 400 && text.contains("more than 300000 values") || status == 503, "{status} {text}");
    }
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn bodies_that_are_held_back_take_little_and_keep_nobody_out() {
    let (scene, _alone) = flood().await;
    // 150 times almost all of 8 MB, and then nothing: 1.2 GB, if it were kept.
    let calls: Vec<_> = (0..150)
        .map(|_| {
            let (http, url) = (scene.http(), scene.url(BUNDLES));
            tokio::spawn(async move {
                let parts = stream::iter((0..31).map(|_| Ok::<_, std::io::Error>(vec![b' '; 256 << 10])));
                let body = reqwest::Body::wrap_stream(parts.chain(stream::pending()));
                let call = http.post(url).header("content-type", "application/json").body(body).send().await;
                call.map(|answer| answer.status().as_u16())
            })
        })
        .collect();
    let begin = Instant::now();
    // While they are at it, and until they have been given up.
    for _ in 0..8 {
        scene.assert_unharmed().await;
    }
    for call in calls {
        if let Ok(status) = call.await.expect("nobody panicked") {
            assert_eq!(status, 408);
        }
    }
    // Before the clients themselves give up.
    assert!(begin.elapsed() < Duration::from_mins(2), "{:?}", begin.elapsed());
    scene.assert_unharmed().await;
}
