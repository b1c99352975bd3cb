//! Kubeconfig files, written as JSON, which is YAML.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

/// How a kubeconfig's user proves who it is.
pub enum Credential<'a> {
    /// A client certificate.
    Certificate {
        /// The certificate.
        cert_pem: &'a str,
        /// Its private key.
        key_pem: &'a str,
    },
    /// A bearer token, as a ServiceAccount has.
    Token(&'a str),
    /// A file with a bearer token, which clients read again.
    TokenFile(&'a Path),
}

/// Writes a kubeconfig with one cluster, one user, and `namespace` as the default.
pub fn write_kubeconfig(
    path: &Path,
    server: &str,
    ca_pem: &str,
    credential: &Credential<'_>,
    namespace: &str,
) -> Result<()> {
    let user = match credential {
        Credential::Certificate { cert_pem, key_pem } => json!({
            "client-certificate-data": BASE64_STANDARD.encode(cert_pem),
            "client-key-data": BASE64_STANDARD.encode(key_pem),
        }),
        Credential::Token(token) => json!({ "token": token }),
        Credential::TokenFile(path) => json!({ "tokenFile": path }),
    };
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "plane",
        "clusters": [{ "name": "plane", "cluster": {
            "server": server, "certificate-authority-data": BASE64_STANDARD.encode(ca_pem),
        }}],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "plane", "context": { "cluster": "plane", "user": "user", "namespace": namespace } }],
    });
    std::fs::write(path, format!("{kubeconfig:#}\n")).with_context(|| format!("write {}", path.display()))
}
