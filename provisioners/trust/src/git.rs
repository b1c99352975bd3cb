//! Signatures of commits and annotated tags, as git stores them.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::requirement::Requirement;
use crate::signer::Credential;
use crate::ssh::SshSignature;
use crate::verdict::Verdict;

/// How the signatures begin that git stores.
const MARKS: [&str; 3] = ["-----BEGIN SSH SIGNATURE-----", "-----BEGIN PGP ", "-----BEGIN SIGNED MESSAGE-----"];

/// A commit of a repository.
#[derive(Clone, Copy, Debug)]
pub struct GitSubject<'a> {
    /// `host/path` of the repository.
    pub repository: &'a str,
    /// Its name, 40 hexadecimal characters.
    pub commit: &'a str,
    /// The tag that the source names.
    pub tag: Option<&'a str>,
}

/// What may be signed, as stored, without the header of the object.
#[derive(Clone, Copy, Debug)]
pub struct GitObjects<'a> {
    /// The commit.
    pub commit: &'a [u8],
    /// What the tag of the source points to, if that is an object of its own.
    pub tag: Option<&'a [u8]>,
}

/// A signature beside what it is of.
struct Signed {
    payload: Vec<u8>,
    signature: String,
}

/// Whether signers of each of the rules have signed the commit, or the tag by which it was named.
pub fn judge(required: &[Requirement], subject: GitSubject<'_>, objects: GitObjects<'_>) -> Verdict {
    // Whoever read the repository says that this is the commit; its name says so too.
    if object_name("commit", objects.commit) != subject.commit {
        return Verdict::refused(format!("{}@{}: this is another commit", subject.repository, subject.commit));
    }
    let mut candidates = Vec::new();
    if let Some(signed) = Signed::of_commit(objects.commit) {
        candidates.push(("the commit".to_owned(), Ok(signed)));
    }
    if let (Some(name), Some(object)) = (subject.tag, objects.tag)
        && let Some(signed) = Signed::of_tag(object)
    {
        candidates.push((format!("tag {name}"), check_tag(&signed.payload, name, subject.commit).map(|()| signed)));
    }
    let found = required.iter().map(|requirement| examine(requirement, subject, &candidates)).collect();
    Verdict::searched(required, subject.commit, found)
}

/// Who signed, or why nobody did whom the rule names.
fn examine(
    requirement: &Requirement,
    subject: GitSubject<'_>,
    candidates: &[(String, Result<Signed, String>)],
) -> Result<String, String> {
    let (known, unusable) = requirement.credentials();
    let mut faults = Vec::new();
    for (what, signed) in candidates {
        let found = signed.as_ref().map_err(Clone::clone).and_then(|signed| signed.signer(&known));
        match found {
            Ok(signer) => return Ok(signer),
            Err(why) => faults.push(format!("{what}: {why}")),
        }
    }
    let wanted = requirement.wanted(&format!("{}@{}", subject.repository, subject.commit))?;
    if faults.is_empty() {
        let or_tag = subject.tag.map_or_else(String::new, |tag| format!(", nor is tag {tag}"));
        return Err(format!("{wanted}, and it is not signed{or_tag}{unusable}"));
    }
    Err(format!("{wanted}, and no signature will do: {}{unusable}", faults.join("; ")))
}

/// A signed tag vouches for the commit that it names, under its own name: another ref may point to it.
fn check_tag(payload: &[u8], name: &str, commit: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(payload);
    let headers = text.split("\n\n").next().unwrap_or_default();
    let header = |wanted: &str| headers.lines().find_map(|line| line.strip_prefix(wanted)).unwrap_or_default();
    if header("object ") != commit || header("type ") != "commit" {
        return Err(format!("it was signed for {} {}", header("type "), header("object ")));
    }
    if header("tag ") == name { Ok(()) } else { Err(format!("it was signed as tag {}", header("tag "))) }
}

impl Signed {
    /// Git keeps the signature of a commit in a header, each of its further lines behind a blank; all but that is signed.
    fn of_commit(object: &[u8]) -> Option<Self> {
        let end = object.windows(2).position(|two| two == b"\n\n").map_or(object.len(), |at| at + 1);
        let (headers, rest) = object.split_at(end);
        let (mut payload, mut signature, mut is_inside) = (Vec::new(), Vec::new(), false);
        for line in headers.split_inclusive(|byte| *byte == b'\n') {
            is_inside = line.starts_with(b"gpgsig ") || (is_inside && line.starts_with(b" "));
            match line.strip_prefix(b"gpgsig ").or_else(|| line.strip_prefix(b" ")).filter(|_| is_inside) {
                Some(part) => signature.extend_from_slice(part),
                None => payload.extend_from_slice(line),
            }
        }
        payload.extend_from_slice(rest);
        Self::new(payload, &signature)
    }

    /// The signature of a tag stands behind its message.
    fn of_tag(object: &[u8]) -> Option<Self> {
        let starts = |at: &usize| {
            let is_line = *at == 0 || object[*at - 1] == b'\n';
            is_line && MARKS.iter().any(|mark| object[*at..].starts_with(mark.as_bytes()))
        };
        let at = (0..object.len()).rfind(starts)?;
        Self::new(object[..at].to_vec(), &object[at..])
    }

    fn new(payload: Vec<u8>, signature: &[u8]) -> Option<Self> {
        if signature.is_empty() {
            return None;
        }
        Some(Self { payload, signature: String::from_utf8_lossy(signature).into_owned() })
    }

    /// Who made the signature, of those who are known.
    fn signer(&self, known: &[(String, Credential)]) -> Result<String, String> {
        if !SshSignature::is_one(&self.signature) {
            return Err("it was not made with an ssh key, and other signatures of git are not read".to_owned());
        }
        let made = SshSignature::read(&self.signature).map_err(|error| error.to_string())?;

        let mut has_ssh_key = false;
        for (name, credential) in known {
            let Credential::Ssh(keys) = credential else { continue };
            has_ssh_key = true;
            if keys.iter().any(|key| key.verifies(&self.payload, &made)) {
                return Ok(name.clone());
            }
        }

        if !has_ssh_key {
            return Err("no signer has a key that signs commits so (sshKey)".to_owned());
        }
        Err("it was made with another key, or what was signed has been changed".to_owned())
    }
}

/// What git calls an object: SHA-1 over its type, its length and its bytes.
fn object_name(type_: &str, object: &[u8]) -> String {
    let mut whole = format!("{type_} {}\0", object.len()).into_bytes();
    whole.extend_from_slice(object);
    let name = digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole);
    name.as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_of_a_tag_begins_a_line() {
        let quoting = b"object 1\n\nsee -----BEGIN SSH SIGNATURE-----\n".as_slice();
        assert!(Signed::of_tag(quoting).is_none());
        let signed = [quoting, b"-----BEGIN SSH SIGNATURE-----\nx"].concat();
        assert_eq!(Signed::of_tag(&signed).map(|signed| signed.payload), Some(quoting.to_vec()));
    }
}
