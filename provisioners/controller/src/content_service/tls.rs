//! TLS whose certificate, and whose authorities of clients, can change while calls are served.

use std::sync::{Arc, PoisonError, RwLock};

use rukpak_certificates::{Identity, identity};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

/// What new connections are served with. Handshakes are refused while there is no certificate.
#[derive(Default)]
pub struct Tls {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    key: Option<Arc<CertifiedKey>>,
    /// Who signs client certificates; without any, none is asked for.
    authorities: Vec<CertificateDer<'static>>,
    config: Option<Arc<ServerConfig>>,
}

/// Why new connections go on as before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The authorities' certificates cannot be read.
    #[error("the authorities of client certificates cannot be read")]
    Authorities(#[source] identity::Error),
    /// They cannot be used for verification.
    #[error("the authorities of client certificates cannot be used")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
    /// The settings contradict each other.
    #[error("TLS cannot be set up")]
    Config(#[source] rustls::Error),
}

impl Tls {
    /// Serves new connections with this certificate.
    ///
    /// # Errors
    /// Why not.
    pub fn serve(&self, identity: &Identity) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let key = identity.key();
        if state.key.as_ref().is_some_and(|current| current.cert == key.cert) {
            return Ok(());
        }
        state.config = Some(config(&key, &state.authorities)?);
        state.key = Some(key);
        Ok(())
    }

    /// Takes certificates of clients that these authorities (PEM) signed; of nobody, if there are none.
    ///
    /// # Errors
    /// Why those of before hold still.
    pub fn trust(&self, pem: &[u8]) -> Result<(), Error> {
        let authorities = identity::certificates(pem).map_err(Error::Authorities)?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.authorities == authorities {
            return Ok(());
        }
        if let Some(key) = &state.key {
            state.config = Some(config(key, &authorities)?);
        }
        state.authorities = authorities;
        Ok(())
    }

    /// For the next connection.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }
}

/// TLS 1.2 and 1.3, HTTP/1.1 only. Client certificates may be left out: tokens are as good.
fn config(key: &Arc<CertifiedKey>, authorities: &[CertificateDer<'static>]) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::Config)?
        .with_client_cert_verifier(verifier(authorities, provider)?)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from((**key).clone())));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn verifier(
    authorities: &[CertificateDer<'static>],
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    if roots.is_empty() {
        return Ok(Arc::new(NoClientAuth));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(Error::Verifier)
}
