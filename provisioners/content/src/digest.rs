//! Content digests in the form of the OCI image specification, `<algorithm>:<hex>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};

/// A hash function that content is named by.
///
/// Source: the registered algorithms of the OCI image specification, `descriptor.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256, 64 hexadecimal characters. The store uses only this one.
    Sha256,
    /// SHA-512, 128 hexadecimal characters. Accepted from registries.
    Sha512,
}

impl Algorithm {
    /// The algorithm's name as it stands before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// The name of some bytes: an [`Algorithm`] and lower-case hexadecimal characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// Why a text is not a [`Digest`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DigestError {
    /// There is no colon.
    #[error("{0:?} is not a digest: expected <algorithm>:<hex>")]
    Form(String),
    /// Neither sha256 nor sha512.
    #[error("{0:?} is not a supported digest algorithm: use sha256 or sha512")]
    Algorithm(String),
    /// Too long, too short, or not lower-case hexadecimal.
    #[error("{0:?} is not a digest: the part after the colon is not lower-case hexadecimal of the right length")]
    Hex(String),
}

impl Digest {
    /// The SHA-256 of `bytes`.
    pub fn sha256(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Which hash function this is of.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hexadecimal part.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (name, hex) = text.split_once(':').ok_or_else(|| DigestError::Form(text.to_owned()))?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            other => return Err(DigestError::Algorithm(other.to_owned())),
        };
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if hex.len() != algorithm.hex_length() || !is_hex {
            return Err(DigestError::Hex(text.to_owned()));
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Computes a [`Digest`] while bytes pass by.
pub struct Hasher(State);

enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// Starts with no bytes seen.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    /// The digest of all bytes seen.
    pub fn finish(self) -> Digest {
        let (algorithm, hex) = match self.0 {
            State::Sha256(state) => (Algorithm::Sha256, hex(&state.finalize())),
            State::Sha512(state) => (Algorithm::Sha512, hex(&state.finalize())),
        };
        Digest { algorithm, hex }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_empty_string_as_everyone_does() {
        assert_eq!(
            Digest::sha256(b"").to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn reads_back_what_it_prints_and_refuses_the_rest() {
        let digest = Digest::sha256(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest.clone()));
        assert_eq!(format!("sha256:{}", digest.hex()), digest.to_string());
        for bad in ["", "abc", "md5:00", "sha256:00", &format!("sha256:{}", digest.hex().to_uppercase())] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
