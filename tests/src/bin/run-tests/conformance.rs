//! The table of docs/conformance.md: what passed on which version of Kubernetes, from one whole run each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use rukpak_tests::tools;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::ground::Ground;

/// Around the table.
const MARKS: [&str; 2] = ["<!-- table: written by make conformance -->\n", "<!-- end -->"];

/// One whole run.
#[derive(Serialize, Deserialize)]
struct Run {
    kubernetes: String,
    revision: String,
    date: String,
    /// By suite: what libtest said.
    suites: BTreeMap<String, String>,
}

/// Keeps the results of a whole run for the table.
pub fn keep(ground: &Ground, outcomes: &[Outcome]) -> Result<()> {
    let Some(kubernetes) = ground.kubernetes() else { return Ok(()) };
    // Programs of a crate have its name in front; what they test does not depend on a cluster.
    let of_suites = outcomes.iter().filter(|outcome| !outcome.name.contains('-'));
    let run = Run {
        kubernetes: kubernetes.to_owned(),
        revision: ground.revision().to_owned(),
        date: time::OffsetDateTime::now_utc().date().to_string(),
        suites: of_suites.map(|outcome| (outcome.name.clone(), outcome.summary.clone())).collect(),
    };
    let folder = folder()?;
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let path = folder.join(format!("{kubernetes}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&run)?).with_context(|| format!("write {}", path.display()))
}

/// Writes the table from the latest run on each version.
pub fn write_page() -> Result<()> {
    let mut runs = Vec::new();
    for file in tools::listing(&folder()?).context("find results: make test first")? {
        let text = std::fs::read_to_string(file.path()).with_context(|| format!("read {}", file.path().display()))?;
        runs.push(serde_json::from_str(&text).with_context(|| format!("read {}", file.path().display()))?);
    }
    ensure!(!runs.is_empty(), "there are no results: make test first");
    let page = tools::workspace_folder().join("docs/conformance.md");
    let text = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    let (before, rest) = text.split_once(MARKS[0]).context("the page has no mark where the table begins")?;
    let (_, after) = rest.split_once(MARKS[1]).context("the page has no mark where the table ends")?;
    let written = [before, MARKS[0], &table(&runs), MARKS[1], after].concat();
    std::fs::write(&page, written).with_context(|| format!("write {}", page.display()))
}

fn table(runs: &[Run]) -> String {
    let row = |first: &str, cell: &dyn Fn(&Run) -> String| {
        let cells: Vec<String> = runs.iter().map(cell).collect();
        format!("| {first} | {} |\n", cells.join(" | "))
    };
    let suites: BTreeSet<&String> = runs.iter().flat_map(|run| run.suites.keys()).collect();
    let mut table = row("suite", &|run| format!("Kubernetes {}", run.kubernetes));
    table.push_str(&row("---", &|_| "---".to_owned()));
    for suite in suites {
        let of_run = |run: &Run| run.suites.get(suite).map_or("not run".to_owned(), |summary| short(summary));
        table.push_str(&row(&format!("`{}`", suite.replace('+', "`, `")), &of_run));
    }
    table.push_str(&row("date", &|run| run.date.clone()));
    table.push_str(&row("revision", &|run| run.revision.clone()));
    table
}

/// `149 passed, 0 failed, 1 ignored` without what is nought.
fn short(summary: &str) -> String {
    let parts: Vec<&str> = summary.split(", ").filter(|part| !part.starts_with("0 ")).collect();
    parts.join(", ")
}

fn folder() -> Result<PathBuf> {
    let logs = crate::programs::logs_folder()?;
    Ok(logs.parent().context("the folder of logs is in another")?.join("conformance"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_rows_and_versions_are_columns() {
        let run = |kubernetes: &str, suites: &[(&str, &str)]| Run {
            kubernetes: kubernetes.to_owned(),
            revision: "abc".to_owned(),
            date: "2026-01-02".to_owned(),
            suites: suites.iter().map(|&(name, summary)| (name.to_owned(), summary.to_owned())).collect(),
        };
        let runs = [
            run("1.28.15", &[("a+b", "3 passed, 1 failed, 0 ignored")]),
            run("1.37.2", &[("a+b", "4 passed, 0 failed, 0 ignored"), ("c", "1 passed, 0 failed, 0 ignored")]),
        ];
        let expected = "| suite | Kubernetes 1.28.15 | Kubernetes 1.37.2 |\n| --- | --- | --- |\n\
                        | `a`, `b` | 3 passed, 1 failed | 4 passed |\n| `c` | not run | 1 passed |\n\
                        | date | 2026-01-02 | 2026-01-02 |\n| revision | abc | abc |\n";
        assert_eq!(table(&runs), expected);
    }
}
