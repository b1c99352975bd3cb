//! Every manifest of a corpus of published bundles is read.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and
//! does nothing. Its layout: `plain/<name>/manifests` and `registry-v1/<package>/<version>/manifests`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rukpak_content::Limits;
use rukpak_plain::{Budget, Warning, manifests};

/// There are no fewer bundles: a corpus that is half there proves little.
const LEAST: usize = 100;

#[derive(Debug, Default)]
struct Report {
    bundles: usize,
    files: usize,
    objects: usize,
    kinds: BTreeMap<String, usize>,
    duplicate_keys: usize,
    conflicts: Vec<String>,
    /// Files that hold something else than objects: a bundle of the plain format would be refused.
    no_objects: Vec<String>,
    /// Files that are not understood: there should be none.
    failures: Vec<String>,
}

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)].into_iter().flatten().find(|path| path.is_dir())
}

/// What is in a folder, by name; nothing if there is no such folder.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read(corpus: &Path, bundle: &Path, report: &mut Report) -> io::Result<()> {
    let files = list(&bundle.join(manifests::FOLDER))?;
    report.bundles += usize::from(!files.is_empty());
    let limits = Limits::default();
    let (mut budget, mut objects) = (Budget::new(&limits), Vec::new());
    for file in files.iter().filter(|path| path.is_file()) {
        report.files += 1;
        let name = file.strip_prefix(corpus).unwrap_or(file).to_string_lossy();
        if let Err(error) = manifests::read_file(&name, &fs::read(file)?, &mut budget, &mut objects) {
            let list = if is_about_an_object(&error) { &mut report.no_objects } else { &mut report.failures };
            list.push(chain(&error));
        }
    }
    report.objects += objects.len();
    for object in &objects {
        assert!(!object.kind().is_empty() && !object.name().is_empty(), "{object:?}");
        *report.kinds.entry(object.gvk().to_string()).or_default() += 1;
    }
    let is_duplicate = |warning: &&Warning| matches!(warning, Warning::DuplicateKey { .. });
    report.duplicate_keys += budget.take_warnings().iter().filter(is_duplicate).count();
    if let Err(error) = manifests::merge_repeated(objects, &mut budget) {
        report.conflicts.push(error.to_string());
    }
    Ok(())
}

fn is_about_an_object(error: &manifests::Error) -> bool {
    match error {
        manifests::Error::Stray { source, .. } => is_about_an_object(source),
        error => matches!(error, manifests::Error::Object { .. }),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[test]
fn every_published_manifest_is_read() -> io::Result<()> {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: published manifests were not read");
        return Ok(());
    };
    let mut bundles = list(&corpus.join("plain"))?;
    for package in list(&corpus.join("registry-v1"))? {
        bundles.extend(list(&package)?);
    }
    let mut report = Report::default();
    for bundle in bundles {
        read(&corpus, &bundle, &mut report)?;
    }
    eprintln!("{report:#?}");
    let (bundles, objects) = (report.bundles, report.objects);
    assert!(bundles >= LEAST && objects >= bundles, "{bundles} bundles, {objects} objects in {}", corpus.display());
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    Ok(())
}
