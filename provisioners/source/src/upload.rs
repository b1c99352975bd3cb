//! Uploaded bundles: the file that the upload service received, into a stage.

use std::fs::File;
use std::io;
use std::path::Path;

use rukpak_content::{Limit, LimitExceeded, Limits};
use tokio::task::{JoinError, spawn_blocking};

use crate::decompress::Unsupported;
use crate::{Stage, archive, stage, tarball};

/// Why an upload cannot be used. Where upstream has a text for it, it is upstream's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read the uploaded file")]
    Read(#[source] io::Error),
    /// No archive at all.
    #[error("read response as gzip: gzip: invalid header: the upload is neither a tar archive nor a compressed one")]
    NotAnArchive,
    /// A compression that is known and not read.
    #[error("read response as gzip")]
    Compression(#[source] Unsupported),
    /// The archive is damaged or holds what a bundle cannot hold.
    #[error("untar bundle contents from response")]
    Archive(#[source] archive::Error),
    /// Past a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// No room to put the tree.
    #[error("cannot stage the upload")]
    Stage(#[source] stage::Error),
    /// A worker thread was lost.
    #[error("unpacking the upload: the worker thread ended early")]
    Worker(#[source] JoinError),
}

/// Unpacks `file`, a tar archive, usually compressed. It is read from where it stands to its end, on a blocking thread.
///
/// The file may have [`Limits::download_bytes`]; the tree has the limits of a [`Stage`], which spools in `stage_dir`. The root
/// of the archive is the root of the bundle: no folder is taken off.
pub async fn unpack(file: File, stage_dir: &Path, limits: &Limits) -> Result<Stage, Error> {
    let (stage_dir, limits) = (stage_dir.to_owned(), limits.clone());
    let work = spawn_blocking(move || {
        let size_bytes = file.metadata().map_err(Error::Read)?.len();
        Limit::DownloadBytes.check(size_bytes, limits.download_bytes, || PLACE.to_owned())?;
        Ok(tarball::read(file, &stage_dir, &limits, PLACE.to_owned())?)
    });
    work.await.map_err(Error::Worker)?
}

const PLACE: &str = "upload";

impl From<tarball::Error> for Error {
    fn from(error: tarball::Error) -> Self {
        match error {
            tarball::Error::Read(source) => Self::Read(source),
            tarball::Error::NotAnArchive | tarball::Error::Empty => Self::NotAnArchive,
            tarball::Error::Compression(source) => Self::Compression(source),
            tarball::Error::Stage(source) => Self::Stage(source),
            tarball::Error::Archive(source) => Self::Archive(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;
    use crate::stage::tests::listing;
    use crate::tarball::tests::{bundle, gzip, tar};

    async fn upload(bytes: &[u8], limits: Limits) -> Result<Stage, Error> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        unpack(file, &std::env::temp_dir(), &limits).await
    }

    #[tokio::test]
    async fn the_root_of_the_archive_is_the_root_of_the_bundle() {
        let stage = upload(&gzip(&tar(&[("./chart/Chart.yaml", b"name: x"), ("top", b"")])), Limits::default()).await;
        assert_eq!(listing(&stage.unwrap()).into_keys().collect::<Vec<_>>(), ["chart/", "chart/Chart.yaml", "top"]);
    }

    #[tokio::test]
    async fn refusals_have_upstreams_words_and_limits_their_flags() {
        let size = bundle().len() as u64;
        let of = |download_bytes| Limits { download_bytes, ..Limits::default() };
        assert!(upload(&bundle(), of(size)).await.is_ok());
        let cases = [
            (bundle(), of(size - 1), "--limit=download-bytes"),
            (b"nonsense".to_vec(), of(size), "read response as gzip: gzip: invalid header"),
            (bundle()[..40].to_vec(), of(size), "untar bundle contents from response"),
            (gzip(&tar(&[("a", &[1; 100])])), Limits { tree_bytes: 99, ..Limits::default() }, "untar bundle contents"),
        ];
        for (bytes, limits, expected) in cases {
            let refusal = upload(&bytes, limits).await.unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
