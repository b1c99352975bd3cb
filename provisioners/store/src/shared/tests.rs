//! Collection where somebody else writes between two requests of it. What a real server makes of them is for the suite `store`.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rukpak_content::{BundleTree, Digest, RelativePath};
use tempfile::TempDir;

use super::{CONTENT, Sharing};
use crate::{Bucket, BucketError, Collected, Condition, Entry, Ref, RefKind, Store, Version};

const YEAR: Duration = Duration::from_hours(365 * 24);

/// A bucket in memory, of one writer at a time.
#[derive(Default)]
struct Shelf {
    objects: Mutex<BTreeMap<String, (Vec<u8>, SystemTime)>>,
    /// Whether each content is written again as soon as it was listed.
    is_renewed: bool,
}

impl Shelf {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, (Vec<u8>, SystemTime)>) -> T) -> T {
        work(&mut self.objects.lock().unwrap())
    }

    fn entry((key, (bytes, modified)): (&String, &(Vec<u8>, SystemTime))) -> Entry {
        Entry { key: key.clone(), size_bytes: bytes.len() as u64, modified: *modified }
    }
}

impl Bucket for Shelf {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, BucketError> {
        Ok(self.with(|objects| objects.get(key).map(|(bytes, _)| (bytes.clone(), Version::default()))))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, _: Condition) -> Result<bool, BucketError> {
        self.with(|objects| objects.insert(key.to_owned(), (bytes, SystemTime::now())));
        Ok(true)
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, BucketError> {
        let found = self.get(key)?;
        Ok(found.is_some_and(|(bytes, _)| out.write_all(&bytes).is_ok()))
    }

    fn upload(&self, key: &str, content: &mut dyn Read) -> Result<(), BucketError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        self.put(key, bytes, Condition::Absent).map(drop)
    }

    fn head(&self, key: &str) -> Result<Option<Entry>, BucketError> {
        Ok(self.with(|objects| objects.get_key_value(key).map(Self::entry)))
    }

    fn list(&self, folder: &str, beginning: &str) -> Result<Vec<Entry>, BucketError> {
        let prefix = format!("{folder}/{beginning}");
        self.with(|objects| {
            let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix)).map(Self::entry).collect();
            let renewed = objects.iter_mut().filter(|_| self.is_renewed && folder == CONTENT);
            renewed.for_each(|(_, (_, modified))| *modified = SystemTime::now());
            Ok(found)
        })
    }

    fn delete(&self, key: &str) -> Result<(), BucketError> {
        self.with(|objects| objects.remove(key));
        Ok(())
    }
}

/// A store whose bucket has a content of each name, all of them a year old.
fn store(names: &[&str], is_renewed: bool) -> (TempDir, Store, Vec<Digest>) {
    let (root, shelf) = (TempDir::new().unwrap(), Arc::new(Shelf { is_renewed, ..Shelf::default() }));
    let sharing = Sharing { bucket: shelf.clone(), cache_bytes: 0, grace: Duration::from_hours(1) };
    let store = Store::open(root.path()).unwrap().sharing(sharing);
    let seal = |name: &&str| {
        let mut tree = BundleTree::new();
        tree.add_file(RelativePath::new("a").unwrap(), false, Bytes::copy_from_slice(name.as_bytes()));
        store.seal(&tree).unwrap().digest
    };
    let digests = names.iter().map(seal).collect();
    shelf.with(|objects| objects.values_mut().for_each(|(_, modified)| *modified -= YEAR));
    (root, store, digests)
}

fn collect(store: &Store) -> Collected {
    store.collect(&HashSet::new()).unwrap()
}

#[test]
fn leaves_content_that_was_written_again_since_it_was_listed() {
    let (_root, store, digests) = store(&["a"], true);
    assert_eq!((collect(&store).removed, store.contains(&digests[0]).unwrap()), (0, true));
}

#[test]
fn keeps_content_that_a_ref_of_either_kind_names() {
    let (_root, store, digests) = store(&["bundle", "deployment", "nobody"], false);
    let reference = |digest: &Digest| Ref { content: digest.clone(), source: "commit".into() };
    store.set_ref(RefKind::Bundle, "b", &reference(&digests[0])).unwrap();
    store.set_ref(RefKind::Deployment, "d", &reference(&digests[1])).unwrap();
    let collected = collect(&store);
    assert_eq!((collected.removed, collected.kept), (1, 2));
    assert!(!store.contains(&digests[2]).unwrap());
}
