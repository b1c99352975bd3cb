//! What a Secret may be used for: by whom a Bundle is made need not be who may use each Secret of the system namespace. Pure.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use rukpak_crds::names;
use rukpak_source::hosts::{Hosts, Scheme, Server};

use super::Error;

/// What Tekton's annotations begin with that name the host of a login.
const TEKTON_GIT: &str = "tekton.dev/git-";

const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const SSH_KEY: &str = "ssh-privatekey";
const SSH_KNOWN_HOSTS: &str = "ssh-knownhosts";
/// Found beside a login in Secrets of other tools for git, and no part of it.
const COMPANIONS: [&str; 4] = ["ssh-publickey", "ca.crt", "caFile", "identity.pub"];

/// Where the login of a Secret may be sent, as the Secret says.
pub(super) struct Grant<'a> {
    shown: &'a str,
    secret: &'a Secret,
    hosts: Hosts,
}

/// How a Bundle wants to use it.
#[derive(Clone, Copy)]
pub(super) struct Use {
    /// Whoever answers is believed.
    pub skips_verification: bool,
    /// The Secret has to name its hosts.
    pub requires_hosts: bool,
}

impl<'a> Grant<'a> {
    /// That of a Secret with the login of a git or web server.
    pub fn of_login(shown: &'a str, secret: &'a Secret) -> Result<Self, Error> {
        Self::read(shown, secret, TEKTON_GIT)
    }

    /// That of a pull secret.
    pub fn of_pull_secret(shown: &'a str, secret: &'a Secret) -> Result<Self, Error> {
        Self::read(shown, secret, names::TEKTON_REGISTRY)
    }

    fn read(shown: &'a str, secret: &'a Secret, tekton: &str) -> Result<Self, Error> {
        let named = Hosts::named(secret.annotations(), |key| key == names::SECRET_HOSTS || key.starts_with(tekton));
        let hosts = named.map_err(|(annotation, source)| Error::Hosts {
            secret: shown.to_owned(),
            annotation: annotation.to_owned(),
            source,
        })?;
        Ok(Self { shown, secret, hosts })
    }

    /// The hosts that it names; `None` if it names none.
    pub fn hosts(&self) -> Option<&Hosts> {
        Some(&self.hosts).filter(|hosts| !hosts.is_empty())
    }

    /// `Err` if it names hosts and none of `servers` is one.
    pub fn names_one_of(&self, servers: &[Server]) -> Result<(), Error> {
        let Some(hosts) = self.hosts() else { return Ok(()) };
        match servers.first() {
            Some(server) if !servers.iter().any(|server| hosts.covers(server)) => Err(self.other_host(server)),
            _ => Ok(()),
        }
    }

    /// Whether its login may be sent to `server`.
    pub fn permits(&self, server: &Server, wanted: Use) -> Result<(), Error> {
        match self.hosts() {
            Some(hosts) if hosts.covers(server) => {}
            // The host may be right, and what is spoken wrong.
            Some(hosts) if server.scheme == Scheme::Http && self.allows_insecure() && hosts.covers(&secure(server)) => {
            }
            Some(hosts) if server.scheme == Scheme::Http && hosts.covers(&secure(server)) => {
                return Err(self.insecure(server));
            }
            Some(_) => return Err(self.other_host(server)),
            None if wanted.requires_hosts => return Err(Error::NoHosts { secret: self.shown.to_owned() }),
            None => self.is_login(server.scheme)?,
        }
        // Over ssh nothing is sent that opens another server.
        let is_open = match server.scheme {
            Scheme::Https => wanted.skips_verification,
            Scheme::Http => self.hosts().is_none_or(|hosts| !hosts.covers(server)),
            Scheme::Ssh => false,
        };
        if is_open && !self.allows_insecure() { Err(self.insecure(server)) } else { Ok(()) }
    }

    /// Whether it was made as the login of a server: its type says so, or it holds what RukPak's documentation puts there and
    /// nothing else.
    fn is_login(&self, scheme: Scheme) -> Result<(), Error> {
        let wanted = match scheme {
            Scheme::Ssh => "kubernetes.io/ssh-auth",
            Scheme::Https | Scheme::Http => "kubernetes.io/basic-auth",
        };
        let keys = self.secret.data.iter().flatten().map(|(key, _)| key.as_str());
        let is_login = match self.secret.type_.as_deref().unwrap_or("Opaque") {
            "kubernetes.io/basic-auth" | "kubernetes.io/ssh-auth" => true,
            "Opaque" => {
                let known = [USERNAME, PASSWORD, SSH_KEY, SSH_KNOWN_HOSTS];
                keys.clone().all(|key| known.contains(&key) || COMPANIONS.contains(&key))
            }
            _ => false,
        };
        if is_login { Ok(()) } else { Err(Error::NotALogin { secret: self.shown.to_owned(), wanted }) }
    }

    fn allows_insecure(&self) -> bool {
        self.secret.annotations().get(names::SECRET_ALLOW_INSECURE).is_some_and(|value| value == "true")
    }

    fn other_host(&self, server: &Server) -> Error {
        Error::OtherHost { secret: self.shown.to_owned(), server: server.to_string() }
    }

    fn insecure(&self, server: &Server) -> Error {
        let how = if server.scheme == Scheme::Http { "without TLS" } else { "without a look at its certificate" };
        Error::Insecure { secret: self.shown.to_owned(), server: server.to_string(), how }
    }
}

/// The same host, spoken to with TLS: on its port, or on the usual one.
fn secure(server: &Server) -> Server {
    let port = if server.port == 80 { 443 } else { server.port };
    Server { scheme: Scheme::Https, port, ..server.clone() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    const PLAIN: Use = Use { skips_verification: false, requires_hosts: false };

    fn secret(type_: &str, keys: &[&str], annotations: &[(&str, &str)]) -> Secret {
        let data = keys.iter().map(|key| ((*key).to_owned(), ByteString(b"x".to_vec()))).collect();
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut secret = Secret { data: Some(data), type_: Some(type_.to_owned()), ..Secret::default() };
        secret.metadata.annotations = Some(annotations);
        secret
    }

    fn said(secret: &Secret, url: &str, wanted: Use) -> String {
        let Some(server) = rukpak_source::git::server(url) else { panic!("{url}") };
        let permitted = Grant::of_login("ns/s", secret).and_then(|grant| grant.permits(&server, wanted));
        permitted.map_or_else(|error| error.to_string(), |()| "sent".to_owned())
    }

    #[test]
    fn a_secret_that_names_hosts_is_sent_to_these_only() {
        for annotation in [("core.rukpak.io/hosts", "a.example.com, h"), ("tekton.dev/git-0", "https://h")] {
            // Whatever it is.
            let secret = secret("example.com/odd", &["password", "endpoint"], &[annotation]);
            assert_eq!(said(&secret, "https://h/r", PLAIN), "sent");
            let text = said(&secret, "https://evil.example.com/r", PLAIN);
            assert!(text.starts_with("secret ns/s is not sent to evil.example.com: "), "{text}");
            assert!(text.contains("core.rukpak.io/hosts"), "{text}");
            assert!(said(&secret, "https://h:8443/r", PLAIN).contains("not sent to h:8443"));
        }
        let none = secret("Opaque", &["password"], &[("core.rukpak.io/hosts", "ftp://h")]);
        assert!(said(&none, "https://h/r", PLAIN).contains("annotation core.rukpak.io/hosts"));
    }

    #[test]
    fn a_secret_that_names_none_has_to_be_a_login_by_type_or_keys() {
        let table: [(&str, &[&str], &str, bool); 12] = [
            ("kubernetes.io/basic-auth", &["password", "note"], "https://h/r", true),
            ("kubernetes.io/ssh-auth", &["ssh-privatekey", "note"], "git@h:r", true),
            ("Opaque", &["username", "password"], "https://h/r", true),
            ("Opaque", &["password"], "https://h/r", true),
            ("Opaque", &["ssh-privatekey", "ssh-knownhosts"], "git@h:r", true),
            ("Opaque", &["username", "password", "ca.crt"], "https://h/r", true),
            ("Opaque", &["username", "password", "host", "port"], "https://h/r", false),
            ("Opaque", &["password", "token"], "https://h/r", false),
            ("Opaque", &["ssh-privatekey", "id_rsa"], "git@h:r", false),
            ("example.com/database", &["username", "password"], "https://h/r", false),
            ("kubernetes.io/tls", &["tls.key", "password"], "https://h/r", false),
            ("kubernetes.io/service-account-token", &["password"], "https://h/r", false),
        ];
        for (type_, keys, url, expected) in table {
            let text = said(&secret(type_, keys, &[]), url, PLAIN);
            assert_eq!(text == "sent", expected, "{type_} {keys:?}: {text}");
            let strict = said(&secret(type_, keys, &[]), url, Use { requires_hosts: true, ..PLAIN });
            assert!(strict.contains("--require=secret-hosts"), "{strict}");
        }
    }

    #[test]
    fn nothing_is_sent_in_the_open_without_being_asked_for() {
        let login =
            |annotations: &[(&str, &str)]| secret("kubernetes.io/basic-auth", &["username", "password"], annotations);
        let careless = Use { skips_verification: true, ..PLAIN };
        let text = said(&login(&[]), "http://h/r", PLAIN);
        assert!(text.contains("not sent to h without TLS") && text.contains("core.rukpak.io/allow-insecure"), "{text}");
        assert!(said(&login(&[]), "https://h/r", careless).contains("without a look at its certificate"));
        assert!(said(&login(&[("core.rukpak.io/hosts", "h")]), "http://h/r", PLAIN).contains("without TLS"));
        assert!(said(&login(&[("core.rukpak.io/hosts", "h")]), "https://h/r", careless).contains("without a look"));
        assert_eq!(said(&login(&[("core.rukpak.io/hosts", "http://h")]), "http://h/r", PLAIN), "sent");
        for annotations in [
            &[("core.rukpak.io/allow-insecure", "true")][..],
            &[("core.rukpak.io/allow-insecure", "true"), ("core.rukpak.io/hosts", "h, h:8080")],
        ] {
            for (url, wanted) in [("http://h/r", PLAIN), ("http://h:8080/r", PLAIN), ("https://h/r", careless)] {
                assert_eq!(said(&login(annotations), url, wanted), "sent", "{url}");
            }
        }
        assert!(said(&login(&[("core.rukpak.io/allow-insecure", "yes")]), "http://h/r", PLAIN).contains("without TLS"));
        // A key stays here, whoever answers.
        assert_eq!(said(&secret("Opaque", &["ssh-privatekey"], &[]), "git@h:r", careless), "sent");
    }

    #[test]
    fn a_pull_secret_names_its_registries_itself_and_hosts_narrow_it() {
        let servers = ["a.example.com", "mirror:5000"].map(Server::of_registry);
        let check = |annotations: &[(&str, &str)]| {
            let secret = secret("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"], annotations);
            Grant::of_pull_secret("ns/s", &secret)
                .and_then(|grant| grant.names_one_of(&servers))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("core.rukpak.io/hosts", "mirror:5000")]), Ok(()));
        assert_eq!(check(&[("tekton.dev/git-0", "h")]), Ok(()), "it is about another use");
        assert!(check(&[("tekton.dev/docker-0", "https://h")]).unwrap_err().contains("not sent to a.example.com"));
    }
}
