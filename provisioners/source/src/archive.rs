//! Untrusted tar streams into a [`Stage`].
//!
//! The rules for names and links are in this crate's README. The stream is read once, front to back; nothing in it
//! is believed before it is checked, and nothing of it is kept in memory but one extension header.

mod entry;
mod extension;
mod name;

use std::io::{self, Cursor, Read};

use rukpak_content::{LimitExceeded, RelativePath};

use crate::decompress::confined::Lost;
use crate::stage;
use crate::{Stage, Staged};
use entry::Kind;
use extension::Extensions;
use name::{Name, Whiteout};

/// The length of a tar header.
pub(crate) const BLOCK_BYTES: usize = 512;

/// How an archive is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A layer of a container image: names count from the image's root, whiteouts hide what earlier layers held, and what
    /// is no bundle content is skipped where it cannot be staged.
    Layer,
    /// A tree that is all bundle content: what cannot be staged is refused wherever it lies. `.wh.` means nothing.
    Plain,
}

/// Why an archive was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream is damaged or is no tar archive, or its source failed.
    #[error("cannot read the tar archive")]
    Read(#[source] io::Error),
    /// The stage refused the entry.
    #[error(transparent)]
    Stage(#[from] stage::Error),
    /// A name holds `..` or a control character, or, in a [`Dialect::Plain`] archive, is absolute.
    #[error("entry {entry:?} of the archive cannot be part of a bundle")]
    Name {
        /// The name, at most 80 characters.
        entry: String,
        /// Why.
        source: rukpak_content::PathError,
    },
    /// A name is not UTF-8.
    #[error("entry {entry:?}: the name is not UTF-8; rename the file")]
    NotUtf8 {
        /// The name, as far as it can be shown.
        entry: String,
    },
    /// A link points out of the tree.
    #[error("entry {entry:?}: the link to {target:?} leaves the bundle; put the file itself into the bundle")]
    Link {
        /// The link.
        entry: String,
        /// Where it points.
        target: String,
    },
    /// A hard link to a file that is not in the archive.
    #[error("entry {entry:?}: {target:?}, which it is a hard link to, is not a file of the bundle")]
    HardLink {
        /// The link.
        entry: String,
        /// What it names.
        target: String,
    },
    /// A device, a named pipe, or an entry of an unknown type.
    #[error("entry {entry:?} is {what}; a bundle holds only files and folders")]
    Special {
        /// The entry.
        entry: String,
        /// What it is.
        what: &'static str,
    },
    /// The entry's headers say two different things, or something that no writer of images says.
    #[error("entry {entry:?}: {what}")]
    Header {
        /// The entry, at most 80 characters.
        entry: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl Error {
    /// Whether the bytes themselves are damaged, rather than well-formed and refused.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read(source) | Self::Stage(stage::Error::Read { source, .. }) => {
                source.get_ref().is_none_or(|inner| !inner.is::<LimitExceeded>())
            }
            Self::Stage(stage::Error::Size { .. }) => true,
            _ => false,
        }
    }

    /// Whether the same bytes may be read later: the disk or the process that decompresses them failed, and nothing is known to be
    /// wrong with the archive.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Stage(stage::Error::Write { .. } | stage::Error::Create { .. }) => true,
            Self::Read(source) | Self::Stage(stage::Error::Read { source, .. }) => {
                source.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Lost>)
            }
            _ => false,
        }
    }
}

/// Reads the tar archive `reader` into `stage`, up to the archive's end mark or the end of the stream.
///
/// Bytes behind the end mark are left in `reader`. After an error the stage holds part of the archive.
pub fn read_tar(reader: &mut dyn Read, stage: &mut Stage, dialect: Dialect) -> Result<(), Error> {
    read(reader, &mut Unpacker { stage, dialect, only: None })
}

/// Reads a layer as [`read_tar`] does, yet of its files only those below `folder`, whichever it is.
///
/// What is neither a file nor a folder there becomes a barrier, so that a caller can refuse what no later layer hides.
pub(crate) fn read_folder_of_layer(
    reader: &mut dyn Read,
    stage: &mut Stage,
    folder: &RelativePath,
) -> Result<(), Error> {
    read(reader, &mut Unpacker { stage, dialect: Dialect::Layer, only: Some(folder) })
}

fn read(reader: &mut dyn Read, unpacker: &mut Unpacker<'_>) -> Result<(), Error> {
    let mut start = Vec::new();
    Read::take(&mut *reader, BLOCK_BYTES as u64).read_to_end(&mut start).map_err(Error::Read)?;
    if !start.is_empty() && !is_tar(&start) {
        return Err(Error::Read(damage("not a tar archive")));
    }
    let mut archive = tar::Archive::new(Cursor::new(start).chain(reader));
    let mut extensions = Extensions::default();
    // Raw: the crate would read a long name of any length into memory.
    for entry in archive.entries().map_err(Error::Read)?.raw(true) {
        let mut entry = entry.map_err(|error| Error::Read(without_content(error)))?;
        if extensions.take_header(&mut entry)? {
            continue;
        }
        let extensions = std::mem::take(&mut extensions);
        let header = entry::Header::new(&entry, &extensions)?;
        unpacker.apply(&header, &mut entry)?;
    }
    extensions.finish()
}

/// Whether a tar archive begins so: with a header whose checksum is right, or with the end mark.
pub(crate) fn is_tar(start: &[u8]) -> bool {
    let Ok(block) = <&[u8; BLOCK_BYTES]>::try_from(start) else { return false };
    let stored = tar::Header::from_byte_slice(block).cksum();
    // The checksum is taken with its own eight bytes as spaces.
    let field = 148..156;
    let sum = |(at, byte): (usize, &u8)| u32::from(if field.contains(&at) { b' ' } else { *byte });
    let actual: u32 = block.iter().enumerate().map(sum).sum();
    block.iter().all(|byte| *byte == 0) || stored.is_ok_and(|stored| stored == actual)
}

/// The crate quotes what it takes for a number, which in a damaged archive may be anything.
fn without_content(error: io::Error) -> io::Error {
    if error.to_string().starts_with("numeric field") {
        damage("a header holds text in place of a number")
    } else {
        error
    }
}

fn damage(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

struct Unpacker<'a> {
    stage: &'a mut Stage,
    dialect: Dialect,
    /// Nothing but this folder, and what decides whether it is one.
    only: Option<&'a RelativePath>,
}

impl Unpacker<'_> {
    fn apply(&mut self, header: &entry::Header, body: &mut dyn Read) -> Result<(), Error> {
        let name = match self.read_name(&header.name)? {
            Name::Root if header.kind == Kind::Directory => return Ok(()),
            Name::Root => return Err(Error::Header { entry: header.shown(), what: "the root is not a folder" }),
            Name::Skipped => return Ok(()),
            Name::Path(name) => name,
        };
        if self.stage.barrier_above(&name.path).is_some() && !name.strict {
            return Ok(());
        }
        if self.dialect == Dialect::Layer {
            match name::whiteout(&name.path)? {
                Some(Whiteout::One(path)) if self.wants(&path) => return Ok(self.stage.whiteout(&path)?),
                Some(Whiteout::Folder(folder)) if folder.as_ref().is_none_or(|folder| self.wants(folder)) => {
                    return Ok(self.stage.whiteout_children(folder.as_ref())?);
                }
                Some(_) => return Ok(()),
                None => {}
            }
        }
        if !self.wants(&name.path) {
            return Ok(());
        }
        match header.kind {
            Kind::Directory => self.stage.add_directory(&name.path)?,
            Kind::File => self.stage.add_file(&name.path, header.executable, Some(header.size_bytes), body)?,
            Kind::SymbolicLink => self.symbolic_link(&name, header)?,
            Kind::HardLink => self.hard_link(&name, header)?,
            Kind::Special(what) if name.strict => return Err(Error::Special { entry: header.shown(), what }),
            Kind::Special(_) => self.stage.add_barrier(&name.path)?,
        }
        Ok(())
    }

    fn read_name(&self, raw: &[u8]) -> Result<Name, Error> {
        match self.only {
            None => name::read(raw, self.dialect),
            Some(folder) => name::read_below(raw, folder),
        }
    }

    /// Whether `path` lies in the folder that is wanted, or the folder in it.
    fn wants(&self, path: &RelativePath) -> bool {
        let within = |path: &RelativePath, folder: &RelativePath| path == folder || path.strip(folder).is_some();
        self.only.is_none_or(|folder| within(path, folder) || within(folder, path))
    }

    /// A link is never followed. Below the content folders one that leaves the tree is refused, so that nobody wonders where
    /// its file went.
    fn symbolic_link(&mut self, name: &name::Path, header: &entry::Header) -> Result<(), Error> {
        if name.strict && name::leaves(&name.path, &header.target, self.dialect) {
            return Err(Error::Link { entry: header.shown(), target: header.shown_target() });
        }
        Ok(self.stage.add_barrier(&name.path)?)
    }

    fn hard_link(&mut self, name: &name::Path, header: &entry::Header) -> Result<(), Error> {
        let target = match self.read_name(&header.target) {
            Ok(Name::Path(target)) => Some(target.path),
            Err(_) if name.strict => {
                return Err(Error::Link { entry: header.shown(), target: header.shown_target() });
            }
            Ok(Name::Root | Name::Skipped) | Err(_) => None,
        };
        let staged = target.as_ref().and_then(|target| self.stage.get(target));
        match (target, staged) {
            (Some(target), Some(Staged::File)) => {
                self.stage.add_alias(&name.path, &target)?;
            }
            // A second name of a skipped link is a skipped link.
            (_, staged) if !name.strict || staged == Some(Staged::Barrier) => self.stage.add_barrier(&name.path)?,
            _ => return Err(Error::HardLink { entry: header.shown(), target: header.shown_target() }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
