//! One entry's headers, made sense of.

use std::io::Read;

use tar::EntryType;

use super::Error;
use super::extension::Extensions;
use super::name::shown;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    SymbolicLink,
    HardLink,
    /// Anything else, in words.
    Special(&'static str),
}

/// An entry's header with its extension headers folded in.
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) name: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) executable: bool,
    pub(super) size_bytes: u64,
}

impl Header {
    pub(super) fn new<R: Read>(entry: &tar::Entry<'_, R>, extensions: &Extensions) -> Result<Self, Error> {
        let header = entry.header();
        let short_name = header.path_bytes().into_owned();
        let size_bytes = header.entry_size().map_err(Error::Read)?;
        let (name, target) = (extensions.name()?, extensions.target()?);
        let name = name.unwrap_or(short_name);
        let fault = |what| Err(Error::Header { entry: shown(&name), what });
        let kind = match header.entry_type() {
            // Before POSIX a folder was a file whose name ends in a slash.
            EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::SymbolicLink,
            EntryType::Link => Kind::HardLink,
            EntryType::Char => Kind::Special("a character device"),
            EntryType::Block => Kind::Special("a block device"),
            EntryType::Fifo => Kind::Special("a named pipe"),
            EntryType::GNUSparse => return fault(SPARSE),
            _ => Kind::Special("an entry of an unknown type"),
        };
        if extensions.sparse {
            return fault(SPARSE);
        }
        // Readers differ in which of two sizes they believe and in whether a link has a body: whoever can make two readers
        // disagree can show one archive to a scanner and another one to us.
        if extensions.size_bytes.is_some_and(|size| size != size_bytes) {
            return fault("its two headers give two sizes");
        }
        if size_bytes != 0 && !matches!(kind, Kind::File | Kind::Special("an entry of an unknown type")) {
            return fault("something that is not a file has a body");
        }
        let target = target.unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned());
        // Some writers leave the mode empty.
        let executable = header.mode().is_ok_and(|mode| mode & 0o111 != 0);
        Ok(Self { kind, name, target, executable, size_bytes })
    }

    pub(super) fn shown(&self) -> String {
        shown(&self.name)
    }

    pub(super) fn shown_target(&self) -> String {
        shown(&self.target)
    }
}

const SPARSE: &str = "sparse files are not supported; write the archive without --sparse";
