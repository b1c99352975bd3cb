//! Objects that a webhook converts, as long as it works.

use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use super::{Contents, PARALLEL, SOME, fill, gate, is_migrated, objects, versions};
use crate::engine::case::{Case, definition_target};
use crate::engine::conversion::{Converter, version};
use crate::engine::worlds;

/// A kind whose versions a webhook converts: the definition of both versions, and that of `v2` alone.
fn converted(converter: &Converter, prefix: &str) -> ([Value; 2], String) {
    let (old, group) = converter.definition(prefix, "v1");
    let mut new = old.clone();
    new["spec"]["versions"] = json!([version("v2", true)]);
    new["spec"].as_object_mut().expect("it is one").remove("conversion");
    ([old, new], group)
}

/// What a gadget of `v1` with a colour is in `v2`.
fn tinted(before: &Contents) -> Contents {
    let tinted = |(name, (uid, spec)): (&String, &(String, Value))| {
        (name.clone(), (uid.clone(), json!({"size": spec["size"], "tint": "red"})))
    };
    before.iter().map(tinted).collect()
}

async fn paint(case: &Case<'_>, group: &str, before: &Contents) {
    let api = objects(case, group, "v1");
    let paint = |name: &String| {
        let (api, name) = (api.clone(), name.clone());
        async move {
            let patch = Patch::Merge(json!({"spec": {"colour": "red"}}));
            api.patch(&name, &PatchParams::default(), &patch).await.expect("the API server agrees")
        }
    };
    futures::stream::iter(before.keys().map(paint)).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
}

#[tokio::test]
async fn conversion_webhook_that_breaks_down_in_the_middle_drops_nothing() {
    let case = Case::in_world(worlds::troubled().await, "migration-down").await;
    let converter = Converter::start();
    let ([old, new], group) = converted(&converter, "down");
    case.install(&[old]).await;
    let before = fill(&case, &group, SOME).await;
    paint(&case, &group, &before).await;
    let hook = gate(&case, [&group, "gadgets"], 50).await;
    case.change("v2", &[new]).await;
    hook.until_at_gate().await;
    converter.break_down();
    hook.open_gate();
    let expected = Expected::is_false("Ready", "MigrationFailed").saying("conversion webhook");
    let object = until(&case.client, &case.name, expected).await;
    let text = verbs::condition(&object, "Ready").unwrap()["message"].as_str().unwrap();
    let begin = format!("stored objects of gadgets.{group} cannot be migrated to v2, and no version is dropped: ");
    assert!(text.starts_with(&begin), "{text}");
    assert!(Expected::is_true("Reconciling", "ProgressingWithRetry").met_by(&object), "{:#}", object.data["status"]);
    assert_eq!(versions(&case, &group).await, ("v1 v2*".to_owned(), json!(["v1", "v2"])));
    converter.mend();
    hook.end().await;
    case.ready().await;
    is_migrated(&case, &group, &tinted(&before)).await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

#[tokio::test]
async fn nothing_is_begun_where_the_conversion_webhook_is_down() {
    let case = Case::in_world(worlds::troubled().await, "migration-never").await;
    let converter = Converter::start();
    let ([old, new], group) = converted(&converter, "never");
    case.install(&[old]).await;
    let before = fill(&case, &group, 3).await;
    paint(&case, &group, &before).await;
    converter.break_down();
    case.change("v2", &[new]).await;
    let why = format!("cannot try to store the objects of gadgets.{group} as version v2: ");
    let expected = Expected::is_false("Ready", "ErrorGettingReleaseState").saying(&why);
    let object = until(&case.client, &case.name, expected).await;
    let text = verbs::condition(&object, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(text.contains("conversion webhook"), "{text}");
    assert!(Expected::is_true("Reconciling", "ProgressingWithRetry").met_by(&object), "{:#}", object.data["status"]);
    assert_eq!(versions(&case, &group).await, ("v1* v2".to_owned(), json!(["v1"])));
    converter.mend();
    case.ready().await;
    is_migrated(&case, &group, &tinted(&before)).await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}
