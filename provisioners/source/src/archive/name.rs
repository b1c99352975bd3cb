//! The names in an archive: which are content, which are skipped, which are refused.

use rukpak_content::{PathError, RelativePath};

use super::{Dialect, Error};
use crate::stage::{CONTENT_FOLDERS, shortened};

/// Folders of an image's root that belong to the machine that runs it. RukPak's unpacker skipped the same.
const MACHINE_FOLDERS: [&str; 5] = ["dev", "etc", "proc", "sys", "bin"];

/// What a name stands for.
pub(super) enum Name {
    /// The root itself.
    Root,
    /// Not bundle content and not worth an error.
    Skipped,
    /// A place in the tree.
    Path(Path),
}

/// A place in the tree.
pub(super) struct Path {
    pub(super) path: RelativePath,
    /// Whether it is bundle content: there, what cannot be staged is refused instead of skipped.
    pub(super) strict: bool,
}

/// What a whiteout hides.
pub(super) enum Whiteout {
    /// What earlier layers put there.
    One(RelativePath),
    /// Everything earlier layers put into the folder; `None` is the root.
    Folder(Option<RelativePath>),
    /// Some tool's own mark. It is not a file.
    Reserved,
}

/// Reads a name as it stands in an archive.
///
/// `..` is refused wherever it stands: no image needs it, and whoever writes it wants out.
pub(super) fn read(raw: &[u8], dialect: Dialect) -> Result<Name, Error> {
    let lossy = String::from_utf8_lossy(raw);
    let text = match dialect {
        Dialect::Layer => lossy.trim_start_matches('/'),
        Dialect::Plain => &lossy,
    };
    let path = match RelativePath::new(text) {
        Ok(path) => path,
        Err(PathError::Empty) => return Ok(Name::Root),
        // As what is not UTF-8: images have such names (`Icon\r`), and it is not bundle content.
        Err(PathError::Control(_)) if dialect == Dialect::Layer && !may_be_content(text) => return Ok(Name::Skipped),
        Err(source) => return Err(Error::Name { entry: shown(raw), source: shorten(source) }),
    };
    let first = path.components().next().unwrap_or_default();
    let strict = dialect == Dialect::Plain || CONTENT_FOLDERS.contains(&first);
    if dialect == Dialect::Layer && MACHINE_FOLDERS.contains(&first) {
        return Ok(Name::Skipped);
    }
    match str::from_utf8(raw) {
        Ok(_) => Ok(Name::Path(Path { path, strict })),
        Err(_) if strict => Err(Error::NotUtf8 { entry: shown(raw) }),
        Err(_) => Ok(Name::Skipped),
    }
}

/// Whether a name that cannot be used would lie in one of the format's folders, or hide one.
fn may_be_content(text: &str) -> bool {
    let first = text.split('/').find(|component| !matches!(*component, "" | "."));
    let first = first.map(|first| first.strip_prefix(PREFIX).unwrap_or(first));
    first.is_some_and(|first| CONTENT_FOLDERS.contains(&first))
}

/// Reads a name in a layer of which only `folder` is wanted: no folder is the machine's, and a name that is not UTF-8 is
/// refused only there.
pub(super) fn read_below(raw: &[u8], folder: &RelativePath) -> Result<Name, Error> {
    let lossy = String::from_utf8_lossy(raw);
    let path = match RelativePath::new(lossy.trim_start_matches('/')) {
        Ok(path) => path,
        Err(PathError::Empty) => return Ok(Name::Root),
        Err(source) => return Err(Error::Name { entry: shown(raw), source: shorten(source) }),
    };
    match str::from_utf8(raw) {
        Ok(_) => Ok(Name::Path(Path { path, strict: false })),
        Err(_) if path.strip(folder).is_some() => Err(Error::NotUtf8 { entry: shown(raw) }),
        Err(_) => Ok(Name::Skipped),
    }
}

/// The whiteout that `path` is, if it is one.
///
/// Source: the OCI image specification, `layer.md`, "Whiteouts"; `.wh..wh.` names other than `.wh..wh..opq` are aufs' own.
pub(super) fn whiteout(path: &RelativePath) -> Result<Option<Whiteout>, Error> {
    let mut folders = path.as_str().split('/').rev().skip(1);
    if folders.any(|folder| folder.starts_with(PREFIX)) {
        return Ok(Some(Whiteout::Reserved));
    }
    let Some(hidden) = path.name().strip_prefix(PREFIX) else { return Ok(None) };
    if hidden == ".wh..opq" {
        return Ok(Some(Whiteout::Folder(path.parent())));
    }
    if hidden.starts_with(PREFIX) {
        return Ok(Some(Whiteout::Reserved));
    }
    let fault = || Error::Header { entry: shown(path.as_str().as_bytes()), what: "a whiteout that names no file" };
    if matches!(hidden, "" | "." | "..") {
        return Err(fault());
    }
    let one = match path.parent() {
        Some(folder) => folder.join(hidden),
        None => RelativePath::new(hidden),
    };
    one.map(|path| Some(Whiteout::One(path))).map_err(|_| fault())
}

const PREFIX: &str = ".wh.";

/// Whether a symbolic link at `path` points out of the tree. Names are compared; nothing is followed.
pub(super) fn leaves(path: &RelativePath, target: &[u8], dialect: Dialect) -> bool {
    let target = String::from_utf8_lossy(target);
    let absolute = target.starts_with('/');
    if absolute && dialect == Dialect::Plain {
        return true;
    }
    let mut depth = if absolute { 0 } else { path.depth() - 1 };
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// A name for people: at most 80 characters, what is not UTF-8 replaced.
pub(super) fn shown(raw: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(raw))
}

fn shorten(error: PathError) -> PathError {
    match error {
        PathError::Empty => PathError::Empty,
        PathError::Absolute(text) => PathError::Absolute(shortened(&text)),
        PathError::Escape(text) => PathError::Escape(shortened(&text)),
        PathError::Control(text) => PathError::Control(shortened(&text)),
    }
}
