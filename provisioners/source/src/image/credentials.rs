//! Pull secrets: which login goes to which registry.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oci_client::Reference;
use serde::Deserialize;

use crate::hosts::{Hosts, Server, host_matches};

/// Logins by registry, as pull secrets hold them. Without any, pulls are anonymous.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    logins: Vec<(Pattern, Login)>,
}

/// Why a pull secret cannot be used. Never holds a part of it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PullSecretError {
    /// Not the JSON that Docker writes.
    #[error("line {line}, column {column}: not a Docker configuration in JSON")]
    Json {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault.
        column: usize,
    },
    /// `auth` is not base64 of `username:password`.
    #[error("`auth` of {registry:?} is not base64 of username:password")]
    Auth {
        /// The registry, as the secret names it.
        registry: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: Password,
    /// The only servers that it may be sent to, token services too.
    hosts: Option<Hosts>,
}

impl Login {
    /// Whether it may be sent to `server`.
    pub(super) fn is_for(&self, server: &Server) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.covers(server))
    }
}

/// A password, shown to nobody by accident.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password(String);

impl Password {
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("<redacted>")
    }
}

/// What a key of a pull secret matches. Source: the kubelet's rules, "Configuration of images" in the Kubernetes documentation:
/// `*` stands for one label or a part of one, ports must be equal, the path is a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    path: String,
    host: String,
    port: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    auth: Option<String>,
}

impl Credentials {
    /// No logins.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// The content of a Secret's `.dockerconfigjson`.
    pub fn from_docker_config_json(json: &[u8]) -> Result<Self, PullSecretError> {
        #[derive(Deserialize)]
        struct Config {
            #[serde(default)]
            auths: Option<BTreeMap<String, Entry>>,
        }
        let config: Config = serde_json::from_slice(json).map_err(|error| position(&error))?;
        Self::from_entries(config.auths.unwrap_or_default())
    }

    /// The content of a Secret's legacy `.dockercfg`.
    pub fn from_dockercfg(json: &[u8]) -> Result<Self, PullSecretError> {
        Self::from_entries(serde_json::from_slice(json).map_err(|error| position(&error))?)
    }

    /// Adds the logins of another secret. Of two equally specific ones the earlier is tried first.
    pub fn extend(&mut self, other: Self) {
        self.logins.extend(other.logins);
    }

    /// The same, sent to `hosts` only.
    #[must_use]
    pub fn only_for(mut self, hosts: &Hosts) -> Self {
        for (_, login) in &mut self.logins {
            login.hosts = Some(hosts.clone());
        }
        self
    }

    /// User name and password of the login that is tried first for `reference`.
    pub fn login(&self, reference: &Reference) -> Option<(&str, &str)> {
        let login = self.logins(reference).into_iter().next()?;
        Some((&login.username, login.password.expose()))
    }

    /// Whether there are no logins.
    pub fn is_anonymous(&self) -> bool {
        self.logins.is_empty()
    }

    /// The logins for `reference`, in the order in which they are tried: the longest path first, then a named host before a
    /// pattern, then the earlier secret. A login that two secrets hold is there once.
    pub(super) fn logins(&self, reference: &Reference) -> Vec<&Login> {
        let server = Server::of_registry(reference.registry());
        let fits = |(pattern, login): &&(Pattern, Login)| pattern.matches(reference) && login.is_for(&server);
        let mut matching: Vec<_> = self.logins.iter().filter(fits).collect();
        matching.sort_by_key(|(pattern, _)| (Reverse(pattern.path.len()), pattern.host.contains('*')));
        let mut logins: Vec<&Login> = Vec::new();
        for (_, login) in matching {
            if !logins.contains(&login) {
                logins.push(login);
            }
        }
        logins
    }

    fn from_entries(entries: BTreeMap<String, Entry>) -> Result<Self, PullSecretError> {
        let mut logins = Vec::new();
        for (key, entry) in entries {
            if let Some(login) = entry.login(&key)? {
                logins.push((Pattern::new(&key), login));
            }
        }
        Ok(Self { logins })
    }
}

impl Entry {
    /// `None` for an entry without a login: other tools keep such entries where a helper has the password.
    fn login(self, registry: &str) -> Result<Option<Login>, PullSecretError> {
        let auth = self.auth.as_deref().unwrap_or_default().trim();
        if auth.is_empty() {
            let login = self.username.zip(self.password);
            return Ok(login.map(|(username, password)| Login { username, password: Password(password), hosts: None }));
        }
        let text = STANDARD.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.ok_or_else(|| PullSecretError::Auth { registry: registry.to_owned() })?;
        // Old Docker clients padded the password with NULs.
        let password = Password(password.trim_end_matches('\0').to_owned());
        Ok(Some(Login { username: username.to_owned(), password, hosts: None }))
    }
}

impl Pattern {
    fn new(key: &str) -> Self {
        let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
        let (authority, path) = key.split_once('/').unwrap_or((key, ""));
        // `/v1/` and `/v2/` name the protocol; Docker writes "https://index.docker.io/v1/".
        let path = match path.split_once('/') {
            Some(("v1" | "v2", rest)) => rest,
            _ if matches!(path, "v1" | "v2") => "",
            _ => path,
        };
        let (host, port) = split_port(authority);
        Self { path: path.trim_end_matches('/').to_owned(), host: host.to_ascii_lowercase(), port }
    }

    fn matches(&self, reference: &Reference) -> bool {
        let (host, port) = split_port(reference.registry());
        let host = host.to_ascii_lowercase();
        let names: &[&str] = if host == "docker.io" { &["docker.io", "index.docker.io"] } else { &[&host] };
        self.port == port
            && names.iter().any(|name| host_matches(&self.host, name))
            && reference.repository().starts_with(&self.path)
    }
}

fn split_port(authority: &str) -> (&str, Option<String>) {
    match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.to_owned())),
        None => (authority, None),
    }
}

fn position(error: &serde_json::Error) -> PullSecretError {
    // serde's own text can quote the value it stumbled over.
    PullSecretError::Json { line: error.line(), column: error.column() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn username(json: &str, reference: &str) -> Option<String> {
        let credentials = Credentials::from_docker_config_json(json.as_bytes()).unwrap();
        usernames(&credentials, reference).first().map(|username| (*username).to_owned())
    }

    fn usernames<'a>(credentials: &'a Credentials, reference: &str) -> Vec<&'a str> {
        let logins = credentials.logins(&reference.parse().unwrap());
        logins.into_iter().map(|login| login.username.as_str()).collect()
    }

    #[test]
    fn keys_match_as_the_kubelet_matches_them() {
        let cases = [
            ("quay.io", "quay.io/a/b:1", true),
            ("https://quay.io", "quay.io/a/b:1", true),
            ("quay.io/v2/", "quay.io/a/b:1", true),
            ("quay.io/a", "quay.io/a/b:1", true),
            ("quay.io/a/b", "quay.io/a/b:1", true),
            ("quay.io/c", "quay.io/a/b:1", false),
            ("quay.io:443", "quay.io/a/b:1", false),
            ("localhost:5000", "localhost:5000/a", true),
            ("localhost:5001", "localhost:5000/a", false),
            ("*.example.com", "registry.example.com/a", true),
            ("r*y.example.com", "registry.example.com/a", true),
            ("*.example.com", "example.com/a", false),
            ("*.example.com", "a.b.example.com/a", false),
            ("https://index.docker.io/v1/", "busybox", true),
            ("docker.io", "busybox:1", true),
            ("index.docker.io", "team/app", true),
            ("index.docker.io", "quay.io/team/app", false),
        ];
        for (key, reference, expected) in cases {
            let json = format!(r#"{{"auths":{{"{key}":{{"username":"u","password":"p"}}}}}}"#);
            assert_eq!(username(&json, reference).is_some(), expected, "{key} {reference}");
        }
    }

    #[test]
    fn the_most_specific_key_wins() {
        let json = r#"{"auths":{
            "quay.io":{"username":"host","password":"p"},
            "*.io":{"username":"pattern","password":"p"},
            "quay.io/team":{"username":"team","password":"p"}}}"#;
        assert_eq!(username(json, "quay.io/team/app").as_deref(), Some("team"));
        assert_eq!(username(json, "quay.io/other/app").as_deref(), Some("host"));
        assert_eq!(username(json, "gcr.io/other/app").as_deref(), Some("pattern"));
    }

    #[test]
    fn all_matching_logins_are_tried_once_in_order() {
        let json = |entries: &str| Credentials::from_docker_config_json(entries.as_bytes()).unwrap();
        let mut credentials = json(
            r#"{"auths":{"*.io":{"username":"pattern","password":"p"},"quay.io":{"username":"host","password":"p"}}}"#,
        );
        let legacy =
            br#"{"quay.io":{"username":"later","password":"p"},"quay.io/team":{"username":"team","password":"p"}}"#;
        credentials.extend(Credentials::from_dockercfg(legacy).unwrap());
        credentials.extend(json(
            r#"{"auths":{"quay.io/t":{"username":"host","password":"p"},"x.io":{"username":"x","password":"p"}}}"#,
        ));
        assert_eq!(usernames(&credentials, "quay.io/team/app"), ["team", "host", "later", "pattern"]);
        assert_eq!(usernames(&credentials, "quay.io/other"), ["host", "later", "pattern"]);
        assert!(usernames(&credentials, "quay.com/other").is_empty());
    }

    #[test]
    fn a_login_that_names_its_hosts_goes_nowhere_else() {
        let hosts: Hosts = "quay.io, localhost:5000".parse().unwrap();
        let json =
            br#"{"auths":{"*.io":{"username":"u","password":"p"},"localhost:5000":{"username":"l","password":"p"}}}"#;
        let mut credentials = Credentials::from_docker_config_json(json).unwrap().only_for(&hosts);
        assert_eq!(usernames(&credentials, "quay.io/a"), ["u"]);
        assert_eq!(usernames(&credentials, "localhost:5000/a"), ["l"]);
        assert!(usernames(&credentials, "evil.io/a").is_empty());
        credentials.extend(Credentials::from_docker_config_json(json).unwrap());
        assert_eq!(usernames(&credentials, "evil.io/a"), ["u"], "of another secret, which names none");
    }

    #[test]
    fn both_forms_and_both_spellings_of_a_login_are_read() {
        // "user:pa:ss"
        let legacy = Credentials::from_dockercfg(br#"{"quay.io":{"auth":"dXNlcjpwYTpzcw==","email":"x"}}"#).unwrap();
        let login = legacy.logins(&"quay.io/a".parse().unwrap())[0];
        assert_eq!((login.username.as_str(), login.password.expose()), ("user", "pa:ss"));
        assert!(!format!("{legacy:?}").contains("pa:ss"));
        let empty = Credentials::from_docker_config_json(br#"{"auths":{"quay.io":{}},"credsStore":"x"}"#).unwrap();
        assert!(empty.is_anonymous());
        assert!(Credentials::from_docker_config_json(b"{}").unwrap().is_anonymous());
    }

    #[test]
    fn a_bad_secret_is_refused_without_quoting_it() {
        for json in [r#"{"auths":{"quay.io":{"password":4711}}}"#, r#"{"auths":{"quay.io":{"auth":"aHVzaA=="}}}"#, "x"]
        {
            let text = Credentials::from_docker_config_json(json.as_bytes()).unwrap_err().to_string();
            assert!(!text.contains("4711") && !text.contains("hush") && !text.contains("aHVz"), "{text}");
        }
    }
}
