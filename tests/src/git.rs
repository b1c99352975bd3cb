//! Git repositories and the real servers for them: `git http-backend` behind TLS, and `sshd`.

mod http;
mod repository;
mod signer;
mod ssh;

use std::process::Command;

pub use self::http::{GitServer, GitServerOptions};
pub use self::repository::RepoBuilder;
pub use self::signer::{GitSigner, SshSigner};
pub use self::ssh::{SSH_USER, SshServer};

/// Takes everything that could change git's behaviour out of a command's environment: the caller's configuration,
/// credentials, agents and repositories.
fn clean(command: &mut Command, home: &std::path::Path) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("GIT_") || key == "SSH_AUTH_SOCK" {
            command.env_remove(key);
        }
    }
    command.env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
}
