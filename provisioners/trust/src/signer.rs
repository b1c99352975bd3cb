//! How a signer is known: by a key, or by those who vouch for them.

use rukpak_crds::Signer;

use crate::attachment::Signature;
use crate::key::PublicKey;
use crate::keyless::Keyless;
use crate::ssh::SshKey;

/// What a signature is checked with.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A key.
    Key(PublicKey),
    /// An authority, a log and an identity.
    Keyless(Box<Keyless>),
    /// Keys of ssh, for commits and tags. Never none.
    Ssh(Vec<SshKey>),
}

impl Credential {
    /// Out of the PEM texts that the signer names, in the order of [`Signer::pems`].
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub fn new(signer: &Signer, pems: &[String]) -> Result<Self, String> {
        let Signer { name: _, public_key, keyless, ssh_key } = signer;
        match (public_key, keyless, ssh_key, pems) {
            (None, None, Some(_), [keys]) => read(SshKey::lines(keys)).map(Self::Ssh),
            (Some(_), None, None, [key]) => read(PublicKey::from_pem(key)).map(Self::Key),
            (None, Some(keyless), None, [authority, log]) => {
                let known = Keyless::new(authority, log, &keyless.issuer, &keyless.identity);
                known.map(|known| Self::Keyless(Box::new(known))).map_err(|error| {
                    match std::error::Error::source(&error) {
                        Some(source) => format!("{error}: {source}"),
                        None => error.to_string(),
                    }
                })
            }
            _ => Err("it needs one of publicKey, keyless and sshKey (keys of OpenPGP are no longer read)".to_owned()),
        }
    }

    /// Whether the signer made `signature`, and as whom they are known where they have no key.
    ///
    /// # Errors
    /// Why they did not.
    pub fn check(&self, signature: &Signature) -> Result<Option<String>, String> {
        match self {
            Self::Key(key) if key.verifies(&signature.message, &signature.signature) => Ok(None),
            Self::Key(_) => Err("it was made with another key, or what was signed has been changed".to_owned()),
            Self::Keyless(keyless) => keyless.check(signature).map(Some),
            Self::Ssh(_) => Err("a signer who is known by an sshKey signs no images".to_owned()),
        }
    }
}

fn read<T>(key: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    key.map_err(|error| error.to_string())
}
