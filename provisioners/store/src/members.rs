//! A canonical tar as gzip members, compressed by threads and written in order.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver};

use rukpak_content::{RelativePath, Tree};

use crate::canonical::Sink;
use rukpak_content::pack::{BODY_BYTES, CHUNK_BYTES, Compressor, Workers};

/// Chunks of this size and more are worth a thread's attention.
const HANDED_BYTES: usize = 4 * 1024;

/// Chunks in flight, each of up to [`CHUNK_BYTES`]: enough for the threads to have work, few enough to hold.
const IN_FLIGHT: usize = 8;

const COPY_BYTES: usize = 64 * 1024;

/// Compresses what is written to it, and remembers whether it was `out` that failed.
pub(crate) struct Members<'a, W> {
    tree: &'a dyn Tree,
    out: W,
    chunk: Vec<u8>,
    here: Compressor,
    threads: usize,
    workers: Option<Workers>,
    in_flight: VecDeque<Member>,
    failed: bool,
}

enum Member {
    Made(Vec<u8>),
    Making(Receiver<io::Result<Vec<u8>>>),
}

impl<'a, W: Write> Members<'a, W> {
    /// `threads` are started when there is something for them. Without any, everything is compressed by the thread that writes; the
    /// bytes are the same.
    pub(crate) fn new(tree: &'a dyn Tree, out: W, threads: usize) -> Self {
        let (chunk, in_flight) = (Vec::new(), VecDeque::new());
        Self { tree, out, chunk, here: Compressor::new(), threads, workers: None, in_flight, failed: false }
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.cut()?;
        self.drain(0)?;
        Ok(self.out)
    }

    /// Whether the failure was one of writing or compressing, not of the tree.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Ends the member.
    fn cut(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let is_handed = self.chunk.len() >= HANDED_BYTES;
        if is_handed && self.workers.is_none() && self.threads > 0 {
            // Should there be no threads now, it takes longer, no more.
            self.workers = Workers::with(std::mem::take(&mut self.threads)).ok();
        }
        match &self.workers {
            Some(workers) if is_handed => {
                let (give, take) = mpsc::sync_channel(1);
                let chunk = std::mem::take(&mut self.chunk);
                workers.submit(Box::new(move |compressor| {
                    // Whoever no longer wants it has failed already.
                    let _ = give.send(compressor.member(&chunk).map(<[u8]>::to_vec));
                }));
                self.in_flight.push_back(Member::Making(take));
            }
            _ => {
                let member = self.here.member(&self.chunk);
                self.failed |= member.is_err();
                self.in_flight.push_back(Member::Made(member?.to_vec()));
                self.chunk.clear();
            }
        }
        self.drain(IN_FLIGHT)
    }

    /// Writes the oldest members until `most` are left.
    fn drain(&mut self, most: usize) -> io::Result<()> {
        while self.in_flight.len() > most {
            let Some(member) = self.in_flight.pop_front() else { break };
            let written = member.wait().and_then(|member| self.out.write_all(&member));
            self.failed |= written.is_err();
            written?;
        }
        Ok(())
    }

    fn copy(&mut self, packed: &mut dyn Read) -> io::Result<()> {
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let count = match packed.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let written = self.out.write_all(&buffer[..count]);
            self.failed |= written.is_err();
            written?;
        }
    }
}

impl<W: Write> Sink for Members<'_, W> {
    fn body(&mut self, path: &RelativePath, size_bytes: u64, body: &mut dyn Read) -> io::Result<u64> {
        if size_bytes < BODY_BYTES {
            return io::copy(body, self);
        }
        self.cut()?;
        if let Some(mut packed) = self.tree.packed(path) {
            self.drain(0)?;
            self.copy(&mut *packed)?;
            return Ok(size_bytes);
        }
        let copied = io::copy(body, self)?;
        self.cut()?;
        Ok(copied)
    }
}

impl<W: Write> Write for Members<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..count]);
        if self.chunk.len() == CHUNK_BYTES {
            self.cut()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Member {
    fn wait(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Made(member) => Ok(member),
            Self::Making(take) => {
                take.recv().unwrap_or_else(|_| Err(io::Error::other("a thread that compresses came to a bad end")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
