//! Signatures without a key of the signer's own: an authority vouches for who signed, a log for when.

use rukpak_tests::registry::{Keyless, SignatureBlob, Signing, payload};
use serde_json::{Value, json};

use crate::trust::scene::{Case, message};

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const PIPELINE: &str = "https://github.com/org/pump/.github/workflows/release.yml@refs/tags/v1.0.0";
const RELEASES: &str = "https://github.com/org/pump/.github/workflows/release.yml@refs/tags/*";

fn pipeline() -> Signing {
    Signing { identity: PIPELINE.to_owned(), issuer: ISSUER.to_owned(), after_seconds: 5 }
}

/// An image that is signed so, and a policy that asks for a release of the pipeline.
async fn signed(prefix: &str, signing: &Signing) -> (Case, Keyless) {
    let (case, root) = (Case::new(prefix).await, Keyless::new().expect("keys can be made"));
    let blob = root.simple(&payload(case.pushed.repository(), &case.pushed.digest), signing).expect("it can be signed");
    case.scene.world.registry.put_signatures(&case.pushed, &[blob]).await.expect("the registry takes it");
    case.rule(json!({"action": "Require", "signers": [root.signer(ISSUER, RELEASES)]})).await;
    (case, root)
}

#[tokio::test]
async fn a_pipeline_signs_without_a_key() {
    let (case, _root) = signed("pipeline", &pipeline()).await;
    case.create().await;
    let bundle = case.verified().await;
    let who = format!("pipeline ({PIPELINE})");
    assert!(message(&bundle, "Verified").contains(&format!("is signed by {who}, as rule")), "{bundle:?}");
    assert_eq!(bundle.data["status"]["verification"]["signedBy"], who);
}

/// What newer versions of cosign attach: certificate, entry and signed statement in one document.
#[tokio::test]
async fn a_bundle_of_sigstore_has_all_of_it() {
    let after = "it was made when its certificate was not valid: expired, or not yet";
    for (after_seconds, refusal) in [(5, None), (3600, Some(after))] {
        let (case, root) = (Case::new("bundle").await, Keyless::new().expect("keys can be made"));
        let signing = Signing { after_seconds, ..pipeline() };
        let blob = root.bundle(&case.pushed.digest, &signing).expect("it can be signed");
        let registry = &case.scene.world.registry;
        let entry = registry.put_referrer(&case.pushed, &blob).await.expect("the registry takes it");
        registry.put_referrers_tag(&case.pushed, &[entry]).await.expect("the registry takes it");
        case.rule(json!({"action": "Require", "signers": [root.signer(ISSUER, RELEASES)]})).await;
        case.create().await;
        match refusal {
            Some(text) => drop(case.refused(text).await),
            None => drop(case.verified().await),
        }
    }
}

/// The entry of one statement says nothing about another, though the same pipeline signed both.
#[tokio::test]
async fn a_bundle_with_the_entry_of_another_is_refused() {
    let (case, root) = (Case::new("entry").await, Keyless::new().expect("keys can be made"));
    let bundle = |digest: &str| -> (SignatureBlob, Value) {
        let blob = root.bundle(digest, &pipeline()).expect("it can be signed");
        let value = serde_json::from_slice(&blob.body).expect("it is JSON");
        (blob, value)
    };
    let ((mut blob, mut own), (_, other)) = (bundle(&case.pushed.digest), bundle(&case.pushed.digest));
    own["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"].clone();
    blob.body = own.to_string().into_bytes();
    let registry = &case.scene.world.registry;
    let entry = registry.put_referrer(&case.pushed, &blob).await.expect("the registry takes it");
    registry.put_referrers_tag(&case.pushed, &[entry]).await.expect("the registry takes it");
    case.rule(json!({"action": "Require", "signers": [root.signer(ISSUER, RELEASES)]})).await;
    case.create().await;
    case.refused("its entry in the log is about another signature").await;
}

#[tokio::test]
async fn a_signature_made_after_its_certificate_expired_is_refused() {
    let (case, _root) = signed("expired", &Signing { after_seconds: 3600, ..pipeline() }).await;
    case.create().await;
    case.refused("it was made when its certificate was not valid: expired, or not yet").await;
}

#[tokio::test]
async fn somebody_else_is_refused_by_name() {
    let branch = "https://github.com/org/pump/.github/workflows/release.yml@refs/heads/main";
    let (case, _root) = signed("branch", &Signing { identity: branch.to_owned(), ..pipeline() }).await;
    case.create().await;
    case.refused(&format!("it was made by {branch} (known to {ISSUER})")).await;
    let issuer = "https://accounts.example.com";
    let (case, _root) = signed("issuer", &Signing { issuer: issuer.to_owned(), ..pipeline() }).await;
    case.create().await;
    case.refused(&format!("it was made by {PIPELINE} (known to {issuer})")).await;
}

#[tokio::test]
async fn another_authority_is_refused() {
    let (case, root) = signed("authority", &pipeline()).await;
    let other = Keyless::new().expect("keys can be made");
    let mut signer = root.signer(ISSUER, RELEASES);
    let theirs = other.signer(ISSUER, RELEASES);
    signer["keyless"]["certificateAuthority"] = theirs["keyless"]["certificateAuthority"].clone();
    case.rule(json!({"action": "Require", "signers": [signer]})).await;
    case.create().await;
    case.refused("its certificate is not one of certificateAuthority").await;
    case.rule(json!({"action": "Require", "signers": [theirs]})).await;
    case.refused("not in that of rekorKey").await;
}

#[tokio::test]
async fn without_the_log_nobody_knows_when() {
    let (case, root) = signed("unlogged", &pipeline()).await;
    let own = payload(case.pushed.repository(), &case.pushed.digest);
    let mut blob = root.simple(&own, &pipeline()).expect("it can be signed");
    blob.annotations.as_object_mut().expect("a map").remove("dev.sigstore.cosign/bundle");
    let registry = &case.scene.world.registry;
    registry.put_signatures(&case.pushed, &[blob.clone()]).await.expect("the registry takes it");
    case.create().await;
    case.refused("it does not prove when it was made").await;
    // The entry of one signature says nothing about another.
    let other = root.simple(&own, &pipeline()).expect("it can be signed");
    let entry = &other.annotations["dev.sigstore.cosign/bundle"];
    blob.annotations["dev.sigstore.cosign/bundle"] = entry.clone();
    registry.put_signatures(&case.pushed, &[blob]).await.expect("the registry takes it");
    case.refused("its entry in the log is about another signature").await;
}
