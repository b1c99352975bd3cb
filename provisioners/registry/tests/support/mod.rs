//! What the tests of this crate share.
//! Not every test uses all of it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use rukpak_content::{BundleTree, RelativePath};

pub mod compare;
pub mod fixture;
pub mod rendering;

/// What is in a folder, by name; nothing if there is no such folder.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// A folder on disk as a tree.
pub fn tree(root: &Path) -> io::Result<BundleTree> {
    let mut tree = BundleTree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in list(&folder)? {
            let name = path.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().into_owned();
            let name = RelativePath::new(&name).map_err(io::Error::other)?;
            if path.is_dir() {
                tree.add_directory(name);
                folders.push(path);
            } else {
                tree.add_file(name, false, Bytes::from(fs::read(&path)?));
            }
        }
    }
    Ok(tree)
}

/// An error with all its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
