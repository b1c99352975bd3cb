//! Registries of images: certificates from flags, logins from Docker's configuration.

mod credentials;
mod helper;

use std::env;
use std::fs;
use std::sync::Arc;

use oci_client::Reference;
use rukpak_content::Limits;
use rukpak_source::Egress;
use rukpak_source::image::{self, Puller, PullerOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};

use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};

/// What images are pulled with.
pub struct Registries {
    pub puller: Arc<Puller>,
    /// The certificates that the flags name, one after the other.
    pub extra_ca_pem: Vec<u8>,
    logins: credentials::Logins,
    /// Why the last credential helper that was asked gave no login.
    failed_helper: Option<String>,
}

/// The certificates that the flags name, one after the other; `None` if they name none.
pub fn extra_ca(trust: &TrustArgs) -> Result<Option<String>, Failure> {
    let mut all = None;
    for file in &trust.ca_file {
        let pem = fs::read_to_string(file);
        let pem = pem.map_err(|error| Failure::during(format!("read {}", file.display()), &error))?;
        let all: &mut String = all.get_or_insert_default();
        all.push_str(&pem);
        all.push('\n');
    }
    Ok(all)
}

/// Reads certificates in PEM. Returns each in DER.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, pem::Error> {
    CertificateDer::pem_slice_iter(pem).map(|one| one.map(|one| one.to_vec())).collect()
}

impl Registries {
    /// Reads certificates and logins. No network.
    pub fn new(trust: &TrustArgs, limits: Limits) -> Result<Self, Failure> {
        let mut options = PullerOptions::new(env::temp_dir(), limits);
        options.extra_ca_pem = extra_ca(trust)?.unwrap_or_default().into_bytes();
        // Whoever runs this reaches no more with it than without.
        options.egress = Egress::anywhere();
        options.plain_http.clone_from(&trust.plain_http_registry);
        let extra_ca_pem = options.extra_ca_pem.clone();
        let logins = credentials::read()?;
        let puller = Arc::new(Puller::new(options).map_err(|error| Failure::unknown(chain(&error)))?);
        Ok(Self { puller, extra_ca_pem, logins, failed_helper: None })
    }

    pub fn credentials(&self) -> &image::Credentials {
        &self.logins.credentials
    }

    /// Asks the credential helper that Docker's configuration names for a registry, if it names one. One that does not work is
    /// told of where a login is missing: many images need none.
    pub async fn log_in(&mut self, registry: &str) {
        match self.logins.helpers.login(registry).await {
            Ok(None) => {}
            Ok(Some(mut found)) => {
                found.extend(std::mem::take(&mut self.logins.credentials));
                self.logins.credentials = found;
            }
            Err(why) => self.failed_helper = Some(why),
        }
    }

    /// Logs in where an image is; a name that is none is told of by who pulls it.
    pub async fn log_in_for(&mut self, image: &str) {
        if let Ok(reference) = image.parse::<Reference>() {
            self.log_in(reference.registry()).await;
        }
    }

    /// The certificates that the flags name, as X.509.
    pub fn authorities(&self) -> Result<Vec<Vec<u8>>, Failure> {
        certificates(&self.extra_ca_pem).map_err(|error| Failure::during("read certificates", &error))
    }

    /// Says what may be the matter, where a registry gives no image.
    pub fn note_helpers(&self) {
        if let Some(why) = &self.failed_helper {
            to_stderr(&format!("note: {why}"));
        }
    }
}
