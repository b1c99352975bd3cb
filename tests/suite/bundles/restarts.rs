//! The controller comes back: nothing changed is nothing written and nothing asked; what was lost is fetched again.
//!
//! One test, because each of its parts restarts the controller that the others watch.

use std::io::{Read as _, Seek as _, SeekFrom};

use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::image;
use serde_json::{Value, json};

use crate::bundles::hands::{Bare, Hands, git, good, manifest};

/// The writes to Bundles in the audit log from `start` on: verb and name.
fn writes(bare: &Bare, start: u64) -> Vec<(String, String)> {
    let mut log = std::fs::File::open(bare.plane.audit_log()).expect("the file can be used");
    log.seek(SeekFrom::Start(start)).expect("the file can be used");
    let mut text = String::new();
    log.read_to_string(&mut text).expect("the file can be used");
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let field = |event: &Value, pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let writes = events.filter(|event| {
        let is_read = ["get", "list", "watch"].contains(&field(event, "/verb").as_str());
        !is_read && field(event, "/objectRef/resource") == "bundles"
    });
    writes.map(|event| (field(&event, "/verb"), field(&event, "/objectRef/name"))).collect()
}

fn end_of_audit_log(bare: &Bare) -> u64 {
    std::fs::metadata(bare.plane.audit_log()).expect("the file can be used").len()
}

/// Makes a Bundle and waits for it: whatever the controller had to do before is done by then.
async fn one_more(bare: &Bare, hands: &Hands) -> String {
    let name = unique_name("restart");
    let pushed = bare.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
    hands.bundle(&name, image(&pushed.reference)).await;
    hands.unpacked(&name).await;
    name
}

#[tokio::test]
async fn a_restart_writes_and_asks_nothing_and_refills_what_is_lost() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    let (images, repositories) = (bare.faulty_registry(), bare.faulty_git());
    let (by_image, by_git) = (unique_name("settled"), unique_name("settled"));
    bare.registry.push(&by_image, "v1", &good(&by_image)).await.unwrap();
    hands.bundle(&by_image, image(&format!("{}/{by_image}:v1", images.host()))).await;
    let repository = bare.git.repository(&by_git).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&by_git))]).unwrap();
    repository.commit("first").unwrap();
    hands.bundle(&by_git, git(&format!("{}/{by_git}.git", repositories.url()), &json!({"branch": "main"}))).await;
    let settled = [by_image.as_str(), by_git.as_str()];
    let mut before = Vec::new();
    for name in settled {
        before.push(hands.unpacked(name).await);
    }
    images.forget();
    repositories.forget();
    // An answer may be there before its line in the audit log.
    one_more(bare, &hands).await;

    // Whole.
    let start = end_of_audit_log(bare);
    bare.controller.restart().await.unwrap();
    bare.controller.wait_ready().await.unwrap();
    let last = one_more(bare, &hands).await;
    let written = writes(bare, start);
    assert!(written.iter().any(|(_, name)| *name == last), "the audit log shows writes: {written:?}");
    assert!(!written.iter().any(|(_, name)| settled.contains(&name.as_str())), "{written:?}");
    for (name, before) in settled.into_iter().zip(&before) {
        assert_eq!(hands.get(name).await.metadata.resource_version, before.metadata.resource_version);
    }
    assert_eq!((images.seen(), repositories.seen()), (Vec::new(), Vec::new()));

    // All is lost, and tag and branch have moved on; with a Bundle that went meanwhile.
    let content = settled.map(|name| (hands.content_file(name).unwrap(), hands.content(name)));
    bare.registry.push(&by_image, "v1", &good("moved")).await.unwrap();
    repository.write(&[("manifests/object.yaml", manifest("moved"))]).unwrap();
    repository.commit("second").unwrap();
    bare.controller.kill().await.unwrap();
    verbs::delete(&hands.client, &Target::bundle(&last)).await.unwrap();
    let stale = hands.content_file(&last).unwrap();
    for (file, _) in &content {
        std::fs::remove_file(file).unwrap();
    }
    std::fs::remove_file(hands.reference_file(&by_git)).unwrap();
    let start = end_of_audit_log(bare);
    bare.controller.restart().await.unwrap();
    bare.controller.wait_ready().await.unwrap();
    for (name, (file, files)) in settled.into_iter().zip(&content) {
        hands.stored(name).await;
        assert_eq!(hands.content_file(name).unwrap(), *file);
        assert_eq!(hands.content(name), *files);
    }
    hands.on_disk("the end of a deleted Bundle's content", || !stale.exists()).await;
    let written = writes(bare, start);
    assert!(!written.iter().any(|(_, name)| settled.contains(&name.as_str())), "{written:?}");
}
