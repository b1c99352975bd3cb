//! An archive on a web server, and what lies beside it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::faulty::{Fault, FaultyServer, Rule};
use rukpak_tests::registry::Cosign;
use serde_json::{Value, json};

use crate::trust::scene::Case;

/// A folder of a web server with the archive of a Bundle to be.
pub struct WebFolder {
    pub case: Case,
    server: FaultyServer,
    /// Of the archive.
    pub name: String,
    pub archive: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
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

impl WebFolder {
    /// Has nothing but the archive, and the controller knows this rule for the server.
    pub async fn new(prefix: &str, rule: Value) -> Self {
        let case = Case::new(prefix).await;
        let server = FaultyServer::alone(&case.scene.ca).expect("a loopback port is free");
        let (name, archive) = (format!("{}.tgz", case.name), archive(&case.name));
        case.rule_for(&server.host(), rule).await;
        let mut folder = Self { case, server, name: name.clone(), archive: archive.clone(), files: BTreeMap::new() };
        folder.publish(&name, archive);
        folder
    }

    /// Has the controller know another rule.
    pub async fn rule(&self, rule: Value) {
        self.case.rule_for(&self.server.host(), rule).await;
    }

    /// Puts a file into the folder, or another in its place.
    pub fn publish(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.files.insert(name.to_owned(), content.into());
        self.server.mend();
        // Rules are for all paths that begin so: the longest goes first, and what is not there is said of signatures.
        let mut names: Vec<_> =
            self.files.keys().flat_map(|name| ["", ".sig", ".asc"].map(|end| name.clone() + end)).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names {
            let fault = match self.files.get(&name) {
                Some(content) => Fault::Answer(StatusCode::OK, vec![], content.clone()),
                None => Fault::Status(StatusCode::NOT_FOUND, String::new()),
            };
            self.server.add(Rule::on(&format!("/files/{name}"), fault));
        }
    }

    /// Puts what `key` signs of `content` beside `file`, as `cosign sign-blob` writes it.
    pub fn sign(&mut self, file: &str, key: &Cosign, content: &[u8]) {
        let signature = BASE64_STANDARD.encode(key.sign(content).expect("the key signs")) + "\n";
        self.publish(&format!("{file}.sig"), signature);
    }

    /// Has the server answer so wherever `file` is asked for.
    pub fn spoil(&mut self, file: &str, status: StatusCode) {
        self.server.mend();
        self.server.add(Rule::on(&format!("/files/{file}"), Fault::Status(status, String::new())));
        self.server.add(Rule::on(
            &format!("/files/{}", self.name),
            Fault::Answer(StatusCode::OK, vec![], self.archive.clone()),
        ));
    }

    /// `host/path` of a file.
    pub fn place(&self, file: &str) -> String {
        format!("{}/files/{file}", self.server.host())
    }

    /// Creates the Bundle of the archive.
    pub async fn create(&self) {
        let url = format!("{}/files/{}", self.server.url(), self.name);
        self.case.create_of(json!({"type": "http", "http": {"url": url}})).await;
    }
}
