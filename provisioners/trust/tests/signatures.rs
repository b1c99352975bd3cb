//! Signatures that another implementation made, and what is wrong with others.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::{Attachment, Digest};
use rukpak_trust::attachment::SIMPLE_SIGNING;
use rukpak_trust::key::KeyError;
use rukpak_trust::log::Entry;
use rukpak_trust::{Examination, Keyless, PublicKey, Requirement, RuleName, Signature, Subject};
use serde_json::{Value, json};

const REPOSITORY: &str = "registry.example.com/pump";

fn vector(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn key(name: &str) -> Result<PublicKey, KeyError> {
    PublicKey::from_pem(&vector(&format!("{name}.pub")))
}

fn attachment(payload: &str, signature: &str) -> Attachment {
    let annotations = BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), signature.to_owned())]);
    Attachment { media_type: SIMPLE_SIGNING.to_owned(), annotations, body: payload.as_bytes().to_vec() }
}

fn signed(name: &str) -> Attachment {
    attachment(&vector("payload.json"), &vector(&format!("{name}.sig.b64")))
}

/// The digest that the payload names: of nothing.
fn digest() -> Digest {
    Digest::sha256(b"")
}

/// What comes of a search by a rule with these signers.
fn examine(
    signers: &[&str],
    signed_as: &[&str],
    subject: Subject<'_>,
    attachments: &[Attachment],
) -> Result<String, String> {
    let named: Vec<_> = signers.iter().map(|name| json!({"name": name, "publicKey": {}})).collect();
    let rule = json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": named, "signedAs": signed_as});
    let requirement = Requirement {
        name: RuleName { policy: "p".to_owned(), rule: "r".to_owned() },
        rule: serde_json::from_value(rule).expect("it is a rule"),
        texts: signers.iter().map(|name| Ok(vec![vector(&format!("{name}.pub"))])).collect(),
    };
    let mut examination = Examination::new(&requirement, subject);
    for attachment in attachments {
        examination.look(attachment);
    }
    examination.conclusion()
}

#[test]
fn every_kind_of_key_is_read_and_checked() {
    let payload = vector("payload.json");
    for name in ["p256", "p384", "p384-sha384", "ed25519", "rsa"] {
        let signature = STANDARD.decode(vector(&format!("{name}.sig.b64"))).unwrap();
        let own = key(name).unwrap();
        assert!(own.verifies(payload.as_bytes(), &signature), "{name}");
        assert!(!own.verifies(payload.replace("pump", "pomp").as_bytes(), &signature), "{name}");
        assert!(!own.verifies(payload.as_bytes(), &signature[1..]), "{name}");
        let other = key(if name == "p256" { "p384" } else { "p256" }).unwrap();
        assert!(!other.verifies(payload.as_bytes(), &signature), "{name}");
    }
}

#[test]
fn what_is_no_key_says_why() {
    let pem = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    for (text, expected) in [
        (String::new(), KeyError::NotPem),
        (pem("PRIVATE KEY", "AAAA"), KeyError::Kind("PRIVATE KEY".to_owned())),
        (pem("PUBLIC KEY", "AAAA"), KeyError::Damaged),
        (vector("p521.pub"), KeyError::Unsupported),
    ] {
        assert_eq!(PublicKey::from_pem(&text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn one_signer_of_several_is_enough() {
    let digest = digest();
    let subject = Subject { digest: &digest, repository: REPOSITORY };
    let attachments = [signed("rsa"), signed("p256")];
    assert_eq!(examine(&["ed25519", "p256"], &[], subject, &attachments), Ok("p256".to_owned()));
    // One whose key is no key does not stand in the way of another.
    assert_eq!(examine(&["p521", "p256"], &[], subject, &attachments), Ok("p256".to_owned()));
}

#[test]
fn what_will_not_do_is_told_one_by_one() {
    let own = digest();
    let subject = Subject { digest: &own, repository: REPOSITORY };
    let text = examine(&["p256"], &[], subject, &[]).unwrap_err();
    let expected = format!(
        "rule \"r\" of ContentPolicy \"p\" requires a signature of {REPOSITORY}@{own} by p256, and it is not signed: there is \
         neither a tag sha256-{}.sig nor a referrer with a signature",
        own.hex()
    );
    assert_eq!(text, expected);

    let changed = attachment(&vector("payload.json").replace("pump", "pomp"), &vector("p256.sig.b64"));
    let text = examine(&["p256"], &[], subject, &[signed("rsa"), changed]).unwrap_err();
    assert!(text.contains("signature 1: it was made with another key"), "{text}");
    assert!(text.contains("signature 2: it was made with another key, or what was signed has been changed"), "{text}");

    let other = Digest::sha256(b"other");
    let subject = Subject { digest: &other, repository: REPOSITORY };
    let text = examine(&["p256"], &[], subject, &[signed("p256")]).unwrap_err();
    assert!(text.ends_with(&format!("signature 1: p256 signed another image with it: {own}")), "{text}");

    let subject = Subject { digest: &own, repository: REPOSITORY };
    let text = examine(&["p521"], &[], subject, &[]).unwrap_err();
    assert!(text.contains("the key of p521 cannot be used: keys of this kind are not supported"), "{text}");
    assert!(examine(&[], &[], subject, &[]).unwrap_err().ends_with("names nobody who may sign"));
    let many: Vec<_> = (0..9).map(|_| signed("rsa")).collect();
    assert!(examine(&["p256"], &[], subject, &many).unwrap_err().ends_with("; and 4 more"));
}

#[test]
fn a_signature_is_for_its_repository() {
    let digest = digest();
    let elsewhere = Subject { digest: &digest, repository: "mirror.example.com/copy/pump" };
    let text = examine(&["p256"], &[], elsewhere, &[signed("p256")]).unwrap_err();
    assert!(text.contains("p256 signed it as registry.example.com/pump"), "{text}");
    assert!(text.contains("signedAs"), "{text}");
    for allowed in ["registry.example.com/pump", "registry.example.com", "*"] {
        assert!(examine(&["p256"], &[allowed], elsewhere, &[signed("p256")]).is_ok(), "{allowed}");
    }
    // The images of a team are not those of the folder that it has below another's name.
    let folder = Subject { digest: &digest, repository: "registry.example.com" };
    assert!(examine(&["p256"], &[], folder, &[signed("p256")]).is_err());
    let spelled = Subject { digest: &digest, repository: "Registry.example.com:443/pump" };
    assert!(examine(&["p256"], &[], spelled, &[signed("p256")]).is_ok());
    // What is named is meant alone.
    let own = Subject { digest: &digest, repository: REPOSITORY };
    assert!(examine(&["p256"], &["other.example.com"], own, &[signed("p256")]).is_err());
}

/// What cosign would have put beside `payload.json`, signed by a pipeline; authority and log are sigstore's own test doubles.
fn keyless() -> Attachment {
    let annotations = serde_json::from_str(&vector("keyless/annotations.json")).expect("a map of texts");
    Attachment { annotations, ..signed("p256") }
}

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const PIPELINE: &str = "https://github.com/org/pump/.github/workflows/release.yml@refs/tags/v1.0.0";

fn known(issuer: &str, identity: &str) -> Keyless {
    Keyless::new(&vector("keyless/fulcio.pem"), &vector("keyless/rekor.pub"), issuer, identity).expect("a good root")
}

#[test]
fn a_pipeline_is_known_by_authority_and_log() {
    let signature = Signature::of(&keyless()).unwrap();
    let everybody = "https://github.com/org/*/.github/workflows/release.yml@refs/tags/v*";
    for identity in [PIPELINE, everybody] {
        assert_eq!(known(ISSUER, identity).check(&signature), Ok(PIPELINE.to_owned()));
    }
    for (issuer, identity) in [("https://accounts.example.com", PIPELINE), (ISSUER, "somebody@example.com")] {
        let text = known(issuer, identity).check(&signature).unwrap_err();
        assert_eq!(text, format!("it was made by {PIPELINE} (known to {ISSUER})"));
    }
}

#[test]
fn another_root_vouches_for_nobody() {
    let signature = Signature::of(&keyless()).unwrap();
    let (fulcio, rekor) = (vector("keyless/fulcio.pem"), vector("keyless/rekor.pub"));
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).unwrap().cert.pem();
    let text = Keyless::new(&other, &rekor, ISSUER, PIPELINE).unwrap().check(&signature).unwrap_err();
    assert_eq!(text, "its certificate is not one of certificateAuthority");
    let text = Keyless::new(&fulcio, &vector("p256.pub"), ISSUER, PIPELINE).unwrap().check(&signature).unwrap_err();
    assert!(text.starts_with("it is in the log ") && text.ends_with(", not in that of rekorKey"), "{text}");
    // One of two certificates that cannot be read is not left out: whoever wrote both means both.
    let damaged = fulcio.replacen("-----BEGIN CERTIFICATE-----\nM", "-----BEGIN CERTIFICATE-----\n!", 1);
    assert_ne!(damaged, fulcio);
    let text = Keyless::new(&format!("{other}{damaged}"), &rekor, ISSUER, PIPELINE).unwrap_err().to_string();
    assert_eq!(text, "certificateAuthority holds a block of PEM that is damaged");
    assert!(Keyless::new("", &rekor, ISSUER, PIPELINE).unwrap_err().to_string().contains("no certificate"));
}

/// Each alone: an entry of the signer's own that is about something else proves nothing of this.
#[test]
fn an_entry_is_about_one_payload_one_signature_and_one_certificate() {
    let signature = Signature::of(&keyless()).unwrap();
    let (material, payload) = (signature.material.clone().unwrap(), Digest::sha256(&signature.payload));
    let (certificate, simple) = (material.certificate, material.entry.unwrap());
    let logged: Value = serde_json::from_slice(&simple.body).unwrap();
    let logged = &logged["spec"]["signature"];
    let dsse = json!({"kind": "dsse", "spec": {
        "payloadHash": {"algorithm": "sha256", "value": payload.hex()},
        "signatures": [{"signature": logged["content"], "verifier": logged["publicKey"]["content"]}],
    }});
    let dsse = Entry { body: dsse.to_string().into_bytes(), ..simple.clone() };
    let mut other = signature.clone();
    other.signature.push(0);
    for entry in [simple, dsse] {
        assert_eq!(entry.check(&signature.signature, &payload, &certificate), Ok(()));
        let another = Err("its entry in the log is about another signature".to_owned());
        assert_eq!(entry.check(&signature.signature, &Digest::sha256(b"other"), &certificate), another, "payload");
        assert_eq!(entry.check(&other.signature, &payload, &certificate), another, "signature");
        assert_eq!(entry.check(&signature.signature, &payload, &certificate[1..]), another, "certificate");
    }
}

#[test]
fn what_the_log_did_not_promise_is_refused() {
    let own = known(ISSUER, PIPELINE);
    let with = |change: &dyn Fn(&mut rukpak_trust::attachment::Signature)| {
        let mut signature = Signature::of(&keyless()).unwrap();
        change(&mut signature);
        own.check(&signature).unwrap_err()
    };
    let text = with(&|signature| signature.message.push(b' '));
    assert!(text.contains("or what was signed has been changed"), "{text}");
    let text = with(&|signature| signature.material = None);
    assert_eq!(text, "it has no certificate");
    let text = with(&|signature| signature.material.as_mut().unwrap().entry = None);
    assert!(text.starts_with("it does not prove when it was made"), "{text}");
    // A later time would make a certificate valid that has expired; but it is part of what the log signed.
    let text = with(&|signature| {
        signature.material.as_mut().unwrap().entry.as_mut().unwrap().integrated_time += 3600;
    });
    assert_eq!(text, "its entry in the log is not signed with rekorKey");
}
