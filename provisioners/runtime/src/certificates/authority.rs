//! Makes an authority and the one certificate it signs. The authority's key is dropped on return.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;

use super::identity::{Validity, since_epoch};

/// What was made, as PEM text.
pub struct Issued {
    /// The authority's certificate.
    pub authority: String,
    /// The serving certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library refuses: no randomness, or a name that is no DNS name.
    #[error("cannot make a certificate for {name}")]
    Generate {
        /// The first name.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
    /// The clock is outside what a certificate can say.
    #[error("the clock is outside the range of certificates")]
    Clock,
}

/// Makes an authority and a serving certificate for `names`, both valid from `now` for `lifetime` (ECDSA P-256).
///
/// # Errors
/// No randomness, a name that is no DNS name, a clock far off.
pub fn issue(names: &[String], lifetime: Duration, now: SystemTime) -> Result<Issued, Error> {
    let validity = Validity::beginning(now, lifetime);
    let (from, until) = (moment(validity.from)?, moment(validity.until)?);
    let generate = || {
        let mut authority = CertificateParams::default();
        // Its own subject: clients that meet two authorities of one name have to try both.
        let common_name = format!("rukpak-ca@{}", since_epoch(now).as_secs());
        authority.distinguished_name.push(DnType::CommonName, common_name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        (authority.not_before, authority.not_after) = (from, until);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut leaf = CertificateParams::new(names)?;
        leaf.distinguished_name.push(DnType::CommonName, "rukpak");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        (leaf.not_before, leaf.not_after) = (from, until);
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &authority)?;
        Ok(Issued { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    };
    let name = || names.first().cloned().unwrap_or_default();
    generate().map_err(|source| Error::Generate { name: name(), source })
}

fn moment(time: SystemTime) -> Result<OffsetDateTime, Error> {
    let seconds = i64::try_from(since_epoch(time).as_secs()).map_err(|_| Error::Clock)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| Error::Clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::identity::{Identity, certificates};

    #[test]
    fn what_is_issued_is_trusted_by_its_authority_alone() {
        let names = ["svc.ns.svc", "svc.ns.svc.cluster.local", "svc.ns"].map(str::to_owned);
        let now = SystemTime::now();
        let lifetime = Duration::from_hours(1);
        let [one, two] = [(); 2].map(|()| issue(&names, lifetime, now).unwrap());
        let identity = Identity::from_pem(one.certificate.as_bytes(), one.key.as_bytes()).unwrap();
        let trusted = |authority: &str, name: &str, now| {
            identity.is_trusted(&certificates(authority.as_bytes()).unwrap(), name, now)
        };
        for name in &names {
            assert!(trusted(&one.authority, name, now), "{name}");
        }
        assert!(trusted(&(two.authority.clone() + &one.authority), &names[0], now));
        assert!(!trusted(&two.authority, &names[0], now));
        assert!(!trusted(&one.authority, "svc.other.svc", now));
        assert!(!trusted(&one.authority, &names[0], now + lifetime + Duration::from_secs(1)));
        assert!(trusted(&one.authority, &names[0], now - Duration::from_secs(200)), "a clock behind ours");
        assert!(Identity::from_pem(one.certificate.as_bytes(), two.key.as_bytes()).is_err());
        assert!(!format!("{identity:?}").contains("PRIVATE"));
    }
}
