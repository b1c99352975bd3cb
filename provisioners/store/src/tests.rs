use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use bytes::Bytes;
use proptest::prelude::*;
use rukpak_content::{BundleTree, Digest, Limits, RelativePath};
use tempfile::TempDir;

use super::*;

fn store() -> (TempDir, Store) {
    let root = TempDir::new().unwrap();
    let store = Store::open(root.path()).unwrap();
    (root, store)
}

fn tree(text: &str) -> BundleTree {
    let mut tree = BundleTree::new();
    tree.add_file(RelativePath::new("manifests/a.yaml").unwrap(), false, Bytes::copy_from_slice(text.as_bytes()));
    tree.add_file(RelativePath::new("bin/run").unwrap(), true, Bytes::from_static(b"#!/bin/sh\n"));
    tree.add_directory(RelativePath::new("empty").unwrap());
    tree
}

fn load_all(store: &Store, digest: &Digest) -> Result<BundleTree, Error> {
    store.load(digest, &|_| true, &Limits::default())
}

fn content_file(root: &Path, digest: &Digest) -> PathBuf {
    root.join("v1/content/sha256").join(&digest.hex()[..2]).join(&digest.hex()[2..])
}

/// What the cluster names beside the refs.
fn nothing() -> HashSet<Digest> {
    HashSet::new()
}

fn reference(digest: &Digest) -> Ref {
    Ref { content: digest.clone(), source: "commit".into() }
}

#[test]
fn what_was_sealed_comes_back() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("a")).unwrap();
    assert_eq!(sealed.size_bytes, 11);
    assert_eq!(load_all(&store, &sealed.digest).unwrap(), tree("a"));
    let manifests = RelativePath::new("manifests").unwrap();
    let part = store.load(&sealed.digest, &|path| path.strip(&manifests).is_some(), &Limits::default()).unwrap();
    assert_eq!(part.iter().count(), 2);
}

#[test]
fn what_is_held_is_not_collected_before_it_has_a_ref() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("a")).unwrap();
    let (digest, size_bytes) = (sealed.digest.clone(), sealed.size_bytes);
    let held = store.hold(&digest, size_bytes).unwrap().expect("it is here");
    drop(sealed);
    store.collect(&nothing()).unwrap();
    assert!(store.contains(&digest).unwrap());
    assert_eq!((&held.digest, held.size_bytes), (&digest, 11));
    drop(held);
    store.collect(&nothing()).unwrap();
    assert!(store.hold(&digest, size_bytes).unwrap().is_none(), "nobody kept it");
}

#[test]
fn the_file_is_an_ordinary_tar_gz_named_by_its_uncompressed_bytes() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("a")).unwrap();
    let mut tar = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(store.open_content(&sealed.digest).unwrap());
    std::io::Read::read_to_end(&mut decoder, &mut tar).unwrap();
    assert_eq!(Digest::sha256(&tar), sealed.digest);
}

#[test]
fn loading_keeps_to_the_limits() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("abc")).unwrap();
    for limits in [Limits { text_bytes: 12, ..Limits::default() }, Limits { entries: 4, ..Limits::default() }] {
        assert!(matches!(store.load(&sealed.digest, &|_| true, &limits), Err(Error::Limit { .. })));
    }
    let exact = Limits { text_bytes: 13, entries: 5, ..Limits::default() };
    assert!(store.load(&sealed.digest, &|_| true, &exact).is_ok());
}

#[test]
fn no_flipped_byte_gets_through_and_sealing_again_mends() {
    let (root, store) = store();
    let sealed = store.seal(&tree("some text")).unwrap();
    let path = content_file(root.path(), &sealed.digest);
    let good = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        match load_all(&store, &sealed.digest) {
            // A few bits of gzip's header mean nothing.
            Ok(loaded) => assert_eq!(loaded, tree("some text"), "byte {at}"),
            Err(error) => {
                assert!(error.mended_by_refill(), "byte {at}: {error}");
                assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > good.len() / 2, "{refused} of {}", good.len());
    let _again = store.seal(&tree("some text")).unwrap();
    assert_eq!(load_all(&store, &sealed.digest).unwrap(), tree("some text"));
}

#[test]
fn other_content_under_a_name_is_corrupt_and_a_cut_file_is_broken() {
    let (root, store) = store();
    let (one, two) = (store.seal(&tree("1")).unwrap(), store.seal(&tree("2")).unwrap());
    let path = content_file(root.path(), &one.digest);
    fs::copy(content_file(root.path(), &two.digest), &path).unwrap();
    match load_all(&store, &one.digest) {
        Err(Error::Corrupt { expected, found, .. }) => assert_eq!((expected, found), (one.digest.clone(), two.digest)),
        other => panic!("{other:?}"),
    }
    let good = fs::read(&path).unwrap();
    for length in [0, 5, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert!(load_all(&store, &one.digest).unwrap_err().mended_by_refill(), "{length}");
    }
}

#[test]
fn leavings_of_a_killed_process_go_and_those_of_a_living_one_stay() {
    let (root, store) = store();
    let living = store.stage_dir().join("stage");
    fs::write(&living, "half").unwrap();
    let tmp = root.path().join("v1/tmp");
    // As a kill leaves them: a lock file that nobody holds, a folder from before its lock, a bare file.
    for dead in ["run-a", "run-b"] {
        fs::create_dir_all(tmp.join(dead).join("keep")).unwrap();
        fs::write(tmp.join(dead).join("half"), "half").unwrap();
    }
    fs::write(tmp.join("run-a/lock"), "").unwrap();
    fs::write(tmp.join("stray"), "half").unwrap();
    let second = Store::open(root.path()).unwrap();
    assert!(living.exists());
    for dead in ["run-a", "run-b", "stray"] {
        assert!(!tmp.join(dead).exists(), "{dead}");
    }
    drop(second);
    drop(store);
    assert_eq!(fs::read_dir(tmp).unwrap().count(), 0, "an orderly end leaves nothing");
}

#[test]
fn collection_keeps_what_refs_and_living_guards_name() {
    let (root, store) = store();
    let other = Store::open(root.path()).unwrap();
    let bundle = store.seal(&tree("bundle")).unwrap().digest;
    let named = store.seal(&tree("deployment")).unwrap().digest;
    let (guarded, abroad) = (store.seal(&tree("guarded")).unwrap(), other.seal(&tree("abroad")).unwrap());
    store.set_ref(RefKind::Bundle, "b", &reference(&bundle)).unwrap();
    store.set_ref(RefKind::Deployment, "d", &reference(&named)).unwrap();
    let gone = store.seal(&tree("gone")).unwrap().digest;
    let freed_bytes = fs::metadata(content_file(root.path(), &gone)).unwrap().len();
    let kept = [&bundle, &named, &guarded.digest, &abroad.digest];
    let kept_bytes = kept.iter().map(|kept| fs::metadata(content_file(root.path(), kept)).unwrap().len()).sum();
    assert_eq!(
        store.collect(&nothing()).unwrap(),
        Collected { removed: 1, freed_bytes, kept: 4, kept_bytes, too_new: 0 }
    );
    for kept in kept {
        assert!(store.contains(kept).unwrap());
    }
    assert!(matches!(load_all(&store, &gone), Err(Error::Missing { .. })));
    let guarded_digest = guarded.digest.clone();
    drop((guarded, abroad));
    assert!(store.remove_ref(RefKind::Deployment, "d").unwrap());
    assert_eq!(store.collect(&nothing()).unwrap().removed, 3);
    assert!(!store.contains(&named).unwrap() && !store.contains(&guarded_digest).unwrap());
    assert!(store.contains(&bundle).unwrap());
}

#[test]
fn two_guards_of_one_content_protect_it_until_the_second_is_gone() {
    let (_root, store) = store();
    let (first, second) = (store.seal(&tree("x")).unwrap(), store.seal(&tree("x")).unwrap());
    drop(first);
    assert_eq!(store.collect(&nothing()).unwrap().removed, 0);
    drop(second);
    assert_eq!(store.collect(&nothing()).unwrap().removed, 1);
}

#[test]
fn a_ref_that_cannot_be_read_stops_the_collection() {
    let (root, store) = store();
    let digest = store.seal(&tree("x")).unwrap().digest;
    fs::write(root.path().join("v1/refs/bundles/b"), "{").unwrap();
    assert!(matches!(store.collect(&nothing()), Err(Error::RefForm { .. })));
    assert!(store.contains(&digest).unwrap());
    let error = store.get_ref(RefKind::Bundle, "b").unwrap_err();
    assert!(error.to_string().contains("refs/bundles/b"), "{error}");
}

#[test]
fn refs_are_kept_by_kind_and_name() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("x")).unwrap();
    let value = reference(&sealed.digest);
    store.set_ref(RefKind::Bundle, "my.bundle-1", &value).unwrap();
    assert_eq!(store.get_ref(RefKind::Bundle, "my.bundle-1").unwrap(), Some(value.clone()));
    assert_eq!(store.get_ref(RefKind::Deployment, "my.bundle-1").unwrap(), None);
    assert_eq!(store.refs(RefKind::Bundle).unwrap().into_iter().collect::<Vec<_>>(), [("my.bundle-1".into(), value)]);
    assert!(store.remove_ref(RefKind::Bundle, "my.bundle-1").unwrap());
    assert!(!store.remove_ref(RefKind::Bundle, "my.bundle-1").unwrap());
    let absent = reference(&Digest::sha256(b"never sealed"));
    assert!(matches!(store.set_ref(RefKind::Bundle, "x", &absent), Err(Error::Missing { .. })));
}

#[test]
fn names_of_refs_are_found_by_how_they_begin() {
    let (_root, store) = store();
    let sealed = store.seal(&tree("x")).unwrap();
    for name in ["pump~0", "pump~1", "pumps~0", "other~0"] {
        store.set_ref(RefKind::Deployment, name, &reference(&sealed.digest)).unwrap();
    }
    let names = |beginning| Vec::from_iter(store.ref_names(RefKind::Deployment, beginning).unwrap());
    assert_eq!(names("pump~"), ["pump~0", "pump~1"]);
    assert_eq!(names("pump"), ["pumps~0", "pump~0", "pump~1"]);
    assert_eq!(names("").len(), 4);
    assert!(store.ref_names(RefKind::Bundle, "").unwrap().is_empty());
}

#[test]
fn odd_ref_names_are_refused() {
    let (_root, store) = store();
    for name in ["", ".", "..", "a/b", "/a", "a/", "./a", "../../x", "a\0b"] {
        assert!(matches!(store.get_ref(RefKind::Bundle, name), Err(Error::RefName { .. })), "{name:?}");
        assert!(matches!(store.remove_ref(RefKind::Bundle, name), Err(Error::RefName { .. })), "{name:?}");
    }
}

#[test]
fn many_threads_seal_one_tree_while_another_collects() {
    let (_root, store) = store();
    let digests: Vec<Digest> = thread::scope(|scope| {
        let seal = |_| {
            scope.spawn(|| {
                let sealed = store.seal(&tree("same")).unwrap();
                load_all(&store, &sealed.digest).unwrap();
                sealed.digest
            })
        };
        let sealers: Vec<_> = (0..8).map(seal).collect();
        let collector = scope.spawn(|| (0..20).all(|_| store.collect(&nothing()).is_ok()));
        let digests = sealers.into_iter().map(|sealer| sealer.join().unwrap()).collect();
        assert!(collector.join().unwrap());
        digests
    });
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    store.collect(&nothing()).unwrap();
    assert!(!store.contains(&digests[0]).unwrap());
}

#[test]
fn a_root_that_cannot_be_used_is_named() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file).err().unwrap();
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");

    let closed = root.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    match Store::open(&closed) {
        Err(error) => assert!(error.to_string().contains(closed.to_str().unwrap()), "{error}"),
        // The superuser may write anywhere.
        Ok(_) => assert!(rustix::process::geteuid().is_root()),
    }
}

/// Puts a tar into the store under its own digest, as nobody but this test does.
fn plant(root: &Path, tar: &[u8]) -> Digest {
    let digest = Digest::sha256(tar);
    let path = content_file(root, &digest);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, tar).unwrap();
    fs::write(path, encoder.finish().unwrap()).unwrap();
    digest
}

/// An entry as tar has it, behind extension headers.
fn entry(extensions: &[(tar::EntryType, &[u8])], name: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut one = |kind, name: &str, body: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(body.len() as u64);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(512), 0);
    };
    for (kind, record) in extensions {
        one(*kind, "PaxHeader", record);
    }
    one(tar::EntryType::Regular, name, body);
    out
}

fn record(text: &str) -> Vec<u8> {
    let rest = format!(" {text}\n");
    let length = (1..2000).find(|length: &usize| length.to_string().len() + rest.len() == *length).unwrap();
    format!("{length}{rest}").into_bytes()
}

#[test]
fn a_name_with_a_record_in_it_does_not_become_another_file() {
    let (root, store) = store();
    let hidden = format!("x{}\n28 path=manifests/evil.yaml", "A".repeat(300));
    let pax = |records: &[u8]| entry(&[(tar::EntryType::XHeader, records)], "PaxPath", b"evil");
    let long = "manifests/".to_owned() + &"n".repeat(200);
    for (what, mut tar) in [
        ("a line end in a name", pax(&record(&format!("path={hidden}")))),
        ("two records", pax(&[record(&format!("path={long}")), record("path=manifests/evil.yaml")].concat())),
        ("a record that was not needed", pax(&record("path=manifests/evil.yaml"))),
        ("a record of something else", pax(&record("size=3"))),
        ("a record that lies about its length", pax(b"28 path=manifests/evil.yaml\n\n")),
        ("a long name as GNU writes it", entry(&[(tar::EntryType::GNULongName, long.as_bytes())], "x", b"evil")),
        ("a name with a control character", entry(&[], "manifests\u{7f}", b"evil")),
        ("a name that leaves the tree", entry(&[], "../evil", b"evil")),
        ("a name that is cleaned", entry(&[], "manifests//evil", b"evil")),
    ] {
        tar.resize(tar.len() + 1024, 0);
        let digest = plant(root.path(), &tar);
        let loaded = load_all(&store, &digest);
        assert!(matches!(loaded, Err(Error::Broken { .. })), "{what}: {loaded:?}");
    }
}

/// Names near the bounds of ustar's fields, long ones, and names that say something in a PAX record or to a shell.
fn any_name() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        "28 path=manifests",
        "path=",
        "x=y",
        " ",
        "-",
        "\u{e9}",
        "\u{2028}",
        "\u{202e}",
        "PaxPath",
        "PaxHeader",
        "a\\nb",
        "*",
        "'",
        "\u{1f600}",
    ]);
    let part = prop_oneof![
        4 => "[a-c]{1,3}",
        1 => special.prop_map(str::to_owned),
        1 => prop::sample::select(vec![99_usize, 100, 101, 154, 155, 156, 255, 256, 300]).prop_map(|length| "n".repeat(length)),
        1 => (1_usize..90).prop_map(|length| "\u{e9}".repeat(length)),
        1 => "[ -~&&[^/]]{1,12}",
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_loaded_is_what_was_sealed(names in prop::collection::vec((any_name(), any::<bool>(), any::<bool>()), 1..12)) {
        let (_root, store) = store();
        let mut tree = BundleTree::new();
        for (name, executable, is_folder) in names {
            let Ok(path) = RelativePath::new(&name) else { continue };
            if tree.get(path.as_str()).is_some() || (1..path.depth()).any(|depth| {
                let above = path.components().take(depth).collect::<Vec<_>>().join("/");
                matches!(tree.get(&above), Some(rukpak_content::Entry::File { .. }))
            }) {
                continue;
            }
            if is_folder {
                tree.add_directory(path);
            } else {
                let body = Bytes::copy_from_slice(name.as_bytes());
                tree.add_file(path, executable, body);
            }
        }
        let sealed = store.seal(&tree).unwrap();
        prop_assert_eq!(load_all(&store, &sealed.digest).unwrap(), tree);
    }
}
