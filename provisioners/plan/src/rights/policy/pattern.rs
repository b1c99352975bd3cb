//! Patterns of an InstallPolicy as regular expressions (RE2) for the whole of a text.
//!
//! A pattern says where something is from, so it has to fit the place and not only the text. Addresses are read by the grammar of the
//! programs that fetch ([`Address`]), and what `*` stands for has no character that ends a host or a part of a path.

use rukpak_content::{Address, AddressError};

/// What a pattern is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Names of objects.
    Names,
    /// Versions. What ranges are made of is not among what `*` stands for.
    Versions,
    /// References of images.
    Images,
    /// URLs, and `user@host:path`.
    Addresses,
}

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No text would be an address.
    #[error("no address is like this: {0}")]
    Address(#[from] AddressError),
    /// A login or a query.
    #[error(
        "it has other characters than letters, digits and ._~+-/:@[], or a login: a pattern is of scheme, host, port and path"
    )]
    Characters,
    /// A scheme that is a pattern, or no path.
    #[error("it names no scheme or no path: write https://host/**")]
    Incomplete,
    /// A host that any text before the path would fit.
    #[error("** stands before the path, where it could be any host: write *, or ** alone for all")]
    Host,
    /// A registry that is none for some texts.
    #[error("its registry has a * and neither a dot nor a port: texts without one are names at docker.io")]
    Registry,
}

const HOST: &str = "[A-Za-z0-9.-]*";
const PART: &str = "[A-Za-z0-9._~+-]*";
const PATH: &str = "[A-Za-z0-9._~+/-]*";
const IMAGE_PART: &str = "[A-Za-z0-9._:@-]*";
const IMAGE_PATH: &str = "[A-Za-z0-9._:@/-]*";
const NAME: &str = "[a-z0-9.-]*";
const VERSION: &str = "[0-9A-Za-z.+-]*";

/// Makes the expression that fits any address that a pattern may be of: none of its parts is `.` or `..`, and nothing is encoded.
pub(super) fn addresses() -> String {
    let (user, port) = ("[A-Za-z0-9._~+-]+@", "[1-9][0-9]*");
    let name = r"[A-Za-z0-9_][A-Za-z0-9_-]*";
    let names = format!(r"{name}(\.{name})*");
    let segment = r"(\.{0,2}[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*|\.{3}[A-Za-z0-9._~+-]*)";
    let url = format!(r"((https|http)://|ssh://({user})?)({names}|\[[0-9A-Fa-f:.]+\])(:{port})?(/{segment})+");
    let scp = format!("({user})?{names}:({port}:)?/?{segment}(/{segment})*");
    format!("^({url}|{scp})/?$")
}

/// Makes the expression of a pattern.
///
/// # Errors
/// What keeps the pattern from saying one place.
pub(super) fn expression(pattern: &str, of: Of) -> Result<String, Fault> {
    let parts = match of {
        Of::Names => translated(pattern, NAME, NAME),
        Of::Versions => translated(pattern, VERSION, VERSION),
        Of::Images => image(pattern)?,
        Of::Addresses => address(pattern)?,
    };
    Ok(format!("^{parts}$"))
}

fn image(pattern: &str) -> Result<String, Fault> {
    let whole = |text| translated(text, IMAGE_PART, IMAGE_PATH);
    let Some((registry, path)) = pattern.split_once('/') else {
        return if pattern.contains("**") && pattern != "**" { Err(Fault::Host) } else { Ok(whole(pattern)) };
    };
    if registry.contains("**") {
        return Err(Fault::Host);
    }
    if registry.contains('*') && !registry.contains(['.', ':']) {
        return Err(Fault::Registry);
    }
    Ok(format!("{}/{}", translated(registry, HOST, HOST), whole(path)))
}

fn address(pattern: &str) -> Result<String, Fault> {
    if pattern == "**" {
        return Ok(".+".to_owned());
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._~+-/:@[]*".contains(letter);
    if !pattern.chars().all(is_plain) {
        return Err(Fault::Characters);
    }
    let (scheme, rest) = pattern.split_once("://").map_or(("", pattern), |(scheme, rest)| (scheme, rest));
    let is_url = !scheme.is_empty();
    let end = rest.find(if is_url { '/' } else { ':' }).ok_or(Fault::Incomplete)?;
    let (host, path) = rest.split_at(end);
    if scheme.contains('*') {
        return Err(Fault::Incomplete);
    }
    if host.contains("**") {
        return Err(Fault::Host);
    }

    // Whatever `*` stands for, it is one of an address, or of none.
    let example = pattern.replace("**", "x").replace('*', "x");
    let example = Address::parse(&example)?;
    if example.path.trim_matches('/').is_empty() {
        return Err(Fault::Incomplete);
    }
    if example.login.is_some() && scheme.starts_with("http") {
        return Err(Fault::Characters);
    }
    let scheme = if is_url { format!("{scheme}://") } else { String::new() };
    Ok(format!("{scheme}{}{}", translated(host, HOST, HOST), translated(path, PART, PATH)))
}

/// Translates `*` to the one class of characters and `**` to the other; all else stands for itself.
fn translated(pattern: &str, one: &str, many: &str) -> String {
    let mut expression = String::new();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**") {
            expression.push_str(many);
            rest = after;
            continue;
        }
        match letter {
            '*' => expression.push_str(one),
            letter if letter.is_ascii_alphanumeric() || "/:@_-".contains(letter) || !letter.is_ascii() => {
                expression.push(letter);
            }
            letter => expression.extend(['\\', letter]),
        }
        rest = &rest[letter.len_utf8()..];
    }
    expression
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn admits(pattern: &str, of: Of, text: &str) -> bool {
        let fits = |expression: &str| Regex::new(expression).is_ok_and(|regex| regex.is_match(text));
        expression(pattern, of).is_ok_and(|expression| fits(&expression)) && (of != Of::Addresses || fits(&addresses()))
    }

    #[test]
    fn a_pattern_fits_a_place_and_not_a_text() {
        for (pattern, text, expected) in [
            ("https://git.example.com/shop/**", "https://git.example.com/shop/team/web.git", true),
            ("https://git.example.com/shop/**", "https://git.example.com/shop/.github", true),
            ("https://git.example.com/shop/**", "https://git.example.com/shop/../other/repo.git", false),
            ("https://git.example.com/shop/**", "https://git.example.com/shop/%2e%2e/other/repo.git", false),
            ("https://git.example.com/shop/**", "https://git.example.com/shop/x?y", false),
            ("https://git.example.com/shop/**", "https://me:pw@git.example.com/shop/x", false),
            ("https://git.example.com/shop/*", r"https://git.example.com/shop/..\other\repo.git", false),
            ("https://git.example.com/shop/*", "https://git.example.com/shop/..", false),
            ("https://git.example.com/shop/*", "https://git.example.com/shop/a/b", false),
            ("https://*.example.com/**", "https://a.b.example.com/x/y.git", true),
            ("https://*.example.com/**", r"https://evil.com\.example.com/x/y.git", false),
            ("https://*.example.com/**", "https://evil.com/.example.com/x/y.git", false),
            ("https://*.example.com/**", "https://evil.com@x.example.com/y.git", false),
            ("https://*.example.com/**", "https://evil.com#.example.com/y.git", false),
            ("git@git.example.com:shop/*", "git@git.example.com:shop/web.git", true),
            ("git@git.example.com:shop/*", "git@git.example.com:shop/..", false),
            ("git@git.example.com:**", "git@git.example.com:22/x", true),
            ("ssh://git@git.example.com:2222/**", "ssh://git@git.example.com:2222/shop/web", true),
            ("https://[::1]:8443/**", "https://[::1]:8443/web", true),
            ("**", "https://git.example.com/x", true),
            ("**", "https://git.example.com/../x", false),
        ] {
            assert_eq!(admits(pattern, Of::Addresses, text), expected, "{pattern} {text}");
        }
        for (pattern, text, expected) in [
            ("registry.example.com/shop/*", "registry.example.com/shop/web:v1@sha256:00", true),
            ("registry.example.com/shop/*", "registry.example.com/shop/web/x", false),
            ("registry.example.com/**", "registry.example.com/shop/web:v1", true),
            ("*.example.com/shop/*", "evil/.example.com/shop/web", false),
            ("library*", "library/evil", false),
            ("**", "quay.io/x/y", true),
        ] {
            assert_eq!(admits(pattern, Of::Images, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_that_could_be_another_place_is_none() {
        let address = AddressError::Climbs.into();
        for (pattern, of, fault) in [
            ("https://**.example.com/x", Of::Addresses, Fault::Host),
            ("https://**", Of::Addresses, Fault::Incomplete),
            ("*://git.example.com/x", Of::Addresses, Fault::Incomplete),
            ("https://git.example.com/", Of::Addresses, Fault::Incomplete),
            ("https://git.example.com/shop/../**", Of::Addresses, address),
            ("https://git.example.com/x?token=*", Of::Addresses, Fault::Characters),
            ("https://me@git.example.com/*", Of::Addresses, Fault::Characters),
            ("git@git.example.com:*:x", Of::Addresses, AddressError::Port.into()),
            ("ftp://git.example.com/*", Of::Addresses, AddressError::Form.into()),
            ("*/shop/web", Of::Images, Fault::Registry),
            ("**/web", Of::Images, Fault::Host),
            ("web**", Of::Images, Fault::Host),
        ] {
            assert_eq!(expression(pattern, of), Err(fault), "{pattern}");
        }
    }

    /// Whether `text` is of `pattern`, where `*` stands for anything without an end of a host or part: read without expressions.
    fn fits(pattern: &str, text: &str, ends: &str) -> bool {
        let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
        let (after, is_many) = after.strip_prefix('*').map_or((after, false), |after| (after, true));
        let Some(rest) = text.strip_prefix(before) else { return false };
        let longest =
            rest.find(|letter: char| ends.contains(letter) && !(is_many && letter == '/')).unwrap_or(rest.len());
        (0..=longest).filter(|end| rest.is_char_boundary(*end)).any(|end| fits(after, &rest[end..], ends))
    }

    fn pattern() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "https://git.example.com/shop/**",
            "https://git.example.com/shop/*",
            "https://*.example.com/**",
            "https://*/*",
            "https://git.example.com/*/web",
            "https://git.example.com/a*b/**",
            "ssh://git@*/shop/**",
            "http://*:8080/**",
            "git@git.example.com:shop/*",
            "git@*:**",
            "*:shop/*",
            "https://git.example.com/.*",
            "https://git.example.com/**/.",
            "https://**/x",
            "https://a*/..*/**",
        ])
        .prop_map(str::to_owned)
    }

    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "https://",
            "ssh://git@",
            "http://",
            "git@",
            "git.example.com",
            ".example.com",
            "evil.com",
            "/",
            ":",
            "@",
            "shop",
            "web",
            "..",
            ".",
            "/../",
            "\\",
            "%2e%2e",
            "%2f",
            "?",
            "#",
            "8080",
            "x",
            "\t",
            "\n",
            "git",
            "0x7f",
            ".1",
            "a",
            "b",
        ]);
        prop::collection::vec(part, 1..9).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8_192))]

        #[test]
        fn what_a_pattern_admits_is_where_the_pattern_says(pattern in pattern(), text in text(), tail in text()) {
            // Texts that begin as the pattern does get furthest.
            let begun = pattern.split('*').next().unwrap_or_default().to_owned();
            for text in [text.clone(), format!("{begun}{text}"), format!("{begun}{text}{}{tail}", &pattern[pattern.len() - 4..])] {
                if !admits(&pattern, Of::Addresses, &text) {
                    continue;
                }
                // What is no address is not fetched.
                let Ok(address) = Address::parse(&text) else { continue };
                let example = pattern.replace("**", "x").replace('*', "x");
                let of_pattern = Address::parse(&example).unwrap();
                prop_assert_eq!((address.scheme, address.login, address.port),
                    (of_pattern.scheme, of_pattern.login, of_pattern.port), "{} {}", pattern, text);
                let (_, rest) = pattern.split_once("://").unwrap_or(("", &pattern));
                let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
                let (host, path) = rest.split_at(rest.find(if pattern.contains("://") { '/' } else { ':' }).unwrap());
                let host = host.split(':').next().unwrap();
                prop_assert!(fits(host, address.host, "/:@\\?#"), "{pattern} {text}: {}", address.host);
                prop_assert!(fits(path.trim_start_matches(':'), address.path, "/:@\\?#"), "{pattern} {text}: {}", address.path);
            }
        }
    }
}
