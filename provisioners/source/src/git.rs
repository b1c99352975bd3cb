#![doc = include_str!("../GIT.md")]

use std::fmt;
use std::str::FromStr;

use rukpak_content::RelativePath;
use serde::{Deserialize, Serialize};

use crate::hosts::Server;

mod access;
mod address;
pub mod child;
mod error;
mod fetcher;
mod known_hosts;
mod resolved;
mod roots;
mod run;
mod sandbox;
mod wire;

pub use address::location;
pub use error::{Class, Error, Failure, Step};
pub use fetcher::{Fetcher, FetcherOptions};
pub use resolved::Resolved;

/// What is wanted from which repository.
pub struct Request {
    /// An `https`, `http` or `ssh` URL, or `[user@]host:path`.
    pub repository: String,
    /// Which commit.
    pub reference: Reference,
    /// The folder that becomes the bundle's root; `None` is the repository's root.
    pub directory: Option<RelativePath>,
    /// How to log in.
    pub auth: Auth,
    /// Accept any TLS certificate and any ssh host key.
    pub insecure_skip_verify: bool,
    /// Take an ssh host key only from a line of the `known_hosts` that names the host.
    pub strict_host_keys: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Request")
            .field("repository", &address::redact(&self.repository))
            .field("reference", &self.reference)
            .field("directory", &self.directory)
            .field("auth", &self.auth)
            .field("insecure_skip_verify", &self.insecure_skip_verify)
            .field("strict_host_keys", &self.strict_host_keys)
            .finish()
    }
}

/// The server that a repository is asked of, and that is given the login; `None` if it is no repository that can be asked.
pub fn server(repository: &str) -> Option<Server> {
    address::Address::parse(repository).ok().map(|address| address.server())
}

/// What can be signed of a commit, as git stores it, without the headers of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// The commit.
    pub commit: Vec<u8>,
    /// The annotated tag by which it was named.
    pub tag: Option<Vec<u8>>,
}

/// What names the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reference {
    /// The tip of `refs/heads/<name>`.
    Branch(String),
    /// `refs/tags/<name>`; an annotated tag means the commit it points to.
    Tag(String),
    /// 40 hexadecimal characters.
    Commit(String),
    /// What the server's `HEAD` points to.
    DefaultBranch,
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(name) => write!(formatter, "branch {name:?}"),
            Self::Tag(name) => write!(formatter, "tag {name:?}"),
            Self::Commit(hash) => write!(formatter, "commit {hash:?}"),
            Self::DefaultBranch => formatter.write_str("the default branch"),
        }
    }
}

/// How to log in. `Debug` shows no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// For `https` and `http`.
    Basic {
        /// User name; may be empty.
        username: String,
        /// Password or token; may be empty.
        password: String,
    },
    /// For `ssh`.
    Ssh {
        /// A private key without passphrase, in OpenSSH or PEM form.
        private_key: String,
        /// The text of a `known_hosts` file.
        known_hosts: Option<String>,
    },
}

impl fmt::Debug for Auth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Basic { .. } => "Basic(redacted)",
            Self::Ssh { .. } => "Ssh(redacted)",
        })
    }
}

/// The name of a commit: 40 lower-case hexadecimal characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Commit(String);

/// A text is not the name of a commit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not the full name of a commit: use all 40 hexadecimal characters")]
pub struct CommitError(String);

impl Commit {
    /// The 40 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Commit {
    type Err = CommitError;

    /// Upper-case characters are accepted and become lower-case: git itself makes no difference.
    fn from_str(text: &str) -> Result<Self, CommitError> {
        let is_name = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_name { Ok(Self(text.to_ascii_lowercase())) } else { Err(CommitError(text.to_owned())) }
    }
}

impl TryFrom<String> for Commit {
    type Error = CommitError;

    fn try_from(text: String) -> Result<Self, CommitError> {
        text.parse()
    }
}

impl From<Commit> for String {
    fn from(commit: Commit) -> Self {
        commit.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_forty_hexadecimal_characters() {
        let name = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(name.to_uppercase().parse::<Commit>().unwrap().as_str(), name);
        for bad in ["", "0123456", &name[1..], &format!("{name}0"), &name.replace('a', "g"), &name.replace('a', "é")] {
            assert!(bad.parse::<Commit>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let secret = "hunter2";
        for auth in [
            Auth::Basic { username: secret.into(), password: secret.into() },
            Auth::Ssh { private_key: secret.into(), known_hosts: Some(secret.into()) },
        ] {
            let request = Request {
                repository: format!("https://me:{secret}@example.com/r.git"),
                reference: Reference::DefaultBranch,
                directory: None,
                auth,
                insecure_skip_verify: false,
                strict_host_keys: false,
            };
            assert!(!format!("{request:#?}").contains(secret));
        }
    }
}
