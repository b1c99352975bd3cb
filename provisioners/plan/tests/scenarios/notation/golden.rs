//! Golden files: read, compared with what comes of them, and written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::yaml;

/// With the value `write`, the outcomes are written into the files.
const SWITCH: &str = "RUKPAK_GOLDEN";

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The rule that it shows, and the finding of the review, if it shows one.
    pub why: String,
    pub given: Value,
    #[serde(default)]
    pub after: Vec<Value>,
    #[serde(default)]
    pub expect: Value,
}

/// Every file below the folder, by `group/name`.
fn scenarios(folder: &Path) -> BTreeMap<String, (PathBuf, Scenario)> {
    let mut found = BTreeMap::new();
    for group in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
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

/// Every scenario ends as its file says; or the files are written.
pub fn assert_outcomes(folder: &Path, outcome: impl Fn(&str, &Scenario) -> Value) {
    let is_writing = std::env::var(SWITCH).is_ok_and(|value| value == "write");
    assert!(!is_writing || std::env::var_os("CI").is_none(), "{SWITCH} is set, and goldens are not written under CI");
    let mut wrong = String::new();
    for (name, (path, scenario)) in scenarios(folder) {
        let outcome = outcome(&name, &scenario);
        if outcome == scenario.expect {
            continue;
        }
        if is_writing {
            write(&path, &outcome);
        } else {
            let (expected, is) = (yaml::text(&scenario.expect), yaml::text(&outcome));
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
    std::fs::write(path, format!("{kept}\nexpect:{}\n", yaml::text(outcome))).unwrap();
}

/// There are no fewer than `least`, and no two of a kind, which is told from the group, ask the same.
pub fn assert_different(folder: &Path, least: usize, kind: impl Fn(&str) -> String) {
    let all = scenarios(folder);
    assert!(all.len() >= least, "{} scenarios", all.len());
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (name, (_, scenario)) in all {
        let kind = kind(name.split('/').next().unwrap_or_default());
        let asked = serde_json::to_string(&(kind, &scenario.given, &scenario.after)).unwrap();
        assert!(!scenario.why.is_empty() && !scenario.expect.is_null(), "{name}");
        if let Some(other) = known.insert(asked, name.clone()) {
            panic!("{name} asks what {other} asks");
        }
    }
}
