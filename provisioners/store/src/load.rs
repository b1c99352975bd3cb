//! Reading content back, verified to its last byte.

use std::fs::File;
use std::io::{self, BufReader, Read};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use rukpak_content::{Algorithm, BundleTree, Digest, Hasher, Limit, LimitExceeded, Limits, RelativePath};

use crate::{Error, Store};

const BUFFER_BYTES: usize = 64 * 1024;

impl Store {
    /// Reads the entries for which `filter` holds into memory, and verifies *all* bytes against `digest`.
    ///
    /// [`Limits::tree_bytes`] and [`Limits::entries`] bound what is kept, not what is passed over.
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
        let mut archive = tar::Archive::new(open(self.open_content(digest)?));
        let loaded = read_entries(&mut archive, filter, limits);
        // Damage may show as anything, a limit included; so all bytes are hashed before anything else is said.
        let found = match finish(archive.into_inner()) {
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
    archive: &mut tar::Archive<Stream>,
    filter: &dyn Fn(&RelativePath) -> bool,
    limits: &Limits,
) -> Result<BundleTree, Fault> {
    let mut tree = BundleTree::new();
    let (mut count, mut total) = (0, 0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = path_of(&entry)?;
        if !filter(&path) {
            continue;
        }
        count += 1;
        total += entry.size();
        Limit::Entries.check(count, limits.entries, || path.to_string())?;
        Limit::TreeBytes.check(total, limits.tree_bytes, || path.to_string())?;
        if entry.header().entry_type().is_dir() {
            tree.add_directory(path);
        } else {
            let executable = entry.header().mode()? & 0o111 != 0;
            let mut body = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or(0));
            entry.read_to_end(&mut body)?;
            tree.add_file(path, executable, Bytes::from(body));
        }
    }
    Ok(tree)
}

fn path_of(entry: &tar::Entry<'_, Stream>) -> io::Result<RelativePath> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let bytes = entry.path_bytes();
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(error.to_string()))?;
    RelativePath::new(text).map_err(|error| invalid(error.to_string()))
}

/// Reads to the end, where gzip's own checksum is compared too.
fn finish(mut stream: Stream) -> io::Result<Digest> {
    io::copy(&mut stream, &mut io::sink())?;
    Ok(stream.into_inner().hasher.finish())
}
