//! The certificate as two files that somebody else writes (cert-manager, OpenShift's service-ca), followed as they change.
//!
//! kubelet changes a Secret volume by swapping a symlink above the files, so watching the files themselves sees
//! nothing. Both are read every few seconds instead and compared by content: two small reads from memory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tls::{self, Tls};
use crate::certificates::identity::{self, Identity};
use crate::error::Chain;

/// Time between two looks at the files.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Why the files are not served.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// They are no certificate and key that belong together. While they are being swapped that is so for a moment.
    #[error("tls.crt and tls.key in {} cannot be served", folder.display())]
    Content {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: identity::Error,
    },
    /// TLS cannot be set up with it.
    #[error("serve the certificate")]
    Serve(#[source] tls::Error),
}

type Contents = (Vec<u8>, Vec<u8>);

/// Serves `tls.crt` and `tls.key` of the folder, endlessly. What cannot be served is logged once and changes nothing.
pub async fn follow(folder: &Path, tls: &Tls, interval: Duration) {
    let mut served: Option<Contents> = None;
    let mut complaint = String::new();
    loop {
        match step(folder, tls, &mut served).await {
            Ok(()) => complaint.clear(),
            Err(error) => {
                let text = Chain(&error).to_string();
                if text != complaint {
                    tracing::warn!(error = %text, "cannot use the new certificate; the previous one is served");
                    complaint = text;
                }
            }
        }
        tokio::time::sleep(interval).await;
    }
}

async fn step(folder: &Path, tls: &Tls, served: &mut Option<Contents>) -> Result<(), Error> {
    let contents = (read(folder.join("tls.crt")).await?, read(folder.join("tls.key")).await?);
    if served.as_ref() == Some(&contents) {
        return Ok(());
    }
    let identity = Identity::from_pem(&contents.0, &contents.1)
        .map_err(|source| Error::Content { folder: folder.to_owned(), source })?;
    tls.serve(&identity).map_err(Error::Serve)?;
    *served = Some(contents);
    tracing::info!(folder = %folder.display(), "serving the certificate of the folder");
    Ok(())
}

async fn read(path: PathBuf) -> Result<Vec<u8>, Error> {
    tokio::fs::read(&path).await.map_err(|source| Error::Read { path, source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use crate::certificates::{Issued, issue};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Certificates of different lifetimes, by which they are told apart.
    fn issued(hours: u64) -> Issued {
        issue(&["localhost".to_owned()], Duration::from_hours(hours), SystemTime::now()).unwrap()
    }

    /// Changes the folder as kubelet does: a new directory, and one symlink renamed over the old.
    fn mount(volume: &Path, version: &str, certificate: &str, key: &str) {
        let data = volume.join(version);
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("tls.crt"), certificate).unwrap();
        std::fs::write(data.join("tls.key"), key).unwrap();
        symlink(version, volume.join("..data_tmp")).unwrap();
        std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    }

    #[tokio::test]
    async fn files_are_followed_through_a_symlink_swap() {
        let volume = tempfile::tempdir().unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), volume.path().join(file)).unwrap();
        }
        let expiries = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&expiries);
        let tls = Tls::observed(move |until| seen.lock().unwrap().push(until));
        let served = async |issued: &Issued| {
            let identity = Identity::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap();
            let see = async {
                while expiries.lock().unwrap().last() != Some(&identity.validity().until) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(PATIENCE, see).await.expect("because the folder is read every few milliseconds");
        };
        let changes = async {
            let [one, two, three] = [1, 2, 3].map(issued);
            mount(volume.path(), "1", &one.certificate, &one.key);
            served(&one).await;
            mount(volume.path(), "2", &two.certificate, &two.key);
            served(&two).await;

            // A key that is not the certificate's changes nothing, and the next good pair is taken over.
            mount(volume.path(), "3", &one.certificate, &two.key);
            mount(volume.path(), "4", &three.certificate, &three.key);
            served(&three).await;
        };
        tokio::select! {
            () = changes => {}
            () = follow(volume.path(), &tls, Duration::from_millis(5)) => {}
        }
        assert_eq!(expiries.lock().unwrap().len(), 3);
    }
}
