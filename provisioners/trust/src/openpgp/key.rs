//! The keys of a certificate: which of them may sign, from when and until when.
//!
//! A certificate is a primary key, users and subkeys, each with self-signatures, by which the owner says what it is for. Of
//! several the newest counts. The certificate comes from the administrator: nobody else can have left one out.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType};
use pgp::ser::Serialize as _;
use pgp::types::{EcdsaPublicParams, EddsaLegacyPublicParams, KeyDetails, KeyVersion, PublicParams, Tag};

use super::{created_seconds, is_strong, time};

/// RSA keys of fewer bits are refused.
const RSA_BITS: u16 = 2048;

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    material: Material,
    fingerprint: String,
    created_seconds: u64,
    /// `None` if it does not expire.
    end_seconds: Option<u64>,
    /// Why nothing that it signed counts, whenever that was.
    fault: Option<String>,
}

#[derive(Clone, Debug)]
enum Material {
    Primary(Box<PublicKey>),
    Subkey(Box<PublicSubkey>),
}

/// What a self-signature says of a key.
struct Terms {
    signs: bool,
    end_seconds: Option<u64>,
}

impl Key {
    /// The primary key and the subkeys. What revokes or ends the primary key does so to all.
    pub(super) fn all(certificate: &SignedPublicKey) -> Vec<Self> {
        let primary = &certificate.primary_key;
        let is_revoked = certificate.details.revocation_signatures.iter().any(|one| one.verify_key(primary).is_ok());
        let newest = own_signatures(certificate).into_iter().max_by_key(|one| created_seconds(one));
        let terms = newest.map(|newest| Terms::of(newest, primary));
        let end_seconds = terms.as_ref().and_then(|terms| terms.end_seconds);
        let whole = match terms {
            _ if is_revoked => Some("it has been revoked"),
            None => Some("its certificate has no self-signature with SHA-256 or better"),
            Some(_) => None,
        };
        let signs = terms.is_some_and(|terms| terms.signs);
        let fault = whole.or_else(|| (!signs).then_some("its owner does not let it sign")).map(str::to_owned);
        let first = Self::new(Material::Primary(Box::new(primary.clone())), primary, end_seconds, fault);
        let subkeys = certificate.public_subkeys.iter().map(|subkey| {
            let (terms, fault) = of_subkey(subkey, primary);
            let ends = [end_seconds, terms.and_then(|terms| terms.end_seconds)];
            let fault = whole.or(fault).map(str::to_owned);
            let material = Material::Subkey(Box::new(subkey.key.clone()));
            Self::new(material, &subkey.key, ends.into_iter().flatten().min(), fault)
        });
        std::iter::once(first).chain(subkeys).collect()
    }

    fn new(material: Material, key: &impl KeyDetails, end_seconds: Option<u64>, fault: Option<String>) -> Self {
        Self {
            material,
            fingerprint: format!("{:X}", key.fingerprint()),
            created_seconds: u64::from(key.created_at().as_secs()),
            end_seconds,
            fault: weakness(key).or(fault),
        }
    }

    /// Whether it made the signature, allowed or not.
    pub(super) fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        match &self.material {
            Material::Primary(key) => signature.verify(&**key, message).is_ok(),
            Material::Subkey(key) => signature.verify(&**key, message).is_ok(),
        }
    }

    /// Whether a signature of this time counts now.
    ///
    /// # Errors
    /// Why not. Times of signatures are said by those who sign: of a key that has expired since nobody can tell when it signed.
    pub(super) fn check(&self, signed_seconds: u64, now_seconds: u64) -> Result<(), String> {
        let why = match (&self.fault, self.end_seconds) {
            (Some(fault), _) => fault.clone(),
            (None, Some(end)) if end <= now_seconds => format!("it expired at {}", time(end)),
            _ if signed_seconds < self.created_seconds => {
                format!("it was made at {}, after the signature", time(self.created_seconds))
            }
            _ if signed_seconds > now_seconds => format!("the signature is from the future: {}", time(signed_seconds)),
            _ => return Ok(()),
        };
        Err(format!("key {} made it, and does not count: {why}", self.fingerprint))
    }
}

/// Self-signatures of the primary key: those that are directly on it, and those with each user. Who revokes a user says nothing of
/// the key.
fn own_signatures(certificate: &SignedPublicKey) -> Vec<&Signature> {
    let primary = &certificate.primary_key;
    let direct = certificate.details.direct_signatures.iter();
    let direct = direct.filter(|one| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok());
    let of_users = certificate.details.users.iter().flat_map(|user| {
        let certifications = user.signatures.iter().filter(|one| one.typ() != Some(SignatureType::CertRevocation));
        certifications.filter(|one| one.verify_certification(primary, Tag::UserId, &user.id).is_ok())
    });
    direct.chain(of_users).filter(|one| is_strong(one)).collect()
}

/// What a subkey is for, and why it does not count, if so.
fn of_subkey(subkey: &SignedPublicSubKey, primary: &PublicKey) -> (Option<Terms>, Option<&'static str>) {
    let is_own = |one: &&Signature| one.verify_subkey_binding(primary, &subkey.key).is_ok();
    let (revocations, bindings): (Vec<_>, Vec<_>) =
        subkey.signatures.iter().filter(is_own).partition(|one| one.typ() == Some(SignatureType::SubkeyRevocation));
    let newest = bindings.into_iter().filter(|one| is_strong(one)).max_by_key(|one| created_seconds(one));
    let terms = newest.map(|newest| Terms::of(newest, &subkey.key));
    // The subkey has to agree: anybody could bind somebody else's to a certificate of their own.
    let agrees = newest
        .and_then(|newest| newest.embedded_signature())
        .is_some_and(|back| is_strong(back) && back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    let fault = match &terms {
        _ if !revocations.is_empty() => Some("it has been revoked"),
        None => Some("nothing binds it to its certificate with SHA-256 or better"),
        Some(terms) if !terms.signs => Some("its owner does not let it sign"),
        Some(_) if !agrees => Some("it has not signed that it belongs to its certificate"),
        Some(_) => None,
    };
    (terms, fault)
}

impl Terms {
    fn of(signature: &Signature, key: &impl KeyDetails) -> Self {
        let after = |start: Option<u64>, lifetime: Option<pgp::types::Duration>| {
            lifetime
                .filter(|lifetime| lifetime.as_secs() > 0)
                .zip(start)
                .map(|(lifetime, start)| start + u64::from(lifetime.as_secs()))
        };
        let of_key = after(Some(u64::from(key.created_at().as_secs())), signature.key_expiration_time());
        let of_signature = after(created_seconds(signature), signature.signature_expiration_time());
        let end_seconds = [of_key, of_signature].into_iter().flatten().min();
        Self { signs: signature.key_flags().sign(), end_seconds }
    }
}

/// Why keys of this kind do not count, if so.
fn weakness(key: &impl KeyDetails) -> Option<String> {
    if !matches!(key.version(), KeyVersion::V4 | KeyVersion::V6) {
        return Some(format!("it is of version {:?}", key.version()));
    }
    match key.public_params() {
        // The modulus comes first, and the number of its bits before it.
        params @ PublicParams::RSA(_) => {
            let bytes = params.to_bytes().unwrap_or_default();
            let bits = bytes.first_chunk::<2>().map_or(0, |bits| u16::from_be_bytes(*bits));
            (bits < RSA_BITS).then(|| format!("it has {bits} bits, and RSA needs {RSA_BITS}"))
        }
        PublicParams::Ed25519(_)
        | PublicParams::EdDSALegacy(EddsaLegacyPublicParams::Ed25519 { .. })
        | PublicParams::ECDSA(
            EcdsaPublicParams::P256 { .. } | EcdsaPublicParams::P384 { .. } | EcdsaPublicParams::P521 { .. },
        ) => None,
        _ => Some(format!("keys of its kind ({:?}) are not supported", key.algorithm())),
    }
}
