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

/// Nothing from elsewhere, nothing inline, in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const SECRET_BYTES: usize = 16;

/// What a request has to have.
pub(super) struct Guard {
    port: u16,
    secret: String,
}

impl Guard {
    /// With a new secret.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let secret = format!("{:032x}", u128::from_be_bytes(bytes));
        Ok(Self { port, secret })
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
}

/// Refuses what is not for this server, and says what a browser may do with the answer.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = if !guard.is_host(request.headers().get(header::HOST)) {
        (StatusCode::MISDIRECTED_REQUEST, "this is not the address of the server\n").into_response()
    } else if matches!(*request.method(), Method::GET | Method::HEAD) {
        next.run(request).await
    } else {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    };
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
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
        let guard = Guard::new(4711).unwrap();
        let is_host = |host: &str| guard.is_host(Some(&HeaderValue::from_str(host).unwrap()));
        assert!(is_host("127.0.0.1:4711") && is_host("localhost:4711"));
        for host in ["example.com:4711", "127.0.0.1", "127.0.0.1:80", "localhost.example.com:4711", ""] {
            assert!(!is_host(host), "{host}");
        }
        assert!(!guard.is_host(None));
    }

    #[test]
    fn secrets_are_long_and_new() {
        let (one, two) = (Guard::new(1).unwrap(), Guard::new(1).unwrap());
        assert!(one.secret().len() == 32 && one.secret() != two.secret());
        assert_eq!(one.url(), format!("http://127.0.0.1:1/{}/", one.secret()));
    }
}
