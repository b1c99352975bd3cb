//! Where images and other content are fetched from, as flags say it: mirrors, authorities, what is spoken to without TLS, which
//! networks are allowed.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ::http::Uri;
use clap::Args;
use rukpak_content::Limits;

use crate::Egress;
use crate::egress::IpNet;
use crate::image::{self, Puller, PullerOptions};
use crate::mirrors::{self, Mirrors};

/// How registries are reached, and the other servers that content comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct Registries {
    /// Mirrors of registries, a file in the form of registries.conf (version 2)
    #[arg(id = "registries_conf", long = "registries-conf", value_name = "FILE")]
    pub conf: Option<PathBuf>,
    /// CA certificates (PEM), beside the system's, for all that content comes from: registries, git, web and catalog servers, the
    /// bucket of --store; may be repeated; read at the start
    #[arg(id = "source_ca_file", long = "source-ca-file", value_name = "FILE")]
    pub ca_files: Vec<PathBuf>,
    /// Registry (host or host:port) to speak to without TLS; credentials go to it in the clear; may be repeated
    #[arg(id = "plain_http_registry", long = "plain-http-registry", value_name = "REGISTRY")]
    pub plain_http: Vec<String>,
    /// Network (CIDR) that sources may be fetched from although it is refused by default, as loopback, link-local and the API server
    /// are; may be repeated
    #[arg(id = "source_allow_cidr", long = "source-allow-cidr", value_name = "CIDR", value_parser = network)]
    pub allowed: Vec<IpNet>,
}

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
        source: io::Error,
    },
    /// The configuration of mirrors is wrong.
    #[error("{} (--registries-conf) cannot be used", path.display())]
    Mirrors {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: mirrors::Error,
    },
    /// The image source cannot be set up.
    #[error("cannot set up the image source (--source-ca-file)")]
    Images(#[source] Box<image::Error>),
}

impl Registries {
    /// What pulls images, with its spool files in `folder`; and the certificates (PEM) that it trusts beside the system's, for
    /// whatever else is fetched.
    ///
    /// # Errors
    /// A file that a flag names cannot be used. Reads them: this blocks.
    pub fn puller(&self, egress: &Egress, folder: PathBuf, limits: Limits) -> Result<(Puller, Vec<u8>), Error> {
        let pem = self.certificates()?;
        let mut options = PullerOptions::new(folder, limits);
        options.plain_http.clone_from(&self.plain_http);
        options.extra_ca_pem.clone_from(&pem);
        options.egress = egress.clone();
        let puller = Puller::new(options).map_err(|error| Error::Images(Box::new(error)))?;
        Ok((puller.with_mirrors(mirrors(self.conf.as_deref())?), pem))
    }

    /// Returns the certificates (PEM) that are trusted beside the system's.
    ///
    /// # Errors
    /// [`Error::File`]. Reads files: this blocks.
    pub fn certificates(&self) -> Result<Vec<u8>, Error> {
        let mut pem = Vec::new();
        for path in &self.ca_files {
            pem.extend(read(path, "--source-ca-file")?);
            // A file may end within a line.
            pem.push(b'\n');
        }
        Ok(pem)
    }

    /// Which addresses sources may be fetched from: none of the API server's, which trusts this process more than who names them.
    pub async fn egress(&self, api_server: &Uri) -> Egress {
        let api_server = addresses(api_server).await;
        Egress::default().allowing(self.allowed.iter().copied()).denying(api_server)
    }
}

/// Reads a file that `flag` names.
pub fn read(path: &Path, flag: &'static str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { path: path.to_owned(), flag, source })
}

async fn addresses(url: &Uri) -> Vec<IpAddr> {
    let Some(host) = url.host() else { return Vec::new() };
    match tokio::net::lookup_host((host.trim_matches(['[', ']']), 443)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(host, %error, "cannot look up the API server's address: sources at it are not refused");
            Vec::new()
        }
    }
}

fn mirrors(conf: Option<&Path>) -> Result<Mirrors, Error> {
    let Some(path) = conf else { return Ok(Mirrors::default()) };
    let failed = |source| Error::File { path: path.to_owned(), flag: "--registries-conf", source };
    let text = fs::read_to_string(path).map_err(failed)?;
    Mirrors::parse(&text).map_err(|source| Error::Mirrors { path: path.to_owned(), source })
}

/// An address alone is a network too.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| format!("{text:?} is not a network: write 10.0.0.0/8 or fd00::/8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sources_are_kept_from_the_api_server_in_whatever_form() {
        let registries = Registries { allowed: vec![network("127.0.0.0/8").unwrap()], ..Registries::default() };
        for (url, ours, other) in [
            ("https://10.96.0.1:443", "10.96.0.1", "10.96.0.2"),
            ("https://[fd00::1]:6443/", "fd00::1", "fd00::2"),
            ("https://10.96.0.1", "::ffff:10.96.0.1", "::ffff:10.96.0.2"),
        ] {
            let egress = registries.egress(&url.parse().unwrap()).await;
            assert!(!egress.permits(ours.parse().unwrap()), "{url}");
            assert!(egress.permits(other.parse().unwrap()), "{url}");
            assert!(egress.permits("127.0.0.1".parse().unwrap()), "what the flag opens");
        }
        let local = addresses(&"https://localhost:6443".parse().unwrap()).await;
        assert!(local.contains(&"127.0.0.1".parse().unwrap()), "{local:?}");
    }

    #[test]
    fn networks_are_read_with_or_without_a_length() {
        assert_eq!(network("127.0.0.0/8").unwrap().to_string(), "127.0.0.0/8");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        assert!(network("localhost").unwrap_err().contains("write 10.0.0.0/8"));
    }
}
