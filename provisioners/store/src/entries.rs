//! Reads the canonical tar back: what [`canonical`](crate::canonical) writes, byte for byte, and nothing else.
//!
//! Every header is made again from what was understood of it and compared with the one that was read. So no header can be
//! understood otherwise than it was written: not by its lengths, not by a second record, not by a line end in a name.

use std::io::{self, Read};

use rukpak_content::RelativePath;
use tar::{EntryType, Header};

use crate::canonical::{BLOCK, EXECUTABLE_MODE, NAME_KEY, Order, head, invalid};

/// The longest record of a name that is read. Paths are limited elsewhere, and far below.
const RECORD_BYTES: u64 = 1024 * 1024;

/// An entry; its body, if it is a file, comes next in the stream.
pub(crate) struct Head {
    pub(crate) path: RelativePath,
    pub(crate) is_folder: bool,
    pub(crate) executable: bool,
    pub(crate) size_bytes: u64,
}

/// The entries of one canonical tar.
pub(crate) struct Entries<R> {
    stream: R,
    order: Order,
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, order: Order::default() }
    }

    /// The next entry, whose body is then to be taken with [`Entries::body`]; `None` behind the last one.
    ///
    /// # Errors
    /// Of the stream, or `InvalidData` where it holds what this store does not write.
    pub(crate) fn next(&mut self) -> io::Result<Option<Head>> {
        let mut raw = self.blocks(1)?;
        if raw.iter().all(|byte| *byte == 0) {
            return if self.blocks(1)?.iter().all(|byte| *byte == 0) { Ok(None) } else { Err(foreign()) };
        }
        let mut record = None;
        let mut header = Header::from_byte_slice(&raw).clone();
        if header.entry_type() == EntryType::XHeader {
            let length = header.entry_size()?;
            if length > RECORD_BYTES {
                return Err(foreign());
            }
            let padded = self.blocks(length.div_ceil(BLOCK as u64))?;
            record = Some(padded.get(..usize::try_from(length).unwrap_or(usize::MAX)).ok_or_else(foreign)?.to_vec());
            let entry = self.blocks(1)?;
            header = Header::from_byte_slice(&entry).clone();
            raw.extend(padded);
            raw.extend(entry);
        }
        let is_folder = header.entry_type() == EntryType::Directory;
        let path = path(&header, record.as_deref(), is_folder)?;
        let executable = header.mode()? == EXECUTABLE_MODE && !is_folder;
        let size_bytes = header.entry_size()?;
        if head(&path, is_folder, executable, size_bytes)? != raw {
            return Err(foreign());
        }
        self.order.check(&path, is_folder)?;
        Ok(Some(Head { path, is_folder, executable, size_bytes }))
    }

    /// The body of the entry before, to be read to its end, and then [`Entries::end_body`] to be called.
    pub(crate) fn body(&mut self, head: &Head) -> io::Take<&mut R> {
        (&mut self.stream).take(head.size_bytes)
    }

    /// Passes over what fills a body up to a whole block.
    pub(crate) fn end_body(&mut self, head: &Head) -> io::Result<()> {
        let filling = head.size_bytes.next_multiple_of(BLOCK as u64) - head.size_bytes;
        let mut bytes = vec![0; usize::try_from(filling).unwrap_or_default()];
        self.stream.read_exact(&mut bytes)?;
        if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(foreign()) }
    }

    fn blocks(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(count).unwrap_or_default() * BLOCK];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The name in the header or in the record before it.
fn path(header: &Header, record: Option<&[u8]>, is_folder: bool) -> io::Result<RelativePath> {
    let name = match record {
        // `<length> path=<name>\n`, and no other record: the length is compared with the rest of the header.
        Some(record) => {
            let start = record.iter().position(|byte| *byte == b' ').ok_or_else(foreign)? + 1;
            let value = record.get(start..).and_then(|rest| rest.strip_prefix(NAME_KEY)?.strip_prefix(b"="));
            value.and_then(|value| value.strip_suffix(b"\n")).ok_or_else(foreign)?.to_vec()
        }
        None => header.path_bytes().into_owned(),
    };
    let text = String::from_utf8(name).map_err(|_| foreign())?;
    let text = if is_folder { text.strip_suffix('/').ok_or_else(foreign)? } else { &text };
    RelativePath::new(text).map_err(|error| invalid(error.to_string()))
}

fn foreign() -> io::Error {
    invalid("a header that this store does not write".to_owned())
}
