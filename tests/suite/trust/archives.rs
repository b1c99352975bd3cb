//! Signatures of archives on web servers, as `cosign sign-blob` makes them.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::faulty::{Fault, FaultyServer, Rule};
use rukpak_tests::registry::Cosign;
use rukpak_tests::verbs::Expected;
use serde_json::json;

use crate::scene::{Case, message, require};

/// A server with an archive and what lies beside it, and a rule that requires a signature.
struct Archive {
    case: Case,
    server: FaultyServer,
    key: Cosign,
    path: String,
    content: Vec<u8>,
}

/// A tar.gz with the manifest of a ConfigMap called `name`.
fn archive(name: &str) -> Vec<u8> {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n");
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    builder.append_data(&mut header, "manifests/object.yaml", text.as_bytes()).expect("memory takes it");
    builder.into_inner().and_then(flate2::write::GzEncoder::finish).expect("memory takes it")
}

impl Archive {
    async fn new(prefix: &str) -> Self {
        let (case, key) = (Case::new(prefix).await, Cosign::new().expect("a key can be made"));
        let server = FaultyServer::alone(&case.scene.ca).expect("a loopback port is free");
        let (path, content) = (format!("/{}.tgz", case.name), archive(&case.name));
        case.rule_for(&server.host(), require(&[("release", &key)])).await;
        Self { case, server, key, path, content }
    }

    fn serves(&self, path: &str, body: Vec<u8>) {
        self.server.add(Rule::on(path, Fault::Answer(StatusCode::OK, vec![], body)));
    }

    /// Serves the archive, and beside it this signature. What is beside it comes first: its path begins alike.
    fn is_signed(&self, key: &Cosign, signed: &[u8]) {
        let signature = BASE64_STANDARD.encode(key.sign(signed).expect("the key signs")) + "\n";
        self.serves(&format!("{}.sig", self.path), signature.into_bytes());
        self.serves(&self.path, self.content.clone());
    }

    async fn create(&self) {
        let url = format!("{}{}", self.server.url(), self.path);
        self.case.create_of(json!({"type": "http", "http": {"url": url}})).await;
    }
}

#[tokio::test]
async fn a_signed_archive_is_unpacked_and_says_by_whom() {
    let archive = Archive::new("archive").await;
    archive.is_signed(&archive.key, &archive.content);
    archive.create().await;
    let bundle = archive.case.verified().await;
    let digest = bundle.data["status"]["pin"]["archiveDigest"].clone();
    assert_eq!(bundle.data["status"]["verification"]["digest"], digest);
    let said = message(&bundle, "Verified");
    assert!(said.starts_with(&format!("{} is signed by release, as rule", digest.as_str().unwrap())), "{said}");
    // Of what is unpacked it is told as well what other rules say.
    archive.case.rule_for(&archive.server.host(), require(&[("other", &Cosign::new().unwrap())])).await;
    archive.case.until(Expected::is_false("Verified", "SignatureMissing").saying("made with another key")).await;
}

#[tokio::test]
async fn an_archive_that_is_not_signed_is_refused_until_it_is() {
    let archive = Archive::new("unsigned").await;
    let missing = Fault::Status(StatusCode::NOT_FOUND, String::new());
    archive.server.add(Rule::on(&format!("{}.sig", archive.path), missing));
    archive.serves(&archive.path, archive.content.clone());
    archive.create().await;
    let place = format!("{}{}", archive.server.host(), archive.path);
    archive.case.refused(&format!("and it is not signed: there is no {place}.sig")).await;
    archive.server.mend();
    archive.is_signed(&archive.key, &archive.content);
    archive.case.verified().await;
}

#[tokio::test]
async fn an_archive_that_somebody_else_signed_or_that_was_changed_is_refused() {
    let archive = Archive::new("stranger").await;
    archive.is_signed(&Cosign::new().unwrap(), &archive.content);
    archive.create().await;
    archive.case.refused("the signature will not do: it was made with another key").await;
    let changed = Archive::new("changed").await;
    changed.is_signed(&changed.key, b"what was there before");
    changed.create().await;
    changed.case.refused("or what was signed has been changed").await;
}

#[tokio::test]
async fn a_server_that_does_not_say_whether_there_is_a_signature_is_asked_again() {
    let archive = Archive::new("trouble").await;
    let busy = Fault::Status(StatusCode::SERVICE_UNAVAILABLE, String::new());
    archive.server.add(Rule::on(&format!("{}.sig", archive.path), busy));
    archive.serves(&archive.path, archive.content.clone());
    archive.create().await;
    let bundle = archive.case.until(Expected::is_false("Unpacked", "UnpackFailed").saying("503")).await;
    assert!(bundle.data["status"]["pin"].is_null(), "{}", bundle.data);
    archive.server.mend();
    archive.is_signed(&archive.key, &archive.content);
    archive.case.verified().await;
}
