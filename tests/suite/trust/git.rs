//! Signatures of commits and tags, made by git and ssh-keygen.

use rukpak_tests::verbs::Expected;
use rukpak_tests::{CommitSigner, RepoBuilder};
use serde_json::{Value, json};

use crate::scene::{Case, message};

/// A repository with the manifest of a Bundle, not committed yet; and a rule that requires a signature by these.
struct Repository {
    case: Case,
    files: RepoBuilder,
    /// `host/path`.
    location: String,
}

fn ed25519() -> CommitSigner {
    CommitSigner::new("ed25519", None).expect("ssh-keygen makes a key")
}

impl Repository {
    async fn new(prefix: &str, signers: &[&CommitSigner]) -> Self {
        let case = Case::new(prefix).await;
        let files = case.scene.world.git.repository(&case.name).expect("the git server has room");
        let url = case.scene.world.git.url(&case.name);
        let location = url.trim_start_matches("https://").trim_end_matches(".git").to_owned();
        let repository = Self { case, files, location };
        repository.manifest("first");
        repository.rule(signers).await;
        repository
    }

    fn manifest(&self, data: &str) {
        let (name, kind) = (&self.case.name, "apiVersion: v1\nkind: ConfigMap");
        let text = format!("{kind}\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  at: {data}\n");
        self.files.write(&[("manifests/object.yaml", text)]).expect("the file can be written");
    }

    async fn rule(&self, signers: &[&CommitSigner]) {
        let named = signers.iter().enumerate();
        let signer = |(at, signer): (usize, &&CommitSigner)| json!({"name": format!("signer-{at}"), "sshKey": {"data": signer.public_key()}});
        let rule = json!({"action": "Require", "signers": named.map(signer).collect::<Vec<_>>()});
        self.case.rule_for(&self.location, rule).await;
    }

    async fn create(&self, reference: Value) {
        let url = self.case.scene.world.git.url(&self.case.name);
        self.case.create_of(json!({"type": "git", "git": {"repository": url, "ref": reference}})).await;
    }
}

#[tokio::test]
async fn a_signed_commit_is_unpacked_and_says_by_whom() {
    for (type_, bits) in [("ed25519", None), ("ecdsa", Some("256")), ("ecdsa", Some("384")), ("rsa", Some("2048"))] {
        let signer = CommitSigner::new(type_, bits).expect("ssh-keygen makes a key");
        let repository = Repository::new("commit", &[&ed25519(), &signer]).await;
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
    let repository = Repository::new("unsigned", &[&signer]).await;
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
    let repository = Repository::new("stranger", &[&ed25519()]).await;
    repository.files.signed_commit("signed", &ed25519()).unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.refused("no signature will do: the commit: it was made with another key").await;
}

/// Whoever may push can put an old signature into a new commit.
#[tokio::test]
async fn a_commit_that_was_changed_after_it_was_signed_is_refused() {
    let signer = ed25519();
    let repository = Repository::new("forged", &[&signer]).await;
    repository.files.signed_commit("reviewed", &signer).unwrap();
    let forged = repository.files.forge("reviewed", "reviewed twice").unwrap();
    repository.create(json!({"commit": forged})).await;
    repository.case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn a_signed_tag_vouches_for_its_commit_by_its_own_name() {
    let signer = ed25519();
    let repository = Repository::new("tag", &[&signer]).await;
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
    let repository = Repository::new("changed", &[&signer]).await;
    repository.files.signed_commit("signed", &signer).unwrap();
    repository.create(json!({"branch": "main"})).await;
    repository.case.verified().await;
    repository.rule(&[&other]).await;
    repository.case.until(Expected::is_false("Verified", "SignatureMissing").saying("made with another key")).await;
    repository.rule(&[&other, &signer]).await;
    repository.case.until(Expected::is_true("Verified", "SignatureVerified").saying("by signer-1")).await;
}
