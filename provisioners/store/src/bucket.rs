//! [`Bucket`]: what the store asks of an object store. Who implements it is elsewhere: this crate has no network.

use std::error::Error as StdError;
use std::io::{Read, Write};
use std::time::SystemTime;

/// The folder of a bucket that has what clients uploaded: `<uid of the Bundle>.tgz`. The store itself does not look into it.
pub const UPLOADS: &str = "v1/uploads";

/// A bucket of an object store, or the part of it below a prefix. Calls block, and give up after a time of their own.
///
/// Whole objects appear at once or not at all. Reads and lists may be behind; [`Bucket::put`] may not.
pub trait Bucket: Send + Sync {
    /// What people call it: `s3://bucket/prefix`.
    fn name(&self) -> &str;

    /// A small object, and its version.
    fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, BucketError>;

    /// Writes a small object if `condition` holds for the one that is there; `false` if it does not hold.
    fn put(&self, key: &str, bytes: Vec<u8>, condition: Condition) -> Result<bool, BucketError>;

    /// Copies a large object to `out`; `false` if there is none. After an error `out` may hold a part of it.
    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, BucketError>;

    /// Makes what `content` holds to its end an object, whatever is there.
    fn upload(&self, key: &str, content: &mut dyn Read) -> Result<(), BucketError>;

    /// What a list would say of one object.
    fn head(&self, key: &str) -> Result<Option<Entry>, BucketError>;

    /// The objects whose keys are `folder`, a slash, and what begins with `beginning`.
    fn list(&self, folder: &str, beginning: &str) -> Result<Vec<Entry>, BucketError>;

    /// Removes an object, if it is there.
    fn delete(&self, key: &str) -> Result<(), BucketError>;
}

/// An object, as a list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the prefix of the bucket.
    pub key: String,
    /// Its length.
    pub size_bytes: u64,
    /// When it was last written, by the server's clock.
    pub modified: SystemTime,
}

/// One state of an object: another write makes another version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Its ETag, where the server has those.
    pub e_tag: Option<String>,
    /// Its generation or version, where the server has those.
    pub generation: Option<String>,
}

/// What must be so for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no such object (`If-None-Match: *`).
    Absent,
    /// It is still this version (`If-Match`).
    Unchanged(Version),
}

/// Why a bucket did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {bucket}/{key}")]
pub struct BucketError {
    /// The name of the bucket.
    pub bucket: String,
    /// What was asked.
    pub action: &'static str,
    /// Of which object, or of which folder of objects.
    pub key: String,
    /// Whether it was refused, and trying again does not help: a login is missing or wrong, or there is no such bucket.
    pub is_refusal: bool,
    /// What the server or the network said.
    pub source: Box<dyn StdError + Send + Sync>,
}
