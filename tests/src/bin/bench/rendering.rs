//! Reading and rendering registry+v1 bundles: a corpus of published ones, and definitions of growing size.
//!
//! Each figure is taken in a child process of its own, so that its peak of memory is that of the rendering. Bundles are read from
//! their folders while the clock runs.

mod child;
mod synthetic;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rukpak_tests::tools;

use super::report::{Row, Target, Unit};
pub(crate) use child::{CHILD, main as child_main, peak_kibibytes};
use child::{Measured, Work};

/// The reference renderer's rate on two cores is 85 bundles a second, over the corpus; ours shall be four times that.
const TARGET_PER_SECOND: f64 = 4.0 * 85.0;
const THREADS: [usize; 2] = [1, 2];
/// Sizes of a definition, in KiB.
const SIZES_KIBIBYTES: [usize; 4] = [512, 1024, 2048, 4096];
/// A size costs as much for each MiB as the first, with this much room for noise.
const LINEAR: f64 = 1.25;
/// How much is rendered in one measurement of a size, in KiB.
const WORK_KIBIBYTES: usize = 32 * 1024;

/// Measures with one and with two threads, and the sizes with one; turn by turn, so that what else the machine does meets all.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Row>> {
    eprintln!("bench: rendering registry+v1 bundles");
    let folder = tools::temp_folder("rendering")?;
    let (root, what) = bundles(folder.path())?;
    let mut works: Vec<Work> =
        THREADS.into_iter().map(|threads| Work { folder: root.clone(), threads, repeat: 1 }).collect();
    for kibibytes in SIZES_KIBIBYTES {
        let root = folder.path().join(format!("definition-{kibibytes}"));
        synthetic::write_bundle(&root.join("package/1.0.0"), kibibytes)?;
        works.push(Work { folder: root, threads: 1, repeat: WORK_KIBIBYTES / kibibytes });
    }
    let mut runs: Vec<Vec<Measured>> = works.iter().map(|_| Vec::new()).collect();
    // The first round warms the page cache and does not count.
    for round in 0..=rounds {
        eprintln!("bench: round {round} of {rounds}");
        for (work, runs) in works.iter().zip(&mut runs) {
            let measured = run(work)?;
            runs.extend((round > 0).then_some(measured));
        }
    }
    let (corpus, sizes) = runs.split_at(THREADS.len());
    let mut rows: Vec<Row> =
        THREADS.iter().zip(corpus).flat_map(|(threads, runs)| corpus_rows(&what, *threads, runs)).collect();
    rows.extend(size_rows(sizes));
    Ok(rows)
}

/// A folder of bundles as `<package>/<version>`, and what to call them.
fn bundles(folder: &Path) -> Result<(PathBuf, String)> {
    let beside = tools::workspace_folder().join("../shared/corpus");
    let corpora = [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)];
    let corpus = corpora.into_iter().flatten().map(|corpus| corpus.join("registry-v1")).find(|corpus| corpus.is_dir());
    if let Some(corpus) = corpus {
        return Ok((corpus, "corpus".to_owned()));
    }
    eprintln!("bench: no corpus in $CORPUS: rendering made-up bundles, whose rate says nothing about the target");
    let root = folder.join("made-up");
    for index in 0..60 {
        synthetic::write_bundle(&root.join(format!("package{index}")).join("1.0.0"), 16 + index * 4)?;
    }
    Ok((root, "made-up".to_owned()))
}

fn corpus_rows(what: &str, threads: usize, runs: &[Measured]) -> Vec<Row> {
    let Some(first) = runs.first() else { return Vec::new() };
    let threads_text = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    let name = |unit: &str| format!("rendering, {what}, {threads_text}, {unit}");
    let of = |figure: &dyn Fn(&Measured) -> f64| middle(runs.iter().map(figure).collect());
    let target = (threads == 2 && what == "corpus").then_some(Target::AtLeast(TARGET_PER_SECOND));
    let note = format!(
        "{} bundles, {} of them refused, {} objects, read from disk; {:.2} s, {:.2} s of processors, {:.0} bundles by processor second",
        first.bundles,
        first.refused,
        first.objects,
        of(&|run| run.seconds),
        of(&|run| run.processor_seconds),
        of(&|run| run.bundles / run.processor_seconds),
    );
    let row = |what, measured, unit, target, note: &str| Row { what, measured, unit, target, note: note.to_owned() };
    vec![
        row(name("bundles"), of(&|run| run.bundles / run.seconds), Unit::BundlesPerSecond, target, &note),
        row(name("bytes"), of(&|run| run.bytes / 1e6 / run.seconds), Unit::MegabytesPerSecond, None, "of manifests"),
        row(name("memory"), of(&|run| run.peak_mebibytes), Unit::Mebibytes, None, "peak of the process"),
    ]
}

fn size_rows(sizes: &[Vec<Measured>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (kibibytes, runs) in SIZES_KIBIBYTES.iter().zip(sizes) {
        // By processor time: a figure of a few milliseconds would else tell of the machine's other work.
        let of = |figure: &dyn Fn(&Measured) -> f64| middle(runs.iter().map(figure).collect());
        rows.push(Row {
            what: format!("rendering, a definition of {kibibytes} KiB, 1 thread, each MiB"),
            measured: of(&|run| run.processor_seconds * 1e3 / (run.bytes / 1024.0 / 1024.0)),
            unit: Unit::MillisecondsPerMebibyte,
            target: rows.first().map(|first| Target::AtMost(first.measured * LINEAR)),
            note: format!(
                "processor time; target: {LINEAR} of the first size; {:.1} ms a bundle, peak {:.1} MiB",
                of(&|run| run.processor_seconds * 1e3 / run.bundles),
                of(&|run| run.peak_mebibytes)
            ),
        });
    }
    rows
}

fn run(work: &Work) -> Result<Measured> {
    let program = std::env::current_exe().context("find this program")?;
    let arguments = [work.threads.to_string(), work.repeat.to_string()];
    let arguments = [OsStr::new(CHILD), work.folder.as_os_str()].into_iter().chain(arguments.iter().map(OsStr::new));
    let mut command = Command::new(program);
    let output = command.args(arguments).stderr(Stdio::inherit()).output().context("start a measurement")?;
    if !output.status.success() {
        bail!("the measurement of {} failed: {}", work.folder.display(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("read what was measured")
}

pub(crate) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(figures.len().saturating_sub(1) / 2), at(figures.len() / 2))
}
