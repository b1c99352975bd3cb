//! A bundle drops a version in which objects are stored: they are migrated to one that it keeps, whatever happens meanwhile.

mod converted;
mod interrupted;
mod many;
mod proof;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_tests::faulty::Seen;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::cli::hands::Hands;
use crate::cli::ui::Page;
use crate::engine::case::{Case, OURS, definition, definition_target, gadget};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::served_versions::with_versions;
use crate::engine::worlds;

/// Objects on several pages of a list.
const SOME: usize = 300;
/// Objects that the controller lists at once.
const PAGE: usize = 250;
/// Requests of a test at once.
const PARALLEL: usize = 16;

/// What is to stay of each object, by name: its UID and spec.
type Contents = BTreeMap<String, (String, Value)>;

/// A definition whose objects are stored as `v1`, and served as `v2` too; the one that has `v2` alone; and its group.
fn definitions(prefix: &str) -> ([Value; 2], String) {
    let (one, group) = definition(prefix);
    let old = with_versions(&one, &[("v1", true, true), ("v2", true, false)]);
    ([old, with_versions(&one, &[("v2", true, true)])], group)
}

fn objects(case: &Case<'_>, group: &str, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "Gadget"), "gadgets");
    Api::namespaced_with(case.client.clone(), &case.namespace, &resource)
}

/// Creates so many objects in version `v1`.
async fn fill(case: &Case<'_>, group: &str, count: usize) -> Contents {
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.expect("it is served");
    let api = objects(case, group, "v1");
    let create = |index: usize| {
        let object =
            gadget(group, &case.namespace, &format!("g-{index:05}"), 1 + i64::try_from(index).expect("it is small"));
        let (api, object) = (api.clone(), serde_json::from_value::<DynamicObject>(object).expect("an object"));
        async move { api.create(&PostParams::default(), &object).await.expect("the API server agrees") }
    };
    let created: Vec<_> = futures::stream::iter((0..count).map(create)).buffer_unordered(PARALLEL).collect().await;
    created.into_iter().map(content).collect()
}

fn content(object: DynamicObject) -> (String, (String, Value)) {
    let metadata = object.metadata;
    (metadata.name.expect("it has one"), (metadata.uid.expect("it has one"), object.data["spec"].clone()))
}

async fn contents(case: &Case<'_>, group: &str, version: &str) -> Contents {
    let mut page = ListParams::default().limit(500);
    let mut found = Contents::new();
    loop {
        let list = objects(case, group, version).list(&page).await.expect("every object can be read");
        found.extend(list.items.into_iter().map(content));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return found,
        }
    }
}

/// The versions of the definition, the stored one with a star, and in which objects may be stored.
async fn versions(case: &Case<'_>, group: &str) -> (String, Value) {
    let live = case.get(&definition_target(group)).await.expect("it is there");
    let versions = live.data["spec"]["versions"].as_array().expect("a list").iter().map(|version| {
        let star = if version["storage"] == true { "*" } else { "" };
        format!("{}{star}", version["name"].as_str().expect("it has a name"))
    });
    (versions.collect::<Vec<_>>().join(" "), live.data["status"]["storedVersions"].clone())
}

/// Everything is as it was, but for the version that it is stored in.
async fn is_migrated(case: &Case<'_>, group: &str, before: &Contents) {
    assert_eq!(versions(case, group).await, ("v2*".to_owned(), json!(["v2"])));
    let after = contents(case, group, "v2").await;
    assert_eq!(after.len(), before.len());
    assert!(after == *before, "an object has changed");
}

async fn message(case: &Case<'_>, type_: &str) -> String {
    let object = case.get(&case.target()).await.expect("it is there");
    verbs::condition(&object, type_).expect("it is there")["message"].as_str().expect("text").to_owned()
}

/// How many objects the status says are migrated, to whoever goes on.
async fn recorded(case: &Case<'_>) -> i64 {
    let status = case.status().await;
    let migrations =
        status["inventory"]["pending"]["migrations"].as_array().expect("it is written before the first object");
    assert_eq!(migrations.len(), 1, "{migrations:?}");
    migrations[0]["migrated"].as_i64().expect("a number")
}

/// Has the next write of `resource` that `is_meant` wait at a gate.
async fn gate<'a>(case: &'a Case<'a>, resource: [&str; 2], number: usize) -> Hook<'a> {
    let count = AtomicUsize::new(0);
    let name = (resource[1] == "customresourcedefinitions").then(|| resource[0].to_owned());
    let group = if name.is_some() { "apiextensions.k8s.io" } else { resource[0] };
    Hook::start(case, &[[group, resource[1]]], move |request| {
        let is_meant = name.as_ref().is_none_or(|group| request.name == format!("gadgets.{group}"));
        let is_it = is_meant && count.fetch_add(1, Ordering::SeqCst) + 1 == number;
        if is_it { Verdict::AtGate } else { Verdict::Allow }
    })
    .await
}

#[tokio::test]
async fn stored_objects_are_migrated_by_one_request_each() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    for count in [0, 1, SOME] {
        let case = Case::in_world(world, "migration").await;
        let ([old, new], group) = definitions("migration");
        case.install(&[old]).await;
        let before = fill(&case, &group, count).await;
        let turn = worlds::PROXY.lock().await;
        proxy.forget();
        case.pivot("v2", &[new]).await;
        let of_kind = format!("/apis/{group}/");
        let asked: Vec<_> = proxy.seen().into_iter().filter(|seen| seen.path.contains(&of_kind)).collect();
        drop(turn);
        is_migrated(&case, &group, &before).await;

        let is_write = |seen: &&Seen| seen.method == http::Method::PATCH;
        let (tried, written): (Vec<_>, Vec<_>) =
            asked.iter().filter(is_write).partition(|seen| seen.path.contains("dryRun="));
        assert_eq!((tried.len(), written.len()), (count, count), "each object is tried and written once");
        // Tried, rewritten, and looked at again to see that none is left.
        let pages = count.div_ceil(PAGE).max(1);
        let lists = asked.iter().filter(|seen| seen.path.contains("limit=250")).count();
        assert_eq!(lists, if count == 0 { 2 } else { 3 * pages }, "{asked:#?}");

        let begin = case.told("MigrationStarted").await;
        assert_eq!((begin.tone.as_str(), begin.count), ("Normal", 1));
        assert_eq!(begin.message, format!("Migrating stored objects of gadgets.{group} from v1 to v2"));
        if count > PAGE {
            let on_the_way = case.told("MigrationProgressing").await;
            let said = format!("Migrating stored objects of gadgets.{group} to v2: {PAGE} of {count}");
            assert_eq!((on_the_way.tone.as_str(), on_the_way.message, on_the_way.count), ("Normal", said, 1));
        }
        let end = case.told("MigrationSucceeded").await;
        assert_eq!(end.message, format!("Stored objects of gadgets.{group} are migrated to v2: {count}"));
        let of_ours = |object: &DynamicObject| {
            object.metadata.managed_fields.iter().flatten().any(|entry| entry.manager.as_deref() == Some(OURS))
        };
        let list = objects(&case, &group, "v2").list(&ListParams::default()).await.unwrap();
        assert!(!list.items.iter().any(of_ours), "no field of them is ours");
        assert!(list.items.iter().all(|object| object.metadata.generation == Some(1)), "nothing was changed");
        case.delete(&case.target()).await;
    }
}

#[tokio::test]
async fn progress_is_told_while_objects_are_migrated() {
    let case = Case::new("migration-told").await;
    let ([old, new], group) = definitions("told");
    case.install(&[old]).await;
    fill(&case, &group, SOME).await;
    case.change("v2", &[new]).await;
    let begin = format!("Migrating stored objects of gadgets.{group} to v2: ");
    let is_told = |object: Option<&DynamicObject>| {
        let ready = object.and_then(|object| verbs::condition(object, "Ready"));
        ready.is_some_and(|ready| ready["message"].as_str().is_some_and(|text| text.starts_with(&begin)))
    };
    let told = case.until(&case.target(), "the progress", is_told).await.unwrap();
    assert!(
        Expected { kind: "Ready", status: "Unknown", reason: Some("Progressing"), message: " of 300" }.met_by(&told)
    );
    assert!(Expected::is_true("Reconciling", "Progressing").met_by(&told));
    case.ready().await;
    assert!(!message(&case, "Ready").await.contains("Migrating"));
}

/// What the status says is on the pages of `rukpakctl ui`, and in its tree.
#[tokio::test]
async fn pages_and_tree_say_how_far_it_is() {
    let case = Case::new("migration-page").await;
    let hands = Hands::admin().await;
    let page = Page::serve(&hands).await;
    let ([old, new], group) = definitions("page");
    case.install(&[old]).await;
    fill(&case, &group, 20).await;
    let hook = gate(&case, [&group, "gadgets"], 10).await;
    case.change("v2", &[new]).await;
    hook.until_at_gate().await;

    let said = format!("Migrating stored objects of gadgets.{group} to v2: 0 of 20");
    let one = format!("deployments/{}", case.name);
    for path in ["", one.as_str()] {
        let (status, html) = page.get(path).await;
        assert!(status.is_success() && html.contains(&said), "{path}: {html}");
    }
    let tree = hands.run_alone(&["tree", &case.name]).await;
    assert!(tree.out.contains(&format!("not Ready: Progressing: {said}")), "{tree:?}");
    hook.open_gate();
    case.ready().await;
    assert!(!page.get(&one).await.1.contains(&said), "it is over");
    hook.end().await;
}
