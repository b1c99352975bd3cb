//! The spec of a Bundle never changes, and everything that may change beside it.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::verbs::{self, Denial, Target, unique_name};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::direct::words_on_update;
use super::helpers::{assert_denied, bundle, create, git, image, patch, patch_refused};

const IMMUTABLE: &str = "bundle.spec is immutable";

#[tokio::test]
async fn no_part_of_the_spec_changes() {
    let client = World::shared().await.admin().await;
    let name = unique_name("p4");
    create(&client, &bundle(&name, &image())).await;
    let target = Target::bundle(&name);
    let before = verbs::get(&client, &target).await.unwrap().unwrap();
    for change in [
        json!({"source": {"image": {"ref": "example.test/bundle:v2"}}}),
        json!({"source": {"image": {"pullSecret": "other"}}}),
        json!({"provisionerClassName": "somebody"}),
        json!({"source": {"type": "tomorrow"}}),
        // Refused for its content as well: that is not what is said.
        json!({"source": {"type": "git"}}),
        json!({"source": {"type": "upload", "image": null, "upload": {}}}),
    ] {
        assert_denied(&patch_refused(&client, &target, &json!({"spec": change})).await, IMMUTABLE);
    }
    // Also together with something that may change.
    let change = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"provisionerClassName": "somebody"}});
    assert_denied(&patch_refused(&client, &target, &change).await, IMMUTABLE);

    let name = unique_name("p4");
    create(&client, &bundle(&name, &git())).await;
    let target_git = Target::bundle(&name);
    for change in [
        json!({"repository": "https://example.test/other"}),
        json!({"ref": {"tag": "v2"}}),
        json!({"ref": {"tag": null, "branch": "v1"}}),
        json!({"directory": "manifests"}),
        json!({"auth": {"secret": {"name": "other"}}}),
        json!({"auth": {"insecureSkipVerify": true}}),
    ] {
        let change = json!({"spec": {"source": {"git": change}}});
        assert_denied(&patch_refused(&client, &target_git, &change).await, IMMUTABLE);
    }
    let after = verbs::get(&client, &target).await.unwrap().unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
}

#[tokio::test]
async fn no_way_of_writing_changes_the_spec() {
    let client = World::shared().await.admin().await;
    let name = unique_name("ways");
    let object = create(&client, &bundle(&name, &image())).await;
    let target = Target::bundle(&name);
    let api = target.api(&client).await.unwrap();
    let refusal = |result: kube::Result<DynamicObject>| match result {
        Err(kube::Error::Api(status)) => {
            Denial { code: status.code, reason: status.reason.clone(), message: status.message.clone() }
        }
        other => panic!("{other:?}"),
    };

    let mut replaced = object.clone();
    replaced.data["spec"]["source"]["image"]["ref"] = json!("example.test/bundle:v2");
    assert_denied(&refusal(api.replace(&name, &PostParams::default(), &replaced).await), IMMUTABLE);

    let mut applied = bundle(&name, &image());
    applied["spec"]["source"]["image"]["ref"] = json!("example.test/bundle:v2");
    let forced = PatchParams::apply("rukpak-tests").force();
    assert_denied(&refusal(api.patch(&name, &forced, &Patch::Apply(&applied)).await), IMMUTABLE);
    let dry = PatchParams { dry_run: true, ..forced };
    assert_denied(&refusal(api.patch(&name, &dry, &Patch::Apply(&applied)).await), IMMUTABLE);

    // A write of the status does not carry a change of the spec.
    let mut with_status = object;
    with_status.data["spec"]["source"]["image"]["ref"] = json!("example.test/bundle:v2");
    with_status.data["status"] = json!({"phase": "Pending"});
    let written = api.replace_status(&name, &PostParams::default(), &with_status).await.unwrap();
    assert_eq!(written.data["status"]["phase"], "Pending");
    assert_eq!(written.data["spec"]["source"]["image"]["ref"], image()["image"]["ref"]);
}

#[tokio::test]
async fn metadata_and_status_may_change() {
    let client = World::shared().await.admin().await;
    let name = unique_name("free");
    create(&client, &bundle(&name, &git())).await;
    let target = Target::bundle(&name);
    patch(&client, &target, &json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})).await;
    let held = patch(&client, &target, &json!({"metadata": {"finalizers": ["example.rukpak.io/hold"]}})).await;
    assert_eq!(held.metadata.finalizers.map(|all| all.len()), Some(1));
    let status = json!({"status": {"phase": "Unpacked", "contentURL": "https://example.test"}});
    let api = target.api(&client).await.unwrap();
    let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(written.data["status"]["phase"], "Unpacked");
    verbs::delete(&client, &target).await.unwrap();
    assert!(verbs::get(&client, &target).await.unwrap().is_some(), "its finalizer holds it");
    assert_denied(
        &patch_refused(&client, &target, &json!({"spec": {"provisionerClassName": "somebody"}})).await,
        IMMUTABLE,
    );
    patch(&client, &target, &json!({"metadata": {"finalizers": null}})).await;
    assert!(verbs::get(&client, &target).await.unwrap().is_none());
}

#[tokio::test]
async fn writing_the_same_in_other_words_is_no_change() {
    let client = World::shared().await.admin().await;
    let name = unique_name("same");
    create(&client, &bundle(&name, &git())).await;
    let target = Target::bundle(&name);
    for words in [
        json!({}),
        json!({"auth": {}}),
        json!({"auth": {"secret": {}}}),
        json!({"auth": {"secret": {}, "insecureSkipVerify": false}}),
        json!({"auth": null, "directory": null}),
    ] {
        patch(&client, &target, &json!({"spec": {"source": {"git": words}}})).await;
    }
    for (member, empty) in [("directory", json!("")), ("auth", json!({"secret": {"name": ""}}))] {
        let mut other = git();
        other["git"][member] = empty;
        assert_eq!(words_on_update(&git(), &other).await, None, "{other}");
        assert_eq!(words_on_update(&other, &git()).await, None, "{other}");
    }
    // A field that no schema knows is not stored, or refused by a newer API server; it is never a change.
    if let Ok(pruned) = verbs::merge(&client, &target, &json!({"spec": {"unknown": "field"}})).await {
        assert_eq!(pruned.data["spec"].get("unknown"), None);
    }
}

/// The line in RukPak's documentation.
#[tokio::test]
async fn kubectl_prints_what_the_documentation_shows() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("kubectl");
    create(&client, &bundle(&name, &git())).await;
    let terminal = Terminal::new(world.plane.kubeconfig_path()).expect("Debian's kubectl is there");
    let change: Value = json!({"spec": {"source": {"git": {"ref": {"tag": "v2"}}}}});
    let printed =
        terminal.enter(&format!("kubectl patch bundle {name} --type=merge --patch '{change}'")).await.unwrap();
    assert!(!printed.succeeded);
    // Above it, kubectl warns of kinds of other tests that go while it asks for all kinds.
    assert_eq!(
        printed.lines.last().map_or("", String::as_str),
        "Error from server (bundle.spec is immutable): admission webhook \"vbundles.core.rukpak.io\" denied the request: \
         bundle.spec is immutable"
    );
}
