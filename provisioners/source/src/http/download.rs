//! One GET: what comes of it, or what the server says instead.

use std::fs::File;

use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::Response;
use rukpak_content::{Algorithm, Digest, Limit, LimitExceeded};

use super::{Error, FetcherOptions, Request};
use crate::body::{self, Body};
use crate::client::{self, Clients, Trust};
use crate::pace;

/// A body that came whole. Dropping it frees its disk space.
#[derive(Debug)]
pub struct Download {
    request: Request,
    body: Body,
}

impl Download {
    /// The digest of the body as it was sent: what a caller remembers.
    pub fn digest(&self) -> &Digest {
        &self.body.digest
    }

    /// Length of the body.
    pub fn size_bytes(&self) -> u64 {
        self.body.size_bytes
    }

    /// Where it was asked for, without secrets.
    pub fn url(&self) -> &str {
        self.request.shown()
    }

    pub(super) fn into_file(self) -> File {
        self.body.file
    }
}

/// Asks for the body and receives all of it.
pub(super) async fn receive(
    clients: &Clients,
    request: &Request,
    options: &FetcherOptions,
    algorithm: Algorithm,
) -> Result<Download, Error> {
    let url = request.shown();
    let response = accepted(clients, request).await?;
    let maximum = options.limits.download_bytes;
    let received = body::receive(response, &options.stage_dir, algorithm, maximum).await;
    let body = received.map_err(|error| {
        let url = url.to_owned();
        match error {
            body::Error::Broken { received_bytes, source } => Error::Body { url, received_bytes, source },
            body::Error::TooSlow { received_bytes } => Error::Pace { url, received_bytes, asked: pace::asked() },
            body::Error::TooLarge => Error::Limit(LimitExceeded { limit: Limit::DownloadBytes, maximum, place: url }),
            body::Error::Spool(source) => Error::Spool { url, source },
            body::Error::Worker(source) => Error::Worker { url, source },
        }
    })?;
    Ok(Download { request: request.clone(), body })
}

/// The answer, if it is a 200. What a server writes beside any other status is not read.
async fn accepted(clients: &Clients, request: &Request) -> Result<Response, Error> {
    accepted_if(clients, request, "*/*", None).await
}

/// Like [`accepted`]; with a condition, 304 is accepted too.
pub(super) async fn accepted_if(
    clients: &Clients,
    request: &Request,
    accept: &str,
    condition: Option<(HeaderName, HeaderValue)>,
) -> Result<Response, Error> {
    let conditional = condition.is_some();
    let (url, authorization) = (request.url.clone(), request.authorization());
    let trust = if request.insecure_skip_verify { Trust::Anyone } else { Trust::KnownAuthorities };
    let asked = client::Request { url, accept, authorization, trust, condition };
    let response = client::get(clients, asked).await.map_err(|error| Error::get(error, request))?;
    let status = response.status();
    // A redirect may have led elsewhere, and the status is then about that place.
    let elsewhere = response.url().origin() != request.url.origin();
    let host = elsewhere.then(|| client::host(response.url()));
    match status {
        StatusCode::OK => Ok(response),
        StatusCode::NOT_MODIFIED if conditional => Ok(response),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Error::Unauthorized {
            url: request.shown().to_owned(),
            status,
            hint: hint(request, host.as_deref(), &response),
        }),
        _ => Err(Error::Status { url: request.shown().to_owned(), status, host }),
    }
}

fn hint(request: &Request, elsewhere: Option<&str>, response: &Response) -> String {
    if let Some(host) = elsewhere {
        return format!("it came from {host}, which the server redirects to and which is not given the login");
    }
    let asked = response.headers().get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let scheme = asked.and_then(|challenge| challenge.split_whitespace().next()).unwrap_or("Basic");
    match request.has_login() {
        _ if !scheme.eq_ignore_ascii_case("basic") => {
            let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
            format!("the server asks for {scheme} authentication; only basic authentication is supported")
        }
        true => "check the username and the password in the Secret and what they may read".to_owned(),
        false => "give a Secret with username and password".to_owned(),
    }
}
