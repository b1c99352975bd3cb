//! Signatures out of what cosign attaches to an image.
//!
//! Two formats: "simple signing", a payload as a blob and its signature in an annotation of the blob's descriptor; and the
//! bundle of sigstore, one JSON document with an envelope (DSSE) in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Attachment;
use serde::Deserialize;
use x509_parser::pem::Pem;

use crate::log::Entry;
use crate::payload::{Payload, PayloadError};

/// Media type of a payload in the format "simple signing".
pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// How the media types of sigstore's bundles begin; a version follows.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The annotation that holds the signature of a payload.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The annotations that hold the certificate of the signer, those between it and its authority, and the entry of the log.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const ENTRY: &str = "dev.sigstore.cosign/bundle";
/// What envelopes of in-toto statements say of their payload.
const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A signature, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The bytes that were signed.
    pub message: Vec<u8>,
    /// What the signer made of them.
    pub signature: Vec<u8>,
    /// What was meant to be signed; of an envelope the message is more than that.
    pub payload: Vec<u8>,
    /// Who vouches for the signer, if anybody does.
    pub material: Option<Material>,
    form: Form,
}

/// A certificate of a signer, and the proof of when they signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// In DER.
    pub certificate: Vec<u8>,
    /// Certificates between it and its authority, in DER.
    pub chain: Vec<Vec<u8>>,
    /// The entry of the log.
    pub entry: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    SimpleSigning,
    Statement,
}

/// Why there is no signature in an attachment.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentError {
    /// Neither of the formats.
    #[error("it is of type {0:?}, which is no signature")]
    MediaType(String),
    /// The annotation is missing.
    #[error("it has no annotation {SIGNATURE}")]
    NoSignature,
    /// The signature is not base64.
    #[error("its signature is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The bundle, or the entry of the log, is not the JSON that it should be.
    #[error("it is no bundle of sigstore ({0})")]
    Json(#[from] serde_json::Error),
    /// The certificate is no PEM.
    #[error("its certificate is not PEM")]
    Certificate,
    /// The bundle signs something else than a statement.
    #[error("it is a bundle of sigstore without a signed statement")]
    NoStatement,
}

/// Whether `media_type` is one that signatures have.
pub(crate) fn is_signature(media_type: &str) -> bool {
    media_type == SIMPLE_SIGNING || media_type.starts_with(BUNDLE)
}

impl Material {
    /// Of the annotations beside a payload.
    fn of(attachment: &Attachment) -> Result<Option<Self>, AttachmentError> {
        let pems = |annotation: &str| -> Result<Vec<Vec<u8>>, AttachmentError> {
            let text = attachment.annotations.get(annotation).map_or("", String::as_str);
            let pems = Pem::iter_from_buffer(text.as_bytes());
            pems.map(|pem| pem.map(|pem| pem.contents).map_err(|_| AttachmentError::Certificate)).collect()
        };
        if !attachment.annotations.contains_key(CERTIFICATE) {
            return Ok(None);
        }
        let certificate = pems(CERTIFICATE)?.into_iter().next().ok_or(AttachmentError::Certificate)?;
        let entry = attachment.annotations.get(ENTRY).map(|text| entry_of_annotation(text)).transpose()?;
        Ok(Some(Self { certificate, chain: pems(CHAIN)?, entry }))
    }
}

impl Signature {
    /// The signature in an attachment.
    ///
    /// # Errors
    /// It is something else.
    pub fn of(attachment: &Attachment) -> Result<Self, AttachmentError> {
        if attachment.media_type == SIMPLE_SIGNING {
            let text = attachment.annotations.get(SIGNATURE).ok_or(AttachmentError::NoSignature)?;
            let (message, payload) = (attachment.body.clone(), attachment.body.clone());
            let (signature, material) = (STANDARD.decode(text)?, Material::of(attachment)?);
            return Ok(Self { message, signature, payload, material, form: Form::SimpleSigning });
        }
        if attachment.media_type.starts_with(BUNDLE) {
            return of_bundle(&attachment.body);
        }
        Err(AttachmentError::MediaType(attachment.media_type.clone()))
    }

    /// What it says. Worth something only once the signature has been checked.
    ///
    /// # Errors
    /// It says nothing about an image.
    pub fn payload(&self) -> Result<Payload, PayloadError> {
        match self.form {
            Form::SimpleSigning => Payload::of_simple_signing(&self.payload),
            Form::Statement => Payload::of_statement(&self.payload),
        }
    }
}

fn of_bundle(body: &[u8]) -> Result<Signature, AttachmentError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bundle {
        dsse_envelope: Option<Envelope>,
        #[serde(default)]
        verification_material: VerificationMaterial,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        payload: String,
        payload_type: String,
        signatures: Vec<Signed>,
    }
    #[derive(Deserialize)]
    struct Signed {
        sig: String,
    }
    let bundle: Bundle = serde_json::from_slice(body)?;
    let material = bundle.verification_material.read()?;
    let envelope = bundle.dsse_envelope.filter(|envelope| envelope.payload_type == IN_TOTO);
    let Envelope { payload, payload_type, signatures } = envelope.ok_or(AttachmentError::NoStatement)?;
    // The specification of bundles allows for exactly one.
    let [Signed { sig }] = signatures.as_slice() else { return Err(AttachmentError::NoStatement) };
    let (payload, signature) = (STANDARD.decode(payload)?, STANDARD.decode(sig)?);
    let message = encoded(&payload_type, &payload);
    Ok(Signature { message, signature, payload, material, form: Form::Statement })
}

/// What a bundle holds beside the signature.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VerificationMaterial {
    certificate: Option<RawBytes>,
    x509_certificate_chain: Option<Certificates>,
    #[serde(default)]
    tlog_entries: Vec<BundledEntry>,
}

#[derive(Deserialize)]
struct Certificates {
    certificates: Vec<RawBytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBytes {
    raw_bytes: String,
}

impl VerificationMaterial {
    fn read(self) -> Result<Option<Material>, AttachmentError> {
        let older = self.x509_certificate_chain.map(|chain| chain.certificates).unwrap_or_default();
        let mut certificates = Vec::new();
        for RawBytes { raw_bytes } in self.certificate.into_iter().chain(older) {
            certificates.push(STANDARD.decode(raw_bytes)?);
        }
        if certificates.is_empty() {
            return Ok(None);
        }
        let (certificate, chain) = (certificates.remove(0), certificates);
        let entry = self.tlog_entries.into_iter().next().map(BundledEntry::read).transpose()?.flatten();
        Ok(Some(Material { certificate, chain, entry }))
    }
}

/// Reads the entry that cosign writes into an annotation.
fn entry_of_annotation(text: &str) -> Result<Entry, AttachmentError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Annotation {
        signed_entry_timestamp: String,
        payload: Payload,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        body: String,
        integrated_time: u64,
        log_index: u64,
        #[serde(rename = "logID")]
        log_id: String,
    }
    let Annotation { signed_entry_timestamp, payload } = serde_json::from_str(text)?;
    let Payload { body, integrated_time, log_index, log_id } = payload;
    let (body, promise) = (STANDARD.decode(body)?, STANDARD.decode(signed_entry_timestamp)?);
    Ok(Entry { body, integrated_time, log_index, log_id, promise })
}

/// An entry in a bundle of sigstore. Numbers are texts there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundledEntry {
    log_index: String,
    log_id: LogId,
    integrated_time: Option<String>,
    inclusion_promise: Option<Promise>,
    canonicalized_body: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogId {
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Promise {
    signed_entry_timestamp: String,
}

impl BundledEntry {
    /// The entry; `None` if it holds no promise with a time, as those of newer logs.
    fn read(self) -> Result<Option<Entry>, AttachmentError> {
        let number = |text: &str| text.parse::<u64>().ok();
        let time = self.integrated_time.as_deref().and_then(number);
        let (Some(integrated_time), Some(log_index), Some(promise)) =
            (time, number(&self.log_index), self.inclusion_promise)
        else {
            return Ok(None);
        };
        let log_id = STANDARD.decode(self.log_id.key_id)?;
        let log_id = log_id.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        let (body, promise) =
            (STANDARD.decode(self.canonicalized_body)?, STANDARD.decode(promise.signed_entry_timestamp)?);
        Ok(Some(Entry { body, integrated_time, log_index, log_id, promise }))
    }
}

/// What is signed of an envelope: type and payload with their lengths (DSSE's pre-authentication encoding).
fn encoded(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_known_by_their_media_type() {
        for media_type in [SIMPLE_SIGNING, "application/vnd.dev.sigstore.bundle.v0.3+json"] {
            assert!(is_signature(media_type), "{media_type}");
        }
        assert!(!is_signature("application/vnd.oci.image.layer.v1.tar+gzip"));
    }

    /// The example of the specification of DSSE.
    #[test]
    fn envelopes_are_encoded_as_specified() {
        let encoded = encoded("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn what_is_no_signature_says_why() {
        let with = |media_type: &str, annotation: Option<&str>, body: &str| Attachment {
            media_type: media_type.to_owned(),
            annotations: annotation.map(|text| (SIGNATURE.to_owned(), text.to_owned())).into_iter().collect(),
            body: body.as_bytes().to_vec(),
        };
        let bundle = format!("{BUNDLE}.v0.3+json");
        for (attachment, expected) in [
            (with("text/plain", None, ""), "it is of type \"text/plain\", which is no signature"),
            (with(SIMPLE_SIGNING, None, "{}"), "it has no annotation dev.cosignproject.cosign/signature"),
            (with(SIMPLE_SIGNING, Some("!"), "{}"), "its signature is not base64"),
            (with(&bundle, None, "<html>"), "it is no bundle of sigstore"),
            (with(&bundle, None, r#"{"messageSignature":{}}"#), "without a signed statement"),
            (
                with(
                    &bundle,
                    None,
                    r#"{"dsseEnvelope":{"payload":"","payloadType":"application/vnd.in-toto+json","signatures":[]}}"#,
                ),
                "without a signed statement",
            ),
        ] {
            let text = Signature::of(&attachment).unwrap_err().to_string();
            assert!(text.starts_with(expected) || text.contains(expected), "{text}");
        }
    }
}
