//! Pieces of a file as the body of an answer, perhaps compressed on the way. No thread waits for a client, and of the file a piece of
//! 64 KiB is in memory.

use std::fs::File;
use std::io::{self, SeekFrom, Write as _};
use std::ops::Range;

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

const CHUNK_BYTES: usize = 64 * 1024;

struct Pieces {
    file: tokio::fs::File,
    left: std::vec::IntoIter<Range<u64>>,
    /// How much of the current piece is left to be read.
    current: u64,
    /// `None` where nothing is compressed, and when the end was sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
    is_compressed: bool,
}

/// The body with these pieces of `file`, one after the other.
pub(super) fn body(file: File, pieces: Vec<Range<u64>>, compress: bool) -> Body {
    let encoder = compress.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    let file = tokio::fs::File::from_std(file);
    let pieces = Pieces { file, left: pieces.into_iter(), current: 0, encoder, is_compressed: compress };
    Body::from_stream(stream::try_unfold(pieces, |mut pieces| async move {
        Ok::<_, io::Error>(pieces.next().await?.map(|chunk| (chunk, pieces)))
    }))
}

impl Pieces {
    /// The next bytes to send, never none.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let read = self.read().await?;
            if !self.is_compressed {
                return Ok(read);
            }
            let Some(encoder) = &mut self.encoder else { return Ok(None) };
            let Some(chunk) = read else {
                return match self.encoder.take() {
                    Some(encoder) => Ok(Some(encoder.finish()?.into())),
                    None => Ok(None),
                };
            };
            encoder.write_all(&chunk)?;
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Ok(Some(compressed.into()));
            }
        }
    }

    async fn read(&mut self) -> io::Result<Option<Bytes>> {
        if self.current == 0 {
            let Some(next) = self.left.next() else { return Ok(None) };
            self.file.seek(SeekFrom::Start(next.start)).await?;
            self.current = next.end - next.start;
        }
        let wanted = usize::try_from(self.current).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let mut chunk = vec![0; wanted];
        self.file.read_exact(&mut chunk).await?;
        self.current -= wanted as u64;
        Ok(Some(chunk.into()))
    }
}
