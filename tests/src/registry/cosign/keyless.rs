//! A certificate authority and a log of the tests' own, and signatures of whoever they vouch for.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{Cosign, SignatureBlob};
use crate::registry::digest;

/// Fulcio's extension with the issuer, as bytes.
const ISSUER: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 1];

/// The authority and the log.
pub struct Keyless {
    authority: CertifiedIssuer<'static, KeyPair>,
    log: Cosign,
}

/// Who signs, and when.
#[derive(Debug, Clone)]
pub struct Signing {
    /// A URI.
    pub identity: String,
    /// Who knows it.
    pub issuer: String,
    /// So many seconds after the certificate was made, which is valid for ten minutes.
    pub after_seconds: i64,
}

impl Keyless {
    /// A new authority, and a new log.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "fulcio");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self { authority: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?, log: Cosign::new()? })
    }

    /// How a policy names somebody whom these two vouch for.
    pub fn signer(&self, issuer: &str, identity: &str) -> Value {
        json!({
            "name": "pipeline",
            "keyless": {
                "certificateAuthority": { "data": self.authority.pem() }, "rekorKey": { "data": self.log.public_key() },
                "issuer": issuer, "identity": identity,
            },
        })
    }

    /// A signature in the format "simple signing", as `cosign sign` makes it without a key.
    pub fn simple(&self, payload: &Value, signing: &Signing) -> Result<SignatureBlob> {
        let (key, made) = (Cosign::new()?, OffsetDateTime::now_utc());
        let certificate = self.certificate(&key, signing, made)?;
        let mut blob = key.simple(payload)?;
        let signature = blob.annotations["dev.cosignproject.cosign/signature"].clone();
        let body = json!({
            "apiVersion": "0.0.1", "kind": "hashedrekord",
            "spec": {
                "data": { "hash": { "algorithm": "sha256", "value": digest(&blob.body).trim_start_matches("sha256:") } },
                "signature": { "content": signature, "publicKey": { "content": BASE64_STANDARD.encode(&certificate) } },
            },
        });
        let (body, time) = (BASE64_STANDARD.encode(body.to_string()), made.unix_timestamp() + signing.after_seconds);
        let log_id = digest(&self.log.0.subject_public_key_info()).trim_start_matches("sha256:").to_owned();
        let promised = format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{log_id}","logIndex":7}}"#);
        let entry = json!({
            "SignedEntryTimestamp": BASE64_STANDARD.encode(self.log.sign(promised.as_bytes())?),
            "Payload": { "body": body, "integratedTime": time, "logIndex": 7, "logID": log_id },
        });
        blob.annotations["dev.sigstore.cosign/certificate"] = json!(certificate);
        blob.annotations["dev.sigstore.cosign/bundle"] = json!(entry.to_string());
        Ok(blob)
    }

    fn certificate(&self, key: &Cosign, signing: &Signing, made: OffsetDateTime) -> Result<String> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(signing.identity.as_str().try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = made - time::Duration::minutes(1);
        params.not_after = made + time::Duration::minutes(10);
        params.custom_extensions =
            vec![CustomExtension::from_oid_content(&ISSUER, signing.issuer.clone().into_bytes())];
        let certificate = params.signed_by(&key.0, &self.authority).context("sign the certificate of a signer")?;
        Ok(certificate.pem())
    }
}
