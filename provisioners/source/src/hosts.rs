//! The servers that a login is for, as its owner names them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use url::Url;

/// What is spoken with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TLS.
    Https,
    /// No TLS: whoever is between reads the login.
    Http,
    /// Secure shell.
    Ssh,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "https" => Self::Https,
            "http" => Self::Http,
            "ssh" => Self::Ssh,
            _ => return None,
        })
    }

    fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
        }
    }
}

/// A server that a login would be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What is spoken.
    pub scheme: Scheme,
    /// Name or address, IPv6 in brackets or not.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Server {
    /// That of an `https`, `http` or `ssh` URL.
    pub(crate) fn of_url(url: &Url) -> Option<Self> {
        let scheme = Scheme::parse(url.scheme())?;
        let host = url.host_str()?.to_owned();
        Some(Self { scheme, host, port: url.port().unwrap_or(scheme.port()) })
    }

    /// That of a registry, `host` or `host:port`. Whether it speaks TLS is for the administrator to say.
    pub fn of_registry(registry: &str) -> Self {
        let given = registry.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = given.unwrap_or((registry, Scheme::Https.port()));
        Self { scheme: Scheme::Https, host: host.to_owned(), port }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.host)?;
        if self.port == self.scheme.port() { Ok(()) } else { write!(formatter, ":{}", self.port) }
    }
}

/// Servers by their names: `git.example.com`, `git.example.com:8443`, `*.example.com` (one label), `https://git.example.com`,
/// separated by commas or blanks.
///
/// One without a port is on the port that its scheme has by itself. One without a scheme speaks TLS or ssh; plain http has to be
/// asked for, as `http://git.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    scheme: Option<Scheme>,
    host: String,
    port: Option<u16>,
}

/// A text names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no host: write git.example.com, git.example.com:8443 or https://git.example.com")]
pub struct HostsError(String);

impl Hosts {
    /// Those that annotations name: each whose key `counts` names some.
    ///
    /// # Errors
    /// Which annotation names none, and what is wrong with it.
    pub fn named(
        annotations: &BTreeMap<String, String>,
        counts: impl Fn(&str) -> bool,
    ) -> Result<Self, (&str, HostsError)> {
        let mut hosts = Self::default();
        for (key, value) in annotations.iter().filter(|(key, _)| counts(key)) {
            let named: Self = value.parse().map_err(|error: HostsError| (key.as_str(), error))?;
            hosts.extend(named);
        }
        Ok(hosts)
    }

    /// Adds those of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `server` is one of them.
    pub fn covers(&self, server: &Server) -> bool {
        self.0.iter().any(|entry| entry.covers(server))
    }
}

impl Entry {
    fn covers(&self, server: &Server) -> bool {
        let host = server.host.trim_matches(['[', ']']).to_ascii_lowercase();
        let names: &[&str] = if host == "docker.io" { &["docker.io", "index.docker.io"] } else { &[&host] };
        self.scheme.map_or(server.scheme != Scheme::Http, |scheme| scheme == server.scheme)
            && self.port.unwrap_or(server.scheme.port()) == server.port
            && names.iter().any(|name| host_matches(&self.host, name))
    }
}

impl FromStr for Hosts {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<Self, HostsError> {
        let words = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Entry {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<Self, HostsError> {
        let fault = || HostsError(crate::stage::shortened(text.rsplit('@').next().unwrap_or_default()));
        let (scheme, url) = match text.split_once("://") {
            Some((scheme, _)) => (Some(Scheme::parse(scheme).ok_or_else(fault)?), text.to_owned()),
            // A scheme without a port of its own, so that the port is what was given.
            None => (None, format!("x://{text}")),
        };
        let url = Url::parse(&url).map_err(|_| fault())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(fault)?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(fault());
        }
        Ok(Self { scheme, host: host.trim_matches(['[', ']']).to_ascii_lowercase(), port: url.port() })
    }
}

/// `*` stands for one label or a part of one. Source: the kubelet's rules, "Configuration of images" in the Kubernetes documentation.
pub(crate) fn host_matches(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), host.split('.').collect());
    pattern.len() == host.len() && pattern.iter().zip(host).all(|(pattern, label)| label_matches(pattern, label))
}

fn label_matches(pattern: &str, label: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == label };
    let Some(mut label) = label.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = label.find(part) else { return false };
        label = &label[at + part.len()..];
    }
    label.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server::of_url(&url.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_server_is_covered_by_host_port_and_scheme() {
        let table = [
            ("git.example.com", "https://git.example.com/r", true),
            ("Git.Example.com", "ssh://git@git.example.com/r", true),
            ("git.example.com", "https://GIT.example.com/r", true),
            ("git.example.com", "http://git.example.com/r", false),
            ("http://git.example.com", "http://git.example.com/r", true),
            ("http://git.example.com", "https://git.example.com/r", false),
            ("https://git.example.com", "https://git.example.com/r", true),
            ("https://git.example.com", "ssh://git.example.com/r", false),
            ("git.example.com", "https://git.example.com:8443/r", false),
            ("git.example.com:8443", "https://git.example.com:8443/r", true),
            ("git.example.com:443", "https://git.example.com/r", true),
            ("git.example.com:22", "https://git.example.com/r", false),
            ("git.example.com", "https://git.example.com.evil/r", false),
            ("git.example.com", "https://evil/git.example.com", false),
            ("*.example.com", "https://git.example.com/r", true),
            ("*.example.com", "https://a.git.example.com/r", false),
            ("a, git.example.com\n", "https://git.example.com/r", true),
            ("[::1]:8443", "https://[::1]:8443/r", true),
            ("https://github.com/", "https://github.com/o/r", true),
            ("", "https://git.example.com/r", false),
        ];
        for (hosts, url, expected) in table {
            assert_eq!(hosts.parse::<Hosts>().unwrap().covers(&server(url)), expected, "{hosts:?} {url}");
        }
        let registries = [("localhost:5000", "localhost:5000", true), ("localhost", "localhost:5000", false)];
        let docker = [("docker.io", "docker.io", true), ("https://index.docker.io/v1/", "docker.io", true)];
        for (hosts, registry, expected) in registries.into_iter().chain(docker) {
            assert_eq!(hosts.parse::<Hosts>().unwrap().covers(&Server::of_registry(registry)), expected, "{registry}");
        }
    }

    #[test]
    fn what_names_no_host_is_refused_without_secrets() {
        for text in ["ftp://h", "https://", "u:hush@h", "https://u:hush@h", "h?hush", "file:///x", "a b://"] {
            let error = text.parse::<Hosts>().unwrap_err().to_string();
            assert!(error.contains("names no host") && !error.contains("u:hush"), "{text}: {error}");
        }
    }
}
