//! Golden files: what is known of a Bundle, and what is decided, reported and published. `tests/scenarios/README.md` says how to read
//! and how to add them. What they ask is nobody's outside of the crate, so that they are no test program of their own.

mod scene;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Deserialize;
use serde_json::Value;

/// With the value `write`, the outcomes are written into the files.
const SWITCH: &str = "RUKPAK_GOLDEN";
/// There are no fewer.
const LEAST: usize = 70;

/// What is wrong with a file, in words.
type Error = Box<dyn std::error::Error>;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// The rule that it shows.
    why: String,
    /// The first reconcile.
    given: Value,
    /// Those that follow.
    #[serde(default)]
    after: Vec<Value>,
    /// What comes of the last one.
    #[serde(default)]
    expect: Value,
}

/// Every file, by `group/name`.
fn scenarios() -> BTreeMap<String, (PathBuf, Scenario)> {
    let mut found = BTreeMap::new();
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    for file in entries(&folder).iter().filter(|path| path.is_dir()).flat_map(|group| entries(group)) {
        let name = file.strip_prefix(&folder).unwrap().with_extension("").display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        let scenario = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        found.insert(name, (file, scenario));
    }
    found
}

#[test]
fn every_scenario_ends_as_its_file_says() {
    let is_writing = env::var(SWITCH).is_ok_and(|value| value == "write");
    assert!(!is_writing || env::var_os("CI").is_none(), "{SWITCH} is set, and goldens are not written under CI");
    let mut wrong = String::new();
    for (name, (path, scenario)) in scenarios() {
        let Scenario { why, given, after, expect } = scenario;
        let outcome = scene::outcome(given, after).unwrap_or_else(|error| panic!("{name}: {error}"));
        if outcome == expect {
            continue;
        }
        if is_writing {
            write(&path, &outcome);
        } else {
            let _ = writeln!(wrong, "{name}: {why}\nexpected:{}\nis:{}\n", text(&expect), text(&outcome));
        }
    }
    assert!(!is_writing, "the scenarios are written: read what changed, and run again without {SWITCH}");
    assert!(wrong.is_empty(), "{wrong}With {SWITCH}=write the files are changed. Read what changed.");
}

#[test]
fn scenarios_are_many_and_all_different() {
    let all = scenarios();
    assert!(all.len() >= LEAST, "{} scenarios", all.len());
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (name, (_, scenario)) in all {
        let asked = serde_json::to_string(&(&scenario.given, &scenario.after)).unwrap();
        assert!(!scenario.why.is_empty() && !scenario.expect.is_null(), "{name}");
        if let Some(other) = known.insert(asked, name.clone()) {
            panic!("{name} asks what {other} asks");
        }
    }
}

/// Puts the outcome in the place of what the file expects, and leaves the rest as people wrote it.
fn write(path: &Path, outcome: &Value) {
    let old = fs::read_to_string(path).unwrap();
    let kept = old.split_once("\nexpect:").map_or(old.trim_end(), |(kept, _)| kept);
    fs::write(path, format!("{kept}\nexpect:{}\n", text(outcome))).unwrap();
}

/// The outcome in YAML, below a key: texts, and lists of texts.
fn text(outcome: &Value) -> String {
    let mut text = String::new();
    for (key, value) in outcome.as_object().into_iter().flatten() {
        let _ = write!(text, "\n  {key}:");
        match value.as_array() {
            None => _ = write!(text, " {value}"),
            Some(lines) => {
                for line in lines {
                    let _ = write!(text, "\n    - {line}");
                }
            }
        }
    }
    text
}
