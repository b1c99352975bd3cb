//! Signatures of people and pipelines without a key of their own: a certificate authority (Fulcio) vouches for who they are,
//! for minutes, and a log (Rekor) for when they signed.

use std::time::Duration;

use rukpak_content::Digest;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::attachment::{Material, Signature};
use crate::key::{KeyError, PublicKey};

/// What certificates of signers are for, as DER (1.3.6.1.5.5.7.3.3).
const CODE_SIGNING: &[u8] = &[43, 6, 1, 5, 5, 7, 3, 3];
/// Where Fulcio says who knows the signer: as UTF8String, and in older certificates as bytes.
const ISSUER: &str = "1.3.6.1.4.1.57264.1.8";
const OLDER_ISSUER: &str = "1.3.6.1.4.1.57264.1.1";

/// Somebody whom an authority and a log vouch for.
#[derive(Clone, Debug)]
pub struct Keyless {
    authorities: Vec<CertificateDer<'static>>,
    log: PublicKey,
    issuer: String,
    identity: String,
}

/// Why a trust root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// No certificate in it.
    #[error("certificateAuthority holds no certificate in PEM")]
    NoCertificate,
    /// A damaged block of PEM.
    #[error("certificateAuthority holds a block of PEM that is damaged")]
    Pem,
    /// A damaged certificate.
    #[error("certificateAuthority holds a certificate that cannot be used ({0})")]
    Certificate(webpki::Error),
    /// The key of the log is none.
    #[error("rekorKey: {0}")]
    Log(#[source] KeyError),
}

impl Keyless {
    /// Certificates of the authority and the key of the log in PEM; who knows the signer, and as whom, with `*` for anything.
    ///
    /// # Errors
    /// A certificate or the key cannot be used.
    pub fn new(authorities: &str, log: &str, issuer: &str, identity: &str) -> Result<Self, RootError> {
        let mut certificates = Vec::new();
        for pem in Pem::iter_from_buffer(authorities.as_bytes()) {
            let pem = pem.map_err(|_| RootError::Pem)?;
            if pem.label == "CERTIFICATE" {
                let certificate = CertificateDer::from(pem.contents);
                anchor_from_trusted_cert(&certificate).map_err(RootError::Certificate)?;
                certificates.push(certificate);
            }
        }
        if certificates.is_empty() {
            return Err(RootError::NoCertificate);
        }
        let log = PublicKey::from_pem(log).map_err(RootError::Log)?;
        Ok(Self { authorities: certificates, log, issuer: issuer.to_owned(), identity: identity.to_owned() })
    }

    /// As whom the signer is known who made `signature`.
    ///
    /// # Errors
    /// Why it is none of theirs.
    pub fn check(&self, signature: &Signature) -> Result<String, String> {
        let Some(material) = &signature.material else { return Err("it has no certificate".to_owned()) };
        let (_, leaf) =
            X509Certificate::from_der(&material.certificate).map_err(|_| "its certificate is damaged".to_owned())?;
        let key = PublicKey::from_der(leaf.public_key().raw).map_err(|error| format!("its certificate: {error}"))?;
        if !key.verifies(&signature.message, &signature.signature) {
            return Err(
                "it was not made with the key of its certificate, or what was signed has been changed".to_owned()
            );
        }
        let signed_at = self.logged_at(signature, material)?;
        self.check_certificate(material, signed_at)?;
        self.check_identity(&leaf)
    }

    /// When it was logged, in seconds since 1970; and that this is the signature that was.
    fn logged_at(&self, signature: &Signature, material: &Material) -> Result<u64, String> {
        let entry =
            material.entry.as_ref().ok_or("it does not prove when it was made: there is no entry of a log (Rekor)")?;
        if entry.log_id != self.log.fingerprint().hex() {
            return Err(format!("it is in the log {}, not in that of rekorKey", entry.log_id));
        }
        if !self.log.verifies(entry.promised().as_bytes(), &entry.promise) {
            return Err("its entry in the log is not signed with rekorKey".to_owned());
        }
        entry.check(&signature.signature, &Digest::sha256(&signature.payload), &material.certificate)?;
        Ok(entry.integrated_time)
    }

    fn check_certificate(&self, material: &Material, signed_at: u64) -> Result<(), String> {
        let anchors: Result<Vec<_>, _> = self.authorities.iter().map(anchor_from_trusted_cert).collect();
        let anchors = anchors.map_err(|error| format!("certificateAuthority: {error}"))?;
        let leaf = CertificateDer::from(material.certificate.as_slice());
        let chain: Vec<_> = material.chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let algorithms = &[
            ring::ECDSA_P256_SHA256,
            ring::ECDSA_P256_SHA384,
            ring::ECDSA_P384_SHA256,
            ring::ECDSA_P384_SHA384,
            ring::ED25519,
            ring::RSA_PKCS1_2048_8192_SHA256,
            ring::RSA_PKCS1_2048_8192_SHA384,
            ring::RSA_PKCS1_2048_8192_SHA512,
        ];
        let time = UnixTime::since_unix_epoch(Duration::from_secs(signed_at));
        let usage = KeyUsage::required(CODE_SIGNING);
        let checked = EndEntityCert::try_from(&leaf)
            .and_then(|leaf| leaf.verify_for_usage(algorithms, &anchors, &chain, time, usage, None, None).map(|_| ()));
        checked.map_err(|error| match error {
            webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. } => {
                "it was made when its certificate was not valid: expired, or not yet".to_owned()
            }
            // The latter if another authority has the same name.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                "its certificate is not one of certificateAuthority".to_owned()
            }
            other => format!("its certificate cannot be used ({other})"),
        })
    }

    fn check_identity(&self, leaf: &X509Certificate<'_>) -> Result<String, String> {
        let issuer = issuer(leaf).unwrap_or_default();
        let identities = identities(leaf);
        let known = identities.iter().find(|identity| matches(&self.identity, identity));
        match known.filter(|_| issuer == self.issuer) {
            Some(identity) => Ok((*identity).to_owned()),
            None => Err(format!("it was made by {} (known to {issuer})", identities.join(", "))),
        }
    }
}

fn issuer(leaf: &X509Certificate<'_>) -> Option<String> {
    let value = |oid: &str| {
        let mut extensions = leaf.extensions().iter();
        extensions.find(|extension| extension.oid.to_id_string() == oid).map(|extension| extension.value)
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    match value(ISSUER) {
        // A UTF8String: its tag and its length, in one byte or, above 127, in two.
        Some([0x0c, 0x81, length, rest @ ..]) if rest.len() == usize::from(*length) => text(rest),
        Some([0x0c, length, rest @ ..]) if rest.len() == usize::from(*length) => text(rest),
        Some(_) => None,
        None => text(value(OLDER_ISSUER)?),
    }
}

/// Mail addresses and URIs of the certificate.
fn identities<'a>(leaf: &X509Certificate<'a>) -> Vec<&'a str> {
    let names = leaf.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
        _ => None,
    });
    let identity = |name: &GeneralName<'a>| match name {
        GeneralName::RFC822Name(identity) | GeneralName::URI(identity) => Some(*identity),
        _ => None,
    };
    names.flatten().filter_map(identity).collect()
}

/// Whether `text` is `pattern`, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

    use super::*;

    /// One authority may sign servers and code.
    #[test]
    fn refuses_certificate_that_is_not_for_signing_code() {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let log = include_str!("../tests/vectors/keyless/rekor.pub");
        let keyless = Keyless::new(&authority.pem(), log, "issuer", "*").unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let checked = |purposes: &[ExtendedKeyUsagePurpose]| {
            let mut leaf = CertificateParams::default();
            leaf.extended_key_usages = purposes.to_vec();
            let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
            let material = Material { certificate: leaf.der().to_vec(), chain: Vec::new(), entry: None };
            keyless.check_certificate(&material, now)
        };
        assert_eq!(checked(&[ExtendedKeyUsagePurpose::CodeSigning]), Ok(()));
        for other in [&[][..], &[ExtendedKeyUsagePurpose::ServerAuth]] {
            let refusal = checked(other).unwrap_err();
            assert!(refusal.starts_with("its certificate cannot be used ("), "{other:?}: {refusal}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in [("a", "a"), ("*", ""), ("a*", "abc"), ("*c", "abc"), ("a*c*e", "abcde"), ("a*b*", "ab")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "ba"), ("*c", "cb"), ("a*c*c", "abc"), ("ab*b", "ab")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
