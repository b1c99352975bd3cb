//! What images are pulled with, as the flags say.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::Config;
use rukpak_content::Limits;
use rukpak_source::Egress;
use rukpak_source::image::{self, Puller, PullerOptions};
use rukpak_source::mirrors::{self, Mirrors};

use crate::args::Registries;

/// Why no image can be pulled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that a flag names cannot be read.
    #[error("cannot read {} ({flag})", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The flag.
        flag: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The configuration of mirrors is wrong.
    #[error("{} (--registries-conf) cannot be used", path.display())]
    Mirrors {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: mirrors::Error,
    },
    /// The image source cannot be set up.
    #[error("cannot set up the image source (--source-ca-file)")]
    Images(#[source] Box<image::Error>),
}

/// What pulls images, with its spool files in `folder`; and the certificates (PEM) that it trusts beside the system's, for
/// whatever else is fetched.
pub(crate) fn puller(
    registries: &Registries,
    egress: &Egress,
    folder: PathBuf,
    limits: Limits,
) -> Result<(Puller, Vec<u8>), Error> {
    let pem = certificates(&registries.ca_files)?;
    let mut options = PullerOptions::new(folder, limits);
    options.plain_http.clone_from(&registries.plain_http);
    options.extra_ca_pem.clone_from(&pem);
    options.egress = egress.clone();
    let puller = Puller::new(options).map_err(|error| Error::Images(Box::new(error)))?;
    Ok((puller.with_mirrors(mirrors(registries.conf.as_deref())?), pem))
}

/// Which addresses sources may be fetched from: none of the API server's, which trusts this process more than who names them.
pub(crate) async fn egress(registries: &Registries, config: &Config) -> Egress {
    let api_server = addresses(&config.cluster_url).await;
    Egress::default().allowing(registries.allowed.iter().copied()).denying(api_server)
}

async fn addresses(url: &Uri) -> Vec<IpAddr> {
    let Some(host) = url.host() else { return Vec::new() };
    match tokio::net::lookup_host((host.trim_matches(['[', ']']), 443)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(host, %error, "the API server's address is not known, so sources are not kept from it");
            Vec::new()
        }
    }
}

/// Reads a file that a flag names.
pub(crate) fn read(path: &Path, flag: &'static str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { path: path.to_owned(), flag, source })
}

fn certificates(files: &[PathBuf]) -> Result<Vec<u8>, Error> {
    let mut pem = Vec::new();
    for path in files {
        pem.extend(read(path, "--source-ca-file")?);
        // A file may end within a line.
        pem.push(b'\n');
    }
    Ok(pem)
}

fn mirrors(conf: Option<&Path>) -> Result<Mirrors, Error> {
    let Some(path) = conf else { return Ok(Mirrors::default()) };
    let failed = |source| Error::File { path: path.to_owned(), flag: "--registries-conf", source };
    let text = fs::read_to_string(path).map_err(failed)?;
    Mirrors::parse(&text).map_err(|source| Error::Mirrors { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sources_are_kept_from_the_api_server_in_whatever_form() {
        for (url, ours, other) in [
            ("https://10.96.0.1:443", "10.96.0.1", "10.96.0.2"),
            ("https://[fd00::1]:6443/", "fd00::1", "fd00::2"),
            ("https://10.96.0.1", "::ffff:10.96.0.1", "::ffff:10.96.0.2"),
        ] {
            let egress = Egress::default().denying(addresses(&url.parse().unwrap()).await);
            assert!(!egress.permits(ours.parse().unwrap()), "{url}");
            assert!(egress.permits(other.parse().unwrap()), "{url}");
        }
        let local = addresses(&"https://localhost:6443".parse().unwrap()).await;
        assert!(local.contains(&"127.0.0.1".parse().unwrap()), "{local:?}");
    }
}
