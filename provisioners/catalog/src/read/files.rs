//! The files of a folder: links, `.indexignore`, bounds. Disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rukpak_content::{Limit, Limits};

use super::Error;
use super::ignored::{self, Rules};

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CatalogFile {
    /// Relative to the root, with `/`; what messages say.
    pub name: Arc<str>,
    /// Where it is, with no link in it.
    pub path: PathBuf,
}

/// All files, sorted by name.
pub(super) fn list(root: &Path, limits: &Limits) -> Result<Vec<CatalogFile>, Error> {
    let shown = || root.display().to_string();
    let root = root.canonicalize().map_err(|source| Error::Io { path: shown(), source })?;
    if !root.is_dir() {
        return Err(Error::NotAFolder(shown()));
    }
    let mut walk = Walk { root: root.clone(), limits, entries: 0, found: Vec::new(), linked: Vec::new() };
    walk.folder(&root, "", 1, &Rules::default())?;
    let Walk { mut found, linked, .. } = walk;
    found.sort();
    let known: BTreeSet<PathBuf> = found.iter().map(|file| file.path.clone()).collect();
    let mut linked: Vec<CatalogFile> = linked.into_iter().filter(|link| !known.contains(&link.path)).collect();
    linked.sort_by(|a, b| (&a.path, &a.name).cmp(&(&b.path, &b.name)));
    linked.dedup_by(|a, b| a.path == b.path);
    found.append(&mut linked);
    found.sort();
    Ok(found)
}

struct Walk<'a> {
    root: PathBuf,
    limits: &'a Limits,
    entries: u64,
    found: Vec<CatalogFile>,
    /// Files in the root that links lead to: they may be found in their own place too.
    linked: Vec<CatalogFile>,
}

impl Walk<'_> {
    /// Recursion is bounded by [`Limits::depth`].
    fn folder(&mut self, folder: &Path, name: &str, depth: u64, outer: &Rules) -> Result<(), Error> {
        let shown = || if name.is_empty() { ".".to_owned() } else { name.to_owned() };
        Limit::Depth.check(depth, self.limits.depth, shown)?;
        let io = |source| Error::Io { path: shown(), source };
        let rules = outer.enter(folder, name)?;
        for entry in fs::read_dir(folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            self.entries += 1;
            Limit::Entries.check(self.entries, self.limits.entries, || "the catalog".to_owned())?;
            let (path, file_name) = (entry.path(), entry.file_name());
            if file_name == ignored::FILE {
                continue;
            }
            let kind = entry.file_type().map_err(io)?;
            if if kind.is_dir() { rules.leave_out_all(&path) } else { rules.leave_out(&path) } {
                continue;
            }
            let Some(file_name) = file_name.to_str() else {
                return Err(Error::Name(format!("{}/{}", shown(), file_name.to_string_lossy())));
            };
            let name = below(name, file_name);
            Limit::PathBytes.check(name.len() as u64, self.limits.path_bytes, || name.clone())?;
            if kind.is_dir() {
                self.folder(&path, &name, depth + 1, &rules)?;
            } else if kind.is_symlink() {
                self.link(&path, name)?;
            } else if kind.is_file() {
                self.found.push(CatalogFile { name: Arc::from(name), path });
            } else {
                return Err(Error::Special(name));
            }
        }
        Ok(())
    }

    /// What a link to a folder in the root leads to is found in its own place.
    fn link(&mut self, path: &Path, name: String) -> Result<(), Error> {
        let io = |source| Error::Io { path: name.clone(), source };
        let target = path.canonicalize().map_err(io)?;
        if !target.starts_with(&self.root) {
            return Err(Error::Link(name));
        }
        let kind = target.metadata().map_err(io)?;
        if kind.is_file() {
            self.linked.push(CatalogFile { name: Arc::from(name), path: target });
        } else if !kind.is_dir() {
            return Err(Error::Special(name));
        }
        Ok(())
    }
}

/// The name of what is in a folder, which has no name if it is the root.
fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
