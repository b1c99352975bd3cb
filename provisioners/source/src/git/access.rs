//! Checks that need no network: does the login fit the repository, is the reference one.

use super::address::{Address, Transport, redact};
use super::{Auth, Class, Commit, Failure, Reference, Request, Step, known_hosts};
use crate::Egress;

/// A request that passed its checks. Both sides build it, so the child never sees what its parent would refuse.
pub(super) struct Access {
    /// Where to go.
    pub(super) address: Address,
    /// How the repository is called in messages: without secrets.
    pub(super) shown: String,
    /// How to log in.
    pub(super) login: Login,
    /// What is wanted.
    pub(super) wanted: WantedRef,
    /// Accept any certificate and host key.
    pub(super) insecure_skip_verify: bool,
    /// Which addresses may be connected to.
    pub(super) egress: Egress,
}

/// How to log in, fitting the transport.
pub(super) enum Login {
    /// Not at all.
    None,
    /// http.
    Basic { username: String, password: String },
    /// ssh.
    Key {
        username: String,
        private_key: String,
        /// Lines for libssh2; `None` only where nothing is verified.
        known_hosts: Option<String>,
    },
}

/// The reference in git's own terms.
pub(super) enum WantedRef {
    /// A full name, `refs/heads/…`, `refs/tags/…` or `HEAD`.
    Ref(String),
    /// Exactly this one.
    Commit(Commit),
}

impl Access {
    pub(super) fn new(request: &Request) -> Result<Self, Failure> {
        let address = Address::parse(&request.repository)
            .map_err(|error| Failure::new(Step::Repository, Class::Terminal, error.to_string()))?;
        let shown = redact(&request.repository);
        let login = login(request, &address, &shown)?;
        let wanted = wanted(&request.reference)?;
        let (insecure_skip_verify, egress) = (request.insecure_skip_verify, Egress::default());
        Ok(Self { address, shown, login, wanted, insecure_skip_verify, egress })
    }

    pub(super) fn through(self, egress: Egress) -> Self {
        Self { egress, ..self }
    }
}

fn login(request: &Request, address: &Address, shown: &str) -> Result<Login, Failure> {
    let refuse = |text: &str| Err(Failure::new(Step::Auth, Class::Terminal, format!("{shown}: {text}")));
    match (address.transport, &request.auth) {
        (Transport::Http, Auth::None) => Ok(match &address.user {
            Some(username) => {
                Login::Basic { username: username.clone(), password: address.password.clone().unwrap_or_default() }
            }
            None => Login::None,
        }),
        (Transport::Http, Auth::Basic { username, password }) => {
            Ok(Login::Basic { username: username.clone(), password: password.clone() })
        }
        (Transport::Http, Auth::Ssh { .. }) => {
            refuse("the Secret holds an ssh key, this repository needs username and password")
        }
        (Transport::Ssh, Auth::Ssh { private_key, known_hosts }) => {
            let known_hosts = host_keys(request, known_hosts.as_deref(), address, shown)?;
            // What git servers expect; the type's invariant sets it for every ssh address.
            let username = address.user.clone().unwrap_or_default();
            if private_key.trim().is_empty() {
                return refuse("the Secret's ssh-privatekey is empty");
            }
            // Secrets are often made without the line end that key parsers ask for.
            let private_key = format!("{}\n", private_key.trim());
            Ok(Login::Key { username, private_key, known_hosts })
        }
        (Transport::Ssh, Auth::None | Auth::Basic { .. }) => {
            refuse("an ssh repository needs auth.secret with the key ssh-privatekey")
        }
    }
}

fn host_keys(
    request: &Request,
    known_hosts: Option<&str>,
    address: &Address,
    shown: &str,
) -> Result<Option<String>, Failure> {
    let refuse = |text: &str| Err(Failure::new(Step::Auth, Class::Terminal, format!("{shown}: {text}")));
    if request.insecure_skip_verify {
        return Ok(None);
    }
    let Some(text) = known_hosts else {
        return refuse(
            "the server's host key cannot be verified: add ssh-knownhosts to the Secret, or set auth.insecureSkipVerify",
        );
    };
    match known_hosts::for_host(text, &address.host, address.port, request.strict_host_keys) {
        Some(lines) => Ok(Some(lines)),
        None if known_hosts::for_host(text, &address.host, address.port, false).is_some() => refuse(
            "the Secret's ssh-knownhosts does not name this host, and --require=ssh-known-hosts wants that it does",
        ),
        None => refuse("the Secret's ssh-knownhosts holds no key: put the output of ssh-keyscan there"),
    }
}

fn wanted(reference: &Reference) -> Result<WantedRef, Failure> {
    let refuse = |text: String| Err(Failure::new(Step::Reference, Class::Terminal, text));
    let full = match reference {
        Reference::Commit(hash) => {
            return hash.parse().map(WantedRef::Commit).or_else(|error: super::CommitError| refuse(error.to_string()));
        }
        Reference::Branch(name) => format!("refs/heads/{name}"),
        Reference::Tag(name) => format!("refs/tags/{name}"),
        Reference::DefaultBranch => "HEAD".to_owned(),
    };
    // The rules of git-check-ref-format that keep a name from meaning something in a refspec.
    let odd = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    if full.contains(odd) || full.ends_with('/') || full.contains("..") || full.contains("//") {
        return refuse(format!("{reference} is not a valid name in git"));
    }
    Ok(WantedRef::Ref(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(repository: &str, auth: Auth) -> Request {
        Request {
            repository: repository.into(),
            reference: Reference::DefaultBranch,
            directory: None,
            auth,
            insecure_skip_verify: false,
            strict_host_keys: false,
        }
    }

    fn key(known_hosts: Option<&str>) -> Auth {
        Auth::Ssh { private_key: "key".into(), known_hosts: known_hosts.map(Into::into) }
    }

    #[test]
    fn a_login_fits_its_transport() {
        let basic = Auth::Basic { username: "u".into(), password: "p".into() };
        let table = [
            ("https://h/r", Auth::None, None),
            ("https://h/r", basic.clone(), None),
            ("git@h:r", key(Some("h ssh-rsa AAAA")), None),
            ("https://h/r", key(None), Some("username and password")),
            ("git@h:r", Auth::None, Some("ssh-privatekey")),
            ("git@h:r", basic, Some("ssh-privatekey")),
            ("git@h:r", key(None), Some("insecureSkipVerify")),
            ("git@h:r", key(Some("#")), Some("ssh-keyscan")),
            ("git@h:r", key(Some("other ssh-rsa AAAA")), None),
            ("", Auth::None, Some("missing git source information: repository must be provided")),
            ("file:///r", Auth::None, Some("https, http or ssh")),
        ];
        for (repository, auth, refusal) in table {
            let result = Access::new(&request(repository, auth)).map(|_| ()).map_err(|failure| failure.message);
            match (refusal, result) {
                (None, Ok(())) => {}
                (Some(word), Err(text)) => assert!(text.contains(word), "{text}"),
                (expected, found) => panic!("{repository}: expected {expected:?}, found {found:?}"),
            }
        }
        let strict = |hosts| Request { strict_host_keys: true, ..request("git@h:r", key(Some(hosts))) };
        assert!(Access::new(&strict("h ssh-rsa AAAA")).is_ok());
        let refusal = Access::new(&strict("other ssh-rsa AAAA")).map(|_| ()).unwrap_err().message;
        assert!(refusal.contains("--require=ssh-known-hosts"), "{refusal}");
        let unverified = Request { insecure_skip_verify: true, ..request("git@h:r", key(None)) };
        assert!(Access::new(&unverified).is_ok());
    }

    #[test]
    fn names_that_mean_something_in_a_refspec_are_refused() {
        for name in ["a:b", "a*", "+a b", "a^{}", "a..b", "a\nb", ""] {
            for reference in [Reference::Branch(name.into()), Reference::Tag(name.into())] {
                assert_eq!(wanted(&reference).err().map(|failure| failure.step), Some(Step::Reference), "{name:?}");
            }
        }
        assert!(wanted(&Reference::Branch("feature/x-1.0".into())).is_ok());
        assert!(wanted(&Reference::Commit("abc".into())).is_err());
    }
}
