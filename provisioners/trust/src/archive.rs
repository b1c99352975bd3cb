//! Signatures of archives, and of lists of checksums: as `cosign sign-blob` makes them, or `gpg --detach-sign`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Digest;

use crate::checksums;
use crate::openpgp::OpenPgpSignature;
use crate::requirement::Requirement;
use crate::signer::Credential;
use crate::verdict::Verdict;

/// What a policy calls the archive in the name of a list.
const NAME: &str = "{name}";

/// An archive, and what lies beside it.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    /// `host/path` of it.
    pub place: &'a str,
    /// Of its bytes.
    pub digest: &'a Digest,
    /// Its bytes, if a rule [needs](needs_content) them.
    pub content: Option<&'a [u8]>,
    /// Those of [`files_beside`] that are there, by their names.
    pub beside: &'a BTreeMap<String, Vec<u8>>,
    /// When it is looked at: OpenPGP keys expire.
    pub now: SystemTime,
}

/// A signature of bytes that lies beside them.
enum Detached {
    /// Of the format that its key has.
    Plain(Vec<u8>),
    OpenPgp(Box<OpenPgpSignature>),
}

/// Whether a rule asks for a signature of the archive itself.
pub fn needs_content(required: &[Requirement]) -> bool {
    required.iter().any(|requirement| requirement.rule.checksums.is_none())
}

/// The files beside the archive at `place` that the rules ask for.
pub fn files_beside(required: &[Requirement], place: &str) -> BTreeSet<String> {
    let files = required.iter().flat_map(|requirement| {
        let list = list(requirement, place);
        let signatures = signatures(requirement, list.as_deref().unwrap_or(name(place)));
        list.into_iter().chain(signatures)
    });
    files.collect()
}

/// Whether signers of each of the rules have signed the archive, or a list that it is in.
pub fn judge(required: &[Requirement], archive: Archive<'_>) -> Verdict {
    let found = required.iter().map(|requirement| examine(requirement, archive)).collect();
    Verdict::searched(required, &archive.digest.to_string(), found)
}

/// Who signed, or why nobody did whom the rule names.
fn examine(requirement: &Requirement, archive: Archive<'_>) -> Result<String, String> {
    let wanted = requirement.wanted(&format!("{}@{}", archive.place, archive.digest))?;
    let (known, unusable) = requirement.credentials();
    let refused = |why: String| format!("{wanted}, and {why}{unusable}");
    let Some(list) = list(requirement, archive.place) else {
        let content = archive.content.ok_or_else(|| refused("its bytes were not read".to_owned()))?;
        return signer(requirement, &known, archive, name(archive.place), content).map_err(refused);
    };
    let content = archive.beside.get(&list);
    let content = content.ok_or_else(|| refused(format!("there is no {}", sibling(archive.place, &list))))?;
    // What the list says is not looked at before it is known who says it.
    let signer = signer(requirement, &known, archive, &list, content).map_err(refused)?;
    checksums::check(content, name(archive.place), archive.digest)
        .map_err(|why| refused(format!("{list}, which {signer} signed, {why}")))?;
    Ok(signer)
}

/// Who signed `content`, which is called `file`.
fn signer(
    requirement: &Requirement,
    known: &[(String, Credential)],
    archive: Archive<'_>,
    file: &str,
    content: &[u8],
) -> Result<String, String> {
    let (mut faults, names) = (Vec::new(), signatures(requirement, file));
    for name in &names {
        let Some(bytes) = archive.beside.get(name) else { continue };
        match Detached::read(bytes).and_then(|made| made.signer(known, content, archive.now)) {
            Ok(signer) => return Ok(signer),
            Err(why) => faults.push(format!("{name} will not do: {why}")),
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let missing: Vec<_> = names.iter().map(|name| sibling(archive.place, name)).collect();
    Err(format!("{file} is not signed: there is no {}", missing.join(" and no ")))
}

impl Detached {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let of_openpgp = |read: Result<OpenPgpSignature, crate::openpgp::OpenPgpError>| {
            read.map(|made| Self::OpenPgp(Box::new(made))).map_err(|error| error.to_string())
        };
        if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| OpenPgpSignature::is_one(text)) {
            return of_openpgp(OpenPgpSignature::read(text));
        }
        // Every packet of OpenPGP begins so, and no text in base64 does.
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            return of_openpgp(OpenPgpSignature::from_bytes(bytes));
        }
        let plain = STANDARD.decode(bytes.trim_ascii()).map(Self::Plain);
        plain.map_err(|_| "it is neither base64 nor a signature by an OpenPGP key".to_owned())
    }

    fn signer(&self, known: &[(String, Credential)], content: &[u8], now: SystemTime) -> Result<String, String> {
        let answer = |credential: &Credential| match (self, credential) {
            (Self::Plain(made), Credential::Key(key)) => Some(Ok(key.verifies(content, made))),
            (Self::OpenPgp(made), Credential::OpenPgp(keys)) => Some(keys.check(content, made, now)),
            _ => None,
        };
        let answers: Vec<_> = known.iter().filter_map(|(name, known)| Some((name, answer(known)?))).collect();
        if let Some((name, _)) = answers.iter().find(|(_, answer)| *answer == Ok(true)) {
            return Ok((*name).clone());
        }
        match (answers.iter().find_map(|(_, answer)| answer.as_ref().err()), self) {
            (Some(why), _) => Err(why.clone()),
            (None, Self::Plain(_)) if answers.is_empty() => {
                Err("no signer has a key that signs files so (publicKey)".to_owned())
            }
            (None, Self::OpenPgp(_)) if answers.is_empty() => {
                Err("no signer has a key that signs files so (pgpKey)".to_owned())
            }
            _ => Err("it was made with another key, or what was signed has been changed".to_owned()),
        }
    }
}

/// The name of the list that the rule asks for.
fn list(requirement: &Requirement, place: &str) -> Option<String> {
    requirement.rule.checksums.as_ref().map(|list| list.replace(NAME, name(place)))
}

/// Where signatures of a file may lie: `.sig` is what cosign and many who use gpg call them, `.asc` what gpg calls those in armor.
fn signatures(requirement: &Requirement, file: &str) -> Vec<String> {
    let signs_with_gpg = requirement.rule.signers.iter().any(|signer| signer.pgp_key.is_some());
    let armored = signs_with_gpg.then(|| format!("{file}.asc"));
    std::iter::once(format!("{file}.sig")).chain(armored).collect()
}

/// The name of a file.
fn name(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// Where a file beside it is.
fn sibling(place: &str, file: &str) -> String {
    place.rsplit_once('/').map_or_else(|| file.to_owned(), |(folder, _)| format!("{folder}/{file}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::decide::RuleName;

    fn vector(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)).unwrap()
    }

    /// A rule with one signer, who has this key.
    fn required(field: &str, key: &str, checksums: Option<&str>) -> Vec<Requirement> {
        let signer = json!({"name": "release", field: {}});
        let rule = json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": [signer],
                          "checksums": checksums.map_or(Value::Null, Value::from)});
        let mut rule: rukpak_crds::PolicyRule = serde_json::from_value(rule).unwrap();
        let texts = vec![Ok(vec![String::from_utf8(vector(key)).unwrap()])];
        let name = RuleName { policy: "p".to_owned(), rule: std::mem::take(&mut rule.name) };
        vec![Requirement { name, rule, texts }]
    }

    fn judged(required: &[Requirement], content: &[u8], beside: &[(&str, &[u8])]) -> (bool, String) {
        let digest = Digest::sha256(content);
        let beside = beside.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let (content, now) = (needs_content(required).then_some(content), SystemTime::now());
        let archive = Archive { place: "h/d/a.tgz", digest: &digest, content, beside: &beside, now };
        let verdict = judge(required, archive);
        (verdict.admits(), verdict.message)
    }

    /// A signature beside the archive.
    fn with(signature: &[u8]) -> Vec<(&str, &[u8])> {
        vec![("a.tgz.sig", signature)]
    }

    #[test]
    fn a_file_beside_an_archive_says_who_signed_it() {
        let (content, signature) = (vector("payload.json"), vector("p256.sig.b64"));
        let (admits, text) = judged(&required("publicKey", "p256.pub", None), &content, &with(&signature));
        assert!(admits && text.contains(" is signed by release, as rule"), "{text}");
        let other = "a.tgz.sig will not do: it was made with another key, or what was signed has been changed";
        let no_base64 = "it is neither base64 nor a signature by an OpenPGP key";
        for (signer, key, content, beside, expected) in [
            ("publicKey", "p256.pub", content.as_slice(), vec![], "a.tgz is not signed: there is no h/d/a.tgz.sig"),
            ("publicKey", "p256.pub", b"other", with(&signature), other),
            ("publicKey", "rsa.pub", &content, with(&signature), other),
            ("publicKey", "p256.pub", &content, with(b"<html>"), no_base64),
            ("sshKey", "git/ed25519.pub", &content, with(&signature), "signs files so (publicKey)"),
            ("publicKey", "p256.pub", &content, with(&[0x89, 0]), "it is damaged"),
        ] {
            let (admits, text) = judged(&required(signer, key, None), content, &beside);
            assert!(!admits && text.ends_with(expected), "{text}");
        }
    }

    /// The commit and its signature are files like any.
    #[test]
    fn gpg_signs_with_armor_and_without() {
        let commit = String::from_utf8(vector("openpgp/ed25519.commit")).unwrap();
        let (before, rest) = commit.split_once("gpgsig ").unwrap();
        let (armored, after) = rest.split_once("\n\n").unwrap();
        let (content, armored) = (format!("{before}\n{after}"), armored.replace("\n ", "\n"));
        let base64: String = armored.lines().filter(|line| !line.contains('-') && !line.starts_with('=')).collect();
        let binary = STANDARD.decode(base64).unwrap();
        let required = required("pgpKey", "openpgp/ed25519.key", None);
        for beside in [("a.tgz.asc", armored.as_bytes()), ("a.tgz.sig", armored.as_bytes()), ("a.tgz.sig", &binary)] {
            let (admits, text) = judged(&required, content.as_bytes(), &[beside]);
            assert!(admits, "{text}");
        }
        let (admits, text) = judged(&required, content.as_bytes(), &[]);
        assert!(!admits && text.ends_with("there is no h/d/a.tgz.sig and no h/d/a.tgz.asc"), "{text}");
        let both = [("a.tgz.sig", b"!".as_slice()), ("a.tgz.asc", armored.as_bytes())];
        assert!(judged(&required, content.as_bytes(), &both).0);
        let (admits, text) = judged(&required, b"other", &[("a.tgz.sig", &binary)]);
        assert!(!admits && text.ends_with("or what was signed has been changed"), "{text}");
    }

    #[test]
    fn what_is_asked_for_is_beside_the_archive() {
        let files = |field, checksums| {
            let required = required(field, "p256.pub", checksums);
            files_beside(&required, "h/d/a.tgz").into_iter().collect::<Vec<_>>()
        };
        assert_eq!(files("publicKey", None), ["a.tgz.sig"]);
        assert_eq!(files("publicKey", Some("SHA256SUMS")), ["SHA256SUMS", "SHA256SUMS.sig"]);
        let expected = ["a.tgz.sha256", "a.tgz.sha256.asc", "a.tgz.sha256.sig"];
        assert_eq!(files("pgpKey", Some("{name}.sha256")), expected);
    }

    /// The payload of the vectors is no list: signatures of it are those of one that names nothing.
    #[test]
    fn a_list_has_to_be_there_and_signed_and_name_the_archive() {
        let (list, signature) = (vector("payload.json"), vector("p256.sig.b64"));
        let required = required("publicKey", "p256.pub", Some("SHA256SUMS"));
        assert!(!needs_content(&required));
        let unsigned = "SHA256SUMS is not signed: there is no h/d/SHA256SUMS.sig";
        for (beside, expected) in [
            (vec![], "and there is no h/d/SHA256SUMS"),
            (vec![("SHA256SUMS.sig", signature.as_slice())], "and there is no h/d/SHA256SUMS"),
            (vec![("SHA256SUMS", list.as_slice()), ("a.tgz.sig", &signature)], unsigned),
            (vec![("SHA256SUMS", b"other"), ("SHA256SUMS.sig", &signature)], "or what was signed has been changed"),
            (
                vec![("SHA256SUMS", &list), ("SHA256SUMS.sig", &signature)],
                "and SHA256SUMS, which release signed, has no SHA-256 of a.tgz",
            ),
        ] {
            let (admits, text) = judged(&required, b"archive", &beside);
            assert!(!admits && text.ends_with(expected), "{text}");
        }
    }
}
