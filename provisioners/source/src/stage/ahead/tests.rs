use std::fs;

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, RelativePath, Tree as _};
use rukpak_store::Store;
use tempfile::TempDir;

use super::*;
use crate::Stage;

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

/// The same files as a stage and in memory; the names fall while the files come.
fn both(folder: &Path) -> (Stage, BundleTree) {
    let (mut stage, mut tree) = (Stage::new_in(folder, &Limits::default()).unwrap(), BundleTree::new());
    for (index, lines) in [40, 1_500, 3, 60_000, 17_000, 2_000, 2_500, 0, 30_000, 4_000].into_iter().enumerate() {
        let text = (0..lines).fold(String::new(), |text, line| text + &format!("line {line} of file {index}\n"));
        let name = path(&format!("assets/{}", 9 - index));
        stage.add_file(&name, false, None, &mut text.as_bytes()).unwrap();
        tree.add_file(name, false, Bytes::from(text));
    }
    (stage, tree)
}

fn sealed(store: &Store, tree: &(dyn rukpak_content::Tree + Sync)) -> (String, Vec<u8>) {
    let sealed = store.seal(tree).unwrap();
    let mut file = Vec::new();
    store.open_content(&sealed.digest).unwrap().read_to_end(&mut file).unwrap();
    (sealed.digest.to_string(), file)
}

#[test]
fn content_compressed_ahead_is_the_same_to_the_byte() {
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    let (stage, tree) = both(store.stage_dir());
    let is_packed = |name: &str| stage.packed(&path(name)).is_some();
    // One chunk, several chunks; too small; the last one, which is not yet in the file.
    assert!(is_packed("assets/8") && is_packed("assets/6"));
    assert!(!is_packed("assets/7") && !is_packed("assets/0") && !is_packed("assets") && !is_packed("none"));
    assert!(sealed(&store, &stage) == sealed(&store, &tree));
    assert_eq!(fs::read_dir(store.stage_dir()).unwrap().count(), 2, "its lock and its marks; no file of the stage");
}

#[test]
fn other_names_for_a_body_have_it_too() {
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    let (mut stage, tree) = both(store.stage_dir());
    let mut other = BundleTree::new();
    for (name, entry) in tree.iter() {
        let rukpak_content::Entry::File { body, .. } = entry else { continue };
        let name = name.strip(&path("assets")).unwrap();
        other.add_file(path(&format!("again/{name}")), false, body.clone());
        other.add_file(name.clone(), false, body.clone());
        assert!(stage.add_alias(&path(&format!("assets/again/{name}")), &path(&format!("assets/{name}"))).unwrap());
    }
    let stage = stage.subtree(&path("assets")).unwrap();
    assert!(stage.packed(&path("again/6")).is_some());
    assert!(sealed(&store, &stage) == sealed(&store, &other));
}

#[test]
fn what_cannot_be_compressed_ahead_is_compressed_later() {
    let root = TempDir::new().unwrap();
    let name = root.path().join("spool");
    fs::write(&name, "x".repeat(100_000)).unwrap();
    let spool = Arc::new(File::open(&name).unwrap());
    // A file that cannot be written, and a range that cannot be read.
    let shared = Shared { file: File::open(&name).unwrap(), state: Mutex::default(), changed: Condvar::new() };
    let mut ahead = Ahead { spool: Arc::clone(&spool), shared: Arc::new(shared), workers: None };
    ahead.submit(0..50_000);
    assert!(ahead.read(0, 50_000).is_none());
    let mut ahead = Ahead::new_in(root.path(), spool).unwrap();
    ahead.submit(90_000..190_000);
    ahead.submit(0..50_000);
    assert!(ahead.read(90_000, 100_000).is_none());
    assert!(ahead.read(0, 50_000).is_some());
}

#[test]
fn who_waits_is_told_when_nobody_will_compress() {
    let root = TempDir::new().unwrap();
    let spool = Arc::new(tempfile::tempfile_in(root.path()).unwrap());
    let ahead = Ahead::new_in(root.path(), spool).unwrap();
    ahead.shared.state().chunks.insert(0, Chunk::Waiting);
    let promise = Promise { shared: Arc::clone(&ahead.shared), at: 0 };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ahead.read(0, 20_000).is_none());
        drop(promise);
        assert!(waiting.join().unwrap());
    });
}
