//! What is asked for, with its secrets apart from what may be shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rukpak_content::{Address, AddressError};
use url::{ParseError, Url};

use super::{Error, Login};
use crate::hosts::Server;
use crate::stage::shortened;
use crate::{client, location};

/// An address and how to speak to who is there. `Debug` shows no secret.
#[derive(Clone)]
pub struct Request {
    pub(super) url: Url,
    shown: String,
    login: Option<Login>,
    pub(super) insecure_skip_verify: bool,
}

impl Request {
    /// `url` is an `http` or `https` URL. A user name and password in it are used as the login and shown nowhere; of a query,
    /// and a fragment, nothing is shown.
    pub fn new(url: &str) -> Result<Self, Error> {
        let fault = || Error::Url { url: redacted(url) };
        let odd = |why| Error::NotPlain { url: redacted(url), why };
        let mut parsed = Url::parse(url).map_err(|error| match error {
            // It reads names of ASCII alone.
            ParseError::IdnaError => odd(AddressError::Host),
            _ => fault(),
        })?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(fault());
        }
        Address::parse(url).map_err(odd)?;
        let login = login_of(&parsed);
        parsed.set_fragment(None);
        if parsed.set_username("").is_err() || parsed.set_password(None).is_err() {
            return Err(fault());
        }
        let shown = shown(&parsed);
        Ok(Self { url: parsed, shown, login, insecure_skip_verify: false })
    }

    /// Logs in with `login`, whatever the URL says.
    #[must_use]
    pub fn with_login(self, login: Login) -> Self {
        Self { login: Some(login), ..self }
    }

    /// Accepts any certificate. Whoever is between can then read the login and choose the bytes of a first download.
    #[must_use]
    pub fn with_insecure_skip_verify(self, insecure_skip_verify: bool) -> Self {
        Self { insecure_skip_verify, ..self }
    }

    /// The URL without its secrets, for people.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Where the archive is, as `host/path`.
    pub fn location(&self) -> Option<String> {
        Some(location::location(&self.server()?, self.url.path()))
    }

    /// The server that is asked, and given the login.
    pub fn server(&self) -> Option<Server> {
        Server::of_url(&self.url)
    }

    pub(super) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The header, marked sensitive.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let Login { username, password } = self.login.as_ref()?;
        let encoded = STANDARD.encode(format!("{username}:{password}"));
        // Base64 holds nothing that a header cannot.
        let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url: _, shown, login, insecure_skip_verify } = self;
        formatter
            .debug_struct("Request")
            .field("url", shown)
            .field("login", login)
            .field("insecure_skip_verify", insecure_skip_verify)
            .finish()
    }
}

fn login_of(url: &Url) -> Option<Login> {
    let password = url.password();
    if url.username().is_empty() && password.is_none() {
        return None;
    }
    Some(Login::new(decoded(url.username()), decoded(password.unwrap_or_default())))
}

/// Percent-encoded text as it was meant.
fn decoded(text: &str) -> String {
    // A form's key is decoded alike, but for the plus sign.
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(escaped.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}

fn shown(url: &Url) -> String {
    let query = if url.query().is_some() { "?<redacted>" } else { "" };
    format!("{}://{}{}{query}", url.scheme(), client::host(url), url.path())
}

/// What may be shown of a text that is no URL: nothing before an `@`, nothing behind a `?`.
fn redacted(text: &str) -> String {
    let without_query = |text: &str| shortened(text.split(['?', '#']).next().unwrap_or_default());
    // First the login: a password may hold what a query begins with.
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("<redacted>@{}", without_query(rest)),
        None => without_query(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        let cases = [
            ("https://example.com/a.tgz", "https://example.com/a.tgz"),
            ("http://EXAMPLE.com:8080/a%20b.tgz#x", "http://example.com:8080/a%20b.tgz"),
            ("https://me:hush@example.com/a.tgz?sig=hush#hush", "https://example.com/a.tgz?<redacted>"),
            ("https://[::1]:8443/", "https://[::1]:8443/"),
        ];
        for (url, expected) in cases {
            let request = Request::new(url).unwrap().with_login(Login::new("hush", "hush"));
            assert_eq!(request.shown(), expected);
            assert!(!format!("{request:?}").contains("hush"), "{request:?}");
        }
    }

    #[test]
    fn an_archive_is_where_its_url_says_whoever_reads_it() {
        let cases = [
            ("https://EXAMPLE.com:443/a//b.tgz?c#d", "example.com/a/b.tgz"),
            ("https://me@example.com:8443/b.tgz", "example.com:8443/b.tgz"),
        ];
        for (url, expected) in cases {
            assert_eq!(Request::new(url).unwrap().location().as_deref(), Some(expected), "{url}");
        }
        for url in [
            "https://me:hush@example.com:8443/a/../b.tgz",
            "https://example.com/a/%2E%2e/b.tgz",
            "https://example.com/a/x%2F..%2f..%2Fb.tgz",
            "https://example.com/a/..%5cb.tgz",
            "https://example.com/a\tb.tgz",
            r"https://example.com\@evil.example/b.tgz",
            "https://127.1/b.tgz",
            "https://me:hush@bücher.example/b.tgz",
        ] {
            let error = Request::new(url).unwrap_err().to_string();
            assert!(error.contains("does not say itself") && !error.contains("hush"), "{url}: {error}");
        }
    }

    #[test]
    fn other_things_than_web_addresses_are_refused_without_secrets() {
        for url in [
            "",
            "example.com/a",
            "ftp://me:hush@h/a",
            "file:///etc/passwd",
            "http://",
            "https://me:hush@:1x/?hush",
            "https://me:hush?x@h:1x/",
            "//h/a",
        ] {
            let text = Request::new(url).unwrap_err().to_string();
            assert!(!text.contains("hush") && text.contains("http or https URL"), "{url}: {text}");
        }
    }

    #[test]
    fn a_login_in_the_url_is_one_and_another_one_replaces_it() {
        let sent = |request: &Request| {
            let header = request.authorization()?;
            let encoded = header.to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
            assert!(header.is_sensitive());
            Some(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap())
        };
        let cases = [
            ("https://h/", None),
            ("https://me@h/", Some("me:")),
            ("https://m%40e:p%3Aa+s%26s=%25@h/", Some("m@e:p:a+s&s=%")),
        ];
        for (url, expected) in cases {
            let request = Request::new(url).unwrap();
            assert_eq!(sent(&request).as_deref(), expected, "{url}");
            assert_eq!(sent(&request.with_login(Login::new("a", "b"))).as_deref(), Some("a:b"));
        }
    }
}
