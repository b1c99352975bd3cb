//! Trees of files: what a source produces, the store keeps and the formats read.

use std::collections::BTreeMap;
use std::io::{self, Read};

use bytes::Bytes;

use crate::{Limit, LimitExceeded, Limits, RelativePath};

/// One entry while a [`Tree`] is walked.
pub enum Node<'a> {
    /// A folder.
    Directory,
    /// A regular file; exactly `size_bytes` can be read from `body`.
    File {
        /// Whether any execute bit is set. No other mode bits are kept.
        executable: bool,
        /// Length of the body.
        size_bytes: u64,
        /// The body, from its beginning.
        body: &'a mut dyn Read,
    },
}

/// A tree that can be walked, whatever it lies in: memory, a spool file, a git object database.
pub trait Tree {
    /// Calls `visit` for every entry in byte order of the paths, so a folder comes before what is in it.
    /// Every folder that holds something is an entry of its own. The root is not.
    ///
    /// # Errors
    /// The first error of `visit` or of reading a body ends the walk.
    fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()>;

    /// The body of the file at `path` as whole gzip members, where the tree keeps it compressed beside the plain one. Blocks until
    /// it is. `None`, which is always right: compress what [`Tree::walk`] gives.
    fn packed<'a>(&'a self, path: &RelativePath) -> Option<Box<dyn Read + 'a>> {
        let _ = path;
        None
    }
}

/// An entry of a [`BundleTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Directory,
    /// A regular file.
    File {
        /// Whether any execute bit is set.
        executable: bool,
        /// The whole body.
        body: Bytes,
    },
}

/// A bundle's files in memory, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleTree {
    entries: BTreeMap<RelativePath, Entry>,
}

/// Why part of a tree cannot be held in memory.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// It is larger than [`Limits::text_bytes`].
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The tree could not be read.
    #[error("read the tree")]
    Read(#[source] io::Error),
}

impl BundleTree {
    /// The entries of `tree` for which `wants` holds. [`Limits::text_bytes`] bounds the sum of their files.
    pub fn collect(
        tree: &dyn Tree,
        wants: &dyn Fn(&RelativePath) -> bool,
        limits: &Limits,
    ) -> Result<Self, CollectError> {
        let mut found = Self::new();
        let mut total = 0_u64;
        let mut exceeded = None;
        let walked = tree.walk(&mut |path, node| {
            match node {
                _ if !wants(path) => {}
                Node::Directory => found.add_directory(path.clone()),
                Node::File { executable, size_bytes, body } => {
                    total = total.saturating_add(size_bytes);
                    if let Err(limit) = Limit::TextBytes.check(total, limits.text_bytes, || path.to_string()) {
                        exceeded = Some(limit);
                        return Err(io::Error::other("the limit is exceeded"));
                    }
                    let mut bytes = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or(0));
                    body.take(size_bytes).read_to_end(&mut bytes)?;
                    found.add_file(path.clone(), executable, Bytes::from(bytes));
                }
            }
            Ok(())
        });
        match (exceeded, walked) {
            (Some(limit), _) => Err(limit.into()),
            (None, walked) => walked.map(|()| found).map_err(CollectError::Read),
        }
    }

    /// A tree without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and the folders it lies in. What stood at `path` before is replaced.
    pub fn add_file(&mut self, path: RelativePath, executable: bool, body: Bytes) {
        self.add_parents(&path);
        self.entries.insert(path, Entry::File { executable, body });
    }

    /// Adds a folder and the folders it lies in.
    pub fn add_directory(&mut self, path: RelativePath) {
        self.add_parents(&path);
        self.entries.insert(path, Entry::Directory);
    }

    fn add_parents(&mut self, path: &RelativePath) {
        let mut parent = path.parent();
        while let Some(folder) = parent {
            parent = folder.parent();
            if self.entries.insert(folder, Entry::Directory) == Some(Entry::Directory) {
                break;
            }
        }
    }

    /// The entry at `path`.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Every entry in byte order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&RelativePath, &Entry)> {
        self.entries.iter()
    }

    /// The entries directly inside `folder`, in byte order; `None` if there is no such folder.
    pub fn list<'a>(&'a self, folder: &str) -> Option<impl Iterator<Item = (&'a str, &'a Entry)> + use<'a>> {
        if !matches!(self.entries.get(folder), Some(Entry::Directory)) {
            return None;
        }
        let prefix = format!("{folder}/");
        let skip = prefix.len();
        // '/' + 1 == '0': everything below the folder lies between `folder/` and `folder0`.
        let range = (std::ops::Bound::Excluded(prefix), std::ops::Bound::Excluded(format!("{folder}0")));
        let below =
            self.entries.range::<str, _>((range.0.as_ref().map(String::as_str), range.1.as_ref().map(String::as_str)));
        Some(below.map(move |(path, entry)| (&path.as_str()[skip..], entry)).filter(|(name, _)| !name.contains('/')))
    }

    /// Sum of the lengths of all files.
    pub fn size_bytes(&self) -> u64 {
        self.entries
            .values()
            .map(|entry| match entry {
                Entry::Directory => 0,
                Entry::File { body, .. } => body.len() as u64,
            })
            .sum()
    }
}

impl Tree for BundleTree {
    fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
        for (path, entry) in &self.entries {
            match entry {
                Entry::Directory => visit(path, Node::Directory)?,
                Entry::File { executable, body } => visit(
                    path,
                    Node::File { executable: *executable, size_bytes: body.len() as u64, body: &mut body.as_ref() },
                )?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> BundleTree {
        let mut tree = BundleTree::new();
        for path in paths {
            tree.add_file(RelativePath::new(path).unwrap(), false, Bytes::from_static(b"x"));
        }
        tree
    }

    #[test]
    fn folders_come_with_their_files() {
        let tree = tree(&["a/b/c", "a/d"]);
        assert_eq!(tree.get("a/b"), Some(&Entry::Directory));
        assert_eq!(tree.get("a"), Some(&Entry::Directory));
        assert_eq!(tree.size_bytes(), 2, "of the files alone");
    }

    #[test]
    fn what_is_collected_is_bounded_and_what_is_passed_over_is_not() {
        let tree = tree(&["bin/large", "manifests/a", "manifests/b"]);
        let wants = |path: &RelativePath| path.as_str().starts_with("manifests");
        let collect = |text_bytes| BundleTree::collect(&tree, &wants, &Limits { text_bytes, ..Limits::default() });
        assert_eq!(collect(2).unwrap().iter().count(), 3);
        let error = collect(1).unwrap_err();
        assert!(error.to_string().starts_with("manifests/b: more than the limit of 1 bytes of manifests"), "{error}");
    }

    #[test]
    fn a_listing_is_one_level_deep_and_of_that_folder_alone() {
        let tree = tree(&["manifests/b.yaml", "manifests/a/x", "manifests-old/c", "manifests0", "manifests.txt"]);
        let names: Vec<_> = tree.list("manifests").unwrap().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b.yaml"]);
        assert!(tree.list("absent").is_none());
        assert!(tree.list("manifests0").is_none());
    }
}
