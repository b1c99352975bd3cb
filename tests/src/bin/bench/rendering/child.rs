//! The process that renders and is measured.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_registry::{Certificates, RenderOptions, load, render};
use serde::{Deserialize, Serialize};

/// The first argument of such a process.
pub(crate) const CHILD: &str = "render-child";

/// What is to be rendered.
pub(crate) struct Work {
    /// Bundles, as `<package>/<version>`.
    pub folder: PathBuf,
    /// How many threads share the bundles.
    pub threads: usize,
    /// How often all bundles are rendered.
    pub repeat: usize,
}

/// What it took.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub bundles: f64,
    /// Of manifests and metadata.
    pub bytes: f64,
    pub objects: f64,
    /// Bundles that gave no objects.
    pub refused: f64,
    pub seconds: f64,
    pub processor_seconds: f64,
    /// The most memory that was resident at any time.
    pub peak_mebibytes: f64,
}

/// What one thread has done.
#[derive(Default)]
struct Done {
    bundles: usize,
    bytes: u64,
    objects: usize,
    refused: usize,
    processor_nanoseconds: u64,
}

/// Renders what `arguments` name (folder, threads, repetitions) and prints [`Measured`] as JSON.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let folder = arguments.next().map(PathBuf::from).context("no folder")?;
    let mut number = || -> Result<usize> { Ok(arguments.next().context("no number")?.to_string_lossy().parse()?) };
    let work = Work { folder, threads: number()?, repeat: number()? };
    println!("{}", serde_json::to_string(&measure(&work)?)?);
    Ok(())
}

fn measure(work: &Work) -> Result<Measured> {
    let mut bundles = Vec::new();
    for package in folders(&work.folder)? {
        bundles.extend(folders(&package)?);
    }
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let done: Vec<Result<Done>> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..work.threads).map(|_| scope.spawn(|| share(&bundles, work.repeat * bundles.len(), &next))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = Done::default();
    for done in done {
        let done = done?;
        all.bundles += done.bundles;
        all.bytes += done.bytes;
        all.objects += done.objects;
        all.refused += done.refused;
        all.processor_nanoseconds += done.processor_nanoseconds;
    }
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    Ok(Measured {
        bundles: all.bundles as f64,
        bytes: all.bytes as f64,
        objects: all.objects as f64,
        refused: all.refused as f64,
        seconds,
        processor_seconds: all.processor_nanoseconds as f64 / 1e9,
        peak_mebibytes: peak_kibibytes()? / 1024.0,
    })
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

/// Renders bundles until `end` have been taken by all threads together.
fn share(bundles: &[PathBuf], end: usize, next: &AtomicUsize) -> Result<Done> {
    let mut done = Done::default();
    loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        if turn >= end {
            break;
        }
        let tree = read(&bundles[turn % bundles.len()])?;
        let objects = objects(&tree);
        done.bundles += 1;
        done.bytes += tree.size_bytes();
        done.objects += objects;
        done.refused += usize::from(objects == 0);
    }
    // Nanoseconds on a processor, nanoseconds waited for one, turns.
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("read the time on a processor")?;
    done.processor_nanoseconds = text.split(' ').next().unwrap_or_default().parse().context("read the time")?;
    Ok(done)
}

fn read(bundle: &Path) -> Result<BundleTree> {
    let mut tree = BundleTree::new();
    for folder in ["manifests", "metadata"] {
        let path = bundle.join(folder);
        if !path.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&path).with_context(|| format!("list {}", path.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                tree.add_file(RelativePath::new(&name)?, false, fs::read(entry.path())?.into());
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

/// The most memory that was resident in this process at any time.
pub(crate) fn peak_kibibytes() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("read the status of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    line.trim().trim_end_matches("kB").trim().parse().context("read VmHWM")
}
