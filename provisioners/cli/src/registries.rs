//! Registries of images: certificates from flags, logins from Docker's configuration.

mod credentials;

use std::env;
use std::fs;
use std::io;
use std::sync::Arc;

use rukpak_content::Limits;
use rukpak_source::Egress;
use rukpak_source::image::{self, Puller, PullerOptions};

use crate::args::TrustArgs;
use crate::output::talk;

pub use credentials::Error as CredentialsError;

/// What images are pulled with.
pub struct Registries {
    /// Does it.
    pub puller: Arc<Puller>,
    /// The certificates that the flags name, one after the other.
    pub extra_ca_pem: Vec<u8>,
    logins: credentials::Logins,
}

/// Why no registry can be asked. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with certificates cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The logins cannot be read.
    #[error("read logins for registries")]
    Credentials(#[from] CredentialsError),
    /// The certificates are none.
    #[error(transparent)]
    Client(#[from] image::Error),
}

impl Registries {
    /// Reads certificates and logins. No network.
    pub fn new(trust: &TrustArgs, limits: Limits) -> Result<Self, Error> {
        let mut options = PullerOptions::new(env::temp_dir(), limits);
        for file in &trust.ca_file {
            let pem = fs::read(file).map_err(|source| Error::Read { path: file.display().to_string(), source })?;
            options.extra_ca_pem.extend(pem);
            options.extra_ca_pem.push(b'\n');
        }
        // Whoever runs this reaches no more with it than without.
        options.egress = Egress::anywhere();
        options.plain_http.clone_from(&trust.plain_http_registry);
        let extra_ca_pem = options.extra_ca_pem.clone();
        let logins = credentials::read()?;
        Ok(Self { puller: Arc::new(Puller::new(options)?), extra_ca_pem, logins })
    }

    /// The logins.
    pub fn credentials(&self) -> &image::Credentials {
        &self.logins.credentials
    }

    /// Says what may be the matter, where a registry gives no image.
    pub fn note_helpers(&self) {
        if let Some(file) = &self.logins.helpers {
            talk(&format!(
                "note: {file} names a credential helper, which is not asked: only logins in the file itself count"
            ));
        }
    }
}
