//! The file behind a stage: appended to once, then read by offset.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rukpak_content::pack::{BODY_BYTES, CHUNK_BYTES};

use super::ahead::Ahead;

/// Not more than [`CHUNK_BYTES`]: one read then completes at most one chunk.
const BUFFER_BYTES: usize = 256 * 1024;
const WINDOW_BYTES: usize = 128 * 1024;

/// From here on a read of its own is cheaper than copying out of the window.
const DIRECT_BYTES: usize = 16 * 1024;

/// Bytes that are only appended. The newest of them are still in memory, so a small tree never touches the disk.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<File>,
    written_bytes: u64,
    buffer: Vec<u8>,
    filled: usize,
    /// `None`: nobody will ask for the bytes compressed.
    ahead: Option<Ahead>,
    /// Chunks of bodies that are not yet in the file as a whole.
    unsubmitted: VecDeque<Range<u64>>,
}

/// Which side of an append failed.
pub(super) enum AppendError {
    Read(io::Error),
    Write(io::Error),
}

impl Spool {
    pub(super) fn new_in(folder: &Path) -> io::Result<Self> {
        let file = Arc::new(tempfile::tempfile_in(folder)?);
        let ahead = Some(Ahead::new_in(folder, Arc::clone(&file))?);
        Ok(Self { ahead, ..Self::of(file) })
    }

    /// One whose bodies are not compressed.
    pub(super) fn plain_in(folder: &Path) -> io::Result<Self> {
        Ok(Self::of(Arc::new(tempfile::tempfile_in(folder)?)))
    }

    fn of(file: Arc<File>) -> Self {
        let unsubmitted = VecDeque::new();
        Self { file, written_bytes: 0, buffer: Vec::new(), filled: 0, ahead: None, unsubmitted }
    }

    /// Bytes appended so far.
    pub(super) fn len(&self) -> u64 {
        self.written_bytes + self.filled as u64
    }

    /// Appends what `body` gives, but not more than `most` bytes and one: a result above `most` says there is more.
    pub(super) fn append(&mut self, body: &mut dyn Read, most: u64) -> Result<u64, AppendError> {
        let mut uncut = self.len();
        let mut copied = 0;
        while copied <= most {
            if self.filled == self.buffer.len() {
                self.flush().map_err(AppendError::Write)?;
            }
            let free = &mut self.buffer[self.filled..];
            let ask = usize::try_from((most - copied).saturating_add(1)).map_or(free.len(), |ask| ask.min(free.len()));
            match body.read(&mut free[..ask]) {
                Ok(0) => break,
                Ok(count) => {
                    self.filled += count;
                    copied += count as u64;
                    // A long body is compressed while it still comes; the pieces are those of `chunks`.
                    if self.len() - uncut >= CHUNK_BYTES as u64 {
                        self.unsubmitted.push_back(uncut..uncut + CHUNK_BYTES as u64);
                        uncut += CHUNK_BYTES as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AppendError::Read(error)),
            }
        }
        if copied >= BODY_BYTES && uncut < self.len() {
            self.unsubmitted.push_back(uncut..self.len());
        }
        Ok(copied)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES];
            return Ok(());
        }
        (&*self.file).write_all(&self.buffer[..self.filled])?;
        self.written_bytes += self.filled as u64;
        self.filled = 0;
        while let Some(range) = self.unsubmitted.pop_front_if(|range| range.end <= self.written_bytes) {
            if let Some(ahead) = &mut self.ahead {
                ahead.submit(range);
            }
        }
        Ok(())
    }

    /// The `size_bytes` bytes from `offset`. `window` is kept between bodies: neighbours are often read one after the other.
    pub(super) fn read<'a>(&'a self, offset: u64, size_bytes: u64, window: &'a mut Window) -> BodyReader<'a> {
        BodyReader { spool: self, window, offset, end: offset + size_bytes }
    }

    /// The same bytes as gzip members, where they were compressed ahead. Waits for what is being compressed.
    pub(super) fn packed(&self, offset: u64, size_bytes: u64) -> Option<Box<dyn Read + '_>> {
        self.ahead.as_ref()?.read(offset, size_bytes)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match offset.checked_sub(self.written_bytes) {
            None => {
                let on_disk = usize::try_from(self.written_bytes - offset).unwrap_or(usize::MAX);
                let ask = into.len().min(on_disk);
                self.file.read_at(&mut into[..ask], offset)
            }
            Some(skip) => {
                let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.filled);
                (&self.buffer[skip..self.filled]).read(into)
            }
        }
    }
}

/// Bytes of the spool read ahead.
#[derive(Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    filled: usize,
    offset: u64,
}

impl Window {
    fn at(&self, offset: u64) -> &[u8] {
        let skip = offset.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok());
        match skip {
            Some(skip) if skip < self.filled => &self.bytes[skip..self.filled],
            _ => &[],
        }
    }
}

/// One body of a spool.
pub(super) struct BodyReader<'a> {
    spool: &'a Spool,
    window: &'a mut Window,
    offset: u64,
    end: u64,
}

impl Read for BodyReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let ask = into.len().min(left);
        if ask == 0 {
            return Ok(0);
        }
        let into = &mut into[..ask];
        let is_ahead = !self.window.at(self.offset).is_empty();
        let count = if ask >= DIRECT_BYTES && !is_ahead {
            self.spool.read_at(into, self.offset)?
        } else {
            if !is_ahead {
                self.window.bytes.resize(WINDOW_BYTES, 0);
                self.window.filled = 0;
                self.window.filled = self.spool.read_at(&mut self.window.bytes, self.offset)?;
                self.window.offset = self.offset;
            }
            self.window.at(self.offset).read(into)?
        };
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the spool file is shorter than what was written",
            ));
        }
        self.offset += count as u64;
        Ok(count)
    }
}
