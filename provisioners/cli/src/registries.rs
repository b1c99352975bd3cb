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

/// The certificates that the flags name, one after the other; `None` if they name none.
pub fn extra_ca(trust: &TrustArgs) -> Result<Option<String>, Error> {
    let mut all = None;
    for file in &trust.ca_file {
        let pem = fs::read_to_string(file);
        let pem = pem.map_err(|source| Error::Read { path: file.display().to_string(), source })?;
        let all: &mut String = all.get_or_insert_default();
        all.push_str(&pem);
        all.push('\n');
    }
    Ok(all)
}

impl Registries {
    /// Reads certificates and logins. No network.
    pub fn new(trust: &TrustArgs, limits: Limits) -> Result<Self, Error> {
        let mut options = PullerOptions::new(env::temp_dir(), limits);
        options.extra_ca_pem = extra_ca(trust)?.unwrap_or_default().into_bytes();
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
