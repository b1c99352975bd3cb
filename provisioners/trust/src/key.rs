//! Public keys, as cosign writes and reads them.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rukpak_content::Digest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

type Algorithms = &'static [&'static dyn VerificationAlgorithm];

const EC: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const RSA: &str = "1.2.840.113549.1.1.1";
const ED25519_OID: &str = "1.3.101.112";

const WITH_P256: Algorithms = &[&ECDSA_P256_SHA256_ASN1];
const WITH_P384: Algorithms = &[&ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1];
const WITH_RSA: Algorithms = &[&RSA_PKCS1_2048_8192_SHA256];
const WITH_ED25519: Algorithms = &[&ED25519];

/// A key that signatures are checked with.
#[derive(Clone)]
pub struct PublicKey {
    /// Any of them will do: signers on P-384 differ in which hash they take.
    algorithms: Algorithms,
    key: Vec<u8>,
    fingerprint: Digest,
}

/// Why a text is not a key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// No PEM at all.
    #[error("it is not PEM: expected -----BEGIN PUBLIC KEY-----")]
    NotPem,
    /// PEM of something else.
    #[error("it is PEM of {0:?}: expected a PUBLIC KEY")]
    Kind(String),
    /// The inside is damaged.
    #[error("it is not a public key in the form of X.509 (SubjectPublicKeyInfo)")]
    Damaged,
    /// Another kind of key.
    #[error("keys of this kind are not supported: use ECDSA on P-256 or P-384, Ed25519, or RSA")]
    Unsupported,
}

impl PublicKey {
    /// Reads the first block of a PEM text.
    ///
    /// # Errors
    /// It is not a key of a kind that is supported.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let (pem, _) = Pem::read(std::io::Cursor::new(text)).map_err(|_| KeyError::NotPem)?;
        if pem.label != "PUBLIC KEY" {
            return Err(KeyError::Kind(pem.label));
        }
        Self::from_der(&pem.contents)
    }

    /// Reads a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// It is not a key of a kind that is supported.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::Damaged)?;
        if !rest.is_empty() {
            return Err(KeyError::Damaged);
        }
        let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
        let curve = curve.map(|oid| oid.to_id_string());
        let algorithms = match (info.algorithm.algorithm.to_id_string().as_str(), curve.as_deref()) {
            (EC, Some(P256)) => WITH_P256,
            (EC, Some(P384)) => WITH_P384,
            (RSA, _) => WITH_RSA,
            (ED25519_OID, _) => WITH_ED25519,
            _ => return Err(KeyError::Unsupported),
        };
        let key = info.subject_public_key.data.to_vec();
        Ok(Self { algorithms, key, fingerprint: Digest::sha256(der) })
    }

    /// Whether its owner signed `message` so.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verifies = |algorithm: &&'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(*algorithm, &self.key).verify(message, signature).is_ok()
        };
        self.algorithms.iter().any(verifies)
    }

    /// The SHA-256 of the key in DER.
    pub fn fingerprint(&self) -> &Digest {
        &self.fingerprint
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PublicKey({})", self.fingerprint)
    }
}
