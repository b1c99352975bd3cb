//! Signatures as cosign makes them: payloads, and where they are put.

mod keyless;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, SignatureAlgorithm, SigningKey as _};
use serde_json::{Value, json};

use super::{Pushed, Registry, digest};

pub use keyless::{Keyless, Signing};

/// Media type of payloads.
pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Media type of sigstore's bundles.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A key that signs.
pub struct Cosign(KeyPair);

/// A blob with a signature, and the annotations of its descriptor.
#[derive(Debug, Clone)]
pub struct SignatureBlob {
    /// Media type of the blob.
    pub media_type: &'static str,
    /// The blob.
    pub body: Vec<u8>,
    /// Annotations of its descriptor.
    pub annotations: Value,
}

impl Cosign {
    /// A new key of cosign's usual kind, ECDSA on P-256.
    pub fn new() -> Result<Self> {
        Self::of(&rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// A new key of this kind.
    pub fn of(algorithm: &'static SignatureAlgorithm) -> Result<Self> {
        Ok(Self(KeyPair::generate_for(algorithm)?))
    }

    /// What is given to those who verify.
    pub fn public_key(&self) -> String {
        self.0.public_key_pem()
    }

    /// The signature of any bytes.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        self.0.sign(message).context("sign")
    }

    /// A signature in the format "simple signing".
    pub fn simple(&self, payload: &Value) -> Result<SignatureBlob> {
        let body = payload.to_string().into_bytes();
        let signature = BASE64_STANDARD.encode(self.sign(&body)?);
        let annotations = json!({ "dev.cosignproject.cosign/signature": signature });
        Ok(SignatureBlob { media_type: SIMPLE_SIGNING, body, annotations })
    }

    /// A signature as a bundle of sigstore, which holds a signed statement.
    pub fn bundle(&self, digest: &str) -> Result<SignatureBlob> {
        let (type_, hex) = ("application/vnd.in-toto+json", digest.trim_start_matches("sha256:"));
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": "https://sigstore.dev/cosign/sign/v1",
            "subject": [{ "digest": { "sha256": hex } }], "predicate": {},
        });
        let statement = statement.to_string();
        let message = format!("DSSEv1 {} {type_} {} {statement}", type_.len(), statement.len());
        let signature = BASE64_STANDARD.encode(self.sign(message.as_bytes())?);
        let bundle = json!({
            "mediaType": BUNDLE, "verificationMaterial": { "publicKey": { "hint": "" }, "tlogEntries": [] },
            "dsseEnvelope": { "payload": BASE64_STANDARD.encode(statement), "payloadType": type_,
                              "signatures": [{ "sig": signature }] },
        });
        Ok(SignatureBlob { media_type: BUNDLE, body: bundle.to_string().into_bytes(), annotations: json!({}) })
    }
}

/// What `cosign sign` signs of an image.
pub fn payload(repository: &str, digest: &str) -> Value {
    json!({
        "critical": {
            "identity": { "docker-reference": repository }, "image": { "docker-manifest-digest": digest },
            "type": "cosign container image signature",
        },
        "optional": null,
    })
}

impl Pushed {
    /// `registry/repository`.
    pub fn repository(&self) -> &str {
        self.pinned.split('@').next().unwrap_or_default()
    }

    /// The tag under which cosign puts signatures.
    pub fn signature_tag(&self) -> String {
        format!("{}.sig", self.digest.replace(':', "-"))
    }
}

impl Registry {
    /// Signs an image as `cosign sign --key` does: a payload under the image's signature tag.
    pub async fn sign(&self, image: &Pushed, signer: &Cosign) -> Result<()> {
        let blob = signer.simple(&payload(image.repository(), &image.digest))?;
        self.put_signatures(image, &[blob]).await
    }

    /// Puts blobs under the signature tag of an image, in place of what was there.
    pub async fn put_signatures(&self, image: &Pushed, blobs: &[SignatureBlob]) -> Result<()> {
        self.put_artifact(image, &image.signature_tag(), blobs, None).await.map(|_| ())
    }

    /// Puts an artifact that refers to an image, as `cosign sign --registry-referrers-mode=oci-1-1` does, and returns its entry in
    /// a list of referrers.
    pub async fn put_referrer(&self, image: &Pushed, blob: &SignatureBlob) -> Result<Value> {
        let type_ = if blob.media_type == BUNDLE { BUNDLE } else { "application/vnd.dev.cosign.artifact.sig.v1+json" };
        let blobs = std::slice::from_ref(blob);
        let text = self.put_artifact(image, &crate::tools::unique_name("referrer"), blobs, Some(type_)).await?;
        let (size, digest) = (text.len(), digest(text.as_bytes()));
        Ok(json!({ "mediaType": MANIFEST, "digest": digest, "size": size, "artifactType": type_ }))
    }

    /// Puts a list of referrers under the tag that stands in for it where a registry keeps none.
    pub async fn put_referrers_tag(&self, image: &Pushed, entries: &[Value]) -> Result<()> {
        let tag = image.digest.replace(':', "-");
        let index = referrers(entries);
        self.put_raw_manifest(self.name_of(image), &tag, INDEX, index.as_bytes()).await.map(|_| ())
    }

    fn name_of<'a>(&self, image: &'a Pushed) -> &'a str {
        image.repository().trim_start_matches(self.host()).trim_start_matches('/')
    }

    async fn put_artifact(
        &self,
        image: &Pushed,
        tag: &str,
        blobs: &[SignatureBlob],
        artifact_type: Option<&str>,
    ) -> Result<String> {
        let repository = self.name_of(image);
        let config = self.put_blob(repository, b"{}").await?;
        let mut layers = Vec::new();
        for blob in blobs {
            let digest = self.put_blob(repository, &blob.body).await?;
            layers.push(json!({
                "mediaType": blob.media_type, "digest": digest, "size": blob.body.len(), "annotations": blob.annotations,
            }));
        }
        let mut manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 2 },
        });
        if let Some(type_) = artifact_type {
            manifest["artifactType"] = json!(type_);
            manifest["subject"] = json!({ "mediaType": MANIFEST, "digest": image.digest, "size": 1 });
        }
        let text = manifest.to_string();
        self.put_raw_manifest(repository, tag, MANIFEST, text.as_bytes()).await?;
        Ok(text)
    }
}

/// A registry's list of referrers.
pub fn referrers(entries: &[Value]) -> String {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }).to_string()
}
