use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::read::{GzDecoder, MultiGzDecoder};
use rukpak_content::{BundleTree, Digest, Limits, Node};
use tempfile::TempDir;

use super::*;
use crate::{Error, Store, canonical};

/// Bytes without any pattern (xorshift64).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(step).flatten().take(length).collect()
}

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

/// Files of all the sizes that matter, some text, some not.
fn tree() -> BundleTree {
    let mut tree = BundleTree::new();
    let edge = usize::try_from(BODY_BYTES).unwrap();
    let sizes = [0, 1, 511, 512, edge - 1, edge, 50_000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 700_000];
    for (index, size) in sizes.into_iter().enumerate() {
        let text: String = (0..).map(|line| format!("line {line} of file {index}\n")).take(size / 10 + 1).collect();
        let text = Bytes::from(text).slice(..size);
        tree.add_file(path(&format!("text/{index:02}")), false, text);
        tree.add_file(path(&format!("noise/{index:02}")), true, Bytes::from(noise(size)));
    }
    for index in 0..100 {
        tree.add_file(path(&format!("small/{index:03}")), false, Bytes::from(noise(9_000)));
    }
    tree
}

fn file_of(tree: &dyn Tree, threads: usize) -> io::Result<Vec<u8>> {
    let mut members = Members::new(tree, Vec::new(), threads);
    canonical::write(tree, &mut members)?;
    members.finish()
}

#[test]
fn the_file_is_the_same_however_many_threads_made_it() {
    let tree = tree();
    let alone = file_of(&tree, 0).unwrap();
    for threads in [1, 2, 7] {
        assert!(file_of(&tree, threads).unwrap() == alone, "{threads} threads");
    }
    let mut tar = Vec::new();
    MultiGzDecoder::new(alone.as_slice()).read_to_end(&mut tar).unwrap();
    let mut canonical = Vec::new();
    canonical::write(&tree, &mut canonical).unwrap();
    assert!(tar == canonical);
}

#[test]
fn no_member_is_larger_than_a_chunk() {
    let file = file_of(&tree(), 0).unwrap();
    let (mut rest, mut members) = (file.as_slice(), 0);
    while !rest.is_empty() {
        // Reads exactly one member from a slice.
        let mut member = Vec::new();
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        decoder.read_to_end(&mut member).unwrap();
        rest = decoder.into_inner();
        members += 1;
        assert!((1..=CHUNK_BYTES).contains(&member.len()), "{}", member.len());
    }
    assert!(members > 20, "{members}");
}

/// What a thread, or the tree behind a body packed ahead, can do wrong.
struct Packing {
    tree: BundleTree,
    packed: fn() -> Option<Box<dyn Read>>,
}

impl Tree for Packing {
    fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
        self.tree.walk(visit)
    }

    fn packed<'a>(&'a self, _path: &RelativePath) -> Option<Box<dyn Read + 'a>> {
        (self.packed)()
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the spool is gone"))
    }
}

fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[test]
fn a_body_that_cannot_be_read_leaves_nothing_behind() {
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    let before = files_below(root.path());
    let tree = Packing { tree: tree(), packed: || Some(Box::new(Failing)) };
    let Err(error) = store.seal(&tree) else { panic!("sealed") };
    assert!(matches!(&error, Error::Seal { source } if source.to_string() == "the spool is gone"), "{error}");
    assert_eq!(files_below(root.path()), before, "neither content nor anything half-written");
}

#[test]
fn threads_that_are_gone_are_an_error_of_writing() {
    let tree = tree();
    let mut members = Members::new(&tree, Vec::new(), 0);
    members.workers = Some(Workers::with(0).unwrap());
    let error = canonical::write(&tree, &mut members).unwrap_err();
    assert!(error.to_string().contains("bad end"), "{error}");
    assert!(members.failed());
}

#[test]
fn a_tree_that_is_another_one_at_the_second_walk_is_not_sealed() {
    struct Growing(AtomicU64);
    impl Tree for Growing {
        fn walk(&self, visit: &mut dyn FnMut(&RelativePath, Node<'_>) -> io::Result<()>) -> io::Result<()> {
            let size_bytes = self.0.fetch_add(1, Ordering::Relaxed);
            visit(&path("a"), Node::File { executable: false, size_bytes, body: &mut io::repeat(b'x') })
        }
    }
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    let before = files_below(root.path());
    assert!(matches!(store.seal(&Growing(0.into())), Err(Error::Seal { .. })));
    assert_eq!(files_below(root.path()), before);
}

#[test]
fn content_of_many_members_is_loaded_whole_and_named_by_its_plain_bytes() {
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    let tree = tree();
    let sealed = store.seal(&tree).unwrap();
    assert_eq!(store.load(&sealed.digest, &|_| true, &Limits::default()).unwrap(), tree);
    let mut tar = Vec::new();
    MultiGzDecoder::new(store.open_content(&sealed.digest).unwrap()).read_to_end(&mut tar).unwrap();
    assert_eq!(Digest::sha256(&tar), sealed.digest);
    // A reader of one member only would have lost the rest without an error.
    let mut first = Vec::new();
    GzDecoder::new(store.open_content(&sealed.digest).unwrap()).read_to_end(&mut first).unwrap();
    assert!(first.len() < tar.len());
}
