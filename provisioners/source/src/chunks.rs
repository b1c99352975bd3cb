//! From a download to a thread that reads it: a queue of chunks, read as one stream.

use std::io::{self, BufRead, Read};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc::Receiver;

/// What some reads from the socket gave, in order.
pub(crate) type Batch = Vec<Bytes>;

/// What is on the way to the reader.
pub(crate) enum Chunk {
    Data(Batch),
    /// All of it came. A queue that closes without it belongs to a download that failed.
    End,
}

/// The chunks of a queue as one stream. It blocks: for threads that may.
pub(crate) struct ChunkReader {
    source: Receiver<Chunk>,
    batch: std::vec::IntoIter<Bytes>,
    current: Bytes,
    ended: bool,
}

impl ChunkReader {
    pub(crate) fn new(source: Receiver<Chunk>) -> Self {
        Self { source, batch: Batch::new().into_iter(), current: Bytes::new(), ended: false }
    }
}

impl BufRead for ChunkReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() && !self.ended {
            if let Some(next) = self.batch.next() {
                self.current = next;
                continue;
            }
            match self.source.blocking_recv() {
                Some(Chunk::Data(batch)) => self.batch = batch.into_iter(),
                Some(Chunk::End) => self.ended = true,
                None => return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the download ended early")),
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, count: usize) {
        self.current.advance(count);
    }
}

impl Read for ChunkReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}
