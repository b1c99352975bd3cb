//! Compressed streams, bounded.

mod child;
pub mod confined;

use std::io::{self, BufRead, Chain, Cursor, Read};

use child::ZSTD_WINDOW_LOG;
use confined::Confined;
use flate2::bufread::MultiGzDecoder;
use rukpak_content::{Limit, LimitExceeded, Limits};

/// The ratio is not looked at before this much has come out: small files of zeros compress well and harm nobody.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// Room for tar headers and padding, per allowed entry, on top of [`Limits::tree_bytes`].
const FRAMING_BYTES: u64 = 2048;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, any number of members.
    Gzip,
    /// Zstandard, any number of frames.
    Zstd,
}

impl Compression {
    /// What a layer's media type says; `None` if it names no tar layer that can be read.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        let kind = media_type.split(';').next().unwrap_or_default().trim();
        [
            (".tar+gzip", Self::Gzip),
            (".tar.gzip", Self::Gzip),
            (".tar+zstd", Self::Zstd),
            (".tar.zstd", Self::Zstd),
            (".tar", Self::None),
        ]
        .into_iter()
        .find(|(suffix, _)| kind.ends_with(suffix))
        .map(|(_, compression)| compression)
    }

    /// What a stream's first bytes say. Fewer than four bytes are never compressed.
    ///
    /// # Errors
    /// Names a compression that is recognised but not read.
    pub(crate) fn of_bytes(start: &[u8]) -> Result<Self, Unsupported> {
        match start {
            [0x1f, 0x8b, _, _, ..] => Ok(Self::Gzip),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', ..] => Err(Unsupported("xz")),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Err(Unsupported("bzip2")),
            [b'P', b'K', 3, 4, ..] => Err(Unsupported("zip")),
            _ => Ok(Self::None),
        }
    }
}

/// A compression that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} compression is not supported; use gzip, zstd or none")]
pub struct Unsupported(pub &'static str);

/// Reads a stream decompressed, and no more of it than the limits allow.
///
/// The first bytes decide, not the media type: registries and build tools mislabel layers, container runtimes go by the
/// bytes, and the digest has been given for these bytes whatever they are called. A limit shows as an [`io::Error`] with a
/// [`LimitExceeded`] inside.
pub struct Decompressor<R: BufRead> {
    decoder: Decoder<Source<R>>,
    bounds: Bounds,
}

/// The first bytes, which were looked at, and the rest.
type Source<R> = Chain<Cursor<Vec<u8>>, R>;

enum Decoder<R: BufRead> {
    None(Counted<R>),
    Gzip(Box<MultiGzDecoder<Counted<R>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Counted<R>>>),
    Confined(Box<Confined<Counted<R>>>),
}

struct Bounds {
    ratio: u64,
    tree_bytes: u64,
    most_bytes: u64,
    produced_bytes: u64,
    place: String,
}

impl<R: BufRead> Decompressor<R> {
    /// Reads the first bytes of `source` and decides. `place` names the stream in a refusal.
    ///
    /// `used_bytes` have come out of earlier streams of the same bundle and count against the same limit.
    pub fn new(mut source: R, limits: &Limits, used_bytes: u64, place: String) -> io::Result<Self> {
        let mut start = Vec::new();
        // A network gives as little as one byte at a time; four decide.
        source.by_ref().take(4).read_to_end(&mut start)?;
        let compression = Compression::of_bytes(&start).map_err(io::Error::other)?;
        let source = Counted { source: Cursor::new(start).chain(source), consumed_bytes: 0 };
        let decoder = match compression {
            Compression::None => Decoder::None(source),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(source))),
            Compression::Zstd => {
                if let Some(program) = confined::program() {
                    Decoder::Confined(Box::new(Confined::start(program, source)?))
                } else {
                    let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
                    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                    Decoder::Zstd(Box::new(decoder))
                }
            }
        };
        let most_bytes = limits.tree_bytes.saturating_add(limits.entries.saturating_mul(FRAMING_BYTES));
        let bounds = Bounds {
            ratio: limits.ratio,
            tree_bytes: limits.tree_bytes,
            most_bytes: most_bytes.saturating_sub(used_bytes),
            produced_bytes: 0,
            place,
        };
        Ok(Self { decoder, bounds })
    }

    /// Bytes that have come out.
    pub(crate) fn produced_bytes(&self) -> u64 {
        self.bounds.produced_bytes
    }
}

impl<R: BufRead> Read for Decompressor<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, consumed_bytes) = match &mut self.decoder {
            Decoder::None(source) => (source.read(into)?, source.consumed_bytes),
            Decoder::Gzip(decoder) => (decoder.read(into)?, decoder.get_ref().consumed_bytes),
            Decoder::Zstd(decoder) => (decoder.read(into)?, decoder.get_ref().consumed_bytes),
            Decoder::Confined(decoder) => (decoder.read(into)?, decoder.get_ref().consumed_bytes),
        };
        self.bounds.check(count as u64, consumed_bytes).map_err(io::Error::other)?;
        Ok(count)
    }
}

impl Bounds {
    fn check(&mut self, count: u64, consumed_bytes: u64) -> Result<(), LimitExceeded> {
        self.produced_bytes += count;
        let exceeded = |limit, maximum| Err(LimitExceeded { limit, maximum, place: self.place.clone() });
        if self.produced_bytes > self.most_bytes {
            return exceeded(Limit::TreeBytes, self.tree_bytes);
        }
        if self.produced_bytes > RATIO_FREE_BYTES && self.produced_bytes > consumed_bytes.saturating_mul(self.ratio) {
            return exceeded(Limit::Ratio, self.ratio);
        }
        Ok(())
    }
}

/// Counts what is taken out of a reader, not what was read ahead.
struct Counted<R> {
    source: R,
    consumed_bytes: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.consumed_bytes += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.consumed_bytes += count as u64;
        self.source.consume(count);
    }
}

#[cfg(test)]
mod tests;
