//! `rukpakctl store copy`: what a controller keeps, from a folder to a bucket, back, or from one bucket to another.

mod uploads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rukpak_bucket::ObjectBucket;
use rukpak_store::{Bucket, Copied, Sharing, Store};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::args::{StoreCommand, StoreCopyArgs, StoreLocation};
use crate::exit::Exit;
use crate::failure::{Failure, ended};
use crate::output::{chain, to_stderr, to_stdout};
use crate::table::count;
use uploads::Uploads;

/// The default of the controller; nothing is collected here.
const GRACE: Duration = Duration::from_hours(24);
/// What is read is read once.
const CACHE_BYTES: u64 = 256 << 20;

/// Does what the verb says.
pub async fn run(command: &StoreCommand) -> Exit {
    match command {
        StoreCommand::Copy(arguments) => ended(copy(arguments).await),
    }
}

async fn copy(arguments: &StoreCopyArgs) -> Result<Exit, Failure> {
    let mut ca_pem = Vec::new();
    for path in &arguments.ca_files {
        let read = std::fs::read(path);
        ca_pem.extend(read.map_err(|error| Failure::unknown(format!("{}: {error}", path.display())))?);
        ca_pem.push(b'\n');
    }
    let spool = tempfile::tempdir().map_err(|error| Failure::unknown(format!("make a temporary folder: {error}")))?;
    if let StoreLocation::Folder(path) = &arguments.from
        && !path.join("v1").is_dir()
    {
        return Err(Failure::no(format!("{} is not a content store: it has no folder v1", path.display())));
    }
    let from = open(&arguments.from, arguments.uploads_from.clone(), &ca_pem, &spool.path().join("from")).await?;
    let to = open(&arguments.to, arguments.uploads_to.clone(), &ca_pem, &spool.path().join("to")).await?;
    let uploads = from.uploads.zip(to.uploads);
    let (from, to) = (from.store, to.store);
    let copied = spawn_blocking(move || from.copy_to(&to, &mut |digest| to_stderr(&format!("copying {digest}")))).await;
    let copied = copied.map_err(|error| Failure::unknown(error.to_string()))?.map_err(|error| {
        let failure = if error.mended_by_refill() { Failure::no } else { Failure::unknown };
        failure(chain(&error)).hint("run the command again: it goes on where it was")
    })?;
    let Some((from, to)) = uploads else {
        to_stderr(
            "uploads are not copied: --uploads-from and --uploads-to name their folders, where FROM or TO is one",
        );
        return Ok(print(&copied, None, arguments));
    };
    let uploads = spawn_blocking(move || from.copy_to(&to)).await;
    let uploads = uploads.map_err(|error| Failure::unknown(error.to_string()))?.map_err(|error| {
        let failure = Failure::unknown(format!("copy uploads: {}", chain(&error)));
        failure.hint("run the command again: it goes on where it was")
    })?;
    Ok(print(&copied, Some(uploads), arguments))
}

fn print(copied: &Copied, uploads: Option<uploads::Copied>, StoreCopyArgs { from, to, .. }: &StoreCopyArgs) -> Exit {
    let Copied { contents, bytes, present, refs } = *copied;
    let count = |number, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let (contents, refs) = (count(contents, "content"), count(refs, "ref"));
    let uploads = uploads.map_or_else(String::new, |uploads::Copied { uploads, bytes, present }| {
        format!("; {} copied ({bytes} bytes), {present} there already", crate::table::count(uploads, "upload"))
    });
    let line = format!("{from} -> {to}: {contents} copied ({bytes} bytes), {present} there already, {refs}{uploads}");
    to_stdout(|out| writeln!(out, "{line}"), Exit::Yes)
}

/// What a controller keeps.
struct Kept {
    store: Store,
    /// If it is known where they are.
    uploads: Option<Uploads>,
}

/// Opens a store; `spool` is where copies of what a bucket has go, for a while.
async fn open(place: &StoreLocation, uploads: Option<PathBuf>, ca_pem: &[u8], spool: &Path) -> Result<Kept, Failure> {
    let failed = |text: String| Failure::unknown(format!("{place}: {text}"));
    let (root, sharing, uploads) = match place {
        StoreLocation::Folder(path) => (path.clone(), None, uploads.map(Uploads::Folder)),
        StoreLocation::Bucket(_) if uploads.is_some() => {
            return Err(Failure::no(format!("{place} is a bucket, which has its uploads: leave out their folder")));
        }
        StoreLocation::Bucket(location) => {
            let environment: Vec<_> = std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect();
            let bucket = ObjectBucket::new(location, &environment, ca_pem, Handle::current());
            let bucket: Arc<dyn Bucket> = Arc::new(bucket.map_err(|error| failed(chain(&error)))?);
            let uploads = Uploads::Bucket(Arc::clone(&bucket));
            (spool.to_owned(), Some(Sharing { bucket, cache_bytes: CACHE_BYTES, grace: GRACE }), Some(uploads))
        }
    };
    let opened = spawn_blocking(move || {
        let store = Store::open(&root)?;
        let Some(sharing) = sharing else { return Ok(store) };
        sharing.probe()?;
        Ok::<_, rukpak_store::Error>(store.sharing(sharing))
    });
    let opened = opened.await.map_err(|error| failed(error.to_string()))?;
    let store = opened.map_err(|error| failed(chain(&error)))?;
    Ok(Kept { store, uploads })
}
