//! Signatures with public keys: which are found and believed, and which are not.

use std::time::Duration;

use axum::http::StatusCode;
use kube::api::DynamicObject;
use rukpak_tests::faulty::{Fault, FaultyServer, Rule};
use rukpak_tests::metrics;
use rukpak_tests::registry::{Cosign, payload, referrers};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::image;
use serde_json::json;

use crate::trust::scene::{Case, PATIENCE, good, message, require};

#[tokio::test]
async fn what_is_signed_is_unpacked_and_says_by_whom() {
    let (case, _key) = Case::signed("signed").await;
    case.create().await;
    let bundle = case.verified().await;
    let digest = &case.pushed.digest;
    let expected =
        format!(r#"{digest} is signed by release, as rule "ours" of ContentPolicy "{}" requires"#, case.name);
    assert_eq!(message(&bundle, "Verified"), expected);
    let verification = &bundle.data["status"]["verification"];
    assert_eq!(verification["digest"], digest.as_str());
    assert_eq!(verification["signedBy"], "release");
    assert_eq!(verification["rules"], format!("{}/ours", case.name));
    case.event("SignatureVerified", &expected).await;
    let metrics = metrics::text(&case.scene.world.controller).await.unwrap();
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix(r#"rukpak_verifications_total{outcome="verified"} "#));
    assert!(counted.is_some_and(|count| count != "0"), "{metrics}");
}

#[tokio::test]
async fn every_kind_of_key_will_do() {
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let (case, key) = (Case::new("kind").await, Cosign::of(algorithm).unwrap());
        case.scene.world.registry.sign(&case.pushed, &key).await.unwrap();
        case.rule(require(&[("release", &key)])).await;
        case.create().await;
        case.verified().await;
    }
}

#[tokio::test]
async fn what_is_not_signed_is_refused_until_it_is() {
    let (case, key) = (Case::new("unsigned").await, Cosign::new().unwrap());
    case.rule(require(&[("release", &key)])).await;
    case.create().await;
    let text = case.refused("and it is not signed").await;
    assert!(text.contains(&case.pushed.signature_tag()) && text.contains("by release"), "{text}");
    // Signatures follow images: nobody need touch the Bundle.
    case.scene.world.registry.sign(&case.pushed, &key).await.unwrap();
    case.verified().await;
}

#[tokio::test]
async fn another_key_is_refused() {
    let (case, _key) = Case::signed("stranger").await;
    let stranger = Cosign::new().unwrap();
    case.scene.world.registry.sign(&case.pushed, &stranger).await.unwrap();
    case.create().await;
    case.refused("signature 1: it was made with another key").await;
}

#[tokio::test]
async fn a_changed_payload_is_refused() {
    let (case, key) = Case::signed("tampered").await;
    let registry = &case.scene.world.registry;
    // Whoever may push can put other words beside an old signature,
    let mut blob = key.simple(&payload(case.pushed.repository(), "sha256:0")).unwrap();
    blob.body = payload(case.pushed.repository(), &case.pushed.digest).to_string().into_bytes();
    registry.put_signatures(&case.pushed, &[blob]).await.unwrap();
    case.create().await;
    case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn bytes_that_a_registry_changes_are_refused() {
    let (case, key) = Case::signed("damaged").await;
    let body = key.simple(&payload(case.pushed.repository(), &case.pushed.digest)).unwrap().body;
    let mut changed = body.clone();
    changed[20] ^= 1;
    let digest = rukpak_tests::registry::digest(&body);
    case.scene.world.registry.overwrite_blob(&digest, &changed).unwrap();
    case.create().await;
    case.refused(&format!("signature {digest}: expected {digest}")).await;
}

#[tokio::test]
async fn the_signature_of_another_image_is_refused() {
    let (case, key) = Case::signed("attached").await;
    let registry = &case.scene.world.registry;
    let other = registry.push(&case.name, "other", &good("other")).await.unwrap();
    let blob = key.simple(&payload(other.repository(), &other.digest)).unwrap();
    registry.put_signatures(&case.pushed, &[blob]).await.unwrap();
    case.create().await;
    case.refused(&format!("release signed another image with it: {}", other.digest)).await;
}

#[tokio::test]
async fn a_signature_for_another_repository_is_refused_unless_the_rule_names_it() {
    let (case, key) = Case::signed("copied").await;
    let blob = key.simple(&payload("registry.example.com/pump", &case.pushed.digest)).unwrap();
    case.scene.world.registry.put_signatures(&case.pushed, &[blob]).await.unwrap();
    case.create().await;
    case.refused("release signed it as registry.example.com/pump (if that is meant so").await;
    let mut rule = require(&[("release", &key)]);
    rule["signedAs"] = json!(["registry.example.com/pump"]);
    case.rule(rule).await;
    case.verified().await;
}

#[tokio::test]
async fn one_good_signature_among_others_is_enough() {
    let (case, key) = Case::signed("among").await;
    let stranger = Cosign::new().unwrap();
    let own = payload(case.pushed.repository(), &case.pushed.digest);
    let blobs = [stranger.simple(&own).unwrap(), key.simple(&own).unwrap()];
    case.scene.world.registry.put_signatures(&case.pushed, &blobs).await.unwrap();
    case.create().await;
    case.verified().await;
}

/// An image with the signature that the rule for it requires, a server before its registry, and where that has it.
async fn signed_behind_proxy(name: &str) -> (Case, FaultyServer, String) {
    let (case, key) = (Case::new(name).await, Cosign::new().expect("a key is made"));
    let server = case.scene.faulty_registry();
    let repository = format!("{}/{}", server.host(), case.name);
    let blob = key.simple(&payload(&repository, &case.pushed.digest)).expect("the key signs");
    case.scene.world.registry.put_signatures(&case.pushed, &[blob]).await.expect("the registry takes it");
    case.rule_for(&repository, require(&[("release", &key)])).await;
    (case, server, repository)
}

/// What is verified is what is fetched, wherever the tag points by then.
#[tokio::test]
async fn a_tag_that_moves_meanwhile_changes_nothing() {
    let (case, server, repository) = signed_behind_proxy("swapped").await;
    let registry = &case.scene.world.registry;
    let other = registry.push(&case.name, "other", &good("other")).await.unwrap();
    // The signature is held back until the tag has moved.
    server.hold(&case.pushed.signature_tag());
    case.create_of(image(&format!("{repository}:v1"))).await;
    server.asked(&case.pushed.signature_tag(), 1, PATIENCE).await.expect("somebody asks for the signature");
    registry.move_tag(&case.name, "v1", &other.digest).await.unwrap();
    server.release();
    let bundle = case.verified().await;
    assert_eq!(bundle.data["status"]["pin"]["imageDigest"], case.pushed.digest.as_str());
    assert_eq!(bundle.data["status"]["verification"]["digest"], case.pushed.digest.as_str());
}

#[tokio::test]
async fn referrers_are_signatures_too() {
    for is_bundle in [false, true] {
        let case = Case::new("referrer").await;
        let (registry, key) = (&case.scene.world.registry, Cosign::new().unwrap());
        let server = case.scene.faulty_registry();
        let repository = format!("{}/{}", server.host(), case.name);
        let own = payload(&repository, &case.pushed.digest);
        let blob = if is_bundle { key.bundle(&case.pushed.digest) } else { key.simple(&own) };
        let entry = registry.put_referrer(&case.pushed, &blob.unwrap()).await.unwrap();
        // The registry here keeps no list, so the server before it does.
        let other = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:0", "size": 1,
                           "artifactType": "application/spdx+json"});
        let answer = referrers(&[other, entry]).into_bytes();
        let path = format!("/referrers/{}", case.pushed.digest);
        server.add(Rule::on(&path, Fault::Answer(StatusCode::OK, Vec::new(), answer)));
        case.rule_for(&repository, require(&[("release", &key)])).await;
        case.create_of(image(&format!("{repository}:v1"))).await;
        case.verified().await;
    }
}

#[tokio::test]
async fn without_a_list_of_referrers_its_tag_counts() {
    let (case, key) = (Case::new("fallback").await, Cosign::new().unwrap());
    let registry = &case.scene.world.registry;
    let stranger = Cosign::new().unwrap().bundle(&case.pushed.digest).unwrap();
    let entry = registry.put_referrer(&case.pushed, &stranger).await.unwrap();
    registry.put_referrers_tag(&case.pushed, std::slice::from_ref(&entry)).await.unwrap();
    case.rule(require(&[("release", &key)])).await;
    case.create().await;
    case.refused("signature 1: it was made with another key").await;
    let own = registry.put_referrer(&case.pushed, &key.bundle(&case.pushed.digest).unwrap()).await.unwrap();
    registry.put_referrers_tag(&case.pushed, &[entry, own]).await.unwrap();
    case.verified().await;
}

#[tokio::test]
async fn a_registry_in_trouble_is_asked_again_and_nothing_is_unpacked() {
    let (case, server, repository) = signed_behind_proxy("trouble").await;
    server.add(Rule::on(&case.pushed.signature_tag(), Fault::Status(StatusCode::SERVICE_UNAVAILABLE, String::new())));
    case.create_of(image(&format!("{repository}:v1"))).await;
    let expected = Expected::is_false("Unpacked", "UnpackPending").saying("Back-off pulling image");
    let bundle = case.until(expected).await;
    assert!(message(&bundle, "Unpacked").contains("503"), "{}", message(&bundle, "Unpacked"));
    assert_eq!(verbs::condition(&bundle, "Verified").unwrap()["reason"], "VerificationPending");
    assert_eq!(server.count("/blobs/"), 0, "no layer was fetched");
    server.mend();
    case.verified().await;
}

/// The status that says it wakes the Bundle, and so does whoever puts a label on it.
#[tokio::test]
async fn a_registry_in_trouble_is_not_asked_at_every_look_at_what_is_unpacked() {
    let (case, server, repository) = signed_behind_proxy("steady").await;
    case.create_of(image(&format!("{repository}:v1"))).await;
    case.verified().await;
    server.forget();
    let tag = case.pushed.signature_tag();
    for at in 0..100 {
        let answer = json!({"errors": [{"code": "BUSY", "message": format!("trace 0c6f2a9e77d14a27{at:016x}")}]});
        let busy = Fault::Status(StatusCode::SERVICE_UNAVAILABLE, answer.to_string());
        server.add(Rule::on(&tag, busy).times(1));
    }
    let other = Cosign::new().unwrap();
    case.rule_for(&repository, require(&[("other", &other)])).await;
    let said = case.unknown("VerificationPending").await;
    assert!(message(&said, "Verified").contains("busy"), "{said:?}");
    case.touch().await;
    let status = said.data["status"].clone();
    let is_same = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["status"] == status);
    let target = Target::bundle(&case.name);
    verbs::holds_for(&case.client, &target, "its status", Duration::from_secs(3), is_same).await.unwrap();
    assert_eq!(server.count(&tag), 1, "{:?}", server.seen());
    // Another question does not wait.
    server.mend();
    case.rule_for(&repository, require(&[("another", &other)])).await;
    case.until(Expected::is_false("Verified", "SignatureMissing")).await;
}
