//! Bodies compressed while others still arrive, so that sealing has little left to do.
//!
//! Whatever fails here costs time and nothing else: the plain body is in the spool, and whoever seals compresses that.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rukpak_content::pack::{BODY_BYTES, CHUNK_BYTES, Compressor, Workers};

/// Compresses ranges of a spool file into a second nameless file.
#[derive(Debug)]
pub(super) struct Ahead {
    spool: Arc<File>,
    shared: Arc<Shared>,
    workers: Option<Workers>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    end: u64,
    /// By offset in the spool.
    chunks: HashMap<u64, Chunk>,
}

#[derive(Clone, Debug)]
enum Chunk {
    Waiting,
    /// Where its member lies in the file.
    Done(Range<u64>),
    Failed,
}

impl Ahead {
    pub(super) fn new_in(folder: &Path, spool: Arc<File>) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        let shared = Shared { file, state: Mutex::default(), changed: Condvar::new() };
        Ok(Self { spool, shared: Arc::new(shared), workers: None })
    }

    /// Has `range` of the spool file, which is there, compressed into one member.
    pub(super) fn submit(&mut self, range: Range<u64>) {
        if self.workers.is_none() {
            // Tried again with the next chunk, should there be no threads now.
            self.workers = Workers::start().ok();
        }
        let Some(workers) = &self.workers else { return };
        self.shared.state().chunks.insert(range.start, Chunk::Waiting);
        let (spool, promise) = (Arc::clone(&self.spool), Promise { shared: Arc::clone(&self.shared), at: range.start });
        workers.submit(Box::new(move |compressor| {
            if let Ok(place) = promise.shared.pack(&spool, &range, compressor) {
                promise.shared.state().chunks.insert(promise.at, Chunk::Done(place));
            }
        }));
    }

    /// The members of the body at `offset`, once all are made; `None` if it has none, or one was not submitted or failed.
    pub(super) fn read(&self, offset: u64, size_bytes: u64) -> Option<Box<dyn Read + '_>> {
        let mut places = Vec::new();
        for chunk in chunks(offset, size_bytes) {
            places.push(self.shared.wait(chunk.start)?);
        }
        if places.is_empty() {
            return None;
        }
        places.reverse();
        Some(Box::new(MemberReader { file: &self.shared.file, places }))
    }
}

/// How a body is cut into members; none if it is too small to have its own.
fn chunks(offset: u64, size_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let end = if size_bytes < BODY_BYTES { offset } else { offset + size_bytes };
    (offset..end).step_by(CHUNK_BYTES).map(move |start| start..end.min(start + CHUNK_BYTES as u64))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pack(&self, spool: &File, range: &Range<u64>, compressor: &mut Compressor) -> io::Result<Range<u64>> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut plain = vec![0; length];
        spool.read_exact_at(&mut plain, range.start)?;
        let member = compressor.member(&plain)?;
        let start = {
            let mut state = self.state();
            let start = state.end;
            state.end += member.len() as u64;
            start
        };
        self.file.write_all_at(member, start)?;
        Ok(start..start + member.len() as u64)
    }

    fn wait(&self, at: u64) -> Option<Range<u64>> {
        let waiting = |state: &mut State| matches!(state.chunks.get(&at), Some(Chunk::Waiting));
        let state = self.changed.wait_while(self.state(), waiting).unwrap_or_else(PoisonError::into_inner);
        match state.chunks.get(&at) {
            Some(Chunk::Done(place)) => Some(place.clone()),
            _ => None,
        }
    }
}

/// A chunk that somebody may wait for. Dropped before it is kept, also unrun or by a panic, it has failed.
struct Promise {
    shared: Arc<Shared>,
    at: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(chunk @ Chunk::Waiting) = state.chunks.get_mut(&self.at) {
            *chunk = Chunk::Failed;
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// Members, the next one last.
struct MemberReader<'a> {
    file: &'a File,
    places: Vec<Range<u64>>,
}

impl Read for MemberReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(place) = self.places.last_mut() {
            let left = usize::try_from(place.end - place.start).unwrap_or(usize::MAX);
            if left == 0 {
                self.places.pop();
                continue;
            }
            let ask = left.min(into.len());
            let count = self.file.read_at(&mut into[..ask], place.start)?;
            if count == 0 && ask > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            place.start += count as u64;
            return Ok(count);
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
