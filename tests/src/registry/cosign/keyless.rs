//! A certificate authority and a log of the tests' own, and signatures of whoever they vouch for.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::{Cosign, SignatureBlob};
use crate::registry::digest;

/// Fulcio's extension with the issuer, as bytes.
const ISSUER: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 1];

const LOG_INDEX: u64 = 7;

/// SHA-256 in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    digest(bytes).trim_start_matches("sha256:").to_owned()
}

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

/// An entry of the log.
struct Logged {
    /// In base64, as the promise.
    body: String,
    /// In seconds since 1970.
    time: i64,
    /// SHA-256 of its key, in hexadecimal.
    log_id: String,
    promise: String,
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
                "data": { "hash": { "algorithm": "sha256", "value": hex(&blob.body) } },
                "signature": { "content": signature, "publicKey": { "content": BASE64_STANDARD.encode(certificate.pem()) } },
            },
        });
        let Logged { body, time, log_id, promise } = self.log(&body, made, signing)?;
        let entry = json!({
            "SignedEntryTimestamp": promise,
            "Payload": { "body": body, "integratedTime": time, "logIndex": LOG_INDEX, "logID": log_id },
        });
        blob.annotations["dev.sigstore.cosign/certificate"] = json!(certificate.pem());
        blob.annotations["dev.sigstore.cosign/bundle"] = json!(entry.to_string());
        Ok(blob)
    }

    /// A signature as a bundle of sigstore, as newer versions of `cosign sign` make it without a key.
    pub fn bundle(&self, image_digest: &str, signing: &Signing) -> Result<SignatureBlob> {
        let (key, made) = (Cosign::new()?, OffsetDateTime::now_utc());
        let certificate = self.certificate(&key, signing, made)?;
        let mut blob = key.bundle(image_digest)?;
        let mut bundle: Value = serde_json::from_slice(&blob.body)?;
        let envelope = &bundle["dsseEnvelope"];
        let payload = BASE64_STANDARD.decode(envelope["payload"].as_str().context("an envelope has a payload")?)?;
        let body = json!({
            "apiVersion": "0.0.1", "kind": "dsse",
            "spec": {
                "envelopeHash": { "algorithm": "sha256", "value": hex(envelope.to_string().as_bytes()) },
                "payloadHash": { "algorithm": "sha256", "value": hex(&payload) },
                "signatures": [{ "signature": envelope["signatures"][0]["sig"],
                                 "verifier": BASE64_STANDARD.encode(certificate.pem()) }],
            },
        });
        let Logged { body, time, promise, .. } = self.log(&body, made, signing)?;
        bundle["verificationMaterial"] = json!({
            "certificate": { "rawBytes": BASE64_STANDARD.encode(certificate.der()) },
            "tlogEntries": [{
                "logIndex": LOG_INDEX.to_string(), "logId": { "keyId": BASE64_STANDARD.encode(Sha256::digest(self.log.0.subject_public_key_info())) },
                "kindVersion": { "kind": "dsse", "version": "0.0.1" }, "integratedTime": time.to_string(),
                "inclusionPromise": { "signedEntryTimestamp": promise }, "canonicalizedBody": body,
            }],
        });
        blob.body = bundle.to_string().into_bytes();
        Ok(blob)
    }

    /// What the log says of an entry.
    fn log(&self, entry: &Value, made: OffsetDateTime, signing: &Signing) -> Result<Logged> {
        let (body, time) = (BASE64_STANDARD.encode(entry.to_string()), made.unix_timestamp() + signing.after_seconds);
        let log_id = hex(&self.log.0.subject_public_key_info());
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{log_id}","logIndex":{LOG_INDEX}}}"#);
        let promise = BASE64_STANDARD.encode(self.log.sign(promised.as_bytes())?);
        Ok(Logged { body, time, log_id, promise })
    }

    fn certificate(&self, key: &Cosign, signing: &Signing, made: OffsetDateTime) -> Result<Certificate> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(signing.identity.as_str().try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = made - time::Duration::minutes(1);
        params.not_after = made + time::Duration::minutes(10);
        params.custom_extensions =
            vec![CustomExtension::from_oid_content(&ISSUER, signing.issuer.clone().into_bytes())];
        params.signed_by(&key.0, &self.authority).context("sign the certificate of a signer")
    }
}
