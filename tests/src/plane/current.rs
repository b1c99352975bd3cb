//! A cluster that is there already, used as a plane: the current context of the caller's kubeconfig.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::{Described, Plane, Programs};
use crate::tools;

impl Plane {
    /// The cluster of the current context of `KUBECONFIG` (or `~/.kube/config`). Its processes are not ours: restarting and
    /// stopping them is refused, and dropping the plane ends nothing.
    pub async fn current() -> Result<Self> {
        tools::use_ring();
        let kubeconfig = Kubeconfig::read().context("read the current kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default())
            .await
            .context("use the current context of the kubeconfig")?;
        let Some(authorities) = &config.root_cert else {
            bail!("the current context names no certificate authority, which the ServiceAccounts' kubeconfigs need");
        };
        let folder = tools::temp_folder("current")?;
        let path = |name: &str| folder.path().join(name);
        write_private(&path("admin.kubeconfig"), &serde_json::to_string(&kubeconfig)?)?;
        write_private(&path("apiserver-ca.crt"), &pem(authorities))?;
        let described = Described {
            folder: folder.path().to_owned(),
            kubeconfig: path("admin.kubeconfig"),
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            certificate_authority: path("apiserver-ca.crt"),
        };
        Ok(Self { programs: Programs::Foreign(folder), described, installed: Mutex::new(None) })
    }
}

/// The kubeconfig may hold credentials.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("write {}", path.display()))
}

fn pem(certificates: &[Vec<u8>]) -> String {
    const LINE: usize = 64;
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in BASE64_STANDARD.encode(certificate).as_bytes().chunks(LINE) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestCa;

    #[test]
    fn certificates_survive_the_way_to_der_and_back() {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        let original = TestCa::new("a").unwrap().pem();
        let der = CertificateDer::from_pem_slice(original.as_bytes()).unwrap().to_vec();
        let again = CertificateDer::from_pem_slice(pem(std::slice::from_ref(&der)).as_bytes()).unwrap().to_vec();
        assert_eq!(again, der);
    }
}
