//! gzip members made by a few threads.
//!
//! Any number of members, one after the other, are one gzip file (RFC 1952, section 2.2), so members can be made side by side, in any
//! order and ahead of time. Where they begin and end depends on the tree alone: equal trees give equal files, however many threads
//! made them and whenever.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// A body of at least so many bytes is compressed by itself, so that it can be compressed before anybody knows what stands around it.
/// Smaller ones share members: alone they compress badly.
pub const BODY_BYTES: u64 = 16 * 1024;

/// The most a member holds, uncompressed. Larger ones compress no better, and each thread holds one.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// The fastest that compresses. The README of rukpak-store, Choices, has the figures.
const LEVEL: u32 = 1;

/// deflate, no name, no time, fastest, system not told.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// The most a stored block holds.
const STORED_BYTES: usize = 0xffff;

/// What stands before it.
const STORED_FRAME_BYTES: usize = 5;

/// More threads would wait for the disk and for the hash.
const MOST_THREADS: usize = 4;

/// Bytes from the middle of a chunk that are looked at first: the start of a file is often a header, which compresses.
const SAMPLE_BYTES: usize = 4 * 1024;

/// Makes gzip members. Holds some 300 KiB besides what it is given.
pub struct Compressor {
    deflate: Compress,
    out: Vec<u8>,
}

/// Something to do with a thread's compressor. Runs once, or is dropped unrun when its [`Workers`] go.
pub type Job = Box<dyn FnOnce(&mut Compressor) + Send>;

/// A few threads that take jobs in the order they came. Dropping this drops the jobs that have not begun.
pub struct Workers {
    queue: Sender<Job>,
    given_up: Arc<AtomicBool>,
}

impl Compressor {
    /// Allocates.
    pub fn new() -> Self {
        Self { deflate: Compress::new(Compression::new(LEVEL), false), out: Vec::new() }
    }

    /// `bytes` as one gzip member: no name, no time. Images and archives, which compression cannot make smaller, are only wrapped.
    pub fn member(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        self.out.clear();
        self.out.extend(HEADER);
        if self.is_dense(bytes) {
            store(bytes, &mut self.out);
        } else {
            self.deflate(bytes)?;
            // Small ones are not sampled, and a sample may mislead.
            if self.out.len()
                > HEADER.len() + bytes.len() + STORED_FRAME_BYTES * bytes.len().div_ceil(STORED_BYTES).max(1)
            {
                self.out.truncate(HEADER.len());
                store(bytes, &mut self.out);
            }
        }
        let mut checksum = Crc::new();
        checksum.update(bytes);
        self.out.extend(checksum.sum().to_le_bytes());
        // Both modulo 2^32, says RFC 1952.
        self.out.extend(checksum.amount().to_le_bytes());
        Ok(&self.out)
    }

    /// Appends `bytes` compressed.
    fn deflate(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.deflate.reset();
        loop {
            let done = usize::try_from(self.deflate.total_in()).map_err(io::Error::other)?;
            self.out.reserve(bytes.len() - done + 1024);
            let status = self.deflate.compress_vec(&bytes[done..], &mut self.out, FlushCompress::Finish)?;
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }

    /// Whether a sample of `bytes` would shrink by less than a sixteenth. Leaves `out` as it was.
    fn is_dense(&mut self, bytes: &[u8]) -> bool {
        let middle = bytes.len() / 2;
        let Some(sample) = bytes.get(middle..middle + SAMPLE_BYTES) else { return false };
        // Cheap, and the end of it for any text: there some bytes are much more frequent than others.
        let mut counts = [0_u32; 256];
        for byte in sample {
            counts[usize::from(*byte)] += 1;
        }
        let squares: u64 = counts.iter().map(|count| u64::from(*count) * u64::from(*count)).sum();
        if squares > (SAMPLE_BYTES * SAMPLE_BYTES / 128) as u64 {
            return false;
        }
        let before = self.out.len();
        let is_done = self.deflate(sample).is_ok();
        let length = self.out.len() - before;
        self.out.truncate(before);
        is_done && length > SAMPLE_BYTES - SAMPLE_BYTES / 16
    }
}

/// Appends `bytes`, which are some, as stored blocks (RFC 1951, section 3.2.4).
fn store(bytes: &[u8], out: &mut Vec<u8>) {
    let mut blocks = bytes.chunks(STORED_BYTES).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Workers {
    /// Starts as many threads as there are processors, at most four.
    pub fn start() -> io::Result<Self> {
        Self::with(threads())
    }

    /// Starts so many threads; with none, no job is ever run.
    pub fn with(threads: usize) -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let given_up = Arc::new(AtomicBool::new(false));
        for number in 0..threads {
            let (jobs, given_up) = (Arc::clone(&jobs), Arc::clone(&given_up));
            let started = thread::Builder::new().name("pack".to_owned()).spawn(move || work(&jobs, &given_up));
            // One thread is enough to come to an end.
            if let Err(error) = started
                && number == 0
            {
                return Err(error);
            }
        }
        Ok(Self { queue, given_up })
    }

    /// Hands a job to the next thread that is free. Never blocks.
    pub fn submit(&self, job: Job) {
        // The receiver goes only with the last thread, and a thread only with this.
        let _ = self.queue.send(job);
    }
}

/// How many threads [`Workers::start`] starts.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workers").finish_non_exhaustive()
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, given_up: &AtomicBool) {
    let mut compressor = None;
    loop {
        // No job runs while this is locked, so nothing can poison it.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if given_up.load(Ordering::Relaxed) {
            continue;
        }
        // A job that panics takes down neither the jobs behind it nor, dropped by the unwinding, the hope of who waits for it.
        let run = || job(compressor.get_or_insert_default());
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            compressor = None;
        }
    }
}

#[cfg(test)]
mod tests;
