//! One layer from the network into the stage.
//!
//! ```text
//! network --> batch --+--> hasher thread -----> digest compared
//!                     +--> unpacker thread: inflate -> tar -> stage
//! ```
//!
//! Both queues are short, so the download waits for the slower thread and no layer is ever in memory as a whole.

use std::io::{self, BufReader};

use oci_client::Reference;
use reqwest::Response;
use rukpak_content::{Algorithm, Digest, Hasher, RelativePath};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinHandle, spawn_blocking};

use super::Error;
use super::manifest::Layer;
use crate::Stage;
use crate::archive::{self, Dialect};
use crate::body::chunk_bytes;
use crate::chunks::{Batch, Chunk, ChunkReader};
use crate::decompress::Decompressor;
use crate::pace::{self, Pace, TooSlow};

/// Bytes handed on at once. A read from the socket gives as little as 16 KiB, and waking two threads for that costs more than
/// hashing it.
const BATCH_BYTES: usize = 128 * 1024;

/// Batches in flight to each thread.
const QUEUE: usize = 8;

/// Inflated bytes held for reading small headers; large reads pass it by.
const INFLATED_BYTES: usize = 64 * 1024;

/// What the unpacker thread gives back: the stage and the uncompressed length, or why not.
type Unpacked = Result<(Stage, u64), archive::Error>;

/// Applies the layer in `response` to `stage`, or of it `only` one folder. `used_bytes` is the uncompressed length of the layers
/// before it.
///
/// Returns the stage and the uncompressed length of this layer.
pub(super) async fn apply(
    response: Response,
    reference: &Reference,
    layer: &Layer,
    stage: Stage,
    used_bytes: u64,
    only: Option<&RelativePath>,
) -> Result<(Stage, u64), Error> {
    let (hash_queue, hash_source) = mpsc::channel(QUEUE);
    let (queue, source) = mpsc::channel(QUEUE);
    let algorithm = layer.digest.algorithm();
    let place = format!("layer {} of {reference}", layer.digest);
    let hasher = spawn_blocking(move || hash(hash_source, algorithm));
    let unpacker = spawn_blocking({
        let place = place.clone();
        let only = only.cloned();
        move || unpack(source, stage, used_bytes, place, only.as_ref())
    });
    let mut feed =
        Feed { layer, reference, place, hash_queue, queue: Some(queue), unpacker: Some(unpacker), failed: None };
    feed.all(response).await?;
    feed.finish(hasher).await
}

struct Feed<'a> {
    layer: &'a Layer,
    reference: &'a Reference,
    place: String,
    hash_queue: Sender<Batch>,
    queue: Option<Sender<Chunk>>,
    unpacker: Option<JoinHandle<Unpacked>>,
    failed: Option<archive::Error>,
}

impl Feed<'_> {
    async fn all(&mut self, mut response: Response) -> Result<(), Error> {
        let (mut batch, mut batch_bytes) = (Batch::new(), 0);
        let (mut received_bytes, mut pace) = (0, Pace::default());
        loop {
            let too_slow = |TooSlow| Error::Pace { what: self.place.clone(), received_bytes, asked: pace::asked() };
            let chunk = pace.wait(response.chunk(), chunk_bytes).await.map_err(too_slow)?;
            let chunk = chunk.map_err(|source| Error::Body {
                what: self.place.clone(),
                received_bytes,
                source: source.without_url(),
            })?;
            let Some(chunk) = chunk else { break };
            received_bytes += chunk.len() as u64;
            if received_bytes > self.layer.size_bytes {
                return Err(self.wrong_size(received_bytes));
            }
            batch_bytes += chunk.len();
            batch.push(chunk);
            if batch_bytes >= BATCH_BYTES {
                self.hand_on(std::mem::take(&mut batch)).await?;
                batch_bytes = 0;
            }
        }
        self.hand_on(batch).await?;
        if received_bytes != self.layer.size_bytes {
            return Err(self.wrong_size(received_bytes));
        }
        self.unpack(Chunk::End).await
    }

    async fn hand_on(&mut self, batch: Batch) -> Result<(), Error> {
        // A hasher that is gone shows when it is joined.
        self.hash_queue.send(batch.clone()).await.ok();
        self.unpack(Chunk::Data(batch)).await
    }

    /// Hands a chunk on. An unpacker that stopped because of damage is not the end: the digest tells whether the layer was damaged
    /// on the way or made so.
    async fn unpack(&mut self, chunk: Chunk) -> Result<(), Error> {
        let Some(queue) = &self.queue else { return Ok(()) };
        if queue.send(chunk).await.is_ok() {
            return Ok(());
        }
        self.queue = None;
        match self.joined().await? {
            Err(error) if error.is_damage() => self.failed = Some(error),
            Err(error) => return Err(self.refused(error)),
            // Not reached: the unpacker reads to the end mark. Nothing is lost if it is.
            Ok(_) => {}
        }
        Ok(())
    }

    async fn finish(mut self, hasher: JoinHandle<Digest>) -> Result<(Stage, u64), Error> {
        self.queue = None;
        let (closed, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.hash_queue, closed));
        let actual = hasher.await.map_err(|source| self.lost(source))?;
        if actual != self.layer.digest {
            let expected = self.layer.digest.clone();
            return Err(Error::Mismatch { what: self.place.clone(), expected, actual });
        }
        match self.failed.take() {
            Some(error) => Err(self.refused(error)),
            None => self.joined().await?.map_err(|error| self.refused(error)),
        }
    }

    async fn joined(&mut self) -> Result<Unpacked, Error> {
        match self.unpacker.take() {
            Some(unpacker) => unpacker.await.map_err(|source| self.lost(source)),
            None => Ok(Err(archive::Error::Read(io::ErrorKind::UnexpectedEof.into()))),
        }
    }

    fn wrong_size(&self, actual_bytes: u64) -> Error {
        Error::Size { what: self.place.clone(), expected_bytes: self.layer.size_bytes, actual_bytes }
    }

    fn refused(&self, source: archive::Error) -> Error {
        Error::Layer { reference: self.reference.whole(), digest: self.layer.digest.clone(), source }
    }

    fn lost(&self, source: tokio::task::JoinError) -> Error {
        Error::Worker { digest: self.layer.digest.clone(), source }
    }
}

fn hash(mut source: Receiver<Batch>, algorithm: Algorithm) -> Digest {
    let mut hasher = Hasher::new(algorithm);
    while let Some(batch) = source.blocking_recv() {
        for bytes in &batch {
            hasher.update(bytes);
        }
    }
    hasher.finish()
}

fn unpack(
    source: Receiver<Chunk>,
    mut stage: Stage,
    used_bytes: u64,
    place: String,
    only: Option<&RelativePath>,
) -> Unpacked {
    let inflated =
        Decompressor::new(ChunkReader::new(source), stage.limits(), used_bytes, place).map_err(archive::Error::Read)?;
    let mut inflated = BufReader::with_capacity(INFLATED_BYTES, inflated);
    stage.begin_layer();
    match only {
        None => archive::read_tar(&mut inflated, &mut stage, Dialect::Layer)?,
        Some(folder) => archive::read_folder_of_layer(&mut inflated, &mut stage, folder)?,
    }
    // Behind the archive's end mark there is padding, and the checksum of the compressed stream.
    io::copy(&mut inflated, &mut io::sink()).map_err(archive::Error::Read)?;
    Ok((stage, inflated.get_ref().produced_bytes()))
}
