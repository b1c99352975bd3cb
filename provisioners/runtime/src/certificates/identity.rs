//! A certificate chain with its private key, ready to be served.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Clocks of API servers may be this much behind ours, or a tenth of the lifetime if that is less.
const CLOCK_SKEW: Duration = Duration::from_mins(5);

/// A certificate chain with its private key. The key belongs to the certificate.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From this moment on.
    pub from: SystemTime,
    /// Until this moment.
    pub until: SystemTime,
}

/// Why PEM text is no identity.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate's text is broken.
    #[error("the certificate is not PEM")]
    Chain(#[source] rustls::pki_types::pem::Error),
    /// No certificate in the text.
    #[error("there is no certificate")]
    Empty,
    /// The certificate itself is broken.
    #[error("the certificate is not X.509: {0}")]
    Parse(String),
    /// The key's text is broken.
    #[error("the private key is not PEM")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The key is of a kind we do not speak, or not the certificate's.
    #[error("the private key does not serve the certificate")]
    Match(#[source] rustls::Error),
}

impl Identity {
    /// Reads PEM text.
    ///
    /// # Errors
    /// What is wrong with it; nothing of the key is in the text.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain = certificates(chain)?;
        let validity = Validity::of(chain.first().ok_or(Error::Empty)?)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::Key)?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(Error::Match)?;
        Ok(Self { key: Arc::new(key), validity })
    }

    /// For the TLS listener.
    pub fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }

    /// When the certificate is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether both serve the same certificate.
    pub fn is(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }

    /// Whether a client that trusts these authorities would accept us under this name now. Asks what a client asks:
    /// signature, validity, name, usage.
    pub fn is_trusted(&self, authorities: &[CertificateDer<'static>], name: &str, now: SystemTime) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let Some((leaf, intermediates)) = self.key.cert.split_first() else { return false };
        let Ok(name) = ServerName::try_from(name) else { return false };
        let provider = Arc::new(ring::default_provider());
        let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(since_epoch(now));
        verifier.verify_server_cert(leaf, intermediates, &name, &[], now).is_ok()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl Validity {
    /// Reads it from a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Error::Parse(error.to_string()))?;
        let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let validity = parsed.validity();
        Ok(Self { from: at(validity.not_before.timestamp()), until: at(validity.not_after.timestamp()) })
    }

    /// The validity of a certificate that we make now.
    pub(super) fn beginning(now: SystemTime, lifetime: Duration) -> Self {
        Self { from: now - CLOCK_SKEW.min(lifetime / 10), until: now + lifetime }
    }

    /// When it was made, if we made it: before that moment lies the allowance for slow clocks.
    pub fn made(&self) -> SystemTime {
        self.from + CLOCK_SKEW.min(self.span() / 11)
    }

    /// From the first moment to the last.
    pub fn span(&self) -> Duration {
        self.until.duration_since(self.from).unwrap_or_default()
    }
}

/// Reads every certificate of a PEM text.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(Error::Chain)
}

/// Time since 1970; zero before.
pub fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
