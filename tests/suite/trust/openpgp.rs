//! Signatures of commits and tags, made by git and gpg.

use rukpak_tests::OpenPgpSigner;
use rukpak_tests::verbs::Expected;
use serde_json::{Value, json};

use crate::trust::repository::{Repository, ssh};
use crate::trust::scene::message;

fn ed25519() -> OpenPgpSigner {
    OpenPgpSigner::new("ed25519").expect("gpg makes a key")
}

/// A signer by the key as it is now.
fn pgp(signer: &OpenPgpSigner) -> Value {
    json!({"pgpKey": {"data": signer.public_key().expect("gpg exports it")}})
}

/// A repository whose only commit this signer has signed, which a rule asks for.
async fn signed(prefix: &str, signer: &OpenPgpSigner) -> Repository {
    let repository = Repository::new(prefix, &[pgp(signer)]).await;
    repository.files.signed_commit("signed", signer).expect("gpg signs it");
    repository.create(json!({"branch": "main"})).await;
    repository
}

#[tokio::test]
async fn a_commit_signed_with_gpg_is_unpacked_and_says_by_whom() {
    for algorithm in ["ed25519", "nistp256", "rsa2048"] {
        let signer = OpenPgpSigner::new(algorithm).expect("gpg makes a key");
        let of_ssh = rukpak_tests::SshSigner::new("ed25519", None).expect("ssh-keygen makes a key");
        let repository = Repository::new("gpg", &[ssh(&of_ssh), pgp(&ed25519()), pgp(&signer)]).await;
        let commit = repository.files.signed_commit("signed", &signer).unwrap();
        repository.create(json!({"branch": "main"})).await;
        let said = message(&repository.case.verified().await, "Verified");
        assert!(said.starts_with(&format!("{commit} is signed by signer-2, as rule \"ours\"")), "{algorithm}: {said}");
    }
}

#[tokio::test]
async fn a_commit_that_gpg_has_not_signed_is_refused_until_one_follows() {
    let signer = ed25519();
    let repository = Repository::new("gpg-unsigned", &[pgp(&signer)]).await;
    repository.files.commit("unsigned").unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.refused("by signer-0, and it is not signed").await;
    repository.manifest("second");
    let second = repository.files.signed_commit("signed", &signer).unwrap();
    let bundle = repository.case.verified().await;
    assert_eq!(bundle.data["status"]["verification"]["digest"], second);
}

#[tokio::test]
async fn a_commit_signed_with_another_gpg_key_is_refused() {
    let repository = Repository::new("gpg-stranger", &[pgp(&ed25519())]).await;
    repository.files.signed_commit("signed", &ed25519()).unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.refused("no signature will do: the commit: it was made with another key").await;
}

#[tokio::test]
async fn a_commit_that_was_changed_after_gpg_signed_it_is_refused() {
    let signer = ed25519();
    let repository = Repository::new("gpg-forged", &[pgp(&signer)]).await;
    repository.files.signed_commit("reviewed", &signer).unwrap();
    let forged = repository.files.forge("reviewed", "reviewed twice").unwrap();
    repository.create(json!({"commit": forged})).await;
    repository.case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn a_commit_signed_with_an_expired_gpg_key_is_refused() {
    let repository = signed("gpg-expired", &OpenPgpSigner::expired().expect("gpg makes a key")).await;
    let said = repository.case.refused("made it, and does not count: it expired at 2024-01-02T00:00:00Z").await;
    assert!(said.contains("the commit: key "), "{said}");
}

/// What is unpacked stays so, and its status says that the key was revoked; nothing that it signs is let in any more.
#[tokio::test]
async fn a_commit_signed_with_a_revoked_gpg_key_is_refused() {
    let signer = ed25519();
    let before = signed("gpg-revoked", &signer).await;
    before.case.verified().await;
    signer.revoke().unwrap();
    before.rule(&[pgp(&signer)]).await;
    before.case.until(Expected::is_false("Verified", "SignatureMissing").saying("it has been revoked")).await;
    before.case.until(Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let commit = before.files.resolve("HEAD").unwrap();
    let after = crate::trust::scene::Case { name: format!("{}-after", before.case.name), ..before.case };
    let url = after.scene.world.git.url(before.location.rsplit('/').next().unwrap());
    after.create_of(json!({"type": "git", "git": {"repository": url, "ref": {"commit": commit}}})).await;
    after.refused("made it, and does not count: it has been revoked").await;
}

#[tokio::test]
async fn a_subkey_of_gpg_signs_for_its_owner() {
    let repository = signed("gpg-subkey", &OpenPgpSigner::with_subkey().expect("gpg makes a key")).await;
    repository.case.verified().await;
}

#[tokio::test]
async fn a_tag_signed_with_gpg_vouches_for_its_commit() {
    let signer = ed25519();
    let repository = Repository::new("gpg-tag", &[pgp(&signer)]).await;
    repository.files.commit("unsigned").unwrap();
    repository.files.signed_tag("v1.0.0", &signer).unwrap();
    repository.files.git(&["update-ref", "refs/tags/v2.0.0", "refs/tags/v1.0.0"]).unwrap();
    repository.files.git(&["push", "--quiet", "origin", "refs/tags/v2.0.0"]).unwrap();
    repository.create(json!({"tag": "v2.0.0"})).await;
    repository.case.refused("tag v2.0.0: it was signed as tag v1.0.0").await;
    let named = crate::trust::scene::Case { name: format!("{}-named", repository.case.name), ..repository.case };
    let url = named.scene.world.git.url(repository.location.rsplit('/').next().unwrap());
    named.create_of(json!({"type": "git", "git": {"repository": url, "ref": {"tag": "v1.0.0"}}})).await;
    named.verified().await;
}
