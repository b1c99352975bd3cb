//! A bundle as one archive file: tar, plain or compressed with gzip or Zstandard, into a stage.

use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use rukpak_content::Limits;

use crate::archive::{self, Dialect};
use crate::decompress::{Compression, Decompressor, Unsupported};
use crate::{Stage, stage};

/// The length of a tar header.
const BLOCK_BYTES: usize = 512;
const BUFFER_BYTES: usize = 64 * 1024;

/// Why an archive file was refused.
#[derive(Debug)]
pub(crate) enum Error {
    /// The file itself cannot be read.
    Read(io::Error),
    /// Neither gzip nor Zstandard nor tar.
    NotAnArchive,
    /// A compression that is known and not read.
    Compression(Unsupported),
    /// No room.
    Stage(stage::Error),
    /// What is in it is damaged or refused.
    Archive(archive::Error),
}

/// Reads all of `source`, from its first byte. `place` names it in refusals. Blocks.
pub(crate) fn read(mut source: impl Read, folder: &Path, limits: &Limits, place: String) -> Result<Stage, Error> {
    let mut start = Vec::new();
    source.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut start).map_err(Error::Read)?;
    let compression = Compression::of_bytes(&start).map_err(Error::Compression)?;
    if compression == Compression::None && !is_tar(&start) {
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

/// Whether a tar archive begins so: with a header whose checksum is right, or with the end mark.
fn is_tar(start: &[u8]) -> bool {
    let Ok(block) = <&[u8; BLOCK_BYTES]>::try_from(start) else { return false };
    let stored = tar::Header::from_byte_slice(block).cksum();
    // The checksum is taken with its own eight bytes as spaces.
    let field = 148..156;
    let sum = |(at, byte): (usize, &u8)| u32::from(if field.contains(&at) { b' ' } else { *byte });
    let actual: u32 = block.iter().enumerate().map(sum).sum();
    block.iter().all(|byte| *byte == 0) || stored.is_ok_and(|stored| stored == actual)
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
    fn what_is_no_archive_is_told_from_a_damaged_one() {
        let mut changed = tar(&[("a", b"1")]);
        changed[0] = b'b';
        for bytes in [&b""[..], b"<html>", &[b' '; 600], &changed] {
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
