//! A bucket of its own for each test, a proxy before it, and stores that share it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rukpak_content::{BundleTree, Digest, Limits, RelativePath};
use rukpak_store::s3::{Location, ObjectBucket};
use rukpak_store::{Error, Ref, RefKind, Sealed, Sharing, Store};
use rukpak_tests::verbs::unique_name;
use rukpak_tests::{BucketServer, FaultyServer, TestCa};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

/// What no test takes for old.
pub const LONG: Duration = Duration::from_hours(1);
/// What is old at once.
pub const NONE: Duration = Duration::ZERO;
const AMPLE: u64 = 1 << 30;

static SERVER: OnceCell<BucketServer> = OnceCell::const_new();

pub struct World {
    pub server: &'static BucketServer,
    pub proxy: FaultyServer,
    /// The part of the bucket that is this test's.
    pub prefix: String,
    pub folder: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let server = SERVER.get_or_init(async || BucketServer::start().await.expect("SeaweedFS starts")).await;
        let ca = TestCa::new("bucket").expect("an authority");
        let proxy = FaultyServer::before_signed(&ca, &server.url(), &ca.pem()).expect("a proxy");
        let folder = rukpak_tests::tools::temp_folder("store").expect("a folder");
        Self { server, proxy, prefix: unique_name("store"), folder }
    }

    /// Where a bucket is, with other variables than those that are right.
    pub fn bucket(&self, location: &str, changes: &[(&str, &str)]) -> ObjectBucket {
        let mut environment = BucketServer::environment(&self.proxy.url());
        environment.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let location: Location = location.parse().expect("a bucket");
        ObjectBucket::new(&location, &environment, self.proxy.ca_pem().as_bytes(), Handle::current()).expect("a client")
    }

    pub fn location(&self) -> String {
        format!("s3://{}/{}", BucketServer::BUCKET, self.prefix)
    }

    pub fn sharing(&self, grace: Duration, cache_bytes: u64) -> Sharing {
        Sharing { bucket: Arc::new(self.bucket(&self.location(), &[])), cache_bytes, grace }
    }

    /// A store that shares the bucket, on the disk of the machine `name`.
    pub fn store(&self, name: &str, grace: Duration) -> Store {
        self.store_with(name, self.sharing(grace, AMPLE))
    }

    /// The same past the proxy.
    pub fn direct_store(&self, name: &str, grace: Duration) -> Store {
        let bucket = self.bucket(&self.location(), &[("AWS_ENDPOINT_URL_S3", self.server.url().as_str())]);
        self.store_with(name, Sharing { bucket: Arc::new(bucket), cache_bytes: AMPLE, grace })
    }

    pub fn store_with(&self, name: &str, sharing: Sharing) -> Store {
        Store::open(&self.disk(name)).expect("a store").sharing(sharing)
    }

    pub fn disk(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Where the copy of content lies on a disk.
    pub fn copy(&self, name: &str, digest: &Digest) -> std::path::PathBuf {
        self.disk(name).join("v1/content/sha256").join(&digest.hex()[..2]).join(&digest.hex()[2..])
    }

    /// The keys below a folder of this test.
    pub async fn keys(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{}/", self.prefix);
        let keys = self.server.keys(&format!("{prefix}{folder}/")).await.expect("the server lists");
        keys.into_iter().map(|key| key.strip_prefix(&prefix).unwrap_or(&key).to_owned()).collect()
    }
}

/// Calls of a store block.
pub async fn blocking<T: Send + 'static>(store: &Store, work: impl FnOnce(&Store) -> T + Send + 'static) -> T {
    let store = store.clone();
    tokio::task::spawn_blocking(move || work(&store)).await.expect("no panic")
}

pub fn tree(text: &str) -> BundleTree {
    tree_of(text.as_bytes().to_vec())
}

pub fn tree_of(bytes: Vec<u8>) -> BundleTree {
    let mut tree = BundleTree::new();
    tree.add_file(RelativePath::new("manifests/a.yaml").expect("a path"), false, bytes.into());
    tree
}

/// Bytes that gzip cannot shrink.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(count)
    .collect()
}

pub async fn seal(store: &Store, tree: BundleTree) -> Result<Sealed, Error> {
    blocking(store, move |store| store.seal(&tree)).await
}

/// Seals and names content.
pub async fn put(store: &Store, name: &str, tree: BundleTree) -> Digest {
    let sealed = seal(store, tree).await.expect("sealed");
    set_ref(store, name, &sealed.digest).await.expect("named");
    sealed.digest.clone()
}

pub async fn set_ref(store: &Store, name: &str, digest: &Digest) -> Result<(), Error> {
    let (name, value) = (name.to_owned(), Ref { content: digest.clone(), source: "test".to_owned() });
    blocking(store, move |store| store.set_ref(RefKind::Bundle, &name, &value)).await
}

pub async fn load(store: &Store, digest: &Digest) -> Result<BundleTree, Error> {
    let digest = digest.clone();
    blocking(store, move |store| store.load(&digest, &|_| true, &Limits::default())).await
}

/// How many contents lie on a disk.
pub fn copies(disk: &Path) -> usize {
    let shards = std::fs::read_dir(disk.join("v1/content/sha256")).expect("a store");
    shards.map(|shard| std::fs::read_dir(shard.expect("an entry").path()).expect("a folder").count()).sum()
}
