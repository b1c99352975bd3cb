//! A repository on the git server, and a rule that is for it.

use rukpak_tests::{RepoBuilder, SshSigner};
use serde_json::{Value, json};

use crate::trust::scene::Case;

/// A repository with the manifest of a Bundle, not committed yet; and a rule that requires a signature by these.
pub struct Repository {
    pub case: Case,
    pub files: RepoBuilder,
    /// `host/path`.
    pub location: String,
}

/// A signer by this key of ssh, without a name.
pub fn ssh(signer: &SshSigner) -> Value {
    json!({"sshKey": {"data": signer.public_key()}})
}

impl Repository {
    pub async fn new(prefix: &str, signers: &[Value]) -> Self {
        let case = Case::new(prefix).await;
        let files = case.scene.world.git.repository(&case.name).expect("the git server has room");
        let url = case.scene.world.git.url(&case.name);
        let location = url.trim_start_matches("https://").trim_end_matches(".git").to_owned();
        let repository = Self { case, files, location };
        repository.manifest("first");
        repository.rule(signers).await;
        repository
    }

    pub fn manifest(&self, data: &str) {
        let (name, kind) = (&self.case.name, "apiVersion: v1\nkind: ConfigMap");
        let text = format!("{kind}\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  at: {data}\n");
        self.files.write(&[("manifests/object.yaml", text)]).expect("the file can be written");
    }

    pub async fn rule(&self, signers: &[Value]) {
        let mut signers = signers.to_vec();
        for (at, signer) in signers.iter_mut().enumerate() {
            signer["name"] = json!(format!("signer-{at}"));
        }
        let rule = json!({"action": "Require", "signers": signers});
        self.case.rule_for(&self.location, rule).await;
    }

    pub async fn create(&self, reference: Value) {
        let url = self.case.scene.world.git.url(&self.case.name);
        self.case.create_of(json!({"type": "git", "git": {"repository": url, "ref": reference}})).await;
    }
}
