//! `tests/mutants`: each defect can still be seeded, and the test that has to notice it is still there.

use std::path::PathBuf;
use std::process::Command;

use rukpak_tests::tools::{listing, workspace_folder};
use serde_json::Value;

use crate::architecture::workspace::{list, members, metadata, rust_files};

/// There are no fewer.
const LEAST: usize = 35;

struct Mutant {
    path: PathBuf,
    /// A test function, or a scenario.
    test: String,
    run: String,
}

impl Mutant {
    fn read(path: PathBuf) -> Self {
        let content = std::fs::read_to_string(&path).expect("patches can be read");
        let line = |number: usize, key: &str| {
            let line = content.lines().nth(number).and_then(|line| line.strip_prefix(key)).unwrap_or_default();
            assert!(!line.is_empty(), "{}: line {} is to begin with {key:?}", path.display(), number + 1);
            line.to_owned()
        };
        line(0, "breaks: ");
        let (test, run) = (line(1, "test: "), line(2, "run: "));
        Self { path, test, run }
    }

    fn needs_cluster(&self) -> bool {
        self.run.contains("--test suites")
    }
}

fn mutants() -> Vec<Mutant> {
    let files = listing(&workspace_folder().join("tests/mutants")).expect("the folder can be listed");
    files.iter().map(|file| Mutant::read(file.path())).collect()
}

#[test]
fn every_defect_can_be_seeded() {
    let mutants = mutants();
    assert!(mutants.len() >= LEAST, "{}", mutants.len());
    for Mutant { path, .. } in mutants {
        let output = Command::new("git").args(["apply", "--check"]).arg(&path).current_dir(workspace_folder()).output();
        let output = output.expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "write {} anew, against the code as it is: {said}", path.display());
    }
}

#[test]
fn every_defect_names_a_test_that_exists() {
    let sources =
        ["crds", "provisioners", "webhook", "tests/suite"].map(|folder| rust_files(&workspace_folder().join(folder)));
    let sources: Vec<String> = sources.iter().flatten().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    for Mutant { path, test, .. } in mutants() {
        let is_scenario =
            |of: &str| workspace_folder().join(format!("provisioners/{of}/tests/scenarios/{test}.yaml")).is_file();
        let function = format!("fn {test}(");
        let exists =
            ["plan", "unpack"].into_iter().any(is_scenario) || sources.iter().any(|text| text.contains(&function));
        assert!(exists, "{}: there is no test {test}", path.display());
    }
}

/// `tests/tools/mutants.sh` shares the folder of built programs with everything else.
#[test]
fn defects_are_noticed_without_a_cluster_and_without_a_program() {
    let metadata = metadata();
    let members = members(&metadata);
    let has_program =
        |name: &str| list(members[name], "targets").any(|target| list(target, "kind").any(|kind| kind == "bin"));
    let package_of = |test: &str| {
        let has_test = |package: &Value| {
            let mut tests = list(package, "targets").filter(|target| list(target, "kind").any(|kind| kind == "test"));
            tests.any(|target| target["name"] == test)
        };
        let found = members.iter().find(|(_, package)| has_test(package));
        *found.unwrap_or_else(|| panic!("no crate has a test program {test}")).0
    };
    let mutants = mutants();
    for Mutant { path, run, .. } in mutants.iter().filter(|mutant| !mutant.needs_cluster()) {
        let words: Vec<&str> = run.split(' ').collect();
        let (package, how) = match words[..] {
            ["cargo", "test", "-p", package, how, ..] => (package, how),
            // Of the whole workspace, so that the crates of others are those that are built already.
            ["cargo", "test", "--workspace", "--test", test] => (package_of(test), "--test"),
            _ => panic!("{}: {run}", path.display()),
        };
        assert!(members.contains_key(package), "{}: {package}", path.display());
        assert!(how == "--lib" || !has_program(package), "{}: a mutated program would lie in target", path.display());
    }
    let with_cluster = mutants.iter().filter(|mutant| mutant.needs_cluster()).count();
    assert!(with_cluster * 5 <= mutants.len(), "{with_cluster} of {} take a cluster", mutants.len());
}
