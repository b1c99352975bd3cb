//! The calls that the store makes on a bucket.

use std::error::Error as StdError;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::{Bucket, BucketError, Condition, Entry, Version};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use tokio::runtime::Handle;

use super::{Location, LocationError};

/// Longest time of one call, tries included.
const DEADLINE: Duration = Duration::from_mins(15);
/// What is sent at once of a large object, and held in memory. S3 takes parts of 5 MiB and more, and 10,000 of them.
const PART_BYTES: u64 = 8 << 20;

type Source = Box<dyn StdError + Send + Sync>;

/// A bucket that is reached over the network.
pub struct ObjectBucket {
    name: String,
    client: Arc<dyn ObjectStore>,
    runtime: Handle,
}

impl ObjectBucket {
    /// The bucket at `location`, reached as the variables of `environment` say; `ca_pem` is trusted beside the system's certificates.
    /// Calls of it are for other threads than those of the `runtime`, which drives the connections. Sends nothing.
    ///
    /// # Errors
    /// What the environment says of it cannot be used.
    pub fn new(
        location: &Location,
        environment: &[(String, String)],
        ca_pem: &[u8],
        runtime: Handle,
    ) -> Result<Self, LocationError> {
        Ok(Self { name: location.to_string(), client: location.client(environment, ca_pem)?, runtime })
    }

    fn run<T>(
        &self,
        (action, key): (&'static str, &str),
        work: impl AsyncFnOnce(&dyn ObjectStore, &Path) -> Result<T, Source>,
    ) -> Result<T, BucketError> {
        let outcome = self.runtime.block_on(async {
            let path = Path::parse(key)?;
            match tokio::time::timeout(DEADLINE, work(&*self.client, &path)).await {
                Ok(done) => done,
                Err(late) => Err(late.into()),
            }
        });
        outcome.map_err(|source| BucketError {
            bucket: self.name.clone(),
            action,
            key: key.to_owned(),
            is_refusal: source.downcast_ref().is_some_and(is_refusal),
            source,
        })
    }
}

impl Bucket for ObjectBucket {
    fn name(&self) -> &str {
        &self.name
    }

    fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, BucketError> {
        self.run(("read", key), async |client, path| {
            let Some(found) = present(client.get(path).await)? else { return Ok(None) };
            let version = Version { e_tag: found.meta.e_tag.clone(), generation: found.meta.version.clone() };
            Ok(Some((found.bytes().await?.to_vec(), version)))
        })
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: Condition) -> Result<bool, BucketError> {
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::Unchanged(Version { e_tag, generation: version }) => {
                PutMode::Update(UpdateVersion { e_tag, version })
            }
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        self.run(("write", key), async |client, path| match client.put_opts(path, bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        })
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, BucketError> {
        self.run(("read", key), async |client, path| {
            let Some(found) = present(client.get(path).await)? else { return Ok(false) };
            let mut chunks = found.into_stream();
            while let Some(chunk) = chunks.try_next().await? {
                out.write_all(&chunk)?;
            }
            Ok(true)
        })
    }

    fn upload(&self, key: &str, content: &mut dyn Read) -> Result<(), BucketError> {
        self.run(("write", key), async |client, path| {
            let first = part(content)?;
            if (first.len() as u64) < PART_BYTES {
                client.put(path, first.into()).await?;
                return Ok(());
            }
            let mut upload = client.put_multipart(path).await?;
            let sent = async {
                let mut next = first;
                while !next.is_empty() {
                    upload.put_part(PutPayload::from(next)).await?;
                    next = part(content)?;
                }
                upload.complete().await?;
                Ok::<_, Source>(())
            };
            let sent = sent.await;
            if sent.is_err() {
                // What is left of it otherwise is for the bucket's own rules to remove.
                let _ = upload.abort().await;
            }
            sent
        })
    }

    fn head(&self, key: &str) -> Result<Option<Entry>, BucketError> {
        self.run(("look up", key), async |client, path| Ok(present(client.head(path).await)?.map(entry)))
    }

    fn list(&self, folder: &str, beginning: &str) -> Result<Vec<Entry>, BucketError> {
        self.run(("list", folder), async |client, folder| {
            let wanted = format!("{folder}/{beginning}");
            let listed = if beginning.is_empty() {
                client.list(Some(folder))
            } else {
                client.list_with_offset(Some(folder), &Path::parse(&wanted)?)
            };
            let entries = listed.map_ok(entry).try_filter(|entry| {
                let fits = entry.key.starts_with(&wanted);
                async move { fits }
            });
            Ok(entries.boxed().try_collect().await?)
        })
    }

    fn delete(&self, key: &str) -> Result<(), BucketError> {
        self.run(("remove", key), async |client, path| present(client.delete(path).await).map(|_| ()))
    }
}

fn present<T>(found: Result<T, Error>) -> Result<Option<T>, Source> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_refusal(error: &Error) -> bool {
    // Of a write: there is no such bucket.
    matches!(
        error,
        Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::NotFound { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
    )
}

fn entry(ObjectMeta { location, size, last_modified, .. }: ObjectMeta) -> Entry {
    Entry { key: location.into(), size_bytes: size, modified: last_modified.into() }
}

/// The next bytes, as many as are sent at once; less, or none, at the end.
fn part(content: &mut dyn Read) -> Result<Bytes, Source> {
    let mut part = Vec::new();
    content.take(PART_BYTES).read_to_end(&mut part)?;
    Ok(part.into())
}
