//! Signatures of archives, as `cosign sign-blob` makes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Digest;

use crate::requirement::Requirement;
use crate::signer::Credential;
use crate::verdict::Verdict;

/// An archive, and what lies beside it.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    /// `host/path` of it.
    pub place: &'a str,
    /// Of its bytes.
    pub digest: &'a Digest,
    /// Its bytes.
    pub content: &'a [u8],
    /// The file whose name has `.sig` behind that of the archive: base64.
    pub signature: Option<&'a [u8]>,
}

/// Whether signers of each of the rules have signed the archive.
pub fn judge(required: &[Requirement], archive: Archive<'_>) -> Verdict {
    let found = required.iter().map(|requirement| examine(requirement, archive)).collect();
    Verdict::searched(required, &archive.digest.to_string(), found)
}

/// Who signed, or why nobody did whom the rule names.
fn examine(requirement: &Requirement, archive: Archive<'_>) -> Result<String, String> {
    let (known, unusable) = requirement.credentials();
    let wanted = requirement.wanted(&format!("{}@{}", archive.place, archive.digest))?;
    let Some(text) = archive.signature else {
        return Err(format!("{wanted}, and it is not signed: there is no {}.sig{unusable}", archive.place));
    };
    let fault = |why: &str| Err(format!("{wanted}, and the signature will not do: {why}{unusable}"));
    let Ok(signature) = STANDARD.decode(text.trim_ascii()) else { return fault("it is not base64") };
    let keys = known.iter().filter_map(|(name, credential)| match credential {
        Credential::Key(key) => Some((name, key)),
        Credential::Keyless(_) | Credential::Ssh(_) => None,
    });
    let keys: Vec<_> = keys.collect();
    match keys.iter().find(|(_, key)| key.verifies(archive.content, &signature)) {
        Some((name, _)) => Ok((*name).clone()),
        None if keys.is_empty() => fault("no signer has a key that signs archives (publicKey)"),
        None => fault("it was made with another key, or what was signed has been changed"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::decide::RuleName;

    fn vector(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)).unwrap()
    }

    fn judged(signer: &str, key: &str, content: &[u8], signature: Option<&[u8]>) -> (bool, String) {
        let signer = json!({"name": "release", signer: {}});
        let rule = json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": [signer]});
        let mut rule: rukpak_crds::PolicyRule = serde_json::from_value(rule).unwrap();
        let texts = vec![Ok(vec![String::from_utf8(vector(key)).unwrap()])];
        let name = RuleName { policy: "p".to_owned(), rule: std::mem::take(&mut rule.name) };
        let digest = Digest::sha256(content);
        let archive = Archive { place: "h/a.tgz", digest: &digest, content, signature };
        let verdict = judge(&[Requirement { name, rule, texts }], archive);
        (verdict.admits(), verdict.message)
    }

    #[test]
    fn a_file_beside_an_archive_says_who_signed_it() {
        let (content, signature) = (vector("payload.json"), vector("p256.sig.b64"));
        let (admits, text) = judged("publicKey", "p256.pub", &content, Some(&signature));
        assert!(admits && text.contains(" is signed by release, as rule"), "{text}");
        let other = "it was made with another key, or what was signed has been changed";
        for (signer, key, content, signature, expected) in [
            ("publicKey", "p256.pub", content.as_slice(), None, "it is not signed: there is no h/a.tgz.sig"),
            ("publicKey", "p256.pub", b"other", Some(signature.as_slice()), other),
            ("publicKey", "rsa.pub", &content, Some(&signature), other),
            ("publicKey", "p256.pub", &content, Some(b"<html>"), "it is not base64"),
            ("sshKey", "git/ed25519.pub", &content, Some(&signature), "signs archives (publicKey)"),
        ] {
            let (admits, text) = judged(signer, key, content, signature);
            assert!(!admits && text.ends_with(expected), "{text}");
        }
    }
}
