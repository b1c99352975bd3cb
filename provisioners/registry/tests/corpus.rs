//! Published bundles are rendered as the reference renders them, or refused as it refuses them.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and
//! does nothing. Its layout: `registry-v1/<package>/<version>/{manifests,metadata}`, and in
//! `golden/registry-v1/<package>__<version>.json` what the reference made of a bundle: `objects`, `loadError` or
//! `renderError`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rukpak_content::Limits;
use rukpak_registry::{Certificates, NamespaceTemplate, Places, RenderOptions, load, render};
use serde_json::Value;

mod support;

use support::compare::{Comparison, compare};
use support::{chain, list, tree};

/// There are no fewer bundles with a golden, nor bundles that render: a corpus that is half there proves little.
const LEAST: usize = 100;
/// There are no fewer goldens with objects. The others are refusals of the reference, and bundles that we refuse.
const LEAST_RENDERED: usize = 80;

#[derive(Debug, Default)]
struct Report {
    goldens: usize,
    rendered: usize,
    objects: usize,
    refused: BTreeMap<String, usize>,
    equal: usize,
    /// Equal but for the annotation that only newer reference renderers set on every pod.
    equal_but_for_annotation: usize,
    /// Deliberate differences, by their row in the README, with the number of fields.
    differing: BTreeMap<&'static str, usize>,
    differing_bundles: BTreeMap<&'static str, BTreeSet<String>>,
    /// There should be none.
    unexplained: Vec<String>,
}

impl Report {
    fn differ(&mut self, why: &'static str, bundle: &str) {
        *self.differing.entry(why).or_default() += 1;
        self.differing_bundles.entry(why).or_default().insert(bundle.to_owned());
    }
}

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)].into_iter().flatten().find(|path| path.is_dir())
}

fn options() -> RenderOptions {
    RenderOptions {
        install_namespace: "install-ns".into(),
        target_namespaces: None,
        with_namespace: false,
        namespace_template: NamespaceTemplate::default(),
        certificates: Certificates::CertManager,
        deployment_config: None,
        object_labels: std::collections::BTreeMap::new(),
        api_roles: false,
        operator_condition: false,
        places: Places::One,
    }
}

/// The part of a refusal that must be the reference's word for word, and the word for counting it.
fn refusal(golden: &Value) -> Option<(String, String)> {
    if let Some(text) = golden["renderError"].as_str() {
        return Some((text.to_owned(), text.to_owned()));
    }
    let text = golden["loadError"].as_str()?;
    // Which file, and which of the two things is missing, are the reference's words; the cause of a wrong type is ours.
    let (file, cause) = text.split_once("\": ")?;
    let kept = if cause.contains("Object 'Kind' is missing") {
        text.split_once(" in '").map_or(text, |(kept, _)| kept).to_owned()
    } else {
        format!("{file}\": ")
    };
    Some((kept, "error parsing objects: ".to_owned() + if cause.contains("Kind") { "no kind" } else { "wrong type" }))
}

fn check(corpus: &Path, file: &Path, report: &mut Report) -> io::Result<()> {
    let golden: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let bundle = golden["bundle"].as_str().unwrap_or_default().to_owned();
    report.goldens += 1;
    let tree = tree(&corpus.join("registry-v1").join(&bundle))?;
    let answer = load(&tree, &Limits::default())
        .map_err(|error| chain(&error))
        .and_then(|bundle| render(&bundle, &options()).map_err(|error| chain(&error)));
    match (answer, refusal(&golden)) {
        (Err(text), Some((expected, reason))) if text.starts_with(&expected) => {
            report.equal += 1;
            *report.refused.entry(reason).or_default() += 1;
        }
        // The reference leaves them out, and with them Services and certificates: its gate refuses such bundles before.
        (Ok(objects), None) if objects.iter().any(|object| object.kind() == "APIService") => {
            report.differ("aggregated APIs", &bundle);
        }
        (Ok(objects), None) => {
            report.rendered += 1;
            report.objects += objects.len();
            let ours =
                objects.iter().map(|object| object.without_server_fields(&mut Vec::new()).into_value()).collect();
            let Comparison { differences, unexplained } = compare(ours, &golden["objects"]);
            report.equal += usize::from(differences.is_empty() && unexplained.is_empty());
            let is_annotation = |why: &&'static str| *why == "olm.operatorNamespace";
            report.equal_but_for_annotation +=
                usize::from(!differences.is_empty() && unexplained.is_empty() && differences.iter().all(is_annotation));
            for why in differences {
                report.differ(why, &bundle);
            }
            report.unexplained.extend(unexplained.into_iter().map(|text| format!("{bundle}: {text}")));
        }
        (answer, expected) => {
            let answer = answer.map(|objects| format!("{} objects", objects.len()));
            report.unexplained.push(format!("{bundle}: answered {answer:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

#[test]
fn every_golden_is_rendered_or_refused_as_the_reference_does() -> io::Result<()> {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: nothing was compared with the reference");
        return Ok(());
    };
    let mut report = Report::default();
    for file in list(&corpus.join("golden/registry-v1"))? {
        check(&corpus, &file, &mut report)?;
    }
    eprintln!("{report:#?}");
    assert!(report.unexplained.is_empty(), "{} unexplained", report.unexplained.len());
    let Report { goldens, rendered, .. } = report;
    assert!(
        goldens >= LEAST && rendered >= LEAST_RENDERED,
        "{goldens} goldens in {}, {rendered} rendered",
        corpus.display()
    );
    Ok(())
}

/// Bundles without a golden, and bad ones: none panics, and what is refused says where.
#[test]
fn every_bundle_is_rendered_or_refused_with_a_place() -> io::Result<()> {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no bundle was read");
        return Ok(());
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for folder in ["registry-v1", "registry-v1-invalid"] {
        for package in list(&corpus.join(folder))? {
            for version in list(&package)?.into_iter().filter(|version| version.is_dir()) {
                let outcome = match load(&tree(&version)?, &Limits::default()) {
                    Err(error) => format!("{folder}: not read: {}", chain(&error)),
                    Ok(bundle) => match render(&bundle, &RenderOptions::v1alpha1(&bundle, Certificates::CertManager)) {
                        Ok(objects) => {
                            assert_eq!(objects[0].kind(), "Namespace");
                            format!("{folder}: rendered")
                        }
                        Err(error) => format!("{folder}: refused: {}", chain(&error)),
                    },
                };
                *counts.entry(outcome).or_default() += 1;
            }
        }
    }
    eprintln!("{counts:#?}");
    let rendered = counts.get("registry-v1: rendered").copied().unwrap_or_default();
    assert!(rendered >= LEAST, "{rendered} of the bundles in {} rendered", corpus.display());
    Ok(())
}
