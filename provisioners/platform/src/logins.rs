//! The logins of registries, from a file that others renew: tokens of clouds live for hours.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rukpak_runtime::error::Chain;
use rukpak_runtime::lock::lock;
use rukpak_source::image::{Credentials, PullSecretError};
use rukpak_source::registries;

/// Why there are no logins.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] registries::Error),
    /// It is not what it should be.
    #[error("{} (--registry-auth-file) cannot be used", path.display())]
    Parse { path: PathBuf, source: PullSecretError },
}

/// The logins as the file has them, or had them when it was last in order.
pub(crate) struct Logins {
    path: Option<PathBuf>,
    last: Mutex<Credentials>,
}

impl Logins {
    /// Reads the file, if there is one: what is wrong with it from the start is a mistake of whoever wrote the flag.
    pub fn open(path: Option<PathBuf>) -> Result<Self, Error> {
        let first = path.as_deref().map(read).transpose()?.unwrap_or_else(Credentials::anonymous);
        Ok(Self { path, last: Mutex::new(first) })
    }

    pub async fn current(&self) -> Credentials {
        let Some(path) = self.path.clone() else { return lock(&self.last).clone() };
        match tokio::task::spawn_blocking(move || read(&path)).await {
            Ok(Ok(now)) => *lock(&self.last) = now,
            // Whoever renews it may be in the middle of that.
            Ok(Err(error)) => {
                tracing::warn!(error = %Chain(&error), "cannot read the registry logins; the previous ones are used");
            }
            // The process ends.
            Err(_) => {}
        }
        lock(&self.last).clone()
    }
}

fn read(path: &Path) -> Result<Credentials, Error> {
    let json = registries::read(path, "--registry-auth-file")?;
    Credentials::from_docker_config_json(&json).map_err(|source| Error::Parse { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Users are shown, passwords are not.
    async fn has(logins: &Logins, user: &str) -> bool {
        format!("{:?}", logins.current().await).contains(user)
    }

    #[tokio::test]
    async fn a_file_is_read_again_and_a_broken_one_is_waited_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        assert!(Logins::open(Some(path.clone())).is_err(), "there is none");
        let put = |user: &str| {
            let json = format!(r#"{{"auths": {{"registry.example.com": {{"username": "{user}", "password": "p"}}}}}}"#);
            fs::write(&path, json).unwrap();
        };
        put("first");
        let logins = Logins::open(Some(path.clone())).unwrap();
        assert!(has(&logins, "first").await);
        put("second");
        assert!(has(&logins, "second").await);
        fs::write(&path, "{").unwrap();
        assert!(has(&logins, "second").await);
        fs::remove_file(&path).unwrap();
        assert!(has(&logins, "second").await);
        put("third");
        assert!(has(&logins, "third").await);
    }
}
