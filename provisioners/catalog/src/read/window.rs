//! A window on a stream: what was read and not yet used.

use std::io::{self, Read};

/// How many bytes are asked for at once.
const STEP: usize = 128 * 1024;

/// Bytes of a stream from the first that is not used yet.
pub(super) struct Window<'r> {
    reader: &'r mut dyn Read,
    bytes: Vec<u8>,
    /// Where the unused bytes begin.
    start: usize,
    /// Where the read ones end; what is behind is room.
    end: usize,
    is_at_end: bool,
    /// The line, from 1, that the unused bytes begin in.
    pub(super) line: usize,
    /// Bytes that the reader gave.
    pub(super) total: u64,
}

impl<'r> Window<'r> {
    pub(super) fn new(reader: &'r mut dyn Read) -> Self {
        Self { reader, bytes: Vec::new(), start: 0, end: 0, is_at_end: false, line: 1, total: 0 }
    }

    /// What is not used yet, as far as it was read.
    pub(super) fn unused(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Reads on. False at the end of the stream.
    pub(super) fn grow(&mut self) -> io::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        if self.start > 0 && self.bytes.len() - self.end < STEP {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < STEP {
            // Twice as much each time, so that a long document is not copied again and again.
            let length = (self.bytes.len() * 2).max(2 * STEP);
            self.bytes.resize(length, 0);
        }
        let count = loop {
            match self.reader.read(&mut self.bytes[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => break count?,
            }
        };
        self.end += count;
        self.total += count as u64;
        self.is_at_end = count == 0;
        Ok(count > 0)
    }

    /// Uses `length` bytes.
    pub(super) fn advance(&mut self, length: usize) {
        let used = &self.bytes[self.start..self.start + length];
        self.line += memchr::memchr_iter(b'\n', used).count();
        self.start += length;
    }
}
