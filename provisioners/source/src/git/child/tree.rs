//! A commit's tree as a tar, read from the object database. Nothing is checked out: no filters, attributes or hooks.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, Tree, TreeEntry};
use rukpak_content::{Limit, Limits, RelativePath};
use tar::{Builder, EntryType, Header};

use crate::git::{Class, Commit, Failure, Step};
use crate::stage::is_content;

const EXECUTE_BITS: i32 = 0o111;
const LINK_MODE: i32 = 0o120_000;
/// Linux' PATH_MAX: a longer target is no link.
const TARGET_BYTES: usize = 4096;

/// What will be written for one entry.
pub(super) struct Item {
    path: RelativePath,
    oid: Oid,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File { executable: bool },
    Link,
}

/// Everything below `directory` in `commit`, found and measured without reading a file, so that all refusals come before the
/// first byte of the tar.
///
/// Submodules are left out. Links are listed below the bundle formats' folders only, where the reader of the tar judges them.
pub(super) fn list(
    repository: &Repository,
    commit: &Commit,
    directory: Option<&RelativePath>,
    shown: &str,
    limits: &Limits,
) -> Result<Vec<Item>, Failure> {
    let root = Oid::from_str(commit.as_str())
        .and_then(|oid| repository.find_commit(oid)?.tree())
        .map_err(|error| damaged(shown, &error))?;
    let top = match directory {
        Some(directory) => subdirectory(repository, &root, directory, commit)?,
        None => root,
    };
    let mut lister = Lister { repository, shown, limits, seen: 0, size_bytes: 0, items: Vec::new() };
    let mut open = vec![(None, top)];
    while let Some((folder, tree)) = open.pop() {
        for entry in &tree {
            if let Some(below) = lister.add(folder.as_ref(), &entry)? {
                open.push(below);
            }
        }
    }
    Ok(lister.items)
}

/// Writes what was listed.
pub(super) fn write(repository: &Repository, items: &[Item], output: &mut dyn Write) -> io::Result<()> {
    let mut archive = Builder::new(output);
    for item in items {
        let mut header = Header::new_gnu();
        let path = item.path.as_str();
        match item.kind {
            Kind::Directory => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                header.set_size(0);
                archive.append_data(&mut header, path, io::empty())?;
            }
            Kind::File { executable } => {
                let blob = repository.find_blob(item.oid).map_err(io::Error::other)?;
                header.set_mode(if executable { 0o755 } else { 0o644 });
                header.set_size(blob.content().len() as u64);
                archive.append_data(&mut header, path, blob.content())?;
            }
            Kind::Link => {
                let blob = repository.find_blob(item.oid).map_err(io::Error::other)?;
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                archive.append_link(&mut header, path, Path::new(OsStr::from_bytes(blob.content())))?;
            }
        }
    }
    archive.into_inner()?.flush()
}

struct Lister<'a> {
    repository: &'a Repository,
    shown: &'a str,
    limits: &'a Limits,
    seen: u64,
    size_bytes: u64,
    items: Vec<Item>,
}

impl<'a> Lister<'a> {
    /// Lists one entry; a folder is returned to be looked into.
    fn add(
        &mut self,
        folder: Option<&RelativePath>,
        entry: &TreeEntry<'_>,
    ) -> Result<Option<(Option<RelativePath>, Tree<'a>)>, Failure> {
        let path = path(folder, entry.name_bytes()).map_err(|text| self.refuse(&text))?;
        // Every entry counts, skipped ones too: trees that name one tree many times grow without bound.
        self.seen += 1;
        let place = || format!("{}: {path}", self.shown);
        Limit::Entries.check(self.seen, self.limits.entries, place).map_err(|limit| exceeded(&limit))?;
        Limit::Depth.check(path.depth() as u64, self.limits.depth, place).map_err(|limit| exceeded(&limit))?;
        let path_bytes = path.as_str().len() as u64;
        Limit::PathBytes.check(path_bytes, self.limits.path_bytes, place).map_err(|limit| exceeded(&limit))?;
        match entry.kind() {
            Some(ObjectType::Tree) => {
                let tree = self.repository.find_tree(entry.id()).map_err(|error| damaged(self.shown, &error))?;
                self.items.push(Item { path: path.clone(), oid: entry.id(), kind: Kind::Directory });
                Ok(Some((Some(path), tree)))
            }
            Some(ObjectType::Blob) => self.blob(path, entry).map(|()| None),
            _ => Ok(None),
        }
    }

    fn blob(&mut self, path: RelativePath, entry: &TreeEntry<'_>) -> Result<(), Failure> {
        let is_link = entry.filemode() == LINK_MODE;
        if is_link && !is_content(&path) {
            return Ok(());
        }
        let measured = self.repository.odb().and_then(|odb| odb.read_header(entry.id()));
        let (size, _) = measured.map_err(|error| damaged(self.shown, &error))?;
        if is_link && size > TARGET_BYTES {
            return Err(self.refuse(&format!("{path}: a link's target is longer than {TARGET_BYTES} bytes")));
        }
        self.size_bytes += size as u64;
        let place = || format!("{}: {path}", self.shown);
        Limit::TreeBytes.check(self.size_bytes, self.limits.tree_bytes, place).map_err(|limit| exceeded(&limit))?;
        let executable = entry.filemode() & EXECUTE_BITS != 0;
        let kind = if is_link { Kind::Link } else { Kind::File { executable } };
        self.items.push(Item { path, oid: entry.id(), kind });
        Ok(())
    }

    fn refuse(&self, text: &str) -> Failure {
        Failure::new(Step::Checkout, Class::Terminal, format!("{}: {text}", self.shown))
    }
}

/// The path of an entry. git's own rules for names are checked again: trees can be made by hand.
fn path(folder: Option<&RelativePath>, name: &[u8]) -> Result<RelativePath, String> {
    let text = std::str::from_utf8(name)
        .map_err(|_| format!("{:?}: the name is not UTF-8, rename it", String::from_utf8_lossy(name)))?;
    if text.contains('/') || matches!(text, "" | "." | "..") {
        return Err(format!("{text:?} is not a file name"));
    }
    let joined = folder.map_or_else(|| RelativePath::new(text), |folder| folder.join(text));
    joined.map_err(|error| error.to_string())
}

fn subdirectory<'a>(
    repository: &'a Repository,
    root: &Tree<'a>,
    directory: &RelativePath,
    commit: &Commit,
) -> Result<Tree<'a>, Failure> {
    let refuse = |class, text: String| Err(Failure::new(Step::Subdirectory, class, text));
    let Ok(entry) = root.get_path(Path::new(directory.as_str())) else {
        return refuse(Class::NotFound, format!("commit {commit} has no such directory"));
    };
    let what = match (entry.kind(), entry.filemode()) {
        (Some(ObjectType::Tree), _) => {
            return repository.find_tree(entry.id()).map_err(|error| damaged(directory.as_str(), &error));
        }
        (Some(ObjectType::Blob), LINK_MODE) => "a link",
        (Some(ObjectType::Blob), _) => "a file",
        _ => "a submodule",
    };
    refuse(Class::Terminal, format!("in commit {commit} it is {what}, not a directory"))
}

fn exceeded(limit: &rukpak_content::LimitExceeded) -> Failure {
    Failure::new(Step::Checkout, Class::Terminal, limit.to_string())
}

fn damaged(place: &str, error: &git2::Error) -> Failure {
    Failure::new(Step::Checkout, Class::Unavailable, format!("{place}: {}", error.message()))
}

#[cfg(test)]
mod tests;
