//! Signatures that `ssh-keygen -Y sign` makes, which git takes for those of commits and tags.
//!
//! Source of the formats: PROTOCOL.sshsig of OpenSSH, RFC 4253 (keys), RFC 5656 (ECDSA), RFC 8332 (RSA), RFC 8709 (Ed25519).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, SHA512, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
/// What git signs for: a signature for something else that is made with the same key says nothing here.
const NAMESPACE: &[u8] = b"git";

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct SshKey {
    /// As it is sent over the wire: type, and what belongs to it.
    blob: Vec<u8>,
}

/// A signature, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshSignature {
    key: Vec<u8>,
    hash: Vec<u8>,
    reserved: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a text is not a key, or not a signature.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SshError {
    /// There is no key in the text.
    #[error("there is no key in it: expected a line such as ssh-ed25519 AAAA...")]
    NoKey,
    /// A line is not a key.
    #[error("line {0} is not a public key of OpenSSH: expected a line such as ssh-ed25519 AAAA...")]
    Key(usize),
    /// Another kind of key.
    #[error(
        "keys of type {0:?} are not supported: use ssh-ed25519, ecdsa-sha2-nistp256, ecdsa-sha2-nistp384 or ssh-rsa"
    )]
    KeyType(String),
    /// Not what stands between the marks of a signature.
    #[error("it is damaged")]
    Damaged,
    /// Made for something else.
    #[error("it was made for {0:?}, not for git")]
    Namespace(String),
}

impl SshKey {
    /// The keys of lines as in `authorized_keys` without options. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// A line is something else, or there is none.
    pub fn lines(text: &str) -> Result<Vec<Self>, SshError> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys: Result<Vec<_>, _> = lines.map(|(at, line)| Self::line(line, at + 1)).collect();
        keys.and_then(|keys| if keys.is_empty() { Err(SshError::NoKey) } else { Ok(keys) })
    }

    fn line(line: &str, at: usize) -> Result<Self, SshError> {
        let mut words = line.split_whitespace();
        let (Some(type_), Some(blob)) = (words.next(), words.next()) else { return Err(SshError::Key(at)) };
        let blob = STANDARD.decode(blob).map_err(|_| SshError::Key(at))?;
        let named = Reader(&blob).string().ok_or(SshError::Key(at))?;
        if named != type_.as_bytes() {
            return Err(SshError::Key(at));
        }
        // Whether it can be read at all is found out before a signature is looked at.
        let key = Self { blob };
        if !matches!(type_, "ssh-ed25519" | "ecdsa-sha2-nistp256" | "ecdsa-sha2-nistp384" | "ssh-rsa") {
            return Err(SshError::KeyType(type_.chars().take(40).collect()));
        }
        key.parts().ok_or(SshError::Key(at))?;
        Ok(key)
    }

    /// Whether its owner made `signature` of `message`.
    pub fn verifies(&self, message: &[u8], signature: &SshSignature) -> bool {
        self.blob == signature.key && self.checks(message, signature).unwrap_or(false)
    }

    fn checks(&self, message: &[u8], signature: &SshSignature) -> Option<bool> {
        let hashed = match signature.hash.as_slice() {
            b"sha256" => digest(&SHA256, message),
            b"sha512" => digest(&SHA512, message),
            _ => return None,
        };
        let mut signed = MAGIC.to_vec();
        for part in [NAMESPACE, &signature.reserved, &signature.hash, hashed.as_ref()] {
            signed.extend_from_slice(&u32::try_from(part.len()).ok()?.to_be_bytes());
            signed.extend_from_slice(part);
        }
        let mut made = Reader(&signature.signature);
        let (type_, bytes) = (made.string()?, made.string()?);
        made.end()?;
        let verified = match (self.parts()?, type_) {
            (Parts::Ed25519(key), b"ssh-ed25519") => UnparsedPublicKey::new(&ED25519, key).verify(&signed, bytes),
            (Parts::P256(key), b"ecdsa-sha2-nistp256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(&signed, &fixed(bytes, 32)?)
            }
            (Parts::P384(key), b"ecdsa-sha2-nistp384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, key).verify(&signed, &fixed(bytes, 48)?)
            }
            // SHA-1, `ssh-rsa`, is not made by any OpenSSH of the last years.
            (Parts::Rsa { e, n }, b"rsa-sha2-256") => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, &signed, bytes)
            }
            (Parts::Rsa { e, n }, b"rsa-sha2-512") => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA512, &signed, bytes)
            }
            _ => return None,
        };
        Some(verified.is_ok())
    }

    fn parts(&self) -> Option<Parts<'_>> {
        let mut reader = Reader(&self.blob);
        let parts = match reader.string()? {
            b"ssh-ed25519" => Parts::Ed25519(reader.string()?),
            b"ecdsa-sha2-nistp256" if reader.string()? == b"nistp256" => Parts::P256(reader.string()?),
            b"ecdsa-sha2-nistp384" if reader.string()? == b"nistp384" => Parts::P384(reader.string()?),
            b"ssh-rsa" => Parts::Rsa { e: positive(reader.string()?), n: positive(reader.string()?) },
            _ => return None,
        };
        reader.end().map(|()| parts)
    }
}

impl std::fmt::Debug for SshKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SshKey({})", STANDARD.encode(&self.blob))
    }
}

impl SshSignature {
    /// Whether the text begins as one does.
    pub fn is_one(text: &str) -> bool {
        text.trim_start().starts_with(BEGIN)
    }

    /// Reads what stands between the marks, for git.
    ///
    /// # Errors
    /// It is damaged, or made for something else.
    pub fn read(text: &str) -> Result<Self, SshError> {
        let body = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).ok_or(SshError::Damaged)?;
        let body: String = body.split_whitespace().collect();
        let bytes = STANDARD.decode(body).map_err(|_| SshError::Damaged)?;
        Self::parse(&bytes).ok_or(SshError::Damaged)?
    }

    fn parse(bytes: &[u8]) -> Option<Result<Self, SshError>> {
        let mut reader = Reader(bytes.strip_prefix(MAGIC)?);
        if reader.number()? != VERSION {
            return None;
        }
        let (key, namespace) = (reader.string()?, reader.string()?);
        let (reserved, hash, signature) = (reader.string()?, reader.string()?, reader.string()?);
        reader.end()?;
        if namespace != NAMESPACE {
            let namespace = String::from_utf8_lossy(namespace).chars().take(40).collect();
            return Some(Err(SshError::Namespace(namespace)));
        }
        let [key, hash, reserved, signature] = [key, hash, reserved, signature].map(<[u8]>::to_vec);
        Some(Ok(Self { key, hash, reserved, signature }))
    }
}

enum Parts<'a> {
    Ed25519(&'a [u8]),
    P256(&'a [u8]),
    P384(&'a [u8]),
    Rsa { e: &'a [u8], n: &'a [u8] },
}

/// The two numbers of an ECDSA signature, each with so many bytes, one behind the other.
fn fixed(bytes: &[u8], size_bytes: usize) -> Option<Vec<u8>> {
    let mut reader = Reader(bytes);
    let mut both = Vec::new();
    for number in [positive(reader.string()?), positive(reader.string()?)] {
        both.resize(both.len() + size_bytes.checked_sub(number.len())?, 0);
        both.extend_from_slice(number);
    }
    reader.end().map(|()| both)
}

/// A number without the zeros before it, which mark it as positive.
fn positive(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Reads numbers and strings as they are sent over ssh.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let size_bytes = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.0.split_at_checked(size_bytes)?;
        self.0 = rest;
        Some(string)
    }

    /// Nothing may follow.
    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
