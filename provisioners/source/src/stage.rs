//! A tree in progress: an index in memory and one nameless spool file.
//!
//! No path of a bundle ever reaches the file system, so none can leave it. Whatever an archive, an image or a git
//! tree says about names, all that is written is appended to a file that has no name.

mod ahead;
mod error;
mod spool;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Bound;
use std::path::Path;

use rukpak_content::{Limit, LimitExceeded, Limits, Node, RelativePath, Tree};

pub use error::Error;
use spool::{AppendError, Spool, Window};

/// Folders of the bundle formats. Files below them count against [`Limits::manifest_bytes`].
pub(crate) const CONTENT_FOLDERS: [&str; 2] = ["manifests", "metadata"];

/// A tree in progress. It is shared for reading (see [`Tree`]) once it is complete.
///
/// Limits, all checked before or while bytes are copied:
/// * [`Limits::tree_bytes`] bounds two sums: every byte ever spooled, also of files that were replaced or removed
///   later (that is what the disk must hold), and the files that are in the tree now (a hard link costs no disk,
///   yet whoever seals the tree writes its bytes again).
/// * [`Limits::entries`] bounds files and folders, and by itself the number of barriers, and of whiteouts.
/// * [`Limits::path_bytes`], [`Limits::depth`] and, below `manifests/` and `metadata/`, [`Limits::manifest_bytes`].
#[derive(Debug)]
pub struct Stage {
    limits: Limits,
    slots: BTreeMap<RelativePath, Slot>,
    spool: Spool,
    layer: u32,
    entries: u64,
    barriers: u64,
    whiteouts: u64,
    size_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    layer: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Directory,
    File(Body),
    Barrier,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    executable: bool,
    offset: u64,
    size_bytes: u64,
}

/// What a [`Stage`] holds at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// A folder.
    Directory,
    /// A regular file.
    File,
    /// Something that is not content, a link or a device. It is not walked and nothing can be put below it.
    Barrier,
}

impl Stage {
    /// An empty tree whose bodies will lie in a nameless file in `folder`.
    pub fn new_in(folder: &Path, limits: &Limits) -> Result<Self, Error> {
        Self::on(Spool::new_in(folder), folder, limits)
    }

    /// Like [`Stage::new_in`] for a tree that is read once and never sealed: [`Tree::packed`] gives nothing.
    pub(crate) fn unpacked_in(folder: &Path, limits: &Limits) -> Result<Self, Error> {
        Self::on(Spool::plain_in(folder), folder, limits)
    }

    fn on(spool: io::Result<Spool>, folder: &Path, limits: &Limits) -> Result<Self, Error> {
        let spool = spool.map_err(|source| Error::Create { folder: folder.display().to_string(), source })?;
        Ok(Self {
            limits: limits.clone(),
            slots: BTreeMap::new(),
            spool,
            layer: 0,
            entries: 0,
            barriers: 0,
            whiteouts: 0,
            size_bytes: 0,
        })
    }

    /// Starts the next layer: whiteouts hide only what came before this call.
    pub fn begin_layer(&mut self) {
        self.layer += 1;
    }

    /// The first barrier at `folder` or below it.
    pub(crate) fn barrier_in(&self, folder: &RelativePath) -> Option<&RelativePath> {
        let below = self.slots.range::<str, _>((Bound::Included(folder.as_str()), Bound::Unbounded));
        let within = below.take_while(|(path, _)| path.as_str().starts_with(folder.as_str()));
        let mut within = within.filter(|(path, _)| *path == folder || path.strip(folder).is_some());
        within.find(|(_, slot)| matches!(slot.kind, Kind::Barrier)).map(|(path, _)| path)
    }

    /// Number of files and folders.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Sum of the lengths of all files.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What stands at `path`.
    pub fn get(&self, path: &RelativePath) -> Option<Staged> {
        self.slots.get(path).map(|slot| match slot.kind {
            Kind::Directory => Staged::Directory,
            Kind::File(_) => Staged::File,
            Kind::Barrier => Staged::Barrier,
        })
    }

    /// The barrier that `path` lies below, if any.
    pub(crate) fn barrier_above(&self, path: &RelativePath) -> Option<RelativePath> {
        let mut folder = path.as_str();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            match self.slots.get(parent) {
                Some(Slot { kind: Kind::Barrier, .. }) => return RelativePath::new(parent).ok(),
                // Folders of a tree are complete: below a folder that stands there is no barrier above.
                Some(Slot { kind: Kind::Directory, .. }) => return None,
                Some(Slot { kind: Kind::File(_), .. }) | None => folder = parent,
            }
        }
        None
    }

    /// Adds a folder and the folders it lies in. A folder that stands keeps what is in it; anything else is replaced.
    pub fn add_directory(&mut self, path: &RelativePath) -> Result<(), Error> {
        self.check_path(path)?;
        self.put(path, Kind::Directory)
    }

    /// Adds a file and the folders it lies in, reading `body` to its end. Whatever stood at `path` is replaced.
    ///
    /// `size_bytes`, where known, is checked against the limits before the first byte is read and against the body after the
    /// last one.
    pub fn add_file(
        &mut self,
        path: &RelativePath,
        executable: bool,
        size_bytes: Option<u64>,
        body: &mut dyn Read,
    ) -> Result<(), Error> {
        self.check_path(path)?;
        let (limit, most) = self.room(path);
        let refuse = || self.exceeded(limit, path);
        if size_bytes.is_some_and(|size| size > most) {
            return Err(refuse().into());
        }
        let offset = self.spool.len();
        let actual = self.spool.append(body, most).map_err(|error| match error {
            AppendError::Read(source) => Error::Read { path: path.clone(), source },
            AppendError::Write(source) => Error::Write { path: path.clone(), source },
        })?;
        if actual > most {
            return Err(self.exceeded(limit, path).into());
        }
        if let Some(expected) = size_bytes.filter(|expected| *expected != actual) {
            return Err(Error::Size { path: path.clone(), expected, actual });
        }
        self.put(path, Kind::File(Body { executable, offset, size_bytes: actual }))
    }

    /// Adds a second name for the file at `target`; the body is shared. `false`, and nothing done, if no file is there.
    pub(crate) fn add_alias(&mut self, path: &RelativePath, target: &RelativePath) -> Result<bool, Error> {
        let Some(Slot { kind: Kind::File(body), .. }) = self.slots.get(target).copied() else { return Ok(false) };
        if path == target {
            return Ok(true);
        }
        self.check_path(path)?;
        if is_content(path) {
            let most = self.limits.manifest_bytes;
            Limit::ManifestBytes.check(body.size_bytes, most, || path.to_string())?;
        }
        self.put(path, Kind::File(body))?;
        Ok(true)
    }

    /// Marks `path` as something that is not content: it is not walked and nothing can be put below it.
    pub(crate) fn add_barrier(&mut self, path: &RelativePath) -> Result<(), Error> {
        self.check_path(path)?;
        self.put(path, Kind::Barrier)
    }

    /// Hides what earlier layers put at `path` and below it.
    pub fn whiteout(&mut self, path: &RelativePath) -> Result<(), Error> {
        self.count_whiteout(path.as_str())?;
        self.remove_children(Some(path), self.layer);
        if self.slots.get(path).is_some_and(|slot| slot.layer < self.layer) {
            self.remove_one(path);
        }
        Ok(())
    }

    /// Hides what earlier layers put below `folder` (`None`: the root). The folder itself stays.
    pub(crate) fn whiteout_children(&mut self, folder: Option<&RelativePath>) -> Result<(), Error> {
        self.count_whiteout(folder.map_or("/", RelativePath::as_str))?;
        self.remove_children(folder, self.layer);
        Ok(())
    }

    /// Removes `path` and everything below it, whatever layer it came from.
    pub fn remove(&mut self, path: &RelativePath) {
        self.remove_children(Some(path), u32::MAX);
        self.remove_one(path);
    }

    /// The tree below `folder`, with paths relative to it; `None` if there is no such folder.
    #[must_use]
    pub(crate) fn subtree(mut self, folder: &RelativePath) -> Option<Self> {
        if self.get(folder) != Some(Staged::Directory) {
            return None;
        }
        let (mut slots, mut entries, mut barriers, mut size_bytes) = (BTreeMap::new(), 0, 0, 0);
        for (path, slot) in std::mem::take(&mut self.slots) {
            let Some(path) = path.strip(folder) else { continue };
            match slot.kind {
                Kind::Directory => entries += 1,
                Kind::File(body) => (entries, size_bytes) = (entries + 1, size_bytes + body.size_bytes),
                Kind::Barrier => barriers += 1,
            }
            slots.insert(path, slot);
        }
        Some(Self { slots, entries, barriers, size_bytes, ..self })
    }

    fn check_path(&self, path: &RelativePath) -> Result<(), Error> {
        let (bytes, depth) = (path.as_str().len() as u64, path.depth() as u64);
        Limit::PathBytes.check(bytes, self.limits.path_bytes, || shortened(path.as_str()))?;
        Limit::Depth.check(depth, self.limits.depth, || path.to_string())?;
        match self.barrier_above(path) {
            Some(barrier) => Err(Error::Below { path: path.clone(), barrier }),
            None => Ok(()),
        }
    }

    /// The limit a file at `path` meets first, and how many bytes it may have.
    fn room(&self, path: &RelativePath) -> (Limit, u64) {
        let tree = self.limits.tree_bytes.saturating_sub(self.spool.len());
        let manifest = self.limits.manifest_bytes;
        if is_content(path) && manifest < tree { (Limit::ManifestBytes, manifest) } else { (Limit::TreeBytes, tree) }
    }

    fn exceeded(&self, limit: Limit, path: &RelativePath) -> LimitExceeded {
        let maximum = if limit == Limit::ManifestBytes { self.limits.manifest_bytes } else { self.limits.tree_bytes };
        LimitExceeded { limit, maximum, place: path.to_string() }
    }

    fn count_whiteout(&mut self, place: &str) -> Result<(), LimitExceeded> {
        self.whiteouts += 1;
        Limit::Entries.check(self.whiteouts, self.limits.entries, || format!("whiteout of {place}"))
    }

    fn put(&mut self, path: &RelativePath, kind: Kind) -> Result<(), Error> {
        self.put_parents(path)?;
        if !matches!(kind, Kind::Directory) {
            self.remove_children(Some(path), u32::MAX);
        }
        self.put_one(path.clone(), kind)
    }

    fn put_parents(&mut self, path: &RelativePath) -> Result<(), Error> {
        let mut parent = path.parent();
        while let Some(folder) = parent {
            match self.slots.get_mut(&folder) {
                Some(Slot { kind: Kind::Directory, layer }) if *layer == self.layer => break,
                Some(Slot { kind: Kind::Directory, layer }) => *layer = self.layer,
                _ => self.put_one(folder.clone(), Kind::Directory)?,
            }
            parent = folder.parent();
        }
        Ok(())
    }

    fn put_one(&mut self, path: RelativePath, kind: Kind) -> Result<(), Error> {
        self.remove_one(&path);
        let place = || path.to_string();
        match kind {
            Kind::Barrier => {
                Limit::Entries.check(self.barriers + 1, self.limits.entries, place)?;
                self.barriers += 1;
            }
            Kind::Directory => {
                Limit::Entries.check(self.entries + 1, self.limits.entries, place)?;
                self.entries += 1;
            }
            Kind::File(body) => {
                Limit::Entries.check(self.entries + 1, self.limits.entries, place)?;
                Limit::TreeBytes.check(self.size_bytes + body.size_bytes, self.limits.tree_bytes, place)?;
                self.entries += 1;
                self.size_bytes += body.size_bytes;
            }
        }
        self.slots.insert(path, Slot { layer: self.layer, kind });
        Ok(())
    }

    fn remove_one(&mut self, path: &RelativePath) {
        match self.slots.remove(path).map(|slot| slot.kind) {
            Some(Kind::Directory) => self.entries -= 1,
            Some(Kind::Barrier) => self.barriers -= 1,
            Some(Kind::File(body)) => {
                self.entries -= 1;
                self.size_bytes -= body.size_bytes;
            }
            None => {}
        }
    }

    /// Removes what lies below `folder` and is of a layer before `layer`.
    fn remove_children(&mut self, folder: Option<&RelativePath>, layer: u32) {
        let prefix = folder.map(|folder| (format!("{folder}/"), format!("{folder}0")));
        // '/' + 1 == '0': everything below the folder lies between `folder/` and `folder0`.
        let range: (Bound<&str>, Bound<&str>) = match &prefix {
            Some((from, to)) => (Bound::Excluded(from), Bound::Excluded(to)),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let doomed: Vec<_> = self
            .slots
            .range::<str, _>(range)
            .filter(|(_, slot)| slot.layer < layer)
            .map(|(path, _)| path.clone())
            .collect();
        for path in &doomed {
            self.remove_one(path);
        }
    }
}

impl Tree for Stage {
    fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut window = Window::default();
        for (path, slot) in &self.slots {
            match slot.kind {
                Kind::Barrier => {}
                Kind::Directory => visit(path, Node::Directory)?,
                Kind::File(Body { executable, offset, size_bytes }) => {
                    let mut body = self.spool.read(offset, size_bytes, &mut window);
                    visit(path, Node::File { executable, size_bytes, body: &mut body })?;
                }
            }
        }
        Ok(())
    }

    fn packed<'a>(&'a self, path: &RelativePath) -> Option<Box<dyn Read + 'a>> {
        match self.slots.get(path)?.kind {
            Kind::File(Body { offset, size_bytes, .. }) => self.spool.packed(offset, size_bytes),
            Kind::Directory | Kind::Barrier => None,
        }
    }
}

/// Whether `path` is one of the format's folders or lies below one.
pub(crate) fn is_content(path: &RelativePath) -> bool {
    path.components().next().is_some_and(|first| CONTENT_FOLDERS.contains(&first))
}

/// At most 80 characters of `text`: enough to find it, not enough to fill a condition.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
