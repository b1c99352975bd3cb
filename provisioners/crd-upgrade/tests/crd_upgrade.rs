//! Pairs of CRDs are judged as OLM v1 judges them.
//!
//! The pairs are in `golden/crd-upgrade-safety` of the corpus: the folder `$CORPUS`, or `../shared/corpus` beside the
//! workspace; without one this test says so and does nothing. What the reference says of a pair is in the table here.

use std::path::{Path, PathBuf};

use rukpak_crd_upgrade::{Options, Rule, check, refusal};
use serde_json::Value;

struct Case {
    old: &'static str,
    new: &'static str,
    /// Text that a refusal has. A change without any is safe.
    refused: &'static [&'static str],
    /// Rules that have findings, whatever their words.
    rules: &'static [Rule],
    /// Text that a refusal does not have.
    unsaid: &'static [&'static str],
}

const SAFE: Case = Case { old: "", new: "", refused: &[], rules: &[], unsaid: &[] };

const CASES: &[Case] = &[
    Case { old: "old-crd", new: "crd-valid-upgrade", ..SAFE },
    Case { old: "old-crd", new: "crd-description-changed", ..SAFE },
    Case {
        old: "old-crd",
        new: "crd-invalid-upgrade",
        refused: &[
            "scope: scope changed : \"Cluster\" -> \"Namespaced\"",
            "cannot remove stored versions [v1]",
            "enum: allowed enum values removed : [\"c\"]",
            "required: new required fields: [requiredAdded]",
            "maximum: ",
            "maxItems: ",
            "maxLength: ",
            "maxProperties: ",
            "minimum: ",
            "minItems: ",
            "minLength: ",
            "minProperties: ",
            "default: ",
        ],
        rules: &[
            Rule::Scope,
            Rule::StoredVersionRemoval,
            Rule::Enum,
            Rule::Required,
            Rule::Maximum,
            Rule::MaxItems,
            Rule::MaxLength,
            Rule::MaxProperties,
            Rule::Minimum,
            Rule::MinItems,
            Rule::MinLength,
            Rule::MinProperties,
            Rule::Default,
        ],
        ..SAFE
    },
    Case {
        old: "old-crd",
        new: "crd-field-removed",
        refused: &["existingFieldRemoval: removed field : v2.^.spec.removedField"],
        rules: &[Rule::ExistingFieldRemoval],
        ..SAFE
    },
    Case { old: "crd-conversion-webhook-old", new: "crd-conversion-webhook", ..SAFE },
    Case {
        old: "crd-conversion-webhook-old",
        new: "crd-conversion-no-webhook",
        refused: &[
            "validating upgrade for CRD \"crontabs.stable.example.com\": v1 -> v2: ^.spec.foobarbaz: enum: allowed \
                    enum values removed",
        ],
        rules: &[Rule::Enum],
        ..SAFE
    },
    Case { old: "crd-conversion-no-webhook", new: "crd-conversion-no-webhook", ..SAFE },
    Case {
        old: "crd-conversion-no-webhook",
        new: "crd-conversion-no-webhook-extra-issue",
        refused: &["v1 -> v2: ^.spec.extraField: type: type changed : \"boolean\" -> \"string\""],
        rules: &[Rule::Type],
        unsaid: &["v1 -> v2: ^.spec.foobarbaz: enum"],
    },
    Case {
        old: "crd-unhandled-old",
        new: "crd-unhandled-new",
        refused: &["unhandled changes found", "Format \"\" -> \"email\""],
        rules: &[Rule::Unhandled],
        unsaid: &["v1.JSONSchemaProps"],
    },
    Case {
        old: "crd-complex-breaking-changes-old",
        new: "crd-complex-breaking-changes-new",
        refused: &[
            "nullable: nullable added : false -> true",
            "oneOf: oneOf constraint added when there was none previously",
            "type: type changed : \"object\" -> \"\"",
        ],
        rules: &[Rule::Nullable, Rule::OneOf, Rule::Type],
        ..SAFE
    },
    Case {
        old: "crd-oneof-removed-old",
        new: "crd-oneof-removed-new",
        refused: &["oneOf: allowed oneOf schemas removed"],
        rules: &[Rule::OneOf],
        ..SAFE
    },
    Case {
        old: "crd-oneof-safe-addition-old",
        new: "crd-oneof-safe-addition-new",
        refused: &["oneOf: oneOf constraint added"],
        rules: &[Rule::OneOf],
        ..SAFE
    },
    Case { old: "crd-optional-field-old", new: "crd-optional-field-new", ..SAFE },
];

fn pairs() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpora = [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)];
    corpora.into_iter().flatten().map(|corpus| corpus.join("golden/crd-upgrade-safety")).find(|path| path.is_dir())
}

#[test]
fn pairs_of_the_corpus_are_judged_as_the_reference_judges_them() {
    let Some(folder) = pairs() else {
        eprintln!(
            "ABSENT: no golden/crd-upgrade-safety at $CORPUS or ../shared/corpus: nothing was compared with the reference"
        );
        return;
    };
    let read = |name: &str| -> Value {
        let path = folder.join(format!("{name}.json"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut differing = Vec::new();
    for case in CASES {
        let (old, new) = (read(case.old), read(case.new));
        let report = check(&old, &new, Options { strict: true }).expect("the corpus has definitions");
        let name = new["metadata"]["name"].as_str().expect("definitions have a name");
        let text = refusal(name, report.errors());
        let mut wrong: Vec<_> = case.refused.iter().filter(|want| !text.contains(**want)).collect();
        wrong.extend(case.unsaid.iter().filter(|unwanted| text.contains(**unwanted)));
        let found = |rule: &&Rule| report.errors().any(|change| change.rule == **rule);
        let as_expected = wrong.is_empty() && case.rules.iter().all(|rule| found(&rule));
        if !as_expected || case.refused.is_empty() != text.is_empty() {
            differing.push(format!("{} -> {}: {wrong:?} in {text:?}", case.old, case.new));
        }
    }
    println!("{} pairs: {} equal, {} differing", CASES.len(), CASES.len() - differing.len(), differing.len());
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn what_is_no_definition_in_the_corpus_is_refused() {
    let Some(folder) = pairs() else {
        eprintln!(
            "ABSENT: no golden/crd-upgrade-safety at $CORPUS or ../shared/corpus: nothing was compared with the reference"
        );
        return;
    };
    let bytes = std::fs::read(folder.join("crd-invalid")).expect("the corpus has it");
    assert!(serde_json::from_slice::<Value>(&bytes).is_err());
    let read = |name| -> Value {
        serde_json::from_slice(&std::fs::read(folder.join(name)).expect("the corpus has it")).expect("it is JSON")
    };
    let error = check(&read("old-crd.json"), &read("no-crds.json"), Options::default()).expect_err("it is a Service");
    assert_eq!(error.field, "kind");
}
