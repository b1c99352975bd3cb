//! TLS whose certificate, and whose authorities of clients, can change while calls are served.

use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::SystemTime;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificates::{Identity, identity};
use crate::server::Handshake;

/// What new connections are served with. Handshakes are refused while there is no certificate.
#[derive(Default)]
pub struct Tls {
    state: RwLock<State>,
    /// Which TLS is spoken; `None`: that of the process.
    provider: Option<Arc<CryptoProvider>>,
    /// Cancelled when there is a certificate, and the authorities of clients have been looked for.
    complete: CancellationToken,
    /// Receives of each new certificate when it expires.
    on_certificate: Option<Box<dyn Fn(SystemTime) + Send + Sync>>,
}

#[derive(Default)]
struct State {
    key: Option<Arc<CertifiedKey>>,
    /// Who signs client certificates; without any, none is asked for.
    authorities: Vec<CertificateDer<'static>>,
    /// Whether they have been looked for.
    is_looked_for: bool,
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
    /// Serves nothing yet; `on_certificate` receives of each certificate when it expires.
    pub fn observed(on_certificate: impl Fn(SystemTime) + Send + Sync + 'static) -> Self {
        Self { on_certificate: Some(Box::new(on_certificate)), ..Self::default() }
    }

    /// Speaks this TLS, whatever the flags of the process say.
    #[must_use]
    pub fn speaking(self, provider: CryptoProvider) -> Self {
        Self { provider: Some(Arc::new(provider)), ..self }
    }

    /// Serves new connections with this certificate.
    pub fn serve(&self, identity: &Identity) -> Result<(), Error> {
        let mut state = self.state();
        let key = identity.key();
        if state.key.as_ref().is_some_and(|current| current.cert == key.cert) {
            return Ok(());
        }
        state.config = Some(self.config(&key, &state.authorities)?);
        state.key = Some(key);
        if let Some(on_certificate) = &self.on_certificate {
            on_certificate(identity.validity().until);
        }
        self.tell(&state);
        Ok(())
    }

    /// Takes certificates of clients that these authorities (PEM) signed; of nobody, if there are none.
    ///
    /// # Errors
    /// Why those of before hold still.
    pub fn trust(&self, pem: &[u8]) -> Result<(), Error> {
        let authorities = identity::certificates(pem).map_err(Error::Authorities)?;
        let mut state = self.state();
        if state.authorities == authorities {
            return Ok(());
        }
        if let Some(key) = &state.key {
            state.config = Some(self.config(key, &authorities)?);
        }
        state.authorities = authorities;
        Ok(())
    }

    /// The authorities have been looked for, whether or not any can be trusted.
    pub fn looked_for(&self) {
        let mut state = self.state();
        state.is_looked_for = true;
        self.tell(&state);
    }

    /// Waits until callers of any kind can be answered.
    pub async fn complete(&self) {
        self.complete.cancelled().await;
    }

    fn tell(&self, state: &State) {
        if state.key.is_some() && state.is_looked_for {
            self.complete.cancel();
        }
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// HTTP/1.1 only. Client certificates may be left out: tokens are as good. A version of TLS is spoken of which the provider has a
    /// cipher suite.
    fn config(
        &self,
        key: &Arc<CertifiedKey>,
        authorities: &[CertificateDer<'static>],
    ) -> Result<Arc<ServerConfig>, Error> {
        let of_process = || CryptoProvider::get_default().cloned();
        let provider = self.provider.clone().or_else(of_process).unwrap_or_else(|| Arc::new(ring::default_provider()));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(Error::Config)?
            .with_client_cert_verifier(verifier(authorities, provider)?)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from((**key).clone())));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// For the next connection.
    fn current(&self) -> Option<Arc<ServerConfig>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }
}

/// TLS comes before HTTP.
#[derive(Clone)]
pub struct OverTls(pub Arc<Tls>);

/// The verified chain of the client's certificate, its own first; empty without one. An [extension](axum::Extension) of a call.
#[derive(Clone, Debug)]
pub struct ClientChain(pub Arc<[CertificateDer<'static>]>);

impl ClientChain {
    /// Returns the common name of the client's certificate. Of several the last one counts, as in Go and so in the API server.
    pub fn common_name(&self) -> Option<String> {
        let (_, certificate) = X509Certificate::from_der(self.0.first()?).ok()?;
        let last = certificate.subject().iter_common_name().last()?;
        last.as_str().ok().map(str::to_owned)
    }
}

impl Handshake for OverTls {
    type Stream = TlsStream<TcpStream>;
    type Peer = ClientChain;

    async fn shake(&self, stream: TcpStream) -> io::Result<(Self::Stream, ClientChain)> {
        let config = self.0.current().ok_or_else(|| io::Error::other("there is no certificate yet"))?;
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Ok((stream, ClientChain(chain)))
    }
}

fn verifier(
    authorities: &[CertificateDer<'static>],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    if roots.is_empty() {
        return Ok(Arc::new(NoClientAuth));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(Error::Verifier)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_client_is_called_by_the_common_name_of_its_certificate() {
        let named = |name: Option<&str>| {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name = DistinguishedName::new();
            if let Some(name) = name {
                parameters.distinguished_name.push(DnType::CommonName, name);
            }
            let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
            ClientChain(Arc::from([certificate.der().clone()])).common_name()
        };
        assert_eq!(named(Some("front-proxy-client")).as_deref(), Some("front-proxy-client"));
        assert_eq!(named(None), None);
        assert_eq!(ClientChain(Arc::from([])).common_name(), None);
    }

    #[test]
    fn it_is_complete_with_a_certificate_and_a_look_for_the_authorities_of_clients() {
        let tls = Tls::default();
        let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let identity =
            Identity::from_pem(authority.cert.pem().as_bytes(), authority.signing_key.serialize_pem().as_bytes());
        tls.serve(&identity.unwrap()).unwrap();
        assert!(tls.complete().now_or_never().is_none());
        tls.looked_for();
        assert!(tls.complete().now_or_never().is_some());
    }
}
