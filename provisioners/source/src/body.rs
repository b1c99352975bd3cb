//! A body from the network into a nameless file, hashed on the way. While it comes, no body is in memory as a whole.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use reqwest::Response;
use rukpak_content::{Algorithm, Digest, Hasher};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinError, spawn_blocking};

use crate::pace::{Pace, TooSlow};

/// Chunks on the way to the writer. A chunk is what one read from the socket gave, at most some 100 KiB.
const QUEUE: usize = 16;

/// A body that came whole, to be read from its first byte.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) file: File,
    pub(crate) digest: Digest,
    pub(crate) size_bytes: u64,
}

/// Why it did not come whole.
#[derive(Debug)]
pub(crate) enum Error {
    /// The answer broke off. The error is without its URL.
    Broken { received_bytes: u64, source: reqwest::Error },
    /// It is longer than what is accepted.
    TooLarge,
    /// It comes too slowly.
    TooSlow { received_bytes: u64 },
    /// The disk.
    Spool(io::Error),
    /// The writing thread was lost.
    Worker(JoinError),
}

/// Receives at most `maximum_bytes` into a file in `folder`.
pub(crate) async fn receive(
    response: Response,
    folder: &Path,
    algorithm: Algorithm,
    maximum_bytes: u64,
) -> Result<Body, Error> {
    if response.content_length().is_some_and(|length| length > maximum_bytes) {
        return Err(Error::TooLarge);
    }
    let (queue, source) = mpsc::channel(QUEUE);
    let folder = folder.to_owned();
    let writer = spawn_blocking(move || write(source, folder, algorithm));
    let received = feed(response, queue, maximum_bytes).await;
    let written = writer.await.map_err(Error::Worker)?;
    let size_bytes = received?;
    let (file, digest) = written.map_err(Error::Spool)?;
    Ok(Body { file, digest, size_bytes })
}

/// Hands the body on chunk by chunk; its length.
async fn feed(mut response: Response, queue: Sender<Bytes>, maximum_bytes: u64) -> Result<u64, Error> {
    let (mut received_bytes, mut pace) = (0, Pace::default());
    loop {
        let broken = |source: reqwest::Error| Error::Broken { received_bytes, source: source.without_url() };
        let chunk =
            pace.wait(response.chunk(), chunk_bytes).await.map_err(|TooSlow| Error::TooSlow { received_bytes })?;
        let Some(chunk) = chunk.map_err(broken)? else { return Ok(received_bytes) };
        received_bytes += chunk.len() as u64;
        if received_bytes > maximum_bytes {
            return Err(Error::TooLarge);
        }
        if queue.send(chunk).await.is_err() {
            // The writer gave up; it says why.
            return Ok(received_bytes);
        }
    }
}

/// How many bytes one read from the network gave.
pub(crate) fn chunk_bytes(chunk: &Result<Option<Bytes>, reqwest::Error>) -> usize {
    chunk.as_ref().ok().and_then(Option::as_ref).map_or(0, Bytes::len)
}

fn write(mut source: Receiver<Bytes>, folder: PathBuf, algorithm: Algorithm) -> io::Result<(File, Digest)> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut hasher = Hasher::new(algorithm);
    while let Some(chunk) = source.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    file.rewind()?;
    Ok((file, hasher.finish()))
}
