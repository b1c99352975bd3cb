//! A bundle as one archive file: tar, plain or compressed with gzip or Zstandard, into a stage.

use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use rukpak_content::Limits;

use crate::archive::{self, Dialect};
use crate::decompress::{Compression, Decompressor, Unsupported};
use crate::{Stage, stage};

const BUFFER_BYTES: usize = 64 * 1024;

/// Why an archive file was refused. No text holds a byte of it but the names of its entries.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file itself cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// Not a single byte.
    #[error("empty file")]
    Empty,
    /// Something else.
    #[error("neither gzip, Zstandard nor tar")]
    NotAnArchive,
    /// A compression that is known and not read.
    #[error(transparent)]
    Compression(Unsupported),
    /// No room.
    #[error(transparent)]
    Stage(stage::Error),
    /// What is in it is damaged or refused.
    #[error(transparent)]
    Archive(archive::Error),
}

/// Reads all of `source`, from its first byte, into a stage in `folder`. `place` names it in refusals. Blocks.
pub fn read(mut source: impl Read, folder: &Path, limits: &Limits, place: String) -> Result<Stage, Error> {
    let mut start = Vec::new();
    source.by_ref().take(archive::BLOCK_BYTES as u64).read_to_end(&mut start).map_err(Error::Read)?;
    if start.is_empty() {
        return Err(Error::Empty);
    }
    let compression = Compression::of_bytes(&start).map_err(Error::Compression)?;
    if compression == Compression::None && !archive::is_tar(&start) {
        return Err(Error::NotAnArchive);
    }
    let mut stage = Stage::new_in(folder, limits).map_err(Error::Stage)?;
    let source = Cursor::new(start).chain(BufReader::with_capacity(BUFFER_BYTES, source));
    let inflated = Decompressor::new(source, limits, 0, place).map_err(Error::Read)?;
    let mut inflated = BufReader::with_capacity(BUFFER_BYTES, inflated);
    archive::read_tar(&mut inflated, &mut stage, Dialect::Plain).map_err(Error::Archive)?;
    // Behind the archive's end mark there is padding, and the checksum of the compressed stream.
    io::copy(&mut inflated, &mut io::sink()).map_err(|error| Error::Archive(archive::Error::Read(error)))?;
    Ok(stage)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::stage::tests::listing;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, body) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(body.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *body).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// An archive with an entry that leads out of it.
    pub(crate) fn escaping() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.as_old_mut().name[..8].copy_from_slice(b"../a.txt");
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
        builder.into_inner().unwrap()
    }

    /// A small bundle.
    pub(crate) fn bundle() -> Vec<u8> {
        gzip(&tar(&[("./manifests/a.yaml", b"a: 1\n")]))
    }

    fn open(bytes: &[u8]) -> Result<Stage, Error> {
        read(bytes, &std::env::temp_dir(), &Limits::default(), "it".into())
    }

    #[test]
    fn the_first_bytes_decide() {
        let plain = tar(&[("manifests/a.yaml", b"a: 1\n")]);
        for bytes in [plain.clone(), gzip(&plain), zstd::encode_all(&plain[..], 1).unwrap(), bundle()] {
            let stage = open(&bytes).unwrap();
            assert_eq!(listing(&stage)["manifests/a.yaml"], "a: 1\n");
        }
        assert!(listing(&open(&[0; 1024]).unwrap()).is_empty());
    }

    #[test]
    fn nothing_of_what_is_no_archive_is_told() {
        // As long as a header, so that the place of its checksum holds words.
        let text = b"root:x:0:0:hush:/root:/bin/bash\n".repeat(40);
        for bytes in [text.clone(), gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let told = crate::chain::chain(&open(&bytes).unwrap_err());
            assert!(!told.contains("hush") && !told.contains("root"), "{told}");
            assert!(told.contains("tar"), "{told}");
        }
    }

    #[test]
    fn what_is_no_archive_is_told_from_a_damaged_one() {
        let mut changed = tar(&[("a", b"1")]);
        changed[0] = b'b';
        assert!(matches!(open(b""), Err(Error::Empty)));
        for bytes in [&b"<html>"[..], &[b' '; 600], &changed] {
            assert!(matches!(open(bytes), Err(Error::NotAnArchive)), "{bytes:?}");
        }
        assert!(matches!(open(b"PK\x03\x04 and more"), Err(Error::Compression(Unsupported("zip")))));
        let whole = bundle();
        for bytes in
            [&whole[..whole.len() - 4], &whole[..20], &gzip(b"no tar at all, but compressed".repeat(40).as_slice())]
        {
            assert!(matches!(open(bytes), Err(Error::Archive(_))), "{} bytes", bytes.len());
        }
    }
}
