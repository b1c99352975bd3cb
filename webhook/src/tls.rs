//! TLS with a certificate that can be changed while calls are served.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate that new connections get. Handshakes fail while there is none.
#[derive(Default)]
pub struct Serving {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Serving {
    /// Changes the certificate; open connections keep theirs.
    pub fn set(&self, key: Arc<CertifiedKey>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// The certificate of the next connection.
    pub fn get(&self) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Serving").field("loaded", &self.get().is_some()).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get()
    }
}

/// The TLS configuration: 1.2 and 1.3, HTTP/1.1 only (RukPak has HTTP/2 off by default, against rapid resets).
///
/// # Errors
/// Never with the provider we build with; the type says it could.
pub fn server_config(serving: Arc<Serving>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
