//! What to write in place of what is no range.

/// For a range as npm writes it, both ends of which it holds.
pub(super) fn hyphen(from: &str, to: &str) -> String {
    format!("OLM has no ranges with a hyphen; write \">={from} <={to}\"")
}

/// For a part without any digit.
pub(super) fn without_version(part: &str) -> String {
    match part {
        "-" => hyphen("1.0.0", "2.0.0"),
        "*" | "x" | "X" => "leave the range out to allow every version".to_owned(),
        "!" => "no space may follow \"!\"; write \"!1.0.0\" or \"!=1.0.0\"".to_owned(),
        "," => "a space is what joins two conditions, not a comma; write \">=1.0.0 <2.0.0\"".to_owned(),
        "|" | "&" | "&&" => "\"||\" is or, a space is and".to_owned(),
        other => format!("there is no version in {other:?}; a channel is named by its own field or flag"),
    }
}

/// For an operator that there is not. `version` is what follows it.
pub(super) fn unknown_operator(sign: &str, version: &str) -> String {
    let written = match sign {
        "^" => caret(version),
        "~" | "~>" => tilde(version),
        _ => None,
    };
    if let Some(written) = written {
        return format!("OLM has no {sign:?}; write \"{written}\"");
    }
    match sign {
        "^" | "~" | "~>" => format!("OLM has no {sign:?}; write the two bounds, as in \">=1.2.0 <1.3.0\""),
        "=<" => format!("write \"<={version}\""),
        "=>" => format!("write \">={version}\""),
        _ => match sign.strip_suffix(['v', 'V']).filter(|rest| !rest.contains(char::is_alphanumeric)) {
            Some(rest) => format!("versions have no leading v here; write \"{rest}{version}\""),
            None => format!("there is no operator {sign:?}; there are = != < <= > >= and ||"),
        },
    }
}

/// For what follows an operator and is no version. `problem` is the parser's word.
pub(super) fn bad_version(sign: &str, version: &str, problem: &str) -> String {
    if version.contains("||") {
        return "put a space before and behind \"||\"".to_owned();
    }
    if version.contains(',') {
        return "a space is what joins two conditions, not a comma; write \">=1.0.0 <2.0.0\"".to_owned();
    }
    if version.contains(char::is_whitespace) {
        return "only spaces may separate conditions, not tabs or line breaks".to_owned();
    }
    let wildcards = version.replace(['*', 'X'], "x");
    if wildcards != version && super::Wildcard::read(&wildcards).is_some() {
        return format!("the wildcard is a small x; write {sign}{wildcards}");
    }
    match numbers(version)[..] {
        [major] if sign.is_empty() => match major.checked_add(1) {
            Some(next) => {
                format!("{version:?} has one number of three; write {version}.x or \">={version}.0.0 <{next}.0.0\"")
            }
            None => format!("{version:?}: {problem}"),
        },
        [major, minor] if sign.is_empty() => match minor.checked_add(1) {
            Some(next) => {
                format!(
                    "{version:?} has two numbers of three; write {version}.x or \">={version}.0 <{major}.{next}.0\""
                )
            }
            None => format!("{version:?}: {problem}"),
        },
        [_] | [_, _] => format!("{version:?} lacks some of its three numbers; write {sign}{version}.x"),
        _ => format!("{version:?}: {problem}"),
    }
}

/// The numbers of a text that consists of numbers and dots; empty for any other.
fn numbers(text: &str) -> Vec<u64> {
    let is_plain = |part: &str| part == "0" || !part.starts_with('0');
    let parts = text.split('.').map(|part| part.parse().ok().filter(|_| is_plain(part)));
    parts.collect::<Option<_>>().unwrap_or_default()
}

/// What `^` means to npm and Cargo.
fn caret(version: &str) -> Option<String> {
    let (from, given) = lower_bound(version)?;
    let next = match (from.major, from.minor) {
        (0, 0) if given == 3 => semver::Version::new(0, 0, from.patch.checked_add(1)?),
        (0, minor) if given >= 2 => semver::Version::new(0, minor.checked_add(1)?, 0),
        (major, _) => semver::Version::new(major.checked_add(1)?, 0, 0),
    };
    Some(format!(">={from} <{next}"))
}

/// What `~` means to npm and Cargo.
fn tilde(version: &str) -> Option<String> {
    let (from, given) = lower_bound(version)?;
    let next = match given {
        1 => semver::Version::new(from.major.checked_add(1)?, 0, 0),
        _ => semver::Version::new(from.major, from.minor.checked_add(1)?, 0),
    };
    Some(format!(">={from} <{next}"))
}

/// The version with its missing numbers filled, and how many there were.
fn lower_bound(version: &str) -> Option<(semver::Version, usize)> {
    let plain = version.trim_end_matches(".x");
    match numbers(plain)[..] {
        [major] => Some((semver::Version::new(major, 0, 0), 1)),
        [major, minor] => Some((semver::Version::new(major, minor, 0), 2)),
        _ => Some((semver::Version::parse(version).ok()?, 3)),
    }
}
