//! Origins as people write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

use super::Origin;

/// Why a text is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no catalog: {problem}")]
pub struct ParseError {
    /// As given, without a login.
    pub text: String,
    /// What is wrong and what to write.
    pub problem: &'static str,
}

const FORMS: &str = "write image:REFERENCE, dir:PATH or https://HOST/PATH";

impl FromStr for Origin {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let fault = |problem| ParseError { text: redacted(text), problem };
        if text.chars().any(char::is_control) {
            return Err(fault("it holds control characters"));
        }
        if let Some(reference) = text.strip_prefix("image:") {
            let good = !reference.is_empty() && !reference.contains(char::is_whitespace);
            // Some tools write docker://, which would be read as a host without a name.
            let good = good && !reference.contains("://");
            return if good {
                Ok(Self::Image(reference.to_owned()))
            } else {
                Err(fault("write image:REGISTRY/NAME:TAG"))
            };
        }
        if let Some(path) = text.strip_prefix("dir:") {
            return if path.is_empty() { Err(fault("write dir:PATH")) } else { Ok(Self::Folder(path.into())) };
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return url(text).map(Self::Http).map_err(fault);
        }
        Err(fault(FORMS))
    }
}

/// The base URL in `text`.
fn url(text: &str) -> Result<String, &'static str> {
    if text.contains(['?', '#']) {
        return Err("a query and a fragment have no place in the base URL of a catalog; leave them out");
    }
    let uri: Uri = text.parse().map_err(|_| FORMS)?;
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else { return Err(FORMS) };
    if authority.as_str().contains('@') {
        return Err("a login in the URL would be shown wherever the URL is; leave it out");
    }
    if uri.scheme_str() == Some("http") && !is_this_machine(authority.host()) {
        return Err(
            "without TLS anyone on the way could choose what is installed; write https (http is for this machine only)",
        );
    }
    let base = text.trim_end_matches('/');
    // As some will copy it.
    Ok(base.strip_suffix("/api/v1/all").unwrap_or(base).to_owned())
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// At most 200 characters of what may be shown: nothing between the scheme and an `@`, nothing behind a `?`.
fn redacted(text: &str) -> String {
    let without_query = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
    // First the login: a password may hold what a query begins with.
    let shown = match text.split_once("://").zip(text.rsplit_once('@')) {
        Some(((scheme, _), (_, rest))) => format!("{scheme}://<redacted>@{}", without_query(rest)),
        None => without_query(text),
    };
    shown.chars().take(200).collect()
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reference) => write!(formatter, "image:{reference}"),
            Self::Folder(path) => write!(formatter, "dir:{}", path.display()),
            Self::Http(url) => formatter.write_str(url),
        }
    }
}
