//! Certificates: X.509 v3 with ECDSA P-256 keys. rustls refuses v1, which is what bare `openssl x509 -req` makes.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority of one test or one plane.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key, both PEM.
pub struct Leaf {
    /// The certificate.
    pub cert_pem: String,
    /// The private key, PKCS#8.
    pub key_pem: String,
}

impl TestCa {
    /// Makes an authority called `name`.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .with_context(|| format!("sign the CA {name}"))?;
        Ok(Self { issuer })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server certificate for `names`, each a DNS name or an IP address.
    pub fn server(&self, names: &[&str]) -> Result<Leaf> {
        let params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        self.leaf(params, names.first().copied().unwrap_or("server"), None, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A server certificate for the names of this machine's loopback interface.
    pub fn localhost(&self) -> Result<Leaf> {
        self.server(&["localhost", "127.0.0.1"])
    }

    /// A client certificate; Kubernetes reads `user` and `group` from it.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Leaf> {
        self.leaf(CertificateParams::default(), user, group, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn leaf(
        &self,
        mut params: CertificateParams,
        common_name: &str,
        organization: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Leaf> {
        params.distinguished_name.push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer).with_context(|| format!("sign {common_name}"))?;
        Ok(Leaf { cert_pem: cert.pem(), key_pem: key.serialize_pem() })
    }
}

impl Leaf {
    /// Writes `<folder>/<name>.crt` and `<folder>/<name>.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        for (extension, text) in [("crt", &self.cert_pem), ("key", &self.key_pem)] {
            let path = folder.join(format!("{name}.{extension}"));
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf").field("cert_pem", &self.cert_pem).finish_non_exhaustive()
    }
}
