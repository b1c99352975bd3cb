//! Lists of checksums, as `sha256sum` writes them: the digest of each file, and its name.

use rukpak_content::Digest;

/// Hexadecimal characters of a SHA-256.
const DIGITS: usize = 64;

/// Whether `list` has `digest` for the file `name`. A list that is one digest and nothing else is of the one file beside it.
///
/// # Errors
/// It has none for it, or another.
pub fn check(list: &[u8], name: &str, digest: &Digest) -> Result<(), String> {
    let text = std::str::from_utf8(list).map_err(|_| "is not text".to_owned())?;
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let listed: Vec<_> = match lines.as_slice() {
        [alone] if is_digest(alone) => vec![*alone],
        lines => lines.iter().filter_map(|line| entry(line)).filter(|(of, _)| *of == name).map(|(_, it)| it).collect(),
    };
    match listed.iter().find(|listed| !listed.eq_ignore_ascii_case(digest.hex())) {
        Some(other) => Err(format!("has sha256:{} for {name}", other.to_ascii_lowercase())),
        None if listed.is_empty() => Err(format!("has no SHA-256 of {name}")),
        None => Ok(()),
    }
}

/// Name and digest: `DIGEST  NAME`, `DIGEST *NAME`, or `SHA256 (NAME) = DIGEST` as BSD writes it.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, digest) = if let Some(rest) = line.strip_prefix("SHA256 (") {
        rest.rsplit_once(") = ")?
    } else {
        let (digest, rest) = line.split_at_checked(DIGITS)?;
        (rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *"))?, digest)
    };
    is_digest(digest).then(|| (name.strip_prefix("./").unwrap_or(name), digest))
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_digest_of_a_file_or_not() {
        let (digest, other) = (Digest::sha256(b"a"), Digest::sha256(b"b"));
        let (good, bad) = (digest.hex(), other.hex());
        let check = |list: String| check(list.as_bytes(), "a.tgz", &digest);
        for list in [
            format!("{good}  a.tgz\n"),
            format!("{good} *a.tgz"),
            format!("{bad}  b.tgz\r\n{good}  ./a.tgz\r\n"),
            format!("# ours\nSHA256 (b.tgz) = {bad}\nSHA256 (a.tgz) = {good}\n"),
            format!("{}  a.tgz\n", good.to_uppercase()),
            format!("{good}\n"),
        ] {
            assert_eq!(check(list.clone()), Ok(()), "{list}");
        }
        let (none, wrong) = ("has no SHA-256 of a.tgz".to_owned(), format!("has sha256:{bad} for a.tgz"));
        for (list, expected) in [
            (String::new(), &none),
            (format!("{good}  b.tgz\n"), &none),
            (format!("{good}  dir/a.tgz\n"), &none),
            (format!("{good}\n{bad}\n"), &none),
            (format!("{good} a.tgz\n"), &none),
            (format!("{good}{good}  a.tgz\n"), &none),
            (format!("SHA512 (a.tgz) = {good}\n"), &none),
            (format!("{bad}  a.tgz\n"), &wrong),
            (format!("{bad}\n"), &wrong),
            // As sha256sum --check: all lines count.
            (format!("{good}  a.tgz\n{bad}  a.tgz\n"), &wrong),
        ] {
            assert_eq!(check(list.clone()).as_ref(), Err(expected), "{list}");
        }
        assert_eq!(super::check(&[0xff], "a.tgz", &digest), Err("is not text".to_owned()));
    }
}
