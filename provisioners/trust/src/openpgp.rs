//! Signatures that `gpg --detach-sign` makes, which git takes for those of commits and tags.
//!
//! Packets and cryptography are read and computed by rpgp. What a key may be used for, and when, is decided here and in
//! `openpgp/key.rs`. Source of the formats: RFC 9580, which has RFC 4880's too.

mod key;

use std::time::{SystemTime, UNIX_EPOCH};

use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SignatureVersion, SubpacketData};

use self::key::Key;

const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const PUBLIC_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const PRIVATE_KEY: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
/// Those of people have some hundred bytes: a longer one is not read.
const SIGNATURE_BYTES: usize = 16 * 1024;

/// The keys of certificates ("public keys" of gpg), those that may not sign included.
#[derive(Clone, Debug)]
pub struct OpenPgpKeys(Vec<Key>);

/// A signature of bytes, not checked yet.
#[derive(Clone, Debug)]
pub struct OpenPgpSignature {
    signature: Signature,
    created_seconds: u64,
}

/// Why a text is not a certificate, or not a signature that is looked at.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenPgpError {
    /// No armor at all.
    #[error("it is not an OpenPGP key: expected -----BEGIN PGP PUBLIC KEY BLOCK-----")]
    NoKey,
    /// The one that nobody else may have.
    #[error("it is a private OpenPGP key: expected the public one (gpg --armor --export)")]
    PrivateKey,
    /// The inside of a certificate cannot be read.
    #[error("it is not a public OpenPGP key: {0}")]
    Key(String),
    /// The inside of a signature cannot be read.
    #[error("it is damaged")]
    Damaged,
    /// So many bytes are no signature.
    #[error("it has {0} bytes: at most {SIGNATURE_BYTES} are read")]
    TooLong(usize),
    /// Made for something else than bytes as they are.
    #[error("it is not a signature of a file (type {0})")]
    Type(String),
    /// Who finds two texts of one hash can move it from one to the other.
    #[error("it was made with {0}, which can be forged: use SHA-256 or SHA-512")]
    Hash(String),
    /// It lacks what every signature has.
    #[error("it does not say when it was made")]
    NoTime,
    /// It says something that is not to be passed over, and is not known.
    #[error("it has a notation that is critical and not known")]
    Notation,
}

impl OpenPgpKeys {
    /// The keys of one or more armored certificates: `gpg --armor --export`, and several of them one behind the other.
    ///
    /// # Errors
    /// There is none, or one cannot be read.
    pub fn from_armor(text: &str) -> Result<Self, OpenPgpError> {
        if text.contains(PRIVATE_KEY) {
            return Err(OpenPgpError::PrivateKey);
        }
        let damaged = |error: pgp::errors::Error| OpenPgpError::Key(error.to_string());
        let mut keys = Vec::new();
        for (at, _) in text.match_indices(PUBLIC_KEY) {
            let (certificates, _) = SignedPublicKey::from_string_many(&text[at..]).map_err(damaged)?;
            for certificate in certificates {
                keys.extend(Key::all(&certificate.map_err(damaged)?));
            }
        }
        if keys.is_empty() { Err(OpenPgpError::NoKey) } else { Ok(Self(keys)) }
    }

    /// Whether one of the keys made `signature` of `message`; and if so, that it may.
    ///
    /// # Errors
    /// It is one of them, and it does not count: expired, revoked, not for signing. If a key is here more than once, each has
    /// to be good.
    pub fn check(&self, message: &[u8], signature: &OpenPgpSignature, now: SystemTime) -> Result<bool, String> {
        let mut made = self.0.iter().filter(|key| key.verifies(message, &signature.signature)).peekable();
        let is_made = made.peek().is_some();
        let now_seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        made.try_for_each(|key| key.check(signature.created_seconds, now_seconds))?;
        if is_made { signature.check_lifetime(now_seconds).map(|()| true) } else { Ok(false) }
    }
}

impl OpenPgpSignature {
    /// Whether the text says that it is a signature by an OpenPGP key.
    pub fn is_one(text: &str) -> bool {
        text.trim_start().starts_with(SIGNATURE)
    }

    /// Reads an armored signature of bytes; of several the first.
    ///
    /// # Errors
    /// It cannot be read, or is none that anybody should believe.
    pub fn read(text: &str) -> Result<Self, OpenPgpError> {
        Self::of(text.len(), || DetachedSignature::from_string(text).map(|(read, _)| read))
    }

    /// As [`OpenPgpSignature::read`], without armor: `gpg --detach-sign`.
    ///
    /// # Errors
    /// The same.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpenPgpError> {
        Self::of(bytes.len(), || DetachedSignature::from_bytes(bytes))
    }

    fn of(
        size_bytes: usize,
        read: impl FnOnce() -> Result<DetachedSignature, pgp::errors::Error>,
    ) -> Result<Self, OpenPgpError> {
        if size_bytes > SIGNATURE_BYTES {
            return Err(OpenPgpError::TooLong(size_bytes));
        }
        let signature = read().map_err(|_| OpenPgpError::Damaged)?.signature;
        let Some(config) = signature.config() else { return Err(OpenPgpError::Damaged) };
        if !matches!(config.version(), SignatureVersion::V4 | SignatureVersion::V6) {
            return Err(OpenPgpError::Damaged);
        }
        if config.typ() != SignatureType::Binary {
            return Err(OpenPgpError::Type(format!("{:?}", config.typ())));
        }
        if !is_strong(&signature) {
            return Err(OpenPgpError::Hash(config.hash_alg.to_string()));
        }
        let is_notation = |data: &SubpacketData| matches!(data, SubpacketData::Notation(_));
        if config.hashed_subpackets().any(|subpacket| subpacket.is_critical && is_notation(&subpacket.data)) {
            return Err(OpenPgpError::Notation);
        }
        let created_seconds = created_seconds(&signature).ok_or(OpenPgpError::NoTime)?;
        Ok(Self { signature, created_seconds })
    }

    /// Signatures can say themselves for how long they are good.
    fn check_lifetime(&self, now_seconds: u64) -> Result<(), String> {
        let lifetime = self.signature.signature_expiration_time().map_or(0, pgp::types::Duration::as_secs);
        let end = self.created_seconds + u64::from(lifetime);
        if lifetime == 0 || now_seconds < end { Ok(()) } else { Err(format!("it expired at {}", time(end))) }
    }
}

/// Whether it takes a hash of which nobody can find two texts.
fn is_strong(signature: &Signature) -> bool {
    let strong = [
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha384,
        HashAlgorithm::Sha512,
        HashAlgorithm::Sha3_256,
        HashAlgorithm::Sha3_512,
    ];
    signature.hash_alg().is_some_and(|hash| strong.contains(&hash))
}

/// Seconds since 1970 at which it says that it was made.
fn created_seconds(signature: &Signature) -> Option<u64> {
    signature.created().map(|created| u64::from(created.as_secs()))
}

/// A time, for people.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| format!("second {seconds}"), |time| time.to_string())
}
