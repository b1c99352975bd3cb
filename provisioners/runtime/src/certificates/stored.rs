//! What the Secret holds, read and written.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;

use super::authority::Issued;
use super::identity::{self, Identity, Validity};

/// Key of the authorities' certificates, newest first.
pub(crate) const AUTHORITIES: &str = "ca.crt";
/// Key of the serving certificate.
pub(crate) const CERTIFICATE: &str = "tls.crt";
/// Key of its private key.
pub(crate) const KEY: &str = "tls.key";
/// Authorities kept at most. Two are enough for a rotation; a third, should one be cut short and begun again.
pub(crate) const AUTHORITIES_MAX: usize = 3;

/// The content of the Secret, checked: the newest authority signed the certificate, and the key is the certificate's.
#[derive(Clone)]
pub(crate) struct Stored {
    authorities: Vec<CertificateDer<'static>>,
    identity: Identity,
    data: Data,
}

/// The Secret's content as it is written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Data {
    authorities: String,
    certificate: String,
    key: String,
}

/// Why the Secret's content is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// An entry is missing, or no text.
    #[error("{0} is missing or no text")]
    Entry(&'static str),
    /// An entry cannot be read.
    #[error("{entry} cannot be read")]
    Read {
        /// The entry.
        entry: &'static str,
        /// Why.
        source: identity::Error,
    },
    /// A client would refuse it: another authority, another name, or expired.
    #[error("{CERTIFICATE} is not one that the first authority of {AUTHORITIES} signed for {name}, or it has expired")]
    Untrusted {
        /// The name a client asks for.
        name: String,
    },
}

impl Stored {
    /// Reads the Secret's data; `names` are those the certificate must be good for.
    ///
    /// # Errors
    /// Why it is not used. Whatever the bytes are, this does not panic.
    pub(crate) fn read(
        data: &BTreeMap<String, ByteString>,
        names: &[String],
        now: SystemTime,
    ) -> Result<Self, Unusable> {
        let text = |entry| -> Result<String, Unusable> {
            let bytes = data.get(entry).filter(|bytes| !bytes.0.is_empty()).ok_or(Unusable::Entry(entry))?;
            String::from_utf8(bytes.0.clone()).map_err(|_| Unusable::Entry(entry))
        };
        let data = Data { authorities: text(AUTHORITIES)?, certificate: text(CERTIFICATE)?, key: text(KEY)? };
        let authorities = identity::certificates(data.authorities.as_bytes())
            .map_err(|source| Unusable::Read { entry: AUTHORITIES, source })?;
        let identity = Identity::from_pem(data.certificate.as_bytes(), data.key.as_bytes())
            .map_err(|source| Unusable::Read { entry: CERTIFICATE, source })?;
        let newest = authorities.get(..1).unwrap_or_default();
        if let Some(name) = names.iter().find(|name| !identity.is_trusted(newest, name, now)) {
            return Err(Unusable::Untrusted { name: name.clone() });
        }
        Ok(Self { authorities, identity, data })
    }

    /// What is to be served.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The authorities, newest first.
    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// What the API server shall trust: the bytes of `caBundle`.
    pub(crate) fn bundle(&self) -> &[u8] {
        self.data.authorities.as_bytes()
    }

    /// When the certificate is due for renewal: after two thirds of its time.
    pub(crate) fn renewal(&self) -> SystemTime {
        let Validity { from, until } = self.identity.validity();
        from + until.duration_since(from).unwrap_or_default() / 3 * 2
    }

    /// The content with those authorities `beside` it that are valid still.
    pub(crate) fn beside(&self, beside: &[CertificateDer<'static>], now: SystemTime) -> Data {
        let newest = self.authorities.get(..1).unwrap_or_default();
        Data { authorities: pem(newest) + &pem(&valid(beside, now)), ..self.data.clone() }
    }
}

impl Data {
    /// What was issued, with those authorities beside it that are valid still.
    pub(crate) fn new(issued: Issued, beside: &[CertificateDer<'static>], now: SystemTime) -> Self {
        Self {
            authorities: issued.authority + &pem(&valid(beside, now)),
            certificate: issued.certificate,
            key: issued.key,
        }
    }

    /// The entries of the Secret.
    pub(crate) fn entries(self) -> BTreeMap<String, ByteString> {
        [(AUTHORITIES, self.authorities), (CERTIFICATE, self.certificate), (KEY, self.key)]
            .into_iter()
            .map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())))
            .collect()
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stored")
            .field("authorities", &self.authorities.len())
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Those that are valid still, each once, and not more than are kept.
fn valid(authorities: &[CertificateDer<'static>], now: SystemTime) -> Vec<CertificateDer<'static>> {
    let mut valid = Vec::new();
    for authority in authorities {
        let is_valid = Validity::of(authority).is_ok_and(|validity| validity.until > now);
        if is_valid && !valid.contains(authority) {
            valid.push(authority.clone());
        }
    }
    valid.truncate(AUTHORITIES_MAX - 1);
    valid
}

fn pem(certificates: &[CertificateDer<'static>]) -> String {
    certificates.iter().map(|der| to_pem(der)).collect()
}

/// PEM of one certificate: base64 in lines of 64 characters.
fn to_pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in der.chunks(48) {
        text.push_str(&BASE64_STANDARD.encode(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certificates::{issue, service_names};

    const HOUR: Duration = Duration::from_hours(1);

    fn read(entries: &BTreeMap<String, ByteString>, now: SystemTime) -> Result<Stored, Unusable> {
        Stored::read(entries, &service_names("svc", "ns"), now)
    }

    fn issued(now: SystemTime) -> Issued {
        issue(&service_names("svc", "ns"), HOUR, now).unwrap()
    }

    #[test]
    fn a_rotation_keeps_the_old_authority_for_as_long_as_it_is_valid() {
        let start = SystemTime::now();
        let first = read(&Data::new(issued(start), &[], start).entries(), start).unwrap();
        assert!((start + HOUR / 2..start + HOUR * 2 / 3).contains(&first.renewal()));

        let renewal = first.renewal();
        let second = read(&Data::new(issued(renewal), first.authorities(), renewal).entries(), renewal).unwrap();
        assert_eq!(second.authorities().len(), 2);
        assert_eq!(second.authorities()[1], first.authorities()[0]);
        assert!(first.identity().is_trusted(second.authorities(), "svc.ns.svc", renewal));
        assert!(!second.identity().is(first.identity()));

        let late = start + HOUR * 2;
        assert_eq!(
            read(&Data::new(issued(late), first.authorities(), late).entries(), late).unwrap().authorities().len(),
            1
        );
    }

    #[test]
    fn repeated_replacement_does_not_pile_up_authorities() {
        let now = SystemTime::now();
        let mut stored = read(&Data::new(issued(now), &[], now).entries(), now).unwrap();
        for _ in 0..5 {
            stored = read(&Data::new(issued(now), stored.authorities(), now).entries(), now).unwrap();
        }
        assert_eq!(stored.authorities().len(), AUTHORITIES_MAX);
    }

    #[test]
    fn broken_content_is_told_apart_and_never_panics() {
        let now = SystemTime::now();
        let whole = Data::new(issued(now), &[], now).entries();
        let other = Data::new(issued(now), &[], now).entries();
        let broken = |entry: &str, bytes: &[u8]| {
            let mut entries = whole.clone();
            entries.insert(entry.to_owned(), ByteString(bytes.to_vec()));
            read(&entries, now).unwrap_err().to_string()
        };
        assert!(read(&whole, now).is_ok());
        assert_eq!(read(&BTreeMap::new(), now).unwrap_err().to_string(), "ca.crt is missing or no text");
        assert_eq!(broken(KEY, b""), "tls.key is missing or no text");
        assert_eq!(broken(CERTIFICATE, &[0xff, 0xfe]), "tls.crt is missing or no text");
        assert_eq!(broken(CERTIFICATE, b"garbage"), "tls.crt cannot be read");
        assert_eq!(
            broken(CERTIFICATE, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "tls.crt cannot be read"
        );
        assert_eq!(broken(KEY, &other[KEY].0), "tls.crt cannot be read");
        assert!(broken(AUTHORITIES, &other[AUTHORITIES].0).contains("signed for svc.ns.svc"));
        assert!(broken(AUTHORITIES, b"no certificates").contains("signed for"));
        let names = service_names("svc", "elsewhere");
        assert!(matches!(Stored::read(&whole, &names, now), Err(Unusable::Untrusted { .. })));
        assert!(matches!(read(&whole, now + HOUR * 2), Err(Unusable::Untrusted { .. })));
    }
}
