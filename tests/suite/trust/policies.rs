//! What a ContentPolicy asks for beside signatures, and what a change of it changes.

use rukpak_tests::registry::Cosign;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::image;
use serde_json::json;

use crate::trust::scene::{Case, message, require};

#[tokio::test]
async fn where_a_policy_is_asked_for_what_none_covers_is_refused() {
    let case = Case::new("closed").await;
    case.create().await;
    let text = case.refused_as("RefusedByPolicy", "no rule of a ContentPolicy accepts").await;
    assert!(text.contains(case.pushed.repository()) && text.contains("--require=content-policy"), "{text}");
    case.rule(json!({"action": "Accept"})).await;
    let bundle = case.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let verified = verbs::condition(&bundle, "Verified").unwrap();
    assert_eq!((verified["status"].as_str(), verified["reason"].as_str()), (Some("Unknown"), Some("NotRequired")));
    assert!(message(&bundle, "Verified").contains("accepts"), "{verified}");
}

#[tokio::test]
async fn what_is_refused_is_not_even_asked_for() {
    let case = Case::new("refused").await;
    let server = case.scene.faulty_registry();
    let repository = format!("{}/{}", server.host(), case.name);
    case.rule_for(&server.host(), json!({"action": "Refuse"})).await;
    case.create_of(image(&format!("{repository}:v1"))).await;
    case.refused_as("RefusedByPolicy", &format!("refuses {repository}")).await;
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn a_digest_may_be_required() {
    let case = Case::new("digest").await;
    case.rule(json!({"action": "Accept", "requireDigest": true})).await;
    case.create().await;
    case.refused_as("RefusedByPolicy", "name the image by its digest").await;
    let pinned = Case { name: unique_name("pinned"), ..case };
    pinned.create_of(image(&pinned.pushed.pinned)).await;
    pinned.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
}

#[tokio::test]
async fn a_key_may_lie_in_a_secret() {
    let (case, key) = (Case::new("secret").await, Cosign::new().unwrap());
    case.scene.world.registry.sign(&case.pushed, &key).await.unwrap();
    let reference = json!({"name": case.name, "key": "cosign.pub"});
    let signer = json!({"name": "release", "publicKey": {"secretRef": reference}});
    case.rule(json!({"action": "Require", "signers": [signer]})).await;
    case.create().await;
    case.refused(&format!("the key of release cannot be used: there is no secret rukpak-system/{}", case.name)).await;
    let secret = |text: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": case.name, "namespace": "rukpak-system"},
               "stringData": {"cosign.pub": text}})
    };
    case.apply(&secret(&key.public_key())).await;
    case.verified().await;
    // A key that is replaced vouches for nothing any more.
    let other = Cosign::new().unwrap();
    case.apply(&secret(&other.public_key())).await;
    case.touch().await;
    case.until(Expected::is_false("Verified", "SignatureMissing").saying("made with another key")).await;
    // What was searched for in vain is not searched for again at once; other texts are.
    case.scene.world.registry.sign(&case.pushed, &other).await.unwrap();
    case.apply(&secret("nothing")).await;
    case.touch().await;
    case.until(Expected::is_false("Verified", "SignatureMissing").saying("cannot be used: it is not PEM")).await;
    case.apply(&secret(&other.public_key())).await;
    case.touch().await;
    case.until(Expected::is_true("Verified", "SignatureVerified")).await;
}

/// What was verified comes back by its pin; what the policies of now say of it is said, as of everything that is unpacked.
#[tokio::test]
async fn content_that_was_lost_is_judged_again_when_it_comes_back() {
    let (case, key) = Case::signed("lost").await;
    case.create().await;
    case.verified().await;
    let file = case.content_file();
    // The status knows who signed these bytes, whatever the registry has by now.
    case.scene.world.registry.put_signatures(&case.pushed, &[]).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    case.touch().await;
    case.until_there(&file).await;
    case.until(Expected::is_true("Verified", "SignatureVerified")).await;
    // It does not know whether others did.
    std::fs::remove_file(&file).unwrap();
    case.rule(require(&[("release", &key), ("other", &Cosign::new().unwrap())])).await;
    case.until(Expected::is_false("Verified", "SignatureMissing").saying("by release or other")).await;
    case.until_there(&file).await;
}

/// What is installed stays: pulling it away is for whoever owns it. But nobody is told that it is verified.
#[tokio::test]
async fn a_changed_policy_is_told_of_what_is_unpacked() {
    let (case, key) = Case::signed("changed").await;
    case.create().await;
    let before = case.verified().await;
    let other = Cosign::new().unwrap();
    case.rule(require(&[("other", &other)])).await;
    let bundle = case.until(Expected::is_false("Verified", "SignatureMissing").saying("by other")).await;
    let status = |object: &kube::api::DynamicObject| object.data["status"].clone();
    for field in ["phase", "pin", "resolvedSource", "contentURL"] {
        assert_eq!(status(&bundle)[field], status(&before)[field], "{field}");
    }
    assert!(status(&bundle)["verification"]["signedBy"].is_null());
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    case.rule(require(&[("other", &other), ("release", &key)])).await;
    case.until(Expected::is_true("Verified", "SignatureVerified")).await;
    let policy = Target::cluster("core.rukpak.io/v1alpha1", "ContentPolicy", &case.name);
    verbs::delete(&case.client, &policy).await.unwrap();
    case.until(Expected::is_false("Verified", "RefusedByPolicy")).await;
    case.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let log = case.scene.world.controller.log();
    let own: Vec<_> = log.lines().filter(|line| line.contains(&case.name)).collect();
    let count = |text: &str| own.iter().filter(|line| line.contains(text)).count();
    assert!(count("Bundle is unpacked, and the policies would not let it in now") > 0, "{own:#?}");
    assert_eq!(count("\"Bundle is unpacked\""), 1, "it is told once, not again with each verdict: {own:#?}");
}

#[tokio::test]
async fn what_cannot_be_a_policy_is_refused_by_the_api_server() {
    let case = Case::new("schema").await;
    let policy = |rule: serde_json::Value| {
        json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy",
               "metadata": {"name": unique_name("schema")}, "spec": {"rules": [rule]}})
    };
    for (rule, text) in [
        (json!({"name": "r", "scopes": [], "action": "Accept"}), "scopes"),
        (json!({"name": "r", "scopes": ["https://quay.io"], "action": "Accept"}), "scopes"),
        (json!({"name": "r", "scopes": ["quay.io/a:v1@sha256:0"], "action": "Accept"}), "scopes"),
        (json!({"name": "r", "scopes": ["*"], "action": "Allow"}), "action"),
        (json!({"name": "r", "scopes": ["*"], "action": "Require", "signedAs": ["https://quay.io"]}), "signedAs"),
        (json!({"name": "r", "scopes": ["*"], "action": "Require", "signedAs": ["quay.io/a@sha256:0"]}), "signedAs"),
        (
            json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": [{"name": "a", "publicKey": {}}]}),
            "publicKey",
        ),
    ] {
        let denied = verbs::create_expecting_denial(&case.client, &policy(rule)).await.unwrap();
        assert!(denied.message.contains(text), "{text}: {denied:?}");
    }
}

#[tokio::test]
async fn the_example_is_a_policy() {
    let case = Case::new("example").await;
    let text = std::fs::read_to_string(tools::workspace_folder().join("examples/content-policy.yaml")).unwrap();
    // Its last rule is for everything, so other tests would meet it.
    let text = text.replace(r#"["*"]"#, r#"["others.example.com"]"#);
    let policy: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    case.apply(&policy).await;
    let registry = "registry.example.com";
    case.create_of(image(&format!("{registry}/mirror/pump:v1"))).await;
    case.refused_as("RefusedByPolicy", "rule \"reviewed\" of ContentPolicy \"production\" requires a digest").await;
}
