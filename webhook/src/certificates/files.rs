//! The certificate as two files that somebody else writes.
//!
//! kubelet changes a Secret volume by swapping a symlink above the files, so watching the files themselves sees
//! nothing. Both are read every few seconds instead and compared by content: two small reads from memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rukpak_certificates::identity::{self, Identity};
use rukpak_runtime::error::Chain;
use tokio_util::sync::CancellationToken;

use super::Installed;

/// Time between two looks at the files.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Why the files are not served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// They are no certificate and key that belong together. While they are being swapped that is so for a moment.
    #[error("tls.crt and tls.key in {} cannot be served", folder.display())]
    Content {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: identity::Error,
    },
}

type Contents = (Vec<u8>, Vec<u8>);

/// Keeps `tls.crt` and `tls.key` of the folder served, until `stop`. What cannot be served is logged once and changes
/// nothing.
pub async fn keep(folder: &Path, installed: Arc<Installed>, interval: Duration, stop: CancellationToken) {
    let mut served: Option<Contents> = None;
    let mut complaint = String::new();
    loop {
        match changed(folder, served.as_ref()).await {
            Ok(None) => complaint.clear(),
            Ok(Some((contents, identity))) => {
                installed.install(&identity);
                served = Some(contents);
                complaint.clear();
                tracing::info!(folder = %folder.display(), "serving the certificate of the folder");
            }
            Err(error) => {
                let text = Chain(&error).to_string();
                if text != complaint {
                    tracing::warn!(error = %text, "cannot use the new certificate; the previous one is served");
                    complaint = text;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn changed(folder: &Path, served: Option<&Contents>) -> Result<Option<(Contents, Identity)>, Error> {
    let contents = (read(folder.join("tls.crt")).await?, read(folder.join("tls.key")).await?);
    if served == Some(&contents) {
        return Ok(None);
    }
    let identity = Identity::from_pem(&contents.0, &contents.1)
        .map_err(|source| Error::Content { folder: folder.to_owned(), source })?;
    Ok(Some((contents, identity)))
}

async fn read(path: PathBuf) -> Result<Vec<u8>, Error> {
    tokio::fs::read(&path).await.map_err(|source| Error::Read { path, source })
}
