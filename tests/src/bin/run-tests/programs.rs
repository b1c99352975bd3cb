//! The test programs of the workspace, as cargo builds and names them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rukpak_tests::tools;
use serde::Deserialize;

/// The binary of the suites. Each suite is a program of its own here: its clusters end with it.
const SUITES: &str = "suites";

/// Suites that are one program, and share one cluster ([`rukpak_tests::world::World::shared`]): none of them stops what others use.
const TOGETHER: [&str; 5] = ["admission", "cli", "content", "deployments", "registry"];

/// What is begun first, in this order: what takes longest, as that should not be what is waited for, and beside what takes all
/// processor time what mostly waits.
const FIRST: [&str; 17] = [
    "engine",
    "leader",
    "plans",
    "output",
    "olmv0",
    "rights",
    "hostile",
    "sweep",
    "admission+cli+content+deployments+registry",
    "helm",
    "olmv1",
    "tutorial",
    "platform",
    "bundles",
    "install_order",
    "specs",
    "image",
];

/// One test program.
pub struct Program {
    /// The name of its target; in front of it that of its package's folder, unless it is one of the suites.
    pub name: String,
    /// What to run.
    pub command: Vec<String>,
    /// Where.
    pub folder: PathBuf,
    /// The names of its tests, as far as they are run.
    pub tests: Vec<String>,
}

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds all programs and all test programs, and returns the test programs that are named, or all. The last one runs the examples in
/// the documentation.
pub fn build(names: &[String], without_cluster: bool) -> Result<Vec<Program>> {
    let root = tools::workspace_folder();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // The suites start the programs, which cargo does not build for tests of other packages.
    let built = Command::new(&cargo).args(["build", "--workspace", "--bins"]).current_dir(root).status();
    ensure!(built.context("run cargo")?.success(), "the programs do not build");
    let output = Command::new(&cargo)
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout).context("read what cargo says")?.lines() {
        let Ok(message) = serde_json::from_str::<Message>(line) else { continue };
        let Some(mut program) = program(message) else { continue };
        if program.name != SUITES {
            program.tests = program.list()?;
            programs.push(program);
        } else if !without_cluster {
            let tests = program.list()?;
            programs.extend(grouped(&tests, names).into_iter().map(|(name, tests)| program.with(name, tests)));
        }
    }
    if !without_cluster {
        let documentation = ["test", "--workspace", "--doc"].map(str::to_owned);
        let command = [cargo].into_iter().chain(documentation).collect();
        let name = "documentation".to_owned();
        programs.push(Program { name, command, folder: root.to_owned(), tests: Vec::new() });
    }
    let rank = |name: &str| FIRST.iter().position(|long| *long == name).unwrap_or(FIRST.len());
    programs.sort_by(|a, b| (rank(&a.name), &a.name).cmp(&(rank(&b.name), &b.name)));
    chosen(programs, names)
}

/// The programs that are named, or all.
fn chosen(mut programs: Vec<Program>, names: &[String]) -> Result<Vec<Program>> {
    let is_of = |name: &str, program: &Program| {
        program.name.split('+').any(|suite| suite == name) || program.tests.iter().any(|test| is_below(test, name))
    };
    let unknown: Vec<&str> =
        names.iter().map(|name| &**name).filter(|name| !programs.iter().any(|program| is_of(name, program))).collect();
    ensure!(unknown.is_empty(), "there is no test program or test of that name: {}", unknown.join(", "));
    programs.retain(|program| names.is_empty() || names.iter().any(|name| is_of(name, program)));
    Ok(programs)
}

/// Whether a test is in the module `name`, or is that test itself.
fn is_below(test: &str, name: &str) -> bool {
    name.contains("::") && test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn program(message: Message) -> Option<Program> {
    let Message {
        executable: Some(executable),
        manifest_path: Some(manifest),
        profile: Some(profile),
        target: Some(target),
    } = message
    else {
        return None;
    };
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy();
    let name = if package == "tests" { target.name } else { format!("{package}-{}", target.name) };
    profile.test.then(|| Program { name, command: vec![executable.display().to_string()], folder, tests: Vec::new() })
}

/// The tests of the suites that are named, by program: each suite by itself but for those that are [`TOGETHER`].
fn grouped(tests: &[String], names: &[String]) -> BTreeMap<String, Vec<String>> {
    let suite_of = |test: &str| test.split("::").next().unwrap_or(test).to_owned();
    let is_named =
        |test: &&String| names.is_empty() || names.iter().any(|name| suite_of(test) == *name || is_below(test, name));
    let mut suites = BTreeMap::<String, Vec<String>>::new();
    for test in tests.iter().filter(is_named) {
        suites.entry(suite_of(test)).or_default().push(test.clone());
    }
    let together: Vec<&str> = suites.keys().map(|suite| &**suite).filter(|suite| TOGETHER.contains(suite)).collect();
    let shared = together.join("+");
    let mut programs = BTreeMap::<String, Vec<String>>::new();
    for (suite, tests) in suites {
        let name = if TOGETHER.contains(&&*suite) { shared.clone() } else { suite };
        programs.entry(name).or_default().extend(tests);
    }
    programs
}

impl Program {
    /// A program of these tests that is nowhere.
    #[cfg(test)]
    pub fn of(name: &str, tests: Vec<String>) -> Self {
        Self { name: name.to_owned(), command: vec![name.to_owned()], folder: PathBuf::new(), tests }
    }

    /// These tests of the same binary, under another name.
    fn with(&self, name: String, tests: Vec<String>) -> Self {
        let binary = self.command[..1].iter().cloned();
        let command = binary.chain(["--exact".to_owned()]).chain(tests.iter().cloned()).collect();
        Self { name, command, folder: self.folder.clone(), tests }
    }

    /// The names of all its tests.
    fn list(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.command[0]);
        let output = command.args(["--list", "--format=terse"]).current_dir(&self.folder).output();
        let output = output.with_context(|| format!("list the tests of {}", self.name))?;
        ensure!(output.status.success(), "the tests of {} cannot be listed: {}", self.name, output.status);
        let listed = String::from_utf8(output.stdout).context("read the list of tests")?;
        Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// How many of its tests have this word in their names, or are in a program that has.
    pub fn tests_with(&self, word: &str) -> usize {
        self.tests.iter().filter(|test| self.name.contains(word) || test.contains(word)).count()
    }

    /// The program without these tests, if there are others.
    pub fn without(self, word: &str) -> Option<Self> {
        if self.tests_with(word) == 0 {
            return Some(self);
        }
        let is_with = |test: &String| self.name.contains(word) || test.contains(word);
        let left: Vec<String> = self.tests.iter().filter(|test| !is_with(test)).cloned().collect();
        (!left.is_empty()).then(|| self.with(self.name.clone(), left))
    }
}

/// Where logs are kept until the next run.
pub fn logs_folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tools::workspace_folder().join("target"), PathBuf::from);
    let logs = target.join("test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn suites_that_share_a_cluster_are_one_program() {
        let tests = owned(&["cli::a", "content::b", "engine::c::d", "engine::ce::f"]);
        let counts = |names: &[&str]| -> Vec<(String, usize)> {
            grouped(&tests, &owned(names)).into_iter().map(|(name, tests)| (name, tests.len())).collect()
        };
        assert_eq!(counts(&[]), [("cli+content".to_owned(), 2), ("engine".to_owned(), 2)]);
        assert_eq!(counts(&["content"]), [("content".to_owned(), 1)]);
        assert_eq!(counts(&["engine::c", "content"]), [("content".to_owned(), 1), ("engine".to_owned(), 1)]);
    }

    #[test]
    fn a_name_of_nothing_is_refused() {
        let programs =
            || vec![Program::of("cli+content", owned(&["cli::a"])), Program::of("store-store", owned(&["b"]))];
        let names = |named: &[&str]| chosen(programs(), &owned(named)).map(|programs| programs.len()).ok();
        assert_eq!((names(&[]), names(&["cli"]), names(&["store-store", "cli::a"])), (Some(2), Some(1), Some(2)));
        assert_eq!((names(&["stroe"]), names(&["cli", "engine::c"])), (None, None));
    }
}
