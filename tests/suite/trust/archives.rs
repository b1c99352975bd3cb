//! Signatures of archives on web servers, as `cosign sign-blob` and gpg make them.

use axum::http::StatusCode;
use rukpak_tests::OpenPgpSigner;
use rukpak_tests::registry::Cosign;
use rukpak_tests::verbs::Expected;
use serde_json::json;

use crate::trust::scene::{message, require};
use crate::trust::web::WebFolder;

/// An archive that is asked for a signature with a new key, and has none yet.
async fn unsigned(prefix: &str) -> (WebFolder, Cosign) {
    let key = Cosign::new().expect("a key can be made");
    (WebFolder::new(prefix, require(&[("release", &key)])).await, key)
}

/// The same, with a signature of `signed` by `key`, or by the key that is asked for.
async fn signed(prefix: &str, key: Option<&Cosign>, signed: Option<&[u8]>) -> WebFolder {
    let (mut folder, release) = unsigned(prefix).await;
    let (name, archive) = (folder.name.clone(), folder.archive.clone());
    folder.sign(&name, key.unwrap_or(&release), signed.unwrap_or(&archive));
    folder.create().await;
    folder
}

#[tokio::test]
async fn a_signed_archive_is_unpacked_and_says_by_whom() {
    let folder = signed("archive", None, None).await;
    let bundle = folder.case.verified().await;
    let digest = bundle.data["status"]["pin"]["archiveDigest"].clone();
    assert_eq!(bundle.data["status"]["verification"]["digest"], digest);
    let said = message(&bundle, "Verified");
    assert!(said.starts_with(&format!("{} is signed by release, as rule", digest.as_str().unwrap())), "{said}");
    // Of what is unpacked it is told as well what other rules say.
    folder.rule(require(&[("other", &Cosign::new().unwrap())])).await;
    folder.case.until(Expected::is_false("Verified", "SignatureMissing").saying("made with another key")).await;
}

#[tokio::test]
async fn an_archive_that_is_not_signed_is_refused_until_it_is() {
    let (mut folder, key) = unsigned("unsigned").await;
    folder.create().await;
    let (name, archive) = (folder.name.clone(), folder.archive.clone());
    let place = folder.place(&name);
    folder.case.refused(&format!("and {name} is not signed: there is no {place}.sig")).await;
    folder.sign(&name, &key, &archive);
    folder.case.verified().await;
}

#[tokio::test]
async fn an_archive_that_somebody_else_signed_or_that_was_changed_is_refused() {
    let stranger = signed("stranger", Some(&Cosign::new().unwrap()), None).await;
    stranger.case.refused(&format!("{}.sig will not do: it was made with another key", stranger.name)).await;
    let changed = signed("changed", None, Some(b"what was there before")).await;
    changed.case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn a_server_that_does_not_say_whether_there_is_a_signature_is_asked_again() {
    let (mut folder, key) = unsigned("trouble").await;
    let (name, archive) = (folder.name.clone(), folder.archive.clone());
    folder.spoil(&format!("{name}.sig"), StatusCode::SERVICE_UNAVAILABLE);
    folder.create().await;
    let bundle = folder.case.until(Expected::is_false("Unpacked", "UnpackFailed").saying("503")).await;
    assert!(bundle.data["status"]["pin"].is_null(), "{}", bundle.data);
    folder.sign(&name, &key, &archive);
    folder.case.verified().await;
}

#[tokio::test]
async fn an_archive_that_gpg_signed_is_unpacked() {
    let signer = OpenPgpSigner::new("ed25519").unwrap();
    let release = json!({"name": "release", "pgpKey": {"data": signer.public_key().unwrap()}});
    let mut folder = WebFolder::new("gpg-archive", json!({"action": "Require", "signers": [release]})).await;
    let armored = signer.detached(&folder.archive, &["--armor"]).unwrap();
    folder.publish(&format!("{}.asc", folder.name), armored);
    folder.create().await;
    folder.case.verified().await;
}
