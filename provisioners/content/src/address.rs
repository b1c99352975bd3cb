//! Addresses of repositories and archives: the one grammar of the programs that fetch and of the policies that allow.
//!
//! A text is an address only if it says itself what is asked of whom. What a reader of URLs, a server or a resolver would take for
//! another place is refused, so that a pattern or a rule that fits the text fits the place.
//!
//! ```text
//! URL  (https|http|ssh)://[LOGIN@]HOST[:PORT][/PATH][?QUERY][#FRAGMENT]
//! scp  [USER@]HOST:[PORT:]PATH            without USER, HOST is none of the three schemes
//! HOST labels of letters, digits, - and _, or an IPv4 address of four numbers; in a URL also [IPv6]
//! PATH parts of letters, digits and -._~!$&'()*+,;=:@, none of them . or ..; other bytes percent-encoded
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

/// Where something is, as its text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// What is spoken.
    pub scheme: Scheme,
    /// What stands before the `@`: a user, over http also a password. As it stands.
    pub login: Option<&'a str>,
    /// Name or address, in the case that it is written in. IPv6 has its brackets.
    pub host: &'a str,
    /// The port, if one is named.
    pub port: Option<u16>,
    /// The path. In a URL it begins with a slash, unless it is empty.
    pub path: &'a str,
    /// What follows the `?` of a URL.
    pub query: Option<&'a str>,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// http over TLS.
    Https,
    /// http.
    Http,
    /// Secure shell.
    Ssh,
}

const SCHEMES: [(&str, Scheme); 3] = [("https", Scheme::Https), ("http", Scheme::Http), ("ssh", Scheme::Ssh)];

/// Why a text is no [`Address`]. It shows nothing of the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither form.
    #[error("it is neither an https, http or ssh URL nor user@host:path")]
    Form,
    /// A host that is none, or that resolvers take for another one.
    #[error(
        "its host is no name of letters (those beyond ASCII as xn--...), digits, - and _, and no address in its usual form"
    )]
    Host,
    /// A port that is none.
    #[error("its port is no number from 1 to 65535, or has leading zeros")]
    Port,
    /// Characters that readers of URLs change or leave out.
    #[error("it has characters that do not stand in URLs: write them percent-encoded")]
    Characters,
    /// A path that servers resolve.
    #[error("its path has a part . or .., so that it is another one: leave these parts out")]
    Climbs,
    /// Percent-encoding that servers undo.
    #[error(
        "its path has letters, digits, -, ., _, ~ or control characters percent-encoded: write the characters themselves"
    )]
    Encoded,
}

impl<'a> Address<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// What keeps it from being an address.
    pub fn parse(text: &'a str) -> Result<Self, AddressError> {
        if text.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
            return Err(AddressError::Characters);
        }
        match text.split_once("://") {
            Some((scheme, rest)) => Self::of_url(scheme, rest),
            None => Self::of_scp(text),
        }
    }

    fn of_url(scheme: &str, rest: &'a str) -> Result<Self, AddressError> {
        let known = SCHEMES.into_iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name));
        let (_, scheme) = known.ok_or(AddressError::Form)?;

        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
        // Readers of URLs take it for a slash.
        if rest.contains('\\') {
            return Err(AddressError::Characters);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));

        let (login, server) =
            authority.rsplit_once('@').map_or((None, authority), |(login, server)| (Some(login), server));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(number(port)?)),
            _ => (server, None),
        };
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = in_brackets.map_or_else(|| is_host(host), |host| host.parse::<Ipv6Addr>().is_ok());
        if !is_host {
            return Err(AddressError::Host);
        }
        check_path(path)?;
        Ok(Self { scheme, login, host, port, path, query })
    }

    /// As git reads it. There is no percent-encoding in it.
    fn of_scp(text: &'a str) -> Result<Self, AddressError> {
        let (login, rest) = match text.split_once('@') {
            Some((user, rest)) if !user.contains(['/', ':']) => (Some(user), rest),
            _ => (None, text),
        };
        let (host, path) = rest.split_once(':').ok_or(AddressError::Form)?;
        // Readers of URLs do without the slashes behind a scheme that they know.
        if login.is_none() && SCHEMES.iter().any(|(name, _)| host.eq_ignore_ascii_case(name)) {
            return Err(AddressError::Form);
        }
        let (port, path) = match path.split_once(':') {
            Some((port, path)) => (Some(number(port)?), path),
            None => (None, path),
        };
        let is_user = |user: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte);
            !user.is_empty() && !user.starts_with('-') && user.bytes().all(is_letter)
        };
        if !login.is_none_or(is_user) || path.starts_with('-') {
            return Err(AddressError::Form);
        }
        if !is_host(host) {
            return Err(AddressError::Host);
        }
        if path.contains('\\') {
            return Err(AddressError::Characters);
        }
        if climbs(path) {
            return Err(AddressError::Climbs);
        }
        Ok(Self { scheme: Scheme::Ssh, login, host, port, path, query: None })
    }
}

fn number(port: &str) -> Result<u16, AddressError> {
    let number = port.parse().ok().filter(|number: &u16| *number > 0 && number.to_string() == port);
    number.ok_or(AddressError::Port)
}

/// A name, or an IPv4 address as everybody writes it: resolvers take `127.1`, `0x7f.0.0.1` and `2130706433` for one too.
fn is_host(host: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label =
        |label: &str| !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && label.bytes().all(is_letter);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.starts_with("0X") || last.bytes().all(|byte| byte.is_ascii_digit());

    host.len() <= 253 && host.split('.').all(is_label) && (!is_number || host.parse::<Ipv4Addr>().is_ok())
}

fn check_path(path: &str) -> Result<(), AddressError> {
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            let is_hex = |hex: &&str| hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            let byte = hex.filter(is_hex).and_then(|hex| u8::from_str_radix(hex, 16).ok());
            let byte = byte.ok_or(AddressError::Characters)?;
            if byte == b'.' && climbs(path) {
                return Err(AddressError::Climbs);
            }
            if byte.is_ascii_control() || is_unreserved(byte) {
                return Err(AddressError::Encoded);
            }
        } else if !is_unreserved(*first) && !b"!$&'()*+,;=:@/".contains(first) {
            return Err(AddressError::Characters);
        }
    }
    if climbs(path) { Err(AddressError::Climbs) } else { Ok(()) }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether a part of `path` is `.` or `..`, as it stands or once percent-encoding is undone: servers resolve these. So is one with
/// `.git` behind it, which is no part of the name of a repository.
fn climbs(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    path.split(['/', '\\']).any(|part| matches!(part.strip_suffix(".git").unwrap_or(part), "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    #[test]
    fn an_address_says_itself_what_is_asked_of_whom() {
        // text, login, host, port, path
        let table = [
            ("https://github.com/o/r.git", None, "github.com", None, "/o/r.git"),
            ("HTTPS://GitHub.com/o/.github", None, "GitHub.com", None, "/o/.github"),
            ("http://[::1]:8080/r", None, "[::1]", Some(8080), "/r"),
            ("http://[::1]/r", None, "[::1]", None, "/r"),
            ("https://u:p@ss@h:443/o//r/?a=../b#c/..", Some("u:p@ss"), "h", Some(443), "/o//r/"),
            ("https://files.example.com", None, "files.example.com", None, ""),
            ("https://h/group%2Fproject/a%20b", None, "h", None, "/group%2Fproject/a%20b"),
            ("https://10.0.0.1/r", None, "10.0.0.1", None, "/r"),
            ("ssh://me@h:2222/~/r", Some("me"), "h", Some(2222), "/~/r"),
            ("git@github.com:o/r.git", Some("git"), "github.com", None, "o/r.git"),
            ("h:/srv/..r", None, "h", None, "/srv/..r"),
            ("git@h:2222:/srv/r", Some("git"), "h", Some(2222), "/srv/r"),
        ];
        for (text, login, host, port, path) in table {
            let found = Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((found.login, found.host, found.port, found.path), (login, host, port, path), "{text}");
        }
    }

    #[test]
    fn what_is_another_place_than_it_says_is_no_address() {
        use AddressError::{Characters, Climbs, Encoded, Form, Host, Port};
        for (text, error) in [
            ("https://git.example.com/shop/../other/repo.git", Climbs),
            ("https://git.example.com/shop/%2e%2e/other/repo.git", Climbs),
            ("https://git.example.com/shop/.%2E/other", Climbs),
            ("https://git.example.com/shop/x%2f..%2f..%2fother", Climbs),
            ("https://git.example.com/shop/.", Climbs),
            ("https://git.example.com/shop/...git", Climbs),
            ("git@h:shop/../other", Climbs),
            (r"https://git.example.com/shop/..\other\repo.git", Characters),
            (r"https://evil.com\.example.com/x/y.git", Characters),
            (r"git@h:shop\..\other", Characters),
            ("https://h/shop\t/web", Characters),
            ("https://h/shop/web\n", Characters),
            ("https://h/a b.tgz", Characters),
            ("https://h/ä", Characters),
            ("https://h/a%zz", Characters),
            ("https://h/a%+1", Characters),
            ("https://h/a%2", Characters),
            ("https://h/%73hop/web", Encoded),
            ("https://h/a%2Eb", Encoded),
            ("https://h/a%00", Encoded),
            ("https://git.example.com./r", Host),
            ("https://git%2eexample.com/r", Host),
            ("https://bücher.example/r", Host),
            ("https:///r", Host),
            ("https://a@/r", Host),
            ("https://127.1/r", Host),
            ("https://2130706433/r", Host),
            ("https://0x7f.0.0.1/r", Host),
            ("https://010.0.0.1/r", Host),
            ("ssh://0x7f000001/r", Host),
            ("https://[::1/r", Host),
            ("https://[fe80::1%25eth0]/r", Host),
            ("git@127.1:r", Host),
            ("h:0x1:r", Port),
            ("https://h:/r", Port),
            ("https://h:0443/r", Port),
            ("https://h:0/r", Port),
            ("https://h:99999/r", Port),
            ("ftp://h/r", Form),
            ("https:h/r", Form),
            ("HTTP:/h/r", Form),
            ("ssh:h/r", Form),
            ("/srv/repo", Form),
            ("ext::sh", Port),
            ("-u@h:r", Form),
            ("git@h:-r", Form),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text}");
        }
    }

    /// Texts made of what addresses, and attacks on them, are made of.
    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "https",
            "http",
            "ssh",
            "://",
            ":",
            "/",
            "//",
            "@",
            ".",
            "..",
            "%2e",
            "%2E",
            "%2f",
            "%5c",
            "%41",
            "%",
            "\\",
            "?",
            "#",
            "[",
            "]",
            "::1",
            "::ffff:1.2.3.4",
            "h",
            "Git.Example.com",
            "xn--bcher-kva",
            "xn--a",
            "0x7f",
            "127",
            "1",
            "0443",
            "443",
            "80",
            "a",
            "shop",
            "_",
            "-",
            "~",
            "'",
            "|",
            "^",
            "{",
            "\"",
            "<",
            " ",
            "\t",
            "\n",
            "\u{ad}",
            "ä",
            "。",
            "*",
            ";",
            "&",
        ]);
        let tail = prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat());
        prop_oneof![tail.clone(), tail.prop_map(|tail| format!("https://h/{tail}")), "https?://[ -~]{0,20}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn a_reader_of_urls_finds_the_place_that_the_text_names(text in text()) {
            let Ok(address) = Address::parse(&text) else { return Ok(()) };
            if !text.contains("://") {
                return Ok(());
            }
            // What is no URL at all is not fetched either.
            let Ok(url) = Url::parse(&text) else { return Ok(()) };
            let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
            let same_address = || Some(host.trim_matches(['[', ']']).parse::<Ipv6Addr>().ok()?
                == address.host.trim_matches(['[', ']']).parse::<Ipv6Addr>().ok()?);
            prop_assert!(host == address.host.to_ascii_lowercase() || same_address() == Some(true), "{text}: {url}");
            let is_whole = url.path() == address.path || (address.path.is_empty() && url.path() == "/");
            prop_assert!(is_whole, "{text}: {url}");
            let default = |scheme: Scheme| match scheme { Scheme::Https => 443, Scheme::Http => 80, Scheme::Ssh => 22 };
            let port = address.port.unwrap_or(default(address.scheme));
            prop_assert_eq!(url.port_or_known_default().unwrap_or(22), port, "{}", text);
            prop_assert_eq!(address.login.is_some_and(|login| !login.is_empty() && login != ":"),
                !url.username().is_empty() || url.password().is_some(), "{}", text);
        }
    }
}
