//! Sources that are not fetched: said so, and left at that.

use rukpak_tests::verbs::{self, unique_name};
use serde_json::{Value, json};

use crate::bundles::hands::{Bare, Hands, Scene};

/// The Bundle fails with exactly this, and is not tried again.
async fn refused(hands: &Hands, source: Value, text: &str) {
    let name = unique_name("unsupported");
    hands.bundle(&name, source).await;
    assert_eq!(hands.failing(&name, "source bundle content: ").await, text);
    let bundle = hands.get(&name).await;
    assert_eq!(verbs::condition(&bundle, "Stalled").expect("the condition is there")["reason"], "UnpackFailed");
    assert_eq!(verbs::condition(&bundle, "Reconciling"), None);
}

#[tokio::test]
async fn unknown_types_are_named() {
    let hands = Scene::shared().await.hands().await;
    for type_ in ["local", "Image"] {
        let source = json!({"type": type_, "image": {"ref": "localhost:1/a:v1"}});
        refused(&hands, source, &format!("source bundle content: source type {type_:?} not supported")).await;
    }
}

/// The webhook was down, or is not installed: the controller refuses the same in the same words.
#[tokio::test]
async fn what_the_webhook_denies_fails_without_it() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    let in_git = |directory: &str| {
        let repository = bare.git.url("any");
        json!({"type": "git", "git": {"repository": repository, "directory": directory, "ref": {"branch": "main"}}})
    };
    let escapes = "source bundle content: bundle.spec.source.git.directory begins with \"../\": directory must define \
                   path within the repository";
    for directory in ["..", "../a", "a/../../b"] {
        refused(&hands, in_git(directory), escapes).await;
    }
    let absolute = "source bundle content: bundle.spec.source.git.directory \"/etc\" is absolute: directory must \
                    define path within the repository";
    refused(&hands, in_git("/etc"), absolute).await;
    let mismatch = json!({"type": "git", "image": {"ref": "localhost:1/a:v1"}});
    let text = "source bundle content: bundle.spec.source.git must be set for source type \"git\"";
    refused(&hands, mismatch, text).await;
    let config_maps =
        json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "../manifests"}]});
    let outside = "source bundle content: bundle.spec.source.configmaps[0].path is invalid: \"../manifests\" is outside \
                   bundle root";
    refused(&hands, config_maps, outside).await;
}

#[tokio::test]
async fn with_the_webhook_it_is_denied() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let table = [
        ("..", "begins with \"../\": directory must define path within the repository"),
        ("a/../..", "begins with \"../\": directory must define path within the repository"),
        ("/etc", "is absolute: directory must define path within the repository"),
    ];
    for (directory, text) in table {
        let name = unique_name("denied");
        let git = json!({"repository": scene.world.git.url("any"), "directory": directory, "ref": {"branch": "main"}});
        let bundle = rukpak_tests::world::bundle(&name, json!({"type": "git", "git": git}));
        let denial = verbs::create_expecting_denial(&hands.client, &bundle).await.unwrap();
        assert!(denial.message.contains(text), "{directory}: {}", denial.message);
    }
}
