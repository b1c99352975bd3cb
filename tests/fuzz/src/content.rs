//! Trees: archives that become one, and what the store keeps of it.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use rukpak_content::{BundleTree, Digest, Limits, Node, RelativePath, Tree};
use rukpak_source::archive::{Dialect, read_tar};
use rukpak_source::{Stage, tarball};
use rukpak_store::Store;
use tempfile::TempDir;

use crate::{choice, parts};

/// Where spool files and the store lie.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder for temporary files"));
static STORE: LazyLock<Store> = LazyLock::new(|| Store::open(&FOLDER.path().join("store")).expect("a fresh store"));

/// Bounds that an input of a few kilobytes can reach.
fn limits() -> Limits {
    Limits { tree_bytes: 4 * 1024 * 1024, entries: 500, path_bytes: 1024, depth: 16, ..Limits::default() }
}

/// The bytes with the checksums of all headers put right: else nearly every change of a header is refused for its sum alone.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }
    bytes
}

/// An archive, as an upload (tar, gzip or Zstandard) or as two layers of an image, as it is or with its checksums put right. What
/// is staged keeps to the limits, can be walked, and comes out of the store as it went in.
pub fn archive(input: &[u8]) {
    let (first, bytes) = choice(input);
    let summed = if first & 2 == 0 { Cow::Borrowed(bytes) } else { Cow::Owned(summed(bytes)) };
    let staged = match first % 2 {
        0 => tarball::read(&*summed, FOLDER.path(), &limits(), "input".to_owned()).ok(),
        _ => layers(&summed, FOLDER.path()),
    };
    let Some(stage) = staged else { return };
    assert!(stage.entries() <= limits().entries && stage.size_bytes() <= limits().tree_bytes);
    comes_back(&stage, &in_memory(&stage).expect("what is staged can be walked"));
}

fn layers(bytes: &[u8], folder: &Path) -> Option<Stage> {
    let mut stage = Stage::new_in(folder, &limits()).ok()?;
    let (lower, upper) = bytes.split_at(bytes.len() / 1024 * 512);
    for mut layer in [lower, upper] {
        stage.begin_layer();
        read_tar(&mut layer, &mut stage, Dialect::Layer).ok()?;
    }
    Some(stage)
}

/// Bytes in the store, under their own digest, as a disk or somebody else could have put them there: as a tar that is sound gzip,
/// or as the gzip file itself.
pub fn store(input: &[u8]) {
    let (first, bytes) = choice(input);
    let summed = if first & 2 == 0 { Cow::Borrowed(bytes) } else { Cow::Owned(summed(bytes)) };
    let bytes = &*summed;
    let digest = Digest::sha256(bytes);
    let packed = match first % 2 {
        0 => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes what is written")
        }
        _ => bytes.to_vec(),
    };
    let _ = &*STORE;
    let (shard, rest) = digest.hex().split_at(2);
    let file = FOLDER.path().join("store/v1/content/sha256").join(shard).join(rest);
    std::fs::create_dir_all(file.parent().expect("because it was joined")).expect("a folder of the store");
    std::fs::write(&file, packed).expect("a file of the store");
    let loaded = STORE.load(&digest, &|_| true, &limits());
    std::fs::remove_file(&file).expect("the file is there");
    if let Ok(tree) = loaded {
        assert!(tree.size_bytes() <= limits().tree_bytes);
    }
}

/// Paths and bodies in turn, with NUL bytes between them: what the store gives back is what it was given.
pub fn tree(input: &[u8]) {
    let mut tree = BundleTree::new();
    let mut parts = parts(input);
    while let Some(path) = parts.next() {
        let body = parts.next().unwrap_or_default();
        let path = std::str::from_utf8(path).ok().and_then(|path| RelativePath::new(path).ok());
        let Some(path) = path.filter(|path| path.as_str().len() <= 4096) else { continue };
        // A file cannot lie in a file; sources refuse that, see the stage.
        let above = std::iter::successors(path.parent(), RelativePath::parent);
        let in_file = |path: &RelativePath| matches!(tree.get(path.as_str()), Some(rukpak_content::Entry::File { .. }));
        if above.into_iter().any(|path| in_file(&path)) || tree.get(path.as_str()).is_some() {
            continue;
        }
        tree.add_file(path, body.len() % 2 == 1, Bytes::copy_from_slice(body));
    }
    comes_back(&tree, &tree);
}

fn comes_back(tree: &(dyn Tree + Sync), expected: &BundleTree) {
    let sealed = STORE.seal(tree).expect("what is staged can be sealed");
    let loaded = STORE.load(&sealed.digest, &|_| true, &Limits::default()).expect("what was sealed can be loaded");
    assert!(loaded == *expected, "another tree came back: {expected:?} became {loaded:?}");
    let (shard, rest) = sealed.digest.hex().split_at(2);
    let file = FOLDER.path().join("store/v1/content/sha256").join(shard).join(rest);
    std::fs::remove_file(file).expect("the store keeps its layout");
}

fn in_memory(tree: &dyn Tree) -> io::Result<BundleTree> {
    let mut copy = BundleTree::new();
    tree.walk(&mut |path, node| {
        match node {
            Node::Directory => copy.add_directory(path.clone()),
            Node::File { executable, size_bytes, body } => {
                let mut bytes = Vec::new();
                body.read_to_end(&mut bytes)?;
                assert_eq!(bytes.len() as u64, size_bytes, "{path}");
                copy.add_file(path.clone(), executable, Bytes::from(bytes));
            }
        }
        Ok(())
    })?;
    Ok(copy)
}
