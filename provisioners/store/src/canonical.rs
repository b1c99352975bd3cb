//! The one tar stream of a tree: equal trees give equal bytes.
//!
//! Part of the disk format, written by hand so that no library's choice can change a digest: POSIX ustar
//! headers; a `path` PAX record only where ustar's name and prefix cannot hold the path; times, ids and owner
//! names empty; modes 0644, 0755 for executables and folders; two zero blocks at the end.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use rukpak_content::{Node, RelativePath, Tree};
use tar::{EntryType, Header};

pub(crate) const BLOCK: usize = 512;
const NAME_BYTES: usize = 100;
const PREFIX_BYTES: usize = 155;
/// The key of the one PAX record that is written.
pub(crate) const NAME_KEY: &[u8] = b"path";
const PLAIN_MODE: u32 = 0o644;
pub(crate) const EXECUTABLE_MODE: u32 = 0o755;

/// Where the tar goes.
pub(crate) trait Sink: Write {
    /// Takes a body in, and says how many bytes it had.
    fn body(&mut self, path: &RelativePath, size_bytes: u64, body: &mut dyn Read) -> io::Result<u64>;
}

/// Writes `tree` to `out` and returns the sum of its files' lengths.
///
/// # Errors
/// Of the tree, of `out`, or `InvalidData` where the walk breaks the promise of [`Tree::walk`]: the digest would
/// then depend on who walks.
pub(crate) fn write(tree: &dyn Tree, out: &mut dyn Sink) -> io::Result<u64> {
    let mut order = Order::default();
    let mut size = 0;
    tree.walk(&mut |path, node| {
        order.check(path, matches!(node, Node::Directory))?;
        match node {
            Node::Directory => out.write_all(&head(path, true, false, 0)?),
            Node::File { executable, size_bytes, body } => {
                size += size_bytes;
                out.write_all(&head(path, false, executable, size_bytes)?)?;
                write_body(out, path, size_bytes, body)
            }
        }
    })?;
    out.write_all(&[0; 2 * BLOCK])?;
    Ok(size)
}

/// Checks that paths rise and that folders come before what is in them.
#[derive(Default)]
pub(crate) struct Order {
    last: Option<RelativePath>,
    folders: HashSet<RelativePath>,
}

impl Order {
    pub(crate) fn check(&mut self, path: &RelativePath, is_folder: bool) -> io::Result<()> {
        if self.last.as_ref().is_some_and(|last| last >= path) {
            return Err(invalid(format!("{path}: not in byte order of the paths")));
        }
        if path.parent().is_some_and(|parent| !self.folders.contains(&parent)) {
            return Err(invalid(format!("{path}: the folder it lies in is not an entry")));
        }
        if is_folder {
            self.folders.insert(path.clone());
        }
        self.last = Some(path.clone());
        Ok(())
    }
}

/// All that comes before the body of an entry: its header, behind a record of its name where ustar has no room for that.
pub(crate) fn head(path: &RelativePath, is_folder: bool, executable: bool, size: u64) -> io::Result<Vec<u8>> {
    let kind = if is_folder { EntryType::Directory } else { EntryType::Regular };
    let mode = if is_folder || executable { EXECUTABLE_MODE } else { PLAIN_MODE };
    let name = if is_folder { format!("{path}/") } else { path.to_string() };
    let mut out = Vec::with_capacity(BLOCK);
    if let Some((prefix, rest)) = split(&name) {
        block(&mut out, prefix, rest, kind, mode, size)?;
        return Ok(out);
    }
    let record = pax_record(&name);
    block(&mut out, "", "PaxHeader", EntryType::XHeader, PLAIN_MODE, record.len() as u64)?;
    out.extend_from_slice(record.as_bytes());
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    block(&mut out, "", "PaxPath", kind, mode, size)?;
    Ok(out)
}

/// ustar's prefix and name: the name alone if it fits, else cut at the first slash that makes both fit.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= NAME_BYTES {
        return Some(("", name));
    }
    let cuts = name.match_indices('/').map(|(at, _)| (&name[..at], &name[at + 1..]));
    cuts.take_while(|(prefix, _)| prefix.len() <= PREFIX_BYTES).find(|(_, rest)| (1..=NAME_BYTES).contains(&rest.len()))
}

fn block(out: &mut Vec<u8>, prefix: &str, name: &str, kind: EntryType, mode: u32, size: u64) -> io::Result<()> {
    let mut header = Header::new_ustar();
    let ustar = header.as_ustar_mut().ok_or_else(|| invalid("the header is not ustar".to_owned()))?;
    ustar.name[..name.len()].copy_from_slice(name.as_bytes());
    ustar.prefix[..prefix.len()].copy_from_slice(prefix.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    Ok(())
}

fn write_body(out: &mut dyn Sink, path: &RelativePath, size: u64, body: &mut dyn Read) -> io::Result<()> {
    let copied = out.body(path, size, &mut body.take(size))?;
    if copied != size {
        return Err(invalid(format!("{path}: {copied} bytes where {size} were promised")));
    }
    pad(out, size)
}

fn pad(out: &mut dyn Sink, size: u64) -> io::Result<()> {
    let block = BLOCK as u64;
    let missing = usize::try_from((block - size % block) % block).unwrap_or_default();
    out.write_all(&[0; BLOCK][..missing])
}

/// `<length> path=<name>\n`, the length counting itself.
fn pax_record(name: &str) -> String {
    let rest = format!(" path={name}\n");
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

pub(crate) fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rukpak_content::{BundleTree, Digest};

    use super::*;

    impl Sink for Vec<u8> {
        fn body(&mut self, _path: &RelativePath, _size_bytes: u64, body: &mut dyn Read) -> io::Result<u64> {
            io::copy(body, self)
        }
    }

    fn tar_of(tree: &dyn Tree) -> Vec<u8> {
        let mut out = Vec::new();
        write(tree, &mut out).unwrap();
        out
    }

    fn tree(files: &[(&str, bool)]) -> BundleTree {
        let mut tree = BundleTree::new();
        for (path, executable) in files {
            tree.add_file(RelativePath::new(path).unwrap(), *executable, Bytes::copy_from_slice(path.as_bytes()));
        }
        tree
    }

    #[test]
    fn the_order_of_building_does_not_matter() {
        let files = [("manifests/b.yaml", false), ("manifests/a/x", true), ("z", false), ("manifests-old/y", false)];
        let mut reversed = files;
        reversed.reverse();
        assert_eq!(tar_of(&tree(&files)), tar_of(&tree(&reversed)));
    }

    #[test]
    fn the_format_stays_what_it_is() {
        // Changing this digest orphans every pin in every cluster: a new format needs a new `v<n>` folder.
        let long = format!("{}/{}", "d".repeat(160), "f".repeat(120));
        let digest = Digest::sha256(&tar_of(&tree(&[("manifests/a.yaml", false), ("bin/run", true), (&long, false)])));
        assert_eq!(digest.to_string(), "sha256:4e145fb7b08dc2a17f7aafe350dc6b26b77cee34a579d7312a5e27c9af3f2e57");
    }

    #[test]
    fn names_of_any_length_come_back() {
        for length in [1, 99, 100, 101, 155, 156, 255, 256, 600, 1000] {
            for shape in ["x".repeat(length), "ab/".repeat(length / 3) + "x", format!("{}/y", "x".repeat(length))] {
                let bytes = tar_of(&tree(&[(&shape, false)]));
                let mut archive = tar::Archive::new(bytes.as_slice());
                let names: Vec<_> = archive
                    .entries()
                    .unwrap()
                    .map(|entry| String::from_utf8(entry.unwrap().path_bytes().into_owned()).unwrap())
                    .collect();
                assert_eq!(names.last(), Some(&shape));
            }
        }
    }

    struct Unordered;

    impl Tree for Unordered {
        fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
            visit(&RelativePath::new("b").unwrap(), Node::Directory)?;
            visit(&RelativePath::new("a").unwrap(), Node::Directory)
        }
    }

    struct Short;

    impl Tree for Short {
        fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
            let node = Node::File { executable: false, size_bytes: 3, body: &mut io::empty() };
            visit(&RelativePath::new("a").unwrap(), node)
        }
    }

    #[test]
    fn a_walk_that_breaks_its_promise_is_an_error() {
        for (tree, word) in [(&Unordered as &dyn Tree, "byte order"), (&Short, "promised")] {
            let error = write(tree, &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
