//! Golden files: what is observed and remembered, and what is decided and reported. `scenarios/README.md` says how to read and
//! how to add them.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "scenarios/notation/mod.rs"]
mod notation;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// With the value `write`, the outcomes are written into the files.
const SWITCH: &str = "RUKPAK_GOLDEN";
/// There are no fewer.
const LEAST: usize = 80;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// The rule that it shows, and the finding of the review, if it shows one.
    why: String,
    given: Value,
    #[serde(default)]
    after: Vec<Value>,
    #[serde(default)]
    expect: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Every file, by `group/name`.
fn scenarios() -> BTreeMap<String, (PathBuf, Scenario)> {
    let mut found = BTreeMap::new();
    for group in std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(&group).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let (group, name) = (group.file_name().unwrap(), file.file_stem().unwrap());
            let name = format!("{}/{}", group.to_string_lossy(), name.to_string_lossy());
            let text = std::fs::read_to_string(&file).unwrap();
            let scenario = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            found.insert(name, (file, scenario));
        }
    }
    found
}

/// The group says what is asked: what an object is, or (most) what is to be done about a BundleDeployment.
fn outcome(name: &str, scenario: &Scenario) -> Value {
    let given = scenario.given.clone();
    let outcome = match name.split_once('/').map(|(group, _)| group) {
        Some("resolve") => notation::objects::resolved(given),
        Some("ownership") => notation::objects::owned(given),
        Some("drift") => notation::objects::drifted(given),
        Some("plan") => notation::objects::planned(given),
        Some("probes") => notation::objects::judged(given),
        _ => notation::deployment::outcome(given, &scenario.after),
    };
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_scenario_ends_as_its_file_says() {
    let is_writing = std::env::var(SWITCH).is_ok_and(|value| value == "write");
    assert!(!is_writing || std::env::var_os("CI").is_none(), "{SWITCH} is set, and goldens are not written under CI");
    let mut wrong = String::new();
    for (name, (path, scenario)) in scenarios() {
        let outcome = outcome(&name, &scenario);
        if outcome == scenario.expect {
            continue;
        }
        if is_writing {
            write(&path, &outcome);
        } else {
            let (expected, is) = (notation::yaml::text(&scenario.expect), notation::yaml::text(&outcome));
            let _ = writeln!(wrong, "{name}: {}\nexpected:{expected}\nis:{is}\n", scenario.why);
        }
    }
    assert!(!is_writing, "the scenarios are written: read what changed, and run again without {SWITCH}");
    assert!(wrong.is_empty(), "{wrong}With {SWITCH}=write the files are changed. Read what changed.");
}

/// Puts the outcome in the place of what the file expects, and leaves the rest as people wrote it.
fn write(path: &Path, outcome: &Value) {
    let text = std::fs::read_to_string(path).unwrap();
    let kept = text.split_once("\nexpect:").map_or(text.trim_end(), |(kept, _)| kept);
    std::fs::write(path, format!("{kept}\nexpect:{}\n", notation::yaml::text(outcome))).unwrap();
}

#[test]
fn scenarios_are_many_and_all_different() {
    let all = scenarios();
    assert!(all.len() >= LEAST, "{} scenarios", all.len());
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (name, (_, scenario)) in all {
        let group = name.split('/').next().unwrap_or_default();
        let is_object = matches!(group, "resolve" | "ownership" | "drift" | "plan" | "probes");
        let kind = if is_object { group } else { "deployment" };
        let asked = serde_json::to_string(&(kind, &scenario.given, &scenario.after)).unwrap();
        assert!(!scenario.why.is_empty() && !scenario.expect.is_null(), "{name}");
        if let Some(other) = known.insert(asked, name.clone()) {
            panic!("{name} asks what {other} asks");
        }
    }
}
