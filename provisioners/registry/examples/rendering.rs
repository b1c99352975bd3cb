//! Measures reading and rendering: `cargo run --release -p rukpak-registry --example rendering -- <folder> [threads]`
//!
//! `<folder>/<package>/<version>` are bundles. Files are read from disk before the clock starts; parsing is in the time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, fs, io, thread};

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_registry::{Certificates, RenderOptions, load, render};

const ROUNDS: usize = 3;

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    paths.filter(|path| path.as_ref().map_or(true, |path: &PathBuf| path.is_dir())).collect()
}

fn tree(bundle: &Path) -> io::Result<BundleTree> {
    let mut tree = BundleTree::new();
    for folder in ["manifests", "metadata"] {
        let path = bundle.join(folder);
        for entry in path.is_dir().then(|| fs::read_dir(&path)).transpose()?.into_iter().flatten() {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                let name = RelativePath::new(&name).map_err(io::Error::other)?;
                tree.add_file(name, false, Bytes::from(fs::read(entry.path())?));
            }
        }
    }
    Ok(tree)
}

/// How many objects a bundle gives; none if it is refused.
fn objects(tree: &BundleTree) -> usize {
    let Ok(bundle) = load(tree, &Limits::default()) else { return 0 };
    let options = RenderOptions::v1alpha1(&bundle, Certificates::CertManager);
    render(&bundle, &options).map_or(0, |objects| objects.len())
}

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let root = arguments.next().map(PathBuf::from).ok_or_else(|| io::Error::other("name a folder with bundles"))?;
    let threads = match arguments.next() {
        Some(text) => text.to_string_lossy().parse().map_err(io::Error::other)?,
        None => thread::available_parallelism()?.get(),
    };
    let mut bundles = Vec::new();
    for package in list(&root)? {
        for version in list(&package)? {
            bundles.push(tree(&version)?);
        }
    }
    let size_bytes: u64 = bundles.iter().map(BundleTree::size_bytes).sum();
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(work) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < ROUNDS * bundles.len())
                {
                    count.fetch_add(objects(&bundles[work % bundles.len()]), Ordering::Relaxed);
                }
            });
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let (seconds, megabytes, number) =
        (start.elapsed().as_secs_f64() / ROUNDS as f64, size_bytes as f64 / 1e6, bundles.len() as f64);
    println!(
        "{number} bundles, {megabytes:.1} MB, {} objects, {threads} threads: {seconds:.2} s, {:.0} bundles/s, {:.1} MB/s",
        count.into_inner() / ROUNDS,
        number / seconds,
        megabytes / seconds
    );
    Ok(())
}
