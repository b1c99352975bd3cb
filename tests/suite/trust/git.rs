//! Signatures of commits and tags, made by git and ssh-keygen.

use rukpak_tests::SshSigner;
use rukpak_tests::verbs::Expected;
use serde_json::{Value, json};

use crate::trust::repository::{Repository, ssh};
use crate::trust::scene::{Case, message};

fn ed25519() -> SshSigner {
    SshSigner::new("ed25519", None).expect("ssh-keygen makes a key")
}

#[tokio::test]
async fn a_signed_commit_is_unpacked_and_says_by_whom() {
    for (type_, bits) in [("ed25519", None), ("ecdsa", Some("256")), ("ecdsa", Some("384")), ("rsa", Some("2048"))] {
        let signer = SshSigner::new(type_, bits).expect("ssh-keygen makes a key");
        let repository = Repository::new("commit", &[ssh(&ed25519()), ssh(&signer)]).await;
        let commit = repository.files.signed_commit("signed", &signer).unwrap();
        repository.create(json!({"branch": "main"})).await;
        let bundle = repository.case.verified().await;
        let said = message(&bundle, "Verified");
        assert!(said.starts_with(&format!("{commit} is signed by signer-1, as rule \"ours\"")), "{type_}: {said}");
        let verification = &bundle.data["status"]["verification"];
        assert_eq!((&verification["digest"], &verification["signedBy"]), (&json!(commit), &json!("signer-1")));
    }
}

#[tokio::test]
async fn an_unsigned_commit_is_refused_until_a_signed_one_follows() {
    let signer = ed25519();
    let repository = Repository::new("unsigned", &[ssh(&signer)]).await;
    let commit = repository.files.commit("unsigned").unwrap();
    repository.create(json!({"branch": "main"})).await;
    let said = repository.case.refused("and it is not signed").await;
    assert!(said.contains(&format!("{}@{commit} by signer-0", repository.location)), "{said}");
    repository.manifest("second");
    let second = repository.files.signed_commit("signed", &signer).unwrap();
    let bundle = repository.case.verified().await;
    assert_eq!(bundle.data["status"]["verification"]["digest"], second);
}

#[tokio::test]
async fn a_commit_signed_by_somebody_else_is_refused() {
    let repository = Repository::new("stranger", &[ssh(&ed25519())]).await;
    repository.files.signed_commit("signed", &ed25519()).unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.refused("no signature will do: the commit: it was made with another key").await;
}

/// Whoever may push can put an old signature into a new commit.
#[tokio::test]
async fn a_commit_that_was_changed_after_it_was_signed_is_refused() {
    let signer = ed25519();
    let repository = Repository::new("forged", &[ssh(&signer)]).await;
    repository.files.signed_commit("reviewed", &signer).unwrap();
    let forged = repository.files.forge("reviewed", "reviewed twice").unwrap();
    repository.create(json!({"commit": forged})).await;
    repository.case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn a_signed_tag_vouches_for_its_commit_by_its_own_name() {
    let signer = ed25519();
    let repository = Repository::new("tag", &[ssh(&signer)]).await;
    repository.files.commit("unsigned").unwrap();
    repository.files.signed_tag("v1.0.0", &signer).unwrap();
    repository.create(json!({"tag": "v1.0.0"})).await;
    repository.case.verified().await;
    // The commit alone is not signed,
    let alone = Case { name: format!("{}-alone", repository.case.name), ..repository.case };
    let url = alone.scene.world.git.url(repository.location.rsplit('/').next().unwrap());
    let git = |reference: Value| json!({"type": "git", "git": {"repository": url, "ref": reference}});
    alone.create_of(git(json!({"branch": "main"}))).await;
    alone.refused("and it is not signed").await;
    // and a tag of another name that points to the signed tag is not the one that was signed.
    repository.files.git(&["update-ref", "refs/tags/v2.0.0", "refs/tags/v1.0.0"]).unwrap();
    repository.files.git(&["push", "--quiet", "origin", "refs/tags/v2.0.0"]).unwrap();
    let renamed = Case { name: format!("{}-renamed", alone.name), ..alone };
    renamed.create_of(git(json!({"tag": "v2.0.0"}))).await;
    renamed.refused("tag v2.0.0: it was signed as tag v1.0.0").await;
}

/// What is signed later, or by another key that is known by then, is told of what is unpacked as well.
#[tokio::test]
async fn a_changed_rule_is_told_of_an_unpacked_commit() {
    let (signer, other) = (ed25519(), ed25519());
    let repository = Repository::new("changed", &[ssh(&signer)]).await;
    repository.files.signed_commit("signed", &signer).unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.verified().await;
    repository.rule(&[ssh(&other)]).await;
    repository.case.until(Expected::is_false("Verified", "SignatureMissing").saying("made with another key")).await;
    repository.rule(&[ssh(&other), ssh(&signer)]).await;
    repository.case.until(Expected::is_true("Verified", "SignatureVerified").saying("by signer-1")).await;
}
