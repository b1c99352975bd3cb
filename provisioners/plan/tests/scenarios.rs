//! Golden files: what is observed and remembered, and what is decided and reported. `scenarios/README.md` says how to read and
//! how to add them.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "scenarios/notation/mod.rs"]
mod notation;

use std::path::{Path, PathBuf};

use serde_json::Value;

use notation::golden::{self, Scenario};

/// There are no fewer.
const LEAST: usize = 80;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
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
    golden::assert_outcomes(&folder(), outcome);
}

#[test]
fn scenarios_are_many_and_all_different() {
    golden::assert_different(&folder(), LEAST, |group| {
        let is_object = matches!(group, "resolve" | "ownership" | "drift" | "plan" | "probes");
        if is_object { group.to_owned() } else { "deployment".to_owned() }
    });
}
