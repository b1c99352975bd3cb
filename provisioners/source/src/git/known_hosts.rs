//! Host keys: which of a `known_hosts` text apply to a host.
//!
//! The result is a `known_hosts` text again, for libssh2, which can neither read patterns nor markers but takes its
//! choice of key type from it. Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A line that names a key.
struct Entry<'a> {
    marker: Option<&'a str>,
    hosts: &'a str,
    kind: &'a str,
    key: &'a str,
}

/// The lines of `text` that apply to `host` and `port`; `None` if `text` names no key at all.
///
/// Where no line names the host in plain, the first key applies whatever host it is for, unless this is to be `strict`: upstream
/// pinned that key alone, and Secrets were written for it. A line for the bare host applies to every port, as with OpenSSH. Hashed names are passed on, libssh2 compares them. Revoked keys are left out, certificate authorities are not supported.
pub(super) fn for_host(text: &str, host: &str, port: u16, strict: bool) -> Option<String> {
    let entries: Vec<Entry<'_>> = text.lines().filter_map(parse).collect();
    let is_revoked = |key: &str| entries.iter().any(|entry| entry.marker == Some("@revoked") && entry.key == key);
    let usable: Vec<&Entry<'_>> =
        entries.iter().filter(|entry| entry.marker.is_none() && !is_revoked(entry.key)).collect();
    let (hashed, plain): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) =
        usable.iter().copied().partition(|entry| entry.hosts.starts_with("|1|"));
    let mut named: Vec<_> = plain.into_iter().filter(|entry| applies(entry.hosts, host, port)).collect();
    if named.is_empty() && !strict {
        named.push(usable.first()?);
    }
    if named.is_empty() && hashed.is_empty() {
        return None;
    }
    let pass = |entry: &Entry<'_>| format!("{} {} {}\n", entry.hosts, entry.kind, entry.key);
    let name = |entry: &Entry<'_>| {
        let Entry { kind, key, .. } = entry;
        format!("{host} {kind} {key}\n[{host}]:{port} {kind} {key}\n")
    };
    Some(hashed.into_iter().map(pass).chain(named.into_iter().map(name)).collect())
}

fn parse(line: &str) -> Option<Entry<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let mut words = line.split_ascii_whitespace().peekable();
    let marker = words.next_if(|word| word.starts_with('@'));
    let entry = Entry { marker, hosts: words.next()?, kind: words.next()?, key: words.next()? };
    STANDARD.decode(entry.key).is_ok().then_some(entry)
}

/// Whether a comma-separated list of patterns names the host. A `!` pattern that fits refuses the whole line.
fn applies(patterns: &str, host: &str, port: u16) -> bool {
    let with_port = format!("[{host}]:{port}");
    let fits = |pattern: &str| {
        let pattern = pattern.to_ascii_lowercase();
        matches(pattern.as_bytes(), host.as_bytes()) || matches(pattern.as_bytes(), with_port.as_bytes())
    };
    let (refused, accepted): (Vec<&str>, Vec<&str>) = patterns.split(',').partition(|pattern| pattern.starts_with('!'));
    accepted.into_iter().any(fits) && !refused.into_iter().any(|pattern| fits(&pattern[1..]))
}

/// `*` is any run of characters, `?` any one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where to resume when the characters after the last `*` do not fit.
    let (mut at, mut seen, mut resume) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                resume = Some((at + 1, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, from)) = resume else { return false };
                resume = Some((after, from + 1));
                (at, seen) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["AAAA", "BBBB", "CCCC"];

    /// The keys that apply to `h.example.com`, apart from the first line's.
    fn keys(hosts: &str, port: u16) -> bool {
        let text = format!("other ssh-rsa AAAA\n{hosts} ssh-ed25519 BBBB a comment\n");
        for_host(&text, "h.example.com", port, false).unwrap().contains("BBBB")
    }

    #[test]
    fn names_and_patterns() {
        let table = [
            ("h.example.com", 22, true),
            ("H.Example.com", 22, true),
            ("[h.example.com]:22", 22, true),
            ("h.example.com", 2222, true),
            ("[h.example.com]:2222", 2222, true),
            ("[h.example.com]:2222", 22, false),
            ("x,h.example.com,10.0.0.1", 22, true),
            ("*.example.com", 22, true),
            ("*.example.co", 22, false),
            ("?.example.com", 22, true),
            ("h*e*com", 22, true),
            ("*", 22, true),
            ("*.example.com,!h.example.com", 22, false),
            ("!x.example.com", 22, false),
            ("h.example.com.evil", 22, false),
        ];
        for (hosts, port, expected) in table {
            assert_eq!(keys(hosts, port), expected, "{hosts} port {port}");
        }
    }

    #[test]
    fn the_first_key_applies_whatever_its_host_where_none_is_named() {
        let text = "# a comment\n\nnot an entry\nsome.host ssh-ed25519 AAAA\nother.host ssh-rsa BBBB\n";
        assert_eq!(for_host(text, "h", 2222, false).unwrap(), "h ssh-ed25519 AAAA\n[h]:2222 ssh-ed25519 AAAA\n");
        let other = "other.host ssh-rsa BBBB\n[other.host]:22 ssh-rsa BBBB\n";
        assert_eq!(for_host(text, "other.host", 22, false).unwrap(), other);
    }

    #[test]
    fn hashed_names_are_passed_on_and_markers_heeded() {
        let hashed = "|1|c2FsdA==|aGFzaA== ssh-rsa BBBB";
        let text = format!("x ssh-rsa CCCC\n{hashed}\n@revoked * ssh-rsa CCCC\n@cert-authority * ssh-rsa AAAA\n");
        let lines = for_host(&text, "h", 22, false).unwrap();
        assert_eq!(KEYS.map(|key| lines.contains(key)), [false, true, false]);
        assert!(lines.contains(hashed));
    }

    #[test]
    fn a_text_without_keys_is_noticed() {
        for text in ["", "# only a comment\n", "host ssh-rsa !!!\n", "host\n", "@cert-authority * ssh-rsa AAAA\n"] {
            assert_eq!(for_host(text, "h", 22, false), None, "{text:?}");
        }
    }

    #[test]
    fn strictly_only_keys_of_the_host_apply() {
        let text = "some.host ssh-ed25519 AAAA\n*.example.com ssh-rsa BBBB\n";
        assert_eq!(for_host(text, "h", 22, true), None);
        let named = for_host(text, "h.example.com", 22, true).unwrap();
        assert_eq!(KEYS.map(|key| named.contains(key)), [false, true, false]);
        // libssh2 compares these.
        let hashed = "|1|c2FsdA==|aGFzaA== ssh-rsa CCCC\n";
        assert_eq!(for_host(&format!("{text}{hashed}"), "h", 22, true).as_deref(), Some(hashed));
    }
}
