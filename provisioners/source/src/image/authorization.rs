//! Proving who we are: challenges, tokens, headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use http_auth::parser::ChallengeParser;
use serde::Deserialize;
use url::Url;

use super::credentials::Login;

/// The value of an `Authorization` header. Marked sensitive, so neither `Debug` nor HTTP/2's header table keeps it.
#[derive(Clone, Debug)]
pub(super) struct Authorization {
    value: HeaderValue,
    /// The mirror that it is for; `None` is the registry itself.
    mirror: Option<String>,
}

impl Authorization {
    pub(super) fn basic(login: &Login) -> Option<Self> {
        let pair = format!("{}:{}", login.username, login.password.expose());
        Self::new(&format!("Basic {}", STANDARD.encode(pair)))
    }

    pub(super) fn bearer(token: &str) -> Option<Self> {
        Self::new(&format!("Bearer {token}"))
    }

    fn new(text: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(Self { value, mirror: None })
    }

    /// The same, for that mirror or, without one, for the registry itself.
    pub(super) fn of_mirror(self, mirror: Option<String>) -> Self {
        Self { mirror, ..self }
    }

    pub(super) fn mirror(&self) -> Option<&str> {
        self.mirror.as_deref()
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.value.clone()
    }

    /// The secret part, for taking it out of texts.
    pub(super) fn secret(&self) -> Option<&str> {
        self.value.to_str().ok()?.split_once(' ').map(|(_, secret)| secret)
    }
}

/// How a registry wants us to prove who we are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token that `realm` gives out.
    Bearer { realm: Url, service: Option<String> },
    /// With the credentials themselves.
    Basic,
}

impl Challenge {
    /// The challenge to answer: `Bearer` where it is offered. `Err` says in words what was asked instead.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, String> {
        let mut basic = false;
        let mut schemes = Vec::new();
        for value in headers.get_all(header::WWW_AUTHENTICATE) {
            let text = value.to_str().map_err(|_| "a challenge that is not ASCII".to_owned())?;
            for challenge in ChallengeParser::new(text) {
                let challenge = challenge.map_err(|_| "a malformed challenge".to_owned())?;
                if challenge.scheme.eq_ignore_ascii_case("bearer") {
                    return Self::bearer(&challenge);
                }
                basic |= challenge.scheme.eq_ignore_ascii_case("basic");
                schemes.push(challenge.scheme.chars().take(20).collect::<String>());
            }
        }
        match (basic, schemes.as_slice()) {
            (true, _) => Ok(Self::Basic),
            (false, []) => Err("no challenge at all".to_owned()),
            (false, schemes) => Err(schemes.join(", ")),
        }
    }

    fn bearer(challenge: &http_auth::ChallengeRef<'_>) -> Result<Self, String> {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let realm = parameter("realm").ok_or("a bearer token without a realm")?;
        let realm = Url::parse(&realm).map_err(|_| "a bearer token from a realm that is not a URL".to_owned())?;
        Ok(Self::Bearer { realm, service: parameter("service") })
    }
}

/// What a token service reads to know who wants a token for what, in all flows of the protocol. What stands in a realm's query
/// beside them is passed on, as other clients do.
const OURS: [&str; 11] = [
    "service",
    "scope",
    "account",
    "client_id",
    "offline_token",
    "access_type",
    "grant_type",
    "refresh_token",
    "access_token",
    "username",
    "password",
];

/// Where to get a token that may pull `repository` and nothing else.
///
/// The scope is ours, neither the challenge's nor that of the realm's query: a registry could ask for a token for something else
/// and be given it.
pub(super) fn token_url(mut realm: Url, service: Option<&str>, repository: &str) -> Url {
    let is_ours = |name: &str| {
        // Some read `scope[]`, and not all tell `Scope` from `scope`.
        let name = name.split('[').next().unwrap_or_default().trim();
        OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    let rest: Vec<_> =
        realm.query_pairs().filter(|(name, _)| !is_ours(name)).map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
    realm.set_fragment(None);
    realm
        .query_pairs_mut()
        .clear()
        .extend_pairs(rest)
        .extend_pairs(service.map(|service| ("service", service)))
        .append_pair("scope", &format!("repository:{repository}:pull"));
    realm
}

/// The token in a token service's answer. Some services send one name, some the other, some both.
pub(super) fn token(body: &[u8]) -> Option<Authorization> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        token: String,
        #[serde(default)]
        access_token: String,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let token = if answer.token.is_empty() { answer.access_token } else { answer.token };
    if token.is_empty() { None } else { Authorization::bearer(&token) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(values: &[&'static str]) -> Result<Challenge, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(value));
        }
        Challenge::from_headers(&headers)
    }

    #[test]
    fn bearer_is_preferred_and_the_rest_is_named() {
        let bearer = |service: Option<&str>| {
            Ok(Challenge::Bearer {
                realm: "https://auth.example.com/token?x=1".parse().unwrap(),
                service: service.map(str::to_owned),
            })
        };
        let realm = r#"Bearer realm="https://auth.example.com/token?x=1""#;
        assert_eq!(challenge(&[realm]), bearer(None));
        let full = r#"Bearer realm="https://auth.example.com/token?x=1",service="r",scope="repository:x:push""#;
        assert_eq!(challenge(&["Basic realm=\"x\"", full]), bearer(Some("r")));
        assert_eq!(challenge(&["basic realm=\"x\""]), Ok(Challenge::Basic));
        assert_eq!(challenge(&[]), Err("no challenge at all".into()));
        assert_eq!(challenge(&["Negotiate, NTLM"]), Err("Negotiate, NTLM".into()));
        assert!(challenge(&["Bearer service=\"x\""]).is_err());
        assert!(challenge(&["Bearer realm=\"nonsense\""]).is_err());
    }

    #[test]
    fn the_scope_is_ours() {
        let url = token_url("https://a/token?x=1".parse().unwrap(), Some("r&s"), "team/app");
        assert_eq!(url.as_str(), "https://a/token?x=1&service=r%26s&scope=repository%3Ateam%2Fapp%3Apull");
        // However the realm writes another one.
        for query in [
            "service=victim&scope=repository:victim/app:pull,push",
            "%73cope=repository:victim/app:pull&Scope=a&SCOPE[]=b&scope[0]=c&+scope=d",
            "account=admin&client_id=x&offline_token=true&grant_type=password&refresh_token=t",
        ] {
            let realm = format!("https://a/token?{query}&x=1;scope=e#scope=f");
            let url = token_url(realm.parse().unwrap(), Some("r"), "team/app");
            let expected = "https://a/token?x=1%3Bscope%3De&service=r&scope=repository%3Ateam%2Fapp%3Apull";
            assert_eq!(url.as_str(), expected, "{query}");
        }
    }

    #[test]
    fn either_name_of_the_token_will_do() {
        let cases = [
            (r#"{"token":"a"}"#, Some("a")),
            (r#"{"access_token":"b"}"#, Some("b")),
            (r#"{"token":"","access_token":"b"}"#, Some("b")),
            (r#"{"token":"a","access_token":"b","expires_in":60}"#, Some("a")),
            (r"{}", None),
            (r#"{"token":"a\nb"}"#, None),
            ("<html>", None),
        ];
        for (body, expected) in cases {
            let found = token(body.as_bytes());
            assert_eq!(found.as_ref().and_then(Authorization::secret), expected, "{body}");
        }
        assert!(!format!("{:?}", token(br#"{"token":"hush"}"#)).contains("hush"));
    }
}
