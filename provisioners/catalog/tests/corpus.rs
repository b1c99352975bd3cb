//! Published catalogs are read, and their graphs are judged, as the corpus says.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and does
//! nothing. In its folder `fbc` lie catalogs, parts of catalogs and templates; its `INDEX.md` says which is which.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rukpak_catalog::document::Document;
use rukpak_catalog::{Catalog, graph, read};
use rukpak_content::Limits;

/// What must come of a catalog.
#[derive(Clone, Copy)]
enum Expected {
    /// Nothing is wrong with its graphs.
    Valid,
    /// It is no whole catalog: these are the faults, a part of each.
    Invalid(&'static [&'static str]),
    /// It is input to a renderer and no catalog; the schema.
    Template(&'static str),
}

use Expected::{Invalid, Template, Valid};

const NO_BUNDLES: &[&str] = &["no olm.bundle blobs found in package"];

/// Folders and files below `fbc`. A file stands for a catalog of its own.
const CATALOGS: &[(&str, Expected)] = &[
    ("arkmq-template", Template("olm.template.basic")),
    ("catalogd-test-catalog", Valid),
    ("catalogd-test-catalog/test-catalog/expected_all.json", Valid),
    ("community-operators-v4.12", Valid),
    ("compliance-operator-v4.18", Valid), // with its template beside it
    ("compliance-operator-v4.18/catalog-template.yaml", Template("olm.template.basic")),
    ("compliance-preamble", Invalid(NO_BUNDLES)),
    ("file-integrity-operator-v4.17", Valid),
    ("file-integrity-preamble", Invalid(NO_BUNDLES)),
    ("gatekeeper-operator-product-4.17", Valid),
    ("konflux-sample", Template("olm.template.basic")),
    ("lvms-operator-templates", Template("olm.semver")), // "Schema", with a capital
    ("microshift-hello-olm", Invalid(NO_BUNDLES)),
    ("oc-mirror-test-catalogs/test-catalog-diff", Valid),
    ("oc-mirror-test-catalogs/test-catalog-extra-blobs", Valid),
    ("oc-mirror-test-catalogs/test-catalog-invalid-images", Valid), // well written names of images that are not there
    ("oc-mirror-test-catalogs/test-catalog-latest", Valid),
    ("oc-mirror-test-catalogs/test-catalog-multi", Valid),
    ("oc-mirror-test-catalogs/test-catalog-prune", Valid),
    ("oc-mirror-test-catalogs/test-catalog-prune-diff", Valid),
    ("olm-bad-csv", Valid), // what is bad lies in the image of the bundle
    ("olm-subscription/example-operator.v0.1.0.yaml", Valid),
    ("olm-subscription/example-operator.v0.2.0-deprecations.yaml", Valid),
    ("olm-subscription/example-operator.v0.2.0-invalid-csv.yaml", Valid),
    ("olm-subscription/example-operator.v0.2.0-non-existent-tag.yaml", Valid),
    ("olm-subscription/example-operator.v0.2.0.yaml", Valid),
    ("olm-subscription/example-operator.v0.3.0-deprecations.yaml", Valid),
    ("olm-subscription/example-operator.v0.3.0.yaml", Valid),
    ("openshift-gitops-template-v4.14", Template("olm.template.basic")),
    ("openshift-pipelines-operator-rh-v4.22", Valid),
    ("openshift-qe-custom-schema", Valid),
    ("operator-controller-old", Valid),
    ("operator-controller-openshift/catalog/configs", Valid), // tests fill in names and images, here and in the next two
    ("operator-controller-openshift/singleown/index/configs", Valid),
    ("operator-controller-openshift/webhook/index/configs", Valid),
    ("operator-pipelines-test", Valid),
    ("operator-registry-action/foo-index-v0.2.0-declcfg", Valid),
    ("operator-registry-action/index-declcfgs/exp-headsonly", Valid),
    ("operator-registry-action/index-declcfgs/exp-include-channel", Valid),
    ("operator-registry-action/index-declcfgs/exp-include-pkg", Valid),
    ("operator-registry-action/index-declcfgs/exp-latest", Valid),
    ("operator-registry-action/index-declcfgs/latest", Valid),
    ("operator-registry-action/index-declcfgs/old", Valid),
    ("operator-registry-action/list-index", Valid),
    ("operator-registry-fbc-dir", Valid),
    ("platform-operators-sample", Valid),
    ("serverless-operator-template-v4.14", Template("olm.template.basic")),
    ("tektoncd-operator-candidate", Invalid(NO_BUNDLES)),
    ("templates-community/dotvirt-operator", Template("olm.semver")),
    ("templates-community/hive-operator", Template("olm.template.basic")),
];

#[derive(Debug, Default)]
struct Report {
    catalogs: BTreeMap<&'static str, usize>,
    documents: BTreeMap<String, usize>,
    packages: usize,
    channels: usize,
    bundles: usize,
    with_install_modes: usize,
    deprecations: usize,
    remarks: Vec<String>,
    /// There should be none.
    unexplained: Vec<String>,
}

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpus = [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)];
    corpus.into_iter().flatten().map(|path| path.join("fbc")).find(|path| path.is_dir())
}

fn documents(path: &Path) -> Result<Vec<Document>, read::Error> {
    let limits = Limits::default();
    let mut documents = Vec::new();
    let mut visit = |document: Document| documents.push(document);
    if path.is_dir() {
        read::folder(path, &limits, &mut visit)?;
    } else {
        read::stream(&name(path), &mut open(path)?, &limits, &mut visit)?;
    }
    Ok(documents)
}

fn catalog(path: &Path) -> Result<Catalog, read::Error> {
    let limits = Limits::default();
    if path.is_dir() {
        return read::catalog(path, &limits);
    }
    read::catalog_of_stream(&name(path), &mut open(path)?, &limits)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn open(path: &Path) -> Result<File, read::Error> {
    File::open(path).map_err(|source| read::Error::Io { path: name(path), source })
}

fn check(path: &Path, expected: Expected, report: &mut Report) -> Result<(), read::Error> {
    let word = match expected {
        Valid => "valid",
        Invalid(_) => "invalid",
        Template(_) => "templates",
    };
    *report.catalogs.entry(word).or_default() += 1;
    for document in documents(path)? {
        let schema = match document {
            Document::Package { .. } => "olm.package".to_owned(),
            Document::Channel { .. } => "olm.channel".to_owned(),
            Document::Bundle(_) => "olm.bundle".to_owned(),
            Document::Deprecations { .. } => "olm.deprecations".to_owned(),
            Document::Other { schema, .. } => schema,
        };
        *report.documents.entry(schema).or_default() += 1;
    }
    match (catalog(path), expected) {
        (Err(read::Error::Template { schema, .. }), Template(expected)) if schema == expected => {}
        (Ok(catalog), Valid) => judge(path, &catalog, &[], report),
        (Ok(catalog), Invalid(parts)) => judge(path, &catalog, parts, report),
        (answer, _) => report.unexplained.push(format!("{}: {answer:?}", path.display())),
    }
    Ok(())
}

fn judge(path: &Path, catalog: &Catalog, parts: &[&str], report: &mut Report) {
    let faults: Vec<String> = catalog.packages.values().flat_map(graph::faults).collect();
    let is_as_expected =
        faults.len() == parts.len() && parts.iter().all(|part| faults.iter().any(|fault| fault.contains(part)));
    if !is_as_expected {
        report.unexplained.push(format!("{}: {faults:#?}", path.display()));
    }
    count(catalog, parts.is_empty(), report);
}

fn count(catalog: &Catalog, is_valid: bool, report: &mut Report) {
    report.packages += catalog.packages.len();
    for package in catalog.packages.values() {
        report.channels += package.channels.len();
        report.bundles += package.bundles.len();
        let has_modes = |bundle: &&rukpak_catalog::Bundle| bundle.facts.install_modes.is_some();
        report.with_install_modes += package.bundles.values().filter(has_modes).count();
        let deprecations = package.bundles.values().map(|bundle| &bundle.deprecation);
        let deprecations = deprecations.chain(package.channels.values().map(|channel| &channel.deprecation));
        report.deprecations += deprecations.chain([&package.deprecation]).flatten().count();
        report.remarks.extend(package.remarks.iter().cloned());
        let entries = package.channels.values().flat_map(|channel| &channel.entries);
        let missing: Vec<_> = entries.filter(|entry| !package.bundles.contains_key(&entry.name)).collect();
        assert!(missing.is_empty() || !is_valid, "{}: entries without bundles: {missing:?}", package.name);
    }
}

#[test]
fn every_catalog_is_valid_or_has_the_findings_it_should() -> Result<(), read::Error> {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no catalog was read");
        return Ok(());
    };
    let mut report = Report::default();
    for (path, expected) in CATALOGS {
        check(&corpus.join(path), *expected, &mut report)?;
    }
    eprintln!("{report:#?}");
    assert!(report.bundles > 100 && report.with_install_modes > 50 && report.deprecations > 0);
    assert!(report.unexplained.is_empty(), "{} unexplained", report.unexplained.len());
    Ok(())
}

/// Catalogs that nobody has looked at yet must be read all the same.
#[test]
fn every_file_of_the_corpus_is_a_stream_of_documents() -> io::Result<()> {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no file was read");
        return Ok(());
    };
    let (mut folders, mut files, mut count) = (vec![corpus], 0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != ".indexignore") {
                let documents = documents(&path).map_err(|error| io::Error::other(format!("{error:?}")))?;
                files += 1;
                count += documents.len();
            }
        }
    }
    eprintln!("{files} files, {count} documents");
    assert!(files > 0 && count > files);
    Ok(())
}
