//! Where a repository is: the accepted forms, and nothing else.

use std::fmt;

use rukpak_content::{Address as Plain, AddressError as NotPlain};
use url::{Host, ParseError, Url};

use crate::hosts::{Scheme, Server};
use crate::location;

/// The user that git servers expect over ssh.
const SSH_USER: &str = "git";
const SSH_PORT: u16 = 22;

/// A repository that may be contacted.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// What is spoken.
    pub(super) transport: Transport,
    /// Lower-case host name or IP address, without brackets.
    pub(super) host: String,
    /// The port, the transport's own unless given.
    pub(super) port: u16,
    /// Over ssh always set; over http only if the URL holds one.
    pub(super) user: Option<String>,
    /// From the URL, http only.
    pub(super) password: Option<String>,
    /// What libgit2 is given: no password, and over http no user.
    pub(super) url: String,
}

/// What is spoken with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// With or without TLS.
    Http,
    /// Secure shell.
    Ssh,
}

/// Why a text is not an [`Address`]. Texts are shown without passwords.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum AddressError {
    /// The text is empty. The words are upstream's.
    #[error("missing git source information: repository must be provided")]
    Empty,
    /// Another scheme, a local path, a remote helper.
    #[error("{0:?} is not an allowed repository: use an https, http or ssh URL, or user@host:path")]
    Form(String),
    /// No host or no path.
    #[error("{0:?} does not name a repository: it needs a host and a path")]
    Incomplete(String),
    /// It is another place than its text says, and a pattern or a rule would be compared with the text.
    #[error("{0:?} does not say itself where the repository is: {1}")]
    NotPlain(String, NotPlain),
    /// A password over ssh.
    #[error("{0:?} holds a password: over ssh use a Secret with ssh-privatekey")]
    SshPassword(String),
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        let odd = |character: char| character.is_control() || character.is_whitespace();
        if text.contains(odd) || text.starts_with('-') {
            return Err(AddressError::Form(redact(text)));
        }
        let address = if text.contains("://") { Self::from_url(text)? } else { Self::from_scp(text)? };
        Plain::parse(text).map_err(|why| AddressError::NotPlain(redact(text), why))?;
        Ok(address)
    }

    fn from_url(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(redact(text));
        let mut url = Url::parse(text).map_err(|error| match error {
            // It reads names of ASCII alone.
            ParseError::IdnaError => AddressError::NotPlain(redact(text), NotPlain::Host),
            _ => form(),
        })?;
        let transport = match url.scheme() {
            "https" | "http" => Transport::Http,
            "ssh" => Transport::Ssh,
            _ => return Err(form()),
        };
        if url.fragment().is_some() {
            return Err(form());
        }
        let host = host_of(&url).ok_or_else(|| AddressError::Incomplete(redact(text)))?;
        if url.path().trim_matches('/').is_empty() || host.is_empty() {
            return Err(AddressError::Incomplete(redact(text)));
        }
        if host.starts_with('-') {
            return Err(form());
        }
        let given_user = Some(decode(url.username())).filter(|user| !user.is_empty());
        let password = url.password().map(decode);
        if transport == Transport::Ssh && password.is_some() {
            return Err(AddressError::SshPassword(redact(text)));
        }
        let user = match transport {
            Transport::Http => given_user,
            Transport::Ssh => Some(given_user.unwrap_or_else(|| SSH_USER.to_owned())),
        };
        // libgit2 gets the user of an http URL through the callback, and that of an ssh URL here.
        let in_url = user.as_deref().filter(|_| transport == Transport::Ssh).unwrap_or_default();
        url.set_username(in_url).and_then(|()| url.set_password(None)).map_err(|()| form())?;
        let port = url.port_or_known_default().unwrap_or(SSH_PORT);
        Ok(Self { transport, host, port, user, password, url: url.into() })
    }

    /// `[user@]host:[port:]path`, as upstream's library reads it.
    fn from_scp(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(redact(text));
        let (user, rest) = match text.split_once('@') {
            Some((user, rest)) if !user.contains(['/', ':']) => (user, rest),
            _ => (SSH_USER, text),
        };
        let (host, path) = rest.split_once(':').ok_or_else(form)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        // A second colon right away would be a remote helper such as `ext::`.
        if host.is_empty() || host.starts_with('-') || !host.bytes().all(is_name) || path.starts_with(':') {
            return Err(form());
        }
        let is_user = |byte: u8| is_name(byte) || matches!(byte, b'+' | b'~');
        if user.is_empty() || user.starts_with('-') || !user.bytes().all(is_user) {
            return Err(form());
        }
        let (port, path) = match path.split_once(':') {
            Some((port, path)) => (port.parse().map_err(|_| form())?, path),
            None => (SSH_PORT, path),
        };
        if path.trim_matches('/').is_empty() {
            return Err(AddressError::Incomplete(redact(text)));
        }
        if path.starts_with(['-', '\\']) {
            return Err(form());
        }
        let host = host.to_ascii_lowercase();
        let url = format!("[{user}@{host}:{port}]:{path}");
        Ok(Self { transport: Transport::Ssh, host, port, user: Some(user.to_owned()), password: None, url })
    }
}

impl Address {
    /// The path on the server, as it is sent.
    fn path(&self) -> String {
        match Url::parse(&self.url) {
            Ok(url) => url.path().to_owned(),
            Err(_) => self.url.rsplit_once("]:").map_or_else(String::new, |(_, path)| path.to_owned()),
        }
    }

    /// Who is given the login.
    pub(super) fn server(&self) -> Server {
        let scheme = match self.transport {
            Transport::Ssh => Scheme::Ssh,
            Transport::Http if self.url.starts_with("https:") => Scheme::Https,
            Transport::Http => Scheme::Http,
        };
        Server { scheme, host: self.host.clone(), port: self.port }
    }
}

/// Where a repository is, as `host/path`, in the same words over all transports. `None` if it is no repository.
pub fn location(repository: &str) -> Option<String> {
    let address = Address::parse(repository).ok()?;
    let found = location::location(&address.server(), &address.path());
    Some(found.strip_suffix(".git").unwrap_or(&found).to_owned())
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({})", self.url)
    }
}

/// `text` as it may be shown, whether it is an address or not: of what stands before an `@` only what cannot be a password, and of
/// a query nothing.
pub(super) fn redact(text: &str) -> String {
    let (before, query) = match text.split_once(['?', '#']) {
        Some((before, _)) => (before, "?<redacted>"),
        None => (text, ""),
    };
    let shown = match before.split_once("://") {
        Some((scheme, rest)) => redact_url(scheme, rest),
        None => redact_scp(before),
    };
    format!("{shown}{query}")
}

fn redact_url(scheme: &str, rest: &str) -> String {
    let end = rest.find(['/', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']');
    match authority.rfind('@') {
        Some(at) if scheme.eq_ignore_ascii_case("ssh") && !authority[..at].contains(':') => {
            format!("{scheme}://{rest}")
        }
        Some(at) => format!("{scheme}://{}{path}", &authority[at + 1..]),
        // A password with a slash in it: what looks like the host is the user.
        None if !authority.rsplit(':').next().is_none_or(is_port) && authority.contains(':') => {
            format!(
                "{scheme}://<redacted>@{}",
                rest.rsplit('@').next().filter(|_| path.contains('@')).unwrap_or_default()
            )
        }
        None => format!("{scheme}://{rest}"),
    }
}

/// `user@host:path`; what stands before the first `@` is a password if there is more in it than a user.
fn redact_scp(text: &str) -> String {
    match text.split_once('@') {
        Some((user, _)) if user.contains([':', '/', '\\']) => {
            format!("<redacted>@{}", text.rsplit('@').next().unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

fn host_of(url: &Url) -> Option<String> {
    Some(match url.host()? {
        Host::Domain(name) => name.to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    })
}

/// Undoes percent-encoding; what is not valid UTF-8 afterwards stays as it was.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let (byte, after) = match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (byte, &tail[2..]),
            None => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_forms() {
        // text, libgit2's URL, host, port, user
        let table = [
            ("https://github.com/o/r", "https://github.com/o/r", "github.com", 443, None),
            ("HTTPS://GitHub.com/o/r.git", "https://github.com/o/r.git", "github.com", 443, None),
            ("http://[::1]:8080/r", "http://[::1]:8080/r", "::1", 8080, None),
            ("https://me%40x:p%2Fw@h/r", "https://h/r", "h", 443, Some("me@x")),
            ("ssh://h/r", "ssh://git@h/r", "h", 22, Some("git")),
            ("ssh://me@h:2222/~/r", "ssh://me@h:2222/~/r", "h", 2222, Some("me")),
            ("git@github.com:o/r.git", "[git@github.com:22]:o/r.git", "github.com", 22, Some("git")),
            ("Host:r", "[git@host:22]:r", "host", 22, Some("git")),
            ("git@h:2222:/srv/r", "[git@h:2222]:/srv/r", "h", 2222, Some("git")),
        ];
        for (text, url, host, port, user) in table {
            let address = Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = (address.url.as_str(), address.host.as_str(), address.port, address.user.as_deref());
            assert_eq!(found, (url, host, port, user), "{text}");
        }
        assert_eq!(Address::parse("https://a:p%2Fw%@h/r").unwrap().password.as_deref(), Some("p/w%"));
    }

    #[test]
    fn refused_forms() {
        let table = [
            "",
            " ",
            "/srv/repo",
            "./repo",
            "../repo",
            "repo",
            "file:///srv/repo",
            "FILE:///srv/repo",
            "git://h/r",
            "ftp://h/r",
            "git+ssh://h/r",
            "ext::sh -c id",
            "ext::sh",
            "ext::https://h/r",
            "a@ext::x",
            "https://",
            "https:///r",
            "https://h",
            "https://h/",
            "ssh://h",
            "ssh://git:pw@h/r",
            "https://h/r#x",
            "https://h/r\nx",
            "-oProxyCommand=id:r",
            "ssh://-oProxyCommand=id/r",
            "git@-x:r",
            "-u@h:r",
            "git@h:-r",
            "git@h:",
            "git@h:22:",
            "@h:r",
            ":r",
            "a/b:c",
            "a/b@h:c",
            "git@h:99999:r",
            "git@h]:r",
            "git@h:o/../p/r",
            "git@h:./r",
            "git@h:22:/srv/../r",
            "https://h/o/x%2f..%2F..%2Fp/r",
            "ssh://h/o/%2e%2e%2fp/r",
        ];
        for text in table {
            assert!(Address::parse(text).is_err(), "{text:?} became {:?}", Address::parse(text));
        }
    }

    #[test]
    fn a_repository_is_in_one_place_however_it_is_asked_for() {
        let table = [
            ("https://me:pw@GitHub.com:443/o//r.git", "github.com/o/r"),
            ("git@github.com:o/r.git", "github.com/o/r"),
            ("github.com:/o/r", "github.com/o/r"),
            ("git@h:2222:o/r", "h:2222/o/r"),
            ("ssh://git@h:2222/o/r/", "h:2222/o/r"),
            ("git@h:o/..r.git", "h/o/..r"),
        ];
        for (text, expected) in table {
            assert_eq!(location(text).as_deref(), Some(expected), "{text}");
        }
        // A rule for h/o must not let in what the server finds in h/p.
        for text in [
            "https://h/o/../p/r",
            "ssh://h/o/%2e%2E/p/r",
            "git@h:o/../p/r",
            "git@h:o/./r",
            "https://h/o/x%2f..%2f..%2fp/r",
            "https://h/o/..%5Cp/r",
        ] {
            assert_eq!(location(text), None, "{text}");
        }
    }

    /// A policy's pattern is compared with the text: what is fetched must be where the text says.
    #[test]
    fn an_address_that_is_not_what_its_text_says_is_refused() {
        for (text, word) in [
            ("https://git.example.com/shop/../other/repo.git", "a part . or .."),
            ("https://git.example.com/shop/%2e%2e/other/repo.git", "a part . or .."),
            (r"https://git.example.com/shop/..\other\repo.git", "percent-encoded"),
            (r"https://evil.com\.example.com/x/y.git", "percent-encoded"),
            ("https://git.example.com/%73hop/repo.git", "write the characters themselves"),
            ("https://2130706433/o/r", "its host is no name"),
            ("https://0x7f.1/o/r", "its host is no name"),
            ("https://bücher.example/o/r", "its host is no name"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains("does not say itself") && error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let table = [
            ("https://u:p@h/r", "https://h/r"),
            ("https://token@h/r", "https://h/r"),
            ("https://u:p@ss@h/r", "https://h/r"),
            ("https://h/a@b", "https://h/a@b"),
            ("ssh://git@h/r", "ssh://git@h/r"),
            ("ssh://git:pw@h/r", "ssh://h/r"),
            ("git@h:r", "git@h:r"),
            ("h:r", "h:r"),
            ("https://h:8443/r", "https://h:8443/r"),
            ("https://[::1]:8443/r", "https://[::1]:8443/r"),
            ("https://[::1]/r", "https://[::1]/r"),
            ("https://h/r?token=hush", "https://h/r?<redacted>"),
            ("https://h/r#hush", "https://h/r?<redacted>"),
            ("https://u:hu/sh@h/r", "https://<redacted>@h/r"),
            ("https://u:hu/sh", "https://<redacted>@"),
            ("u:hush@h:r", "<redacted>@h:r"),
            ("u:hu@sh@h:r", "<redacted>@h:r"),
            ("https:/u:hush@h/r", "<redacted>@h/r"),
            ("https:\\\\u:hush@h/r", "<redacted>@h/r"),
            ("https://u:hu\\sh@h/r", "https://<redacted>@h/r"),
        ];
        for (text, shown) in table {
            assert_eq!(redact(text), shown);
            if let Err(error) = Address::parse(text) {
                assert!(!error.to_string().contains("hu") && !error.to_string().contains("sh@"), "{text}: {error}");
            }
        }
    }
}
