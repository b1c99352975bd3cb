//! The test programs of the workspace, as cargo builds and names them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rukpak_tests::tools;
use serde::Deserialize;

/// The programs that take longest, first: what is begun last should not be what is waited for.
const LONGEST_FIRST: [&str; 15] = [
    "engine",
    "tutorial",
    "registry",
    "olmv1",
    "sweep",
    "hostile",
    "leader",
    "rights",
    "platform",
    "output",
    "content",
    "admission",
    "trust",
    "bundles",
    "install_order",
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

/// Builds all test programs. The last one runs the examples in the documentation.
pub fn build() -> Result<Vec<Program>> {
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
        programs.extend(program(message));
    }
    let rank = |name: &str| LONGEST_FIRST.iter().position(|long| *long == name).unwrap_or(LONGEST_FIRST.len());
    programs.sort_by(|a, b| (rank(&a.name), &a.name).cmp(&(rank(&b.name), &b.name)));
    let documentation = ["test", "--workspace", "--doc"].map(str::to_owned);
    let command = [cargo].into_iter().chain(documentation).collect();
    programs.push(Program { name: "documentation".to_owned(), command, folder: root.to_owned() });
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

/// Where logs are kept until the next run.
pub fn logs_folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tools::workspace_folder().join("target"), PathBuf::from);
    let logs = target.join("test-logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
    Ok(logs)
}
