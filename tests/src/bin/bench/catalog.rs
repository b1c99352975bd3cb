//! Loading a catalog of real size: from a folder, from one stream, and from a registry server over gRPC.
//!
//! Each figure is taken in a child process of its own, so that its peak of memory is that of the loading.

mod child;
mod operators;
mod synthetic;

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rukpak_tests::catalog::CatalogServer;
use rukpak_tests::tools;

use super::rendering::middle;
use super::report::{Row, Target, Unit};
use child::Measured;
pub(crate) use child::{CHILD, main as child_main};
pub(crate) use operators::measure as operators;

/// Longest time for loading and indexing, in milliseconds.
const LOAD_MILLISECONDS: f64 = 3000.0;
/// Most memory meanwhile.
const PEAK_MEBIBYTES: f64 = 96.0;
/// Longest time for a look-up in a catalog that is loaded.
const LOOK_UP_MICROSECONDS: f64 = 5000.0;

/// Measures the three ways, turn by turn, so that what else the machine does meets all.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Row>> {
    eprintln!("bench: loading catalogs");
    let folder = tools::temp_folder("catalog")?;
    let bytes = synthetic::make(folder.path()).context("write the catalog")?;
    let server = CatalogServer::start_generated(synthetic::PACKAGES * synthetic::BUNDLES, synthetic::message)?;
    let address = server.address();
    let (files, stream) = (folder.path().join("catalog"), folder.path().join("stream.json"));
    let ways: [(&str, &OsStr); 3] =
        [("folder", files.as_os_str()), ("stream", stream.as_os_str()), ("grpc", address.as_ref())];
    let mut runs: [Vec<Measured>; 3] = Default::default();
    // The first round warms the page cache and does not count.
    for round in 0..=rounds {
        eprintln!("bench: round {round} of {rounds}");
        for ((how, place), runs) in ways.iter().zip(&mut runs) {
            let measured = run(how, place)?;
            runs.extend((round > 0).then_some(measured));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let size = format!("{:.0} MiB of JSON", bytes as f64 / 1024.0 / 1024.0);
    let notes = [format!("{size} in a file for each package"), format!("{size} in one file"), "ListBundles".to_owned()];
    Ok(ways.iter().zip(&runs).zip(notes).flat_map(|(((how, _), runs), note)| rows(how, runs, &note)).collect())
}

fn rows(how: &str, runs: &[Measured], note: &str) -> Vec<Row> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of = |figure: &dyn Fn(&Measured) -> f64| middle(runs.iter().map(figure).collect());
    let name = |what: &str| format!("catalog, {how}, {what}");
    let note = format!("{} packages, {} bundles, {note}", first.packages, first.bundles);
    let row = |what, measured, unit, most, note: &str| Row {
        what: name(what),
        measured,
        unit,
        target: Some(Target::AtMost(most)),
        note: note.to_owned(),
    };
    vec![
        row("load and index", of(&|run| run.seconds * 1e3), Unit::Milliseconds, LOAD_MILLISECONDS, &note),
        row("memory", of(&|run| run.peak_mebibytes), Unit::Mebibytes, PEAK_MEBIBYTES, "peak of the process"),
        row(
            "second look-up",
            of(&|run| run.look_up_microseconds),
            Unit::Microseconds,
            LOOK_UP_MICROSECONDS,
            "by name, and a bundle chosen",
        ),
    ]
}

fn run(how: &str, place: &OsStr) -> Result<Measured> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    let output = command.args([OsStr::new(CHILD), OsStr::new(how), place]).stderr(Stdio::inherit()).output();
    let output = output.context("start a measurement")?;
    if !output.status.success() {
        bail!("the measurement of {} failed: {}", place.display(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("read what was measured")
}
