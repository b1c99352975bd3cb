//! Commits and tags that git and ssh-keygen signed, and what is wrong with others.

use rukpak_crds::ConditionStatus;
use rukpak_trust::git::judge;
use rukpak_trust::ssh::{SshError, SshKey, SshSignature};
use rukpak_trust::{GitObjects, GitSubject, Requirement, RuleName, Verdict};
use serde_json::json;

const REPOSITORY: &str = "git.example.com/pump";
/// The commit and the tag are of the last vector.
const TAGGED: &str = "99091dd26e98181d95cf005ad2835ad44518f9d6";

fn vector(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/git").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A rule with one signer, known by these lines.
fn required(lines: &str) -> Vec<Requirement> {
    let signer = json!({"name": "release", "sshKey": {}});
    let rule = json!({"name": "r", "scopes": ["*"], "action": "Require", "signers": [signer]});
    let name = RuleName { policy: "p".to_owned(), rule: "r".to_owned() };
    let texts = vec![Ok(vec![lines.to_owned()])];
    vec![Requirement { name, rule: serde_json::from_value(rule).expect("it is a rule"), texts }]
}

/// What git calls the object.
fn name(object: &str) -> String {
    let whole = format!("commit {}\0{object}", object.len());
    let name = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, whole.as_bytes());
    name.as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn verdict(lines: &str, object: &str, tag: Option<(&str, &str)>) -> Verdict {
    let (tag, tag_object) = tag.unzip();
    let commit = name(object);
    let subject = GitSubject { repository: REPOSITORY, commit: &commit, tag };
    let objects = GitObjects { commit: object.as_bytes(), tag: tag_object.map(str::as_bytes) };
    judge(&required(lines), subject, objects)
}

fn refusal(verdict: &Verdict) -> &str {
    assert!(!verdict.admits(), "{verdict:?}");
    &verdict.message
}

#[test]
fn every_kind_of_key_signs_commits() {
    for kind in ["ed25519", "ecdsa-256", "ecdsa-384", "rsa-2048"] {
        let (key, commit) = (vector(&format!("{kind}.pub")), vector(&format!("{kind}.commit")));
        let good = verdict(&key, &commit, None);
        assert_eq!((good.status, good.admits()), (ConditionStatus::True, true), "{kind}: {}", good.message);
        assert_eq!(good.record.unwrap().signed_by.as_deref(), Some("release"));
        // One of several keys is enough.
        let keys = format!("# of ours\n{}\n{key}", vector("ed25519.pub"));
        assert!(verdict(&keys, &commit, None).admits(), "{kind}");
        let changed = commit.replace("A second paragraph.", "A third paragraph.");
        let text = verdict(&key, &changed, None);
        assert!(refusal(&text).contains("or what was signed has been changed"), "{}", text.message);
        let other = if kind == "ed25519" { "rsa-2048" } else { "ed25519" };
        let text = verdict(&vector(&format!("{other}.pub")), &commit, None);
        assert!(
            refusal(&text).ends_with("the commit: it was made with another key, or what was signed has been changed")
        );
    }
}

#[test]
fn what_is_changed_inside_a_signature_is_refused() {
    let (key, commit) = (vector("ecdsa-256.pub"), vector("ecdsa-256.commit"));
    let lines: Vec<_> = commit.lines().enumerate().filter(|(_, line)| line.starts_with(' ')).collect();
    let mut refused = 0;
    for (at, line) in lines.iter().filter(|(_, line)| !line.contains("-----")) {
        for place in [2, line.len() / 2] {
            let mut changed: Vec<String> = commit.lines().map(str::to_owned).collect();
            let other = if &line[place..=place] == "A" { "B" } else { "A" };
            changed[*at].replace_range(place..=place, other);
            assert!(!verdict(&key, &(changed.join("\n") + "\n"), None).admits(), "line {at}, {place}");
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn a_tag_vouches_for_the_commit_that_it_names_by_its_own_name() {
    let (key, tag) = (vector("ed25519.pub"), vector("v1.0.0.tag"));
    let commit = vector("rsa-2048.commit");
    assert_eq!(name(&commit), TAGGED);
    assert!(verdict(&key, &commit, Some(("v1.0.0", &tag))).admits());
    let text = verdict(&key, &commit, Some(("v2.0.0", &tag)));
    assert!(refusal(&text).contains("tag v2.0.0: it was signed as tag v1.0.0"), "{}", text.message);
    let text = verdict(&key, &vector("ecdsa-256.commit"), Some(("v1.0.0", &tag)));
    assert!(refusal(&text).contains(&format!("it was signed for commit {TAGGED}")), "{}", text.message);
    let renamed = tag.replace("tag v1.0.0", "tag v2.0.0");
    let text = verdict(&key, &commit, Some(("v2.0.0", &renamed)));
    assert!(refusal(&text).contains("tag v2.0.0: it was made with another key"), "{}", text.message);
}

#[test]
fn what_is_no_signature_of_ssh_for_git_says_so() {
    let (key, commit) = (vector("ed25519.pub"), vector("ed25519.commit"));
    let unsigned: String =
        commit.split_inclusive('\n').filter(|line| !line.starts_with("gpgsig ") && !line.starts_with(' ')).collect();
    let text = verdict(&key, &unsigned, None);
    assert!(refusal(&text).ends_with("by release, and it is not signed"), "{}", text.message);
    assert!(text.may_come(), "a policy can be met by a signature that is added");
    let with = |signature: &str| {
        let header = format!("gpgsig {}\n\n", signature.trim_end().replace('\n', "\n "));
        unsigned.replacen("\n\n", &format!("\n{header}"), 1)
    };
    let (pgp, x509) =
        ("-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n", "-----BEGIN SIGNED MESSAGE-----\n");
    for (signature, expected) in [
        (pgp, "the commit: it was not made with an ssh key, and other signatures of git are not read"),
        (x509, "the commit: it was not made with an ssh key, and other signatures of git are not read"),
        (vector("other-namespace.sig").as_str(), "the commit: it was made for \"file\", not for git"),
        ("-----BEGIN SSH SIGNATURE-----\n!\n-----END SSH SIGNATURE-----", "the commit: it is damaged"),
        ("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----", "the commit: it is damaged"),
    ] {
        let text = verdict(&key, &with(signature), None);
        assert!(refusal(&text).ends_with(expected), "{}", text.message);
    }
}

#[test]
fn another_object_than_was_asked_for_is_refused() {
    let commit = vector("ed25519.commit");
    let subject = GitSubject { repository: REPOSITORY, commit: TAGGED, tag: None };
    let objects = GitObjects { commit: commit.as_bytes(), tag: None };
    let text = judge(&required(&vector("ed25519.pub")), subject, objects);
    assert!(refusal(&text).ends_with("this is another commit"), "{}", text.message);
}

#[test]
fn what_is_no_key_says_why() {
    let good = vector("ed25519.pub");
    for (text, expected) in [
        ("", SshError::NoKey),
        ("# nobody\n\n", SshError::NoKey),
        ("-----BEGIN PUBLIC KEY-----", SshError::Key(1)),
        ("\nssh-ed25519 !", SshError::Key(2)),
        ("ssh-ed25519 AAAA", SshError::Key(1)),
        (&good.replace("ssh-ed25519 ", "ssh-rsa "), SshError::Key(1)),
        ("ssh-dss AAAAB3NzaC1kc3M=", SshError::KeyType("ssh-dss".to_owned())),
    ] {
        assert_eq!(SshKey::lines(text).unwrap_err(), expected, "{text}");
    }
    assert!(SshKey::lines(&format!("{good}\n# more\n{}", vector("rsa-2048.pub"))).is_ok_and(|keys| keys.len() == 2));
    assert!(SshSignature::is_one(&vector("other-namespace.sig")));
    let text = verdict("ssh-ed25519 AAAA", &vector("ed25519.commit"), None);
    assert!(refusal(&text).contains("the key of release cannot be used: line 1 is not"), "{}", text.message);
}
