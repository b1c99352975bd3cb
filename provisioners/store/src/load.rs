//! Reading content back, verified to its last byte.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use rukpak_content::{Algorithm, BundleTree, Digest, Hasher, Limit, LimitExceeded, Limits, RelativePath};

use crate::entries::Entries;
use crate::{Error, Store};

const BUFFER_BYTES: usize = 64 * 1024;

impl Store {
    /// Reads the entries for which `filter` holds into memory, and verifies *all* bytes against `digest`. A damaged copy of what a
    /// bucket has is fetched again.
    ///
    /// [`Limits::text_bytes`] and [`Limits::entries`] bound what is kept, not what is passed over.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Corrupt`] or [`Error::Broken`] where the bytes are not those that were sealed
    /// (nothing of them is returned); [`Error::Limit`].
    pub fn load(
        &self,
        digest: &Digest,
        filter: &dyn Fn(&RelativePath) -> bool,
        limits: &Limits,
    ) -> Result<BundleTree, Error> {
        let path = self.layout().content_file(digest)?;
        match (read(self.open_content(digest)?, path.clone(), digest, filter, limits), self.shared()) {
            (Err(Error::Corrupt { .. } | Error::Broken { .. }), Some(shared)) => {
                read(shared.fetch(self, digest)?, path, digest, filter, limits)
            }
            (loaded, _) => loaded,
        }
    }
}

/// [`Store::load`] of a file that [`Store::open_content`] opened: a process that has no store reads it all the same.
///
/// # Errors
/// As for [`Store::load`].
pub fn read_content(
    content: File,
    digest: &Digest,
    filter: &dyn Fn(&RelativePath) -> bool,
    limits: &Limits,
) -> Result<BundleTree, Error> {
    read(content, PathBuf::from(digest.to_string()), digest, filter, limits)
}

/// Compares all bytes of `content` with `digest`; `path` is what an error calls it.
pub(crate) fn verify(content: File, path: &Path, digest: &Digest) -> Result<(), Error> {
    read(content, path.to_owned(), digest, &|_| false, &Limits::default()).map(|_| ())
}

/// `path` is what an error calls the file.
fn read(
    content: File,
    path: PathBuf,
    digest: &Digest,
    filter: &dyn Fn(&RelativePath) -> bool,
    limits: &Limits,
) -> Result<BundleTree, Error> {
    let mut stream = open(content);
    let loaded = read_entries(&mut stream, filter, limits);
    // Damage may show as anything, a limit included; so all bytes are hashed before anything else is said.
    let found = match finish(stream) {
        Ok(found) => found,
        Err(source) => return Err(Error::Broken { path, expected: digest.clone(), source }),
    };
    if found != *digest {
        return Err(Error::Corrupt { path, expected: digest.clone(), found });
    }
    loaded.map_err(|fault| match fault {
        Fault::Limit(source) => Error::Limit { digest: digest.clone(), source },
        Fault::Io(source) => Error::Broken { path, expected: digest.clone(), source },
    })
}

/// A decompressed stream that is hashed as it passes.
type Stream = BufReader<Hashing<MultiGzDecoder<BufReader<File>>>>;

struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

enum Fault {
    Limit(LimitExceeded),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LimitExceeded> for Fault {
    fn from(error: LimitExceeded) -> Self {
        Self::Limit(error)
    }
}

fn open(file: File) -> Stream {
    let inner = MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, file));
    BufReader::with_capacity(BUFFER_BYTES, Hashing { inner, hasher: Hasher::new(Algorithm::Sha256) })
}

fn read_entries(
    stream: &mut Stream,
    filter: &dyn Fn(&RelativePath) -> bool,
    limits: &Limits,
) -> Result<BundleTree, Fault> {
    let mut tree = BundleTree::new();
    let (mut count, mut total) = (0, 0_u64);
    let mut entries = Entries::new(stream);
    while let Some(head) = entries.next()? {
        let is_wanted = filter(&head.path);
        if is_wanted {
            count += 1;
            total = total.saturating_add(head.size_bytes);
            Limit::Entries.check(count, limits.entries, || head.path.to_string())?;
            Limit::TextBytes.check(total, limits.text_bytes, || head.path.to_string())?;
        }
        if !is_wanted {
            io::copy(&mut entries.body(&head), &mut io::sink())?;
        } else if head.is_folder {
            tree.add_directory(head.path.clone());
        } else {
            let mut body = Vec::with_capacity(usize::try_from(head.size_bytes).unwrap_or(0));
            entries.body(&head).read_to_end(&mut body)?;
            tree.add_file(head.path.clone(), head.executable, Bytes::from(body));
        }
        entries.end_body(&head)?;
    }
    Ok(tree)
}

/// Reads to the end, where gzip's own checksum is compared too.
fn finish(mut stream: Stream) -> io::Result<Digest> {
    io::copy(&mut stream, &mut io::sink())?;
    Ok(stream.into_inner().hasher.finish())
}
