//! Who may ask. The server listens on loopback, but web sites that a browser shows, and other users of this machine, can reach that:
//! the former by a name of their own that leads here (DNS rebinding), so the header `Host` is checked; the latter do not know the
//! secret in the URL.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Nothing from elsewhere, nothing inline, in no frame, and no form is sent.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// The same, and forms are sent to this server.
const POLICY_WITH_FORMS: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                                 base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// Where a browser says whose page has sent a request.
const SITE: &str = "sec-fetch-site";
const SECRET_BYTES: usize = 16;

/// What a request has to have.
pub(super) struct Guard {
    port: u16,
    secret: String,
    takes_answers: bool,
}

impl Guard {
    /// With a new secret.
    pub(super) fn new(port: u16, takes_answers: bool) -> io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let secret = format!("{:032x}", u128::from_be_bytes(bytes));
        Ok(Self { port, secret, takes_answers })
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// What a browser is to open.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.secret)
    }

    /// Whether the request was meant for this server.
    fn is_host(&self, host: Option<&HeaderValue>) -> bool {
        let Some((name, port)) = host.and_then(|host| host.to_str().ok()?.rsplit_once(':')) else { return false };
        ["127.0.0.1", "localhost"].contains(&name) && port == self.port.to_string()
    }

    /// Whether a page of this server may ask so. Pages of others do not know the secret; one that was told it is not heard.
    fn takes(&self, method: &Method, site: Option<&HeaderValue>) -> bool {
        let is_own = site.is_none_or(|site| site == "same-origin");
        matches!(*method, Method::GET | Method::HEAD) || (self.takes_answers && *method == Method::POST && is_own)
    }
}

/// Refuses what is not for this server, and says what a browser may do with the answer.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = if !guard.is_host(request.headers().get(header::HOST)) {
        (StatusCode::MISDIRECTED_REQUEST, "this is not the address of the server\n").into_response()
    } else if guard.takes(request.method(), request.headers().get(SITE)) {
        next.run(request).await
    } else {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    };
    let policy = if guard.takes_answers { POLICY_WITH_FORMS } else { POLICY };
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_to_this_address_are_answered() {
        let guard = Guard::new(4711, false).unwrap();
        let is_host = |host: &str| guard.is_host(Some(&HeaderValue::from_str(host).unwrap()));
        assert!(is_host("127.0.0.1:4711") && is_host("localhost:4711"));
        for host in ["example.com:4711", "127.0.0.1", "127.0.0.1:80", "localhost.example.com:4711", ""] {
            assert!(!is_host(host), "{host}");
        }
        assert!(!guard.is_host(None));
    }

    #[test]
    fn only_pages_of_this_server_send_answers_and_only_where_they_are_taken() {
        let takes = |takes_answers, method, site: Option<&'static str>| {
            Guard::new(1, takes_answers).unwrap().takes(&method, site.map(HeaderValue::from_static).as_ref())
        };
        assert!(takes(true, Method::POST, Some("same-origin")) && takes(true, Method::POST, None));
        assert!(takes(false, Method::GET, Some("cross-site")), "a link leads here from elsewhere");
        for site in ["cross-site", "same-site", "none"] {
            assert!(!takes(true, Method::POST, Some(site)), "{site}");
        }
        assert!(!takes(false, Method::POST, Some("same-origin")) && !takes(true, Method::DELETE, None));
    }

    #[test]
    fn secrets_are_long_and_new() {
        let (one, two) = (Guard::new(1, false).unwrap(), Guard::new(1, true).unwrap());
        assert!(one.secret().len() == 32 && one.secret() != two.secret());
        assert_eq!(one.url(), format!("http://127.0.0.1:1/{}/", one.secret()));
    }
}
