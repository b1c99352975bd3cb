//! Measures reading: `cargo run --release -p rukpak-plain --example throughput -- <folder with bundles>...`
//!
//! Every `manifests` folder below the arguments is a bundle. Files are read from disk before the clock starts.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io};

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_plain::{Budget, manifests};

const ROUNDS: u32 = 3;

fn find(folder: &Path, found: &mut Vec<BundleTree>) -> io::Result<()> {
    if folder.ends_with(manifests::FOLDER) {
        found.push(tree(folder)?);
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), found)?;
        }
    }
    Ok(())
}

fn tree(folder: &Path) -> io::Result<BundleTree> {
    let mut tree = BundleTree::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let path = format!("{}/{}", manifests::FOLDER, entry.file_name().to_string_lossy());
        let path = RelativePath::new(&path).map_err(io::Error::other)?;
        tree.add_file(path, false, Bytes::from(fs::read(entry.path())?));
    }
    Ok(tree)
}

fn main() -> io::Result<()> {
    let mut bundles = Vec::new();
    for folder in env::args_os().skip(1).map(PathBuf::from) {
        find(&folder, &mut bundles)?;
    }
    let size_bytes: u64 = bundles.iter().map(BundleTree::size_bytes).sum();
    let limits = Limits::default();
    let mut objects = 0;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for bundle in &bundles {
            objects += manifests::read(bundle, &mut Budget::new(&limits)).map_or(0, |objects| objects.len());
        }
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(ROUNDS);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let (megabytes, count) = (size_bytes as f64 / 1e6, bundles.len() as f64);
    println!(
        "{count} bundles, {megabytes:.1} MB, {} objects: {seconds:.2} s, {:.1} MB/s, {:.0} bundles/s",
        objects / ROUNDS as usize,
        megabytes / seconds,
        count / seconds
    );
    Ok(())
}
