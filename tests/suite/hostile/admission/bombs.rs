//! Definitions that cost more than they look like, from somebody who may read definitions: others do not get so far.

use std::time::{Duration, Instant};

use rukpak_tests::verbs;
use serde_json::{Map, Value, json};

use super::scene::{BUNDLES, DEFINITIONS, Scene, large, of_definition, review};

/// Longest answer of the webhook to anybody else meanwhile: well within the ten seconds that the API server waits.
const PROMPT: Duration = Duration::from_secs(6);

/// Asks, again and again while `work` goes on, whether others are answered.
async fn while_others_are_answered<T>(scene: &Scene, work: impl Future<Output = T>) -> T {
    let bundle = json!({"metadata": {"name": "b"}, "spec": {"provisionerClassName": "p", "source": {"type": "image", "image": {"ref": "r"}}}});
    let question = review(["core.rukpak.io", "v1alpha1", "Bundle"], "CREATE", &Value::Null, &bundle).to_string();
    let http = scene.http();
    let others = async || {
        let begin = Instant::now();
        let (status, text) = scene.post(&http, BUNDLES, question.clone()).await;
        assert_eq!(status, 200, "{text}");
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    };
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                others().await;
                return done;
            }
            () = others() => {}
        }
    }
}

async fn thing(scene: &Scene, live: &Value, name: &str, fields: &Value) {
    let mut thing = fields.clone();
    thing["apiVersion"] = json!(format!("{}/v1", live["spec"]["group"].as_str().expect("it has a group")));
    thing["kind"] = json!("Thing");
    thing["metadata"] = json!({"name": name, "namespace": "default"});
    verbs::create(&scene.admin().await, &thing).await.unwrap_or_else(|error| panic!("{error:#}"));
}

fn with_schema(live: &Value, schema: &Value) -> Value {
    let mut new = live.clone();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
    new
}

fn open_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[tokio::test]
async fn fifty_thousand_patterns_do_not_take_the_memory_of_the_node() {
    let (scene, _turn) = large().await;
    let live = scene.definition(&open_schema()).await;
    thing(scene, &live, "a", &json!({"1": "x"})).await;
    let patterns: Vec<_> = (0..50_000).map(|index| json!({"pattern": format!("(.{{50}}){{50}}{index}")})).collect();
    let bomb =
        with_schema(&live, &json!({"type": "object", "properties": {"1": {"type": "string", "anyOf": patterns}}}));
    let calls = async {
        let two = [&bomb, &bomb].map(|bomb| ask(scene, &live, bomb));
        futures::future::join_all(two).await
    };
    let begin = Instant::now();
    for answer in while_others_are_answered(scene, calls).await {
        println!("{answer}");
    }
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn a_check_that_takes_long_keeps_no_other_call_waiting() {
    let (scene, _turn) = large().await;
    let live = scene.definition(&open_schema()).await;
    for name in ["a", "b", "c", "d"] {
        thing(scene, &live, name, &json!({"list": vec![1; 200_000]})).await;
    }
    let alternatives: Vec<_> = (0..20_000).map(|index| json!({"not": {"maximum": -index - 1}})).collect();
    let slow = with_schema(
        &live,
        &json!({"type": "object", "properties": {"list": {"type": "array", "items": {"allOf": alternatives}}}}),
    );
    let calls = async { futures::future::join_all((0..6).map(|_| ask(scene, &live, &slow))).await };
    for answer in while_others_are_answered(scene, calls).await {
        assert_eq!(answer["allowed"], false, "{answer}");
    }
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn versions_and_names_do_not_multiply() {
    let (scene, _turn) = large().await;
    let live = scene.definition(&open_schema()).await;
    let mut many = live.clone();
    let version = live["spec"]["versions"][0].clone();
    let versions = (0..5_000).map(|index| {
        let mut version = version.clone();
        version["name"] = json!(format!("v{index}"));
        version
    });
    many["spec"]["versions"] = versions.collect();
    let answer = scene.ask(DEFINITIONS, &of_definition(&live, &many)).await;
    assert_eq!(answer["status"]["code"], 400, "{answer}");
    assert!(answer.to_string().contains("a list of at most 100 versions"), "{answer}");

    let fields: Map<String, Value> = (0..10_000).map(|index| (index.to_string(), json!({"type": "string"}))).collect();
    let long = with_schema(
        &live,
        &json!({"type": "object", "properties": {"a".repeat(1_000_000): {"type": "object", "properties": fields}}}),
    );
    scene.ask(DEFINITIONS, &of_definition(&live, &long)).await;
    scene.assert_unharmed().await;
}

async fn ask(scene: &Scene, live: &Value, new: &Value) -> Value {
    scene.ask(DEFINITIONS, &of_definition(live, new)).await
}
