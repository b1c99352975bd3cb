//! The digest of what is written, known once it is written.

use std::io::{self, Write};

use rukpak_content::{Algorithm, Digest, Hasher};

/// Hashes and counts what passes through it to `inner`.
pub struct Hashing<W> {
    inner: W,
    hasher: Hasher,
    size_bytes: u64,
}

impl<W> Hashing<W> {
    pub fn new(inner: W, algorithm: Algorithm) -> Self {
        Self { inner, hasher: Hasher::new(algorithm), size_bytes: 0 }
    }

    /// Returns what was written to, the digest of all bytes, and their number.
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hasher.finish(), self.size_bytes)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.size_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
