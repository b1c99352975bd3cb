//! Logins for registries, where Docker keeps them.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rukpak_source::image::{Credentials, PullSecretError};

use super::helper::Helpers;

/// What the configuration file of Docker holds.
#[derive(Debug, Default)]
pub(super) struct Logins {
    pub(super) credentials: Credentials,
    /// Programs that know further logins.
    pub(super) helpers: Helpers,
}

/// Why there are no logins. A missing file is no error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}")]
    Read { path: String, source: io::Error },
    /// The file is not what Docker writes.
    #[error("{path}")]
    Content { path: String, source: PullSecretError },
}

/// Reads `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`.
pub(super) fn read() -> Result<Logins, Error> {
    let Some(path) = file() else { return Ok(Logins::default()) };
    let shown = path.display().to_string();
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Logins::default()),
        Err(source) => return Err(Error::Read { path: shown, source }),
    };
    let credentials =
        Credentials::from_docker_config_json(&json).map_err(|source| Error::Content { path: shown.clone(), source })?;
    let helpers = serde_json::from_slice(&json).unwrap_or_default();
    Ok(Logins { credentials, helpers })
}

fn file() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = folder("DOCKER_CONFIG").or_else(|| Some(folder("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}
