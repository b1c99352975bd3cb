//! Logins for registries, where Docker keeps them.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rukpak_source::image::Credentials;

use super::helper::Helpers;
use crate::failure::Failure;

/// What the configuration file of Docker holds.
#[derive(Debug, Default)]
pub(super) struct Logins {
    pub(super) credentials: Credentials,
    /// Programs that know further logins.
    pub(super) helpers: Helpers,
}

/// Reads `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. A missing file is no error.
pub(super) fn read() -> Result<Logins, Failure> {
    let Some(path) = file() else { return Ok(Logins::default()) };
    let what = || format!("read logins for registries: {}", path.display());
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Logins::default()),
        Err(error) => return Err(Failure::during(what(), &error)),
    };
    let credentials = Credentials::from_docker_config_json(&json);
    let credentials = credentials.map_err(|error| Failure::during(what(), &error))?;
    let helpers = serde_json::from_slice(&json).unwrap_or_default();
    Ok(Logins { credentials, helpers })
}

fn file() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = folder("DOCKER_CONFIG").or_else(|| Some(folder("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}
