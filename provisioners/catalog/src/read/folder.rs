//! All files of a folder, several at a time. Disk and threads.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use rukpak_content::Limits;

use super::files::{self, CatalogFile};
use super::stream::{self, Totals};
use super::{Error, Form};
use crate::document::Document;

/// More threads would only wait for the one that takes the documents, and each holds a document in memory.
const MAX_THREADS: usize = 4;

/// Documents that are handed over at once.
const BATCH: usize = 32;

pub(super) fn read(root: &Path, limits: &Limits, visit: &mut dyn FnMut(Document)) -> Result<(), Error> {
    read_all(&files::list(root, limits)?, limits, visit)
}

/// One file after the other, in the order of their names.
pub(super) fn read_in_order<F: Form>(root: &Path, limits: &Limits, visit: &mut dyn FnMut(F)) -> Result<(), Error> {
    let totals = Totals::default();
    files::list(root, limits)?.iter().try_for_each(|file| read_file(file, limits, &totals, visit))
}

fn read_all(files: &[CatalogFile], limits: &Limits, visit: &mut dyn FnMut(Document)) -> Result<(), Error> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS).min(files.len());
    if threads <= 1 {
        let totals = Totals::default();
        return files.iter().try_for_each(|file| read_file(file, limits, &totals, visit));
    }
    let work = Work {
        files,
        limits,
        totals: Totals::default(),
        next: AtomicUsize::new(0),
        failed: AtomicUsize::new(usize::MAX),
    };
    let (sender, receiver) = sync_channel(2 * threads);
    let failures = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| (sender.clone(), &work)).collect();
        let workers: Vec<_> =
            workers.into_iter().map(|(sender, work)| scope.spawn(move || work.run(&sender))).collect();
        drop(sender);
        for batch in receiver {
            batch.into_iter().for_each(&mut *visit);
        }
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let failures = failures.into_iter().map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    match failures.flatten().min_by_key(|(index, _)| *index) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

struct Work<'a> {
    files: &'a [CatalogFile],
    limits: &'a Limits,
    totals: Totals,
    /// The next file that nobody reads.
    next: AtomicUsize,
    /// The first file that failed. Those before it are still read, so that always the same error is told.
    failed: AtomicUsize,
}

impl Work<'_> {
    /// Reads files until there are none left, and gives the first that failed.
    fn run(&self, sender: &SyncSender<Vec<Document>>) -> Option<(usize, Error)> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut failure = None;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.files.len() || index > self.failed.load(Ordering::Relaxed) {
                break;
            }
            let read = read_file(&self.files[index], self.limits, &self.totals, &mut |document: Document| {
                batch.push(document);
                if batch.len() == BATCH {
                    // Sending fails only if the receiving thread panicked.
                    let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
                }
            });
            if let Err(error) = read {
                self.failed.fetch_min(index, Ordering::Relaxed);
                failure = Some((index, error));
                break;
            }
        }
        let _ = sender.send(batch);
        failure
    }
}

fn read_file<F: Form>(
    found: &CatalogFile,
    limits: &Limits,
    totals: &Totals,
    visit: &mut dyn FnMut(F),
) -> Result<(), Error> {
    let open = File::open(&found.path).map_err(|source| Error::Io { path: found.name.to_string(), source });
    open.and_then(|mut file| stream::read(&found.name, &mut file, limits, totals, visit)).map_err(|error| match error {
        Error::Io { .. } | Error::Limit(_) | Error::TooMuch { .. } => error,
        error if ["json", "yaml", "yml"].contains(&stream::extension(&found.name).as_str()) => error,
        error => Error::Stray { file: Arc::clone(&found.name), source: Box::new(error) },
    })
}
