//! `rukpakctl store copy`: what a controller keeps, from a folder to a bucket, back, or from one bucket to another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rukpak_bucket::ObjectBucket;
use rukpak_store::{Copied, Sharing, Store};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::args::{StoreCommand, StoreCopyArgs, StorePlace};
use crate::exit::Exit;
use crate::failure::{Failure, ended};
use crate::output::{chain, data, talk};
use crate::table::count;

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
    if let StorePlace::Folder(path) = &arguments.from
        && !path.join("v1").is_dir()
    {
        return Err(Failure::no(format!("{} is not a content store: it has no folder v1", path.display())));
    }
    let from = open(&arguments.from, &ca_pem, &spool.path().join("from")).await?;
    let to = open(&arguments.to, &ca_pem, &spool.path().join("to")).await?;
    let copied = spawn_blocking(move || from.copy_to(&to, &mut |digest| talk(&format!("copying {digest}")))).await;
    let copied = copied.map_err(|error| Failure::unknown(error.to_string()))?.map_err(|error| {
        let failure = if error.mended_by_refill() { Failure::no } else { Failure::unknown };
        failure(chain(&error)).hint("run the command again: it goes on where it was")
    })?;
    Ok(print(&copied, arguments))
}

fn print(copied: &Copied, StoreCopyArgs { from, to, .. }: &StoreCopyArgs) -> Exit {
    let Copied { contents, bytes, present, refs } = *copied;
    let count = |number, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let (contents, refs) = (count(contents, "content"), count(refs, "ref"));
    let line = format!("{from} -> {to}: {contents} copied ({bytes} bytes), {present} there already, {refs}");
    data(|out| writeln!(out, "{line}"), Exit::Yes)
}

/// Opens a store; `spool` is where copies of what a bucket has go, for a while.
async fn open(place: &StorePlace, ca_pem: &[u8], spool: &Path) -> Result<Store, Failure> {
    let failed = |text: String| Failure::unknown(format!("{place}: {text}"));
    let (root, sharing) = match place {
        StorePlace::Folder(path) => (path.clone(), None),
        StorePlace::Bucket(location) => {
            let environment: Vec<_> = std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect();
            let bucket = ObjectBucket::new(location, &environment, ca_pem, Handle::current());
            let bucket = Arc::new(bucket.map_err(|error| failed(chain(&error)))?);
            (spool.to_owned(), Some(Sharing { bucket, cache_bytes: CACHE_BYTES, grace: GRACE }))
        }
    };
    let opened = spawn_blocking(move || {
        let store = Store::open(&root)?;
        let Some(sharing) = sharing else { return Ok(store) };
        sharing.probe()?;
        Ok::<_, rukpak_store::Error>(store.sharing(sharing))
    });
    let opened = opened.await.map_err(|error| failed(error.to_string()))?;
    opened.map_err(|error| failed(chain(&error)))
}
