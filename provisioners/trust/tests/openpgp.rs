//! Commits that git and gpg signed: which key of which certificate counts, and when.

use std::time::{Duration, SystemTime};

use pgp::composed::{ArmorOptions, Deserializable as _, SignedPublicKey};
use rukpak_trust::openpgp::{OpenPgpError, OpenPgpKeys, OpenPgpSignature};

/// Midnight of these days of 2024, in seconds: all commits were signed at the second.
const BEFORE: u64 = 1_704_844_799;
const SIGNED: u64 = 1_704_844_800;
const DAY: u64 = 86_400;
/// Keys of 30 days were made nine days before.
const LAST_DAY: u64 = SIGNED + 20 * DAY;

fn vector(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/openpgp").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is signed of a commit, and the signature.
fn parts(commit: &str) -> (String, String) {
    let commit = vector(&format!("{commit}.commit"));
    let (before, rest) = commit.split_once("gpgsig ").expect("it is signed");
    let (signature, after) = rest.split_once("\n\n").expect("it has a message");
    (format!("{before}\n{after}"), signature.replace("\n ", "\n"))
}

/// Who signed it, at this time.
fn checked(key: &str, commit: &str, now_seconds: u64) -> Result<bool, String> {
    let (payload, signature) = parts(commit);
    let keys = OpenPgpKeys::from_armor(key).map_err(|error| error.to_string())?;
    let signature = OpenPgpSignature::read(&signature).map_err(|error| error.to_string())?;
    keys.check(payload.as_bytes(), &signature, SystemTime::UNIX_EPOCH + Duration::from_secs(now_seconds))
}

/// As [`checked`], why the key that made it does not count.
fn refusal(key: &str, commit: &str, now_seconds: u64) -> String {
    let why = checked(&vector(&format!("{key}.key")), commit, now_seconds).expect_err(key);
    match why.split_once(" made it, and does not count: ") {
        Some((_, why)) => why.to_owned(),
        None => why,
    }
}

#[test]
fn every_strong_kind_of_key_signs_commits() {
    for kind in ["ed25519", "nistp256", "nistp384", "nistp521", "rsa2048"] {
        let key = vector(&format!("{kind}.key"));
        assert_eq!(checked(&key, kind, SIGNED), Ok(true), "{kind}");
        let other = if kind == "ed25519" { "rsa2048" } else { "ed25519" };
        assert_eq!(checked(&vector(&format!("{other}.key")), kind, SIGNED), Ok(false), "{kind}");
        let (payload, signature) = parts(kind);
        let (keys, signature) = (OpenPgpKeys::from_armor(&key).unwrap(), OpenPgpSignature::read(&signature).unwrap());
        let (changed, now) = (payload.replace("Test", "Rest"), SystemTime::now());
        assert_eq!(keys.check(changed.as_bytes(), &signature, now), Ok(false), "{kind}");
    }
    assert_eq!(checked(&vector("options.key"), "sha512", SIGNED), Ok(true));
}

#[test]
fn weak_keys_and_weak_hashes_are_refused() {
    for (key, expected) in [
        ("rsa1024", "it has 1024 bits, and RSA needs 2048"),
        ("dsa2048", "keys of its kind (DSA) are not supported"),
        ("sha1-certificate", "its certificate has no self-signature with SHA-256 or better"),
    ] {
        assert_eq!(refusal(key, key, SIGNED), expected, "{key}");
    }
    // Its curve is not known, so nobody can say who made it.
    assert_eq!(checked(&vector("brainpoolP256r1.key"), "brainpoolP256r1", SIGNED), Ok(false));
    for (commit, hash) in [("sha1", "SHA1"), ("md5", "MD5")] {
        let expected = format!("it was made with {hash}, which can be forged: use SHA-256 or SHA-512");
        assert_eq!(refusal("options", commit, SIGNED), expected);
    }
}

#[test]
fn signatures_for_something_else_are_refused() {
    assert_eq!(refusal("options", "text", SIGNED), "it is not a signature of a file (type Text)");
    assert_eq!(refusal("options", "notation", SIGNED), "it has a notation that is critical and not known");
    assert_eq!(checked(&vector("options.key"), "lifetime", SIGNED + 10 * DAY - 1), Ok(true));
    assert_eq!(refusal("options", "lifetime", SIGNED + 10 * DAY), "it expired at 2024-01-20T00:00:00Z");
}

#[test]
fn times_have_to_fit_those_of_the_key() {
    let key = vector("expiring.key");
    assert_eq!(checked(&key, "expiring", SIGNED), Ok(true));
    assert_eq!(checked(&key, "expiring", LAST_DAY + DAY - 1), Ok(true));
    assert_eq!(refusal("expiring", "expiring", LAST_DAY + DAY), "it expired at 2024-01-31T00:00:00Z");
    assert_eq!(refusal("expiring", "expiring", BEFORE), "the signature is from the future: 2024-01-10T00:00:00Z");
    assert_eq!(checked(&vector("expiring-extended.key"), "expiring", LAST_DAY + 300 * DAY), Ok(true));
    let early = refusal("options", "too-early", SIGNED);
    assert_eq!(early, "it was made at 2024-01-10T00:00:00Z, after the signature");
}

#[test]
fn what_is_revoked_signs_nothing_any_more() {
    // Before it was revoked, too: who has stolen a key writes any time.
    assert_eq!(refusal("expiring-revoked", "expiring", SIGNED), "it has been revoked");
    assert_eq!(refusal("subkeys-revoked", "subkey", SIGNED), "it has been revoked");
    assert_eq!(checked(&vector("subkeys-revoked.key"), "subkey-expiring", SIGNED), Ok(true));
    // A user is not a key.
    assert_eq!(checked(&vector("users.key"), "users", SIGNED), Ok(true));
    // Beside a copy from before.
    let both = vector("expiring.key") + &vector("expiring-revoked.key");
    let why = checked(&both, "expiring", SIGNED).unwrap_err();
    assert!(why.ends_with("it has been revoked"), "{why}");
}

#[test]
fn subkeys_sign_as_their_owner_lets_them() {
    let key = vector("subkeys.key");
    assert_eq!(checked(&key, "subkey", LAST_DAY + 300 * DAY), Ok(true));
    assert_eq!(checked(&key, "subkey-expiring", LAST_DAY), Ok(true));
    assert_eq!(refusal("subkeys", "subkey-expiring", LAST_DAY + DAY), "it expired at 2024-01-31T00:00:00Z");
    assert_eq!(refusal("unflagged", "unflagged", SIGNED + DAY), "its owner does not let it sign");
    assert_eq!(refusal("subkeys-unflagged", "subkey-expiring", SIGNED + DAY), "its owner does not let it sign");
}

/// Anybody could bind somebody else's key to a certificate of their own.
#[test]
fn a_subkey_that_does_not_agree_signs_nothing() {
    let (mut certificate, _) = SignedPublicKey::from_string(&vector("subkeys.key")).unwrap();
    for subkey in &mut certificate.public_subkeys {
        for signature in &mut subkey.signatures {
            while signature.embedded_signature().is_some() {
                signature.unhashed_subpacket_remove(0).expect("gpg leaves it unhashed");
            }
        }
    }
    let key = certificate.to_armored_string(ArmorOptions::default()).unwrap();
    let why = checked(&key, "subkey", SIGNED).unwrap_err();
    assert!(why.ends_with("it has not signed that it belongs to its certificate"), "{why}");
}

#[test]
fn a_text_may_have_several_certificates() {
    let both = format!("Ours:\n{}\nand\n{}", vector("ed25519.key"), vector("rsa2048.key"));
    for kind in ["ed25519", "rsa2048"] {
        assert_eq!(checked(&both, kind, SIGNED), Ok(true), "{kind}");
    }
    assert_eq!(checked(&both, "nistp256", SIGNED), Ok(false));
}

#[test]
fn what_is_no_key_and_what_is_no_signature_says_why() {
    let key = |text: &str| OpenPgpKeys::from_armor(text).unwrap_err();
    assert_eq!(key(""), OpenPgpError::NoKey);
    assert_eq!(key("ssh-ed25519 AAAA"), OpenPgpError::NoKey);
    assert_eq!(key("-----BEGIN PGP PRIVATE KEY BLOCK-----"), OpenPgpError::PrivateKey);
    let good = vector("ed25519.key");
    let cut = &good[..good.len() / 2];
    for text in [cut, "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!!\n-----END PGP PUBLIC KEY BLOCK-----\n"] {
        assert!(matches!(key(text), OpenPgpError::Key(_) | OpenPgpError::NoKey), "{text}");
    }
    let (_, signature) = parts("ed25519");
    assert!(OpenPgpSignature::is_one(&signature) && !OpenPgpSignature::is_one(&good));
    let read = |text: &str| OpenPgpSignature::read(text).unwrap_err();
    assert_eq!(read(&signature[..signature.len() / 2]), OpenPgpError::Damaged);
    assert_eq!(read(&good), OpenPgpError::Damaged);
    assert_eq!(
        read(&(signature + &" ".repeat(16 * 1024))).to_string().split(':').next_back(),
        Some(" at most 16384 are read")
    );
}

/// One changed character in a signature is refused, and whatever it becomes is read without a fault.
#[test]
fn what_is_changed_inside_a_signature_is_refused() {
    let keys = OpenPgpKeys::from_armor(&vector("ed25519.key")).unwrap();
    let (payload, signature) = parts("ed25519");
    let lines: Vec<&str> = signature.lines().collect();
    let (first, last) = (2, lines.len() - 2);
    let (mut refused, mut accepted) = (0, 0);
    for line in first..last {
        for place in 0..lines[line].len() {
            let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            let other = if &lines[line][place..=place] == "A" { "B" } else { "A" };
            changed[line].replace_range(place..=place, other);
            let Ok(read) = OpenPgpSignature::read(&changed.join("\n")) else { continue };
            match keys.check(payload.as_bytes(), &read, SystemTime::now()) {
                Ok(true) => accepted += 1,
                Ok(false) | Err(_) => refused += 1,
            }
        }
    }
    // What is accepted is the hint at the key, which is not signed and not needed.
    assert!(refused > 50 && accepted < 20, "{refused} refused, {accepted} accepted");
}
