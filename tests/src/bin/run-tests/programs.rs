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

/// The programs that take longest, first: what is begun last should not be what is waited for.
const LONGEST_FIRST: [&str; 13] = [
    "engine",
    "tutorial",
    "admission+cli+content+deployments+registry",
    "sweep",
    "leader",
    "output",
    "olmv1",
    "hostile",
    "rights",
    "bundles",
    "platform",
    "install_order",
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

/// Builds all test programs, and returns those that are named, or all. The last one runs the examples in the documentation.
pub fn build(names: &[String]) -> Result<Vec<Program>> {
    let is_named = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    let root = tools::workspace_folder();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
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
        let Some(program) = program(message) else { continue };
        if program.name == SUITES {
            programs.extend(suites(&program, is_named)?);
        } else if is_named(&program.name) {
            programs.push(program);
        }
    }
    let rank = |name: &str| LONGEST_FIRST.iter().position(|long| *long == name).unwrap_or(LONGEST_FIRST.len());
    programs.sort_by(|a, b| (rank(&a.name), &a.name).cmp(&(rank(&b.name), &b.name)));
    if is_named("documentation") {
        let documentation = ["test", "--workspace", "--doc"].map(str::to_owned);
        let command = [cargo].into_iter().chain(documentation).collect();
        programs.push(Program { name: "documentation".to_owned(), command, folder: root.to_owned() });
    }
    Ok(programs)
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
    profile.test.then(|| Program { name, command: vec![executable.display().to_string()], folder })
}

/// The suites in their binary that are named, each by itself but for those that are [`TOGETHER`].
fn suites(binary: &Program, is_named: impl Fn(&str) -> bool) -> Result<Vec<Program>> {
    let output = Command::new(&binary.command[0])
        .args(["--list", "--format=terse"])
        .current_dir(&binary.folder)
        .output()
        .context("list the tests of the suites")?;
    ensure!(output.status.success(), "the tests of the suites cannot be listed: {}", output.status);
    let listed = String::from_utf8(output.stdout).context("read the list of tests")?;
    Ok(grouped(&listed, is_named).into_iter().map(|(name, tests)| binary.with(name, tests)).collect())
}

/// Lines like `engine::pivot::a_test: test`, by program.
fn grouped(listed: &str, is_named: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<String>> {
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut suites = BTreeMap::<&str, Vec<String>>::new();
    for test in tests {
        let suite = test.split("::").next().unwrap_or(test);
        suites.entry(suite).or_default().push(test.to_owned());
    }
    suites.retain(|suite, _| is_named(suite));
    let together: Vec<&str> = suites.keys().copied().filter(|suite| TOGETHER.contains(suite)).collect();
    let shared = together.join("+");
    let mut programs = BTreeMap::<String, Vec<String>>::new();
    for (suite, tests) in suites {
        let name = if TOGETHER.contains(&suite) { &shared } else { suite };
        programs.entry(name.to_owned()).or_default().extend(tests);
    }
    programs
}

impl Program {
    /// These tests of the same binary, under another name.
    fn with(&self, name: String, tests: Vec<String>) -> Self {
        let command = self.command.iter().cloned().chain(["--exact".to_owned()]).chain(tests).collect();
        Self { name, command, folder: self.folder.clone() }
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

    #[test]
    fn suites_that_share_a_cluster_are_one_program() {
        let listed = "cli::a: test\ncontent::b: test\nengine::c::d: test\nengine::c::e: test\n";
        let names = |is_named: fn(&str) -> bool| -> Vec<(String, usize)> {
            grouped(listed, is_named).into_iter().map(|(name, tests)| (name, tests.len())).collect()
        };
        assert_eq!(names(|_| true), [("cli+content".to_owned(), 2), ("engine".to_owned(), 2)]);
        assert_eq!(names(|name| name == "content"), [("content".to_owned(), 1)]);
    }
}
