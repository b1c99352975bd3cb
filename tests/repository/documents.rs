//! The documents: generated pages are what their generators write, links lead somewhere, and tables are complete.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use regex::Regex;
use rukpak_tests::tools::{self, workspace_folder};

/// Files that write reasons of conditions and of Events.
const REASONS: [&str; 12] = [
    "crds/src/condition.rs",
    "crds/src/platform_operator/summary.rs",
    "provisioners/plan/src/status.rs",
    "provisioners/install/src/deployment/execute/repair.rs",
    "provisioners/install/src/deployment/news.rs",
    "provisioners/install/src/deployment/report.rs",
    "provisioners/platform/src/cluster_operator/aggregate.rs",
    "provisioners/platform/src/context.rs",
    "provisioners/platform/src/events.rs",
    "provisioners/platform/src/operator/report.rs",
    "provisioners/platform/src/operator/upgrade.rs",
    "webhook/src/denials.rs",
];
/// What these files call otherwise: types of conditions that are no reason, and kinds.
const NOT_REASONS: [&str; 18] = [
    "Available",
    "BundleDeployment",
    "Contested",
    "ControllerRevision",
    "Degraded",
    "ForeignBundles",
    "HasValidBundle",
    "Installed",
    "Ready",
    "Reconcile",
    "Reconciling",
    "Stalled",
    "String",
    "Unpacked",
    "Unwatched",
    "UpgradeAvailable",
    "Upgradeable",
    "Verified",
];

fn read(path: &str) -> String {
    let path = workspace_folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of the repository, by their path in it.
fn pages() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(workspace_folder())
        .output()
        .expect("git runs");
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let pages: Vec<String> =
        names.lines().filter(|name| workspace_folder().join(name).is_file()).map(str::to_owned).collect();
    assert!(pages.len() > 30, "{pages:?}");
    pages
}

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```$").expect("a good pattern");
    blocks.replace_all(text, "").into_owned()
}

/// What a heading is called in links.
fn anchor(heading: &str) -> String {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("a good pattern");
    let text = link.replace_all(heading, "$1").to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = Regex::new(r"(?m)^#+ +(.*?) *$").expect("a good pattern");
    headings.captures_iter(&prose(text)).map(|found| anchor(&found[1])).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a good pattern");
    let mut dead = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        let own = workspace_folder().join(&page);
        for found in link.captures_iter(&prose(&text)) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file: PathBuf = if path.is_empty() { own.clone() } else { own.with_file_name("").join(path) };
            let is_there = file.exists()
                && (heading.is_empty()
                    || std::fs::read_to_string(&file).is_ok_and(|text| anchors(&text).contains(heading)));
            if !is_there {
                dead.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn every_page_of_the_folder_is_in_its_index() {
    let index = read("docs/README.md");
    let missing: Vec<String> = pages()
        .into_iter()
        .filter_map(|page| page.strip_prefix("docs/").map(str::to_owned))
        .filter(|page| page != "README.md" && !index.contains(&format!("({page})")))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not have {missing:?}");
}

#[test]
fn generated_pages_are_what_the_generator_writes() {
    let program = tools::workspace_binary("docgen").unwrap_or_else(|error| panic!("{error:#}"));
    let folder = tools::temp_folder("documents").unwrap_or_else(|error| panic!("{error:#}"));
    let written = Command::new(program).arg(folder.path()).status().expect("it runs");
    assert!(written.success());
    for page in ["api.md", "flags.md"] {
        let made = std::fs::read_to_string(folder.path().join(page)).expect("it was written");
        assert!(read(&format!("docs/{page}")) == made, "docs/{page} is old: make docs");
    }
}

#[test]
fn pictures_are_what_their_texts_draw() {
    let folder = workspace_folder().join("docs/pictures");
    let texts: Vec<PathBuf> = tools::listing(&folder)
        .expect("the folder is there")
        .into_iter()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    assert!(texts.len() >= 2, "{texts:?}");
    for text in texts {
        let name = text.file_stem().expect("a file has a name");
        let drawn = Command::new(folder.join("draw.sh")).arg(name).output().expect("sh runs");
        assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
        let kept = std::fs::read(text.with_extension("svg")).unwrap_or_default();
        assert!(kept == drawn.stdout, "{} is old: make docs", text.with_extension("svg").display());
    }
}

/// Every block of YAML, and every Dockerfile, is a part of a file that a test installs.
#[test]
fn manifests_on_pages_are_excerpts_of_examples() {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "examples"])
        .current_dir(workspace_folder())
        .output();
    let names = String::from_utf8(listed.expect("git runs").stdout).expect("names are UTF-8");
    let examples: Vec<String> = names.lines().map(read).collect();
    let block = Regex::new(r"(?ms)^```(?:yaml|dockerfile)\n(.*?)^```$").expect("a good pattern");
    let mut count = 0;
    for page in pages().iter().filter(|page| page.starts_with("docs/") || *page == "README.md") {
        for found in block.captures_iter(&read(page)) {
            count += 1;
            assert!(
                examples.iter().any(|example| example.contains(&found[1])),
                "{page}: in no example:\n{}",
                &found[1]
            );
        }
    }
    assert!(count >= 8, "{count} blocks");
}

/// Words in CamelCase that a file of the product has as texts.
fn camel_cased(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let word = Regex::new(r#""([A-Z][a-z]+(?:[A-Z][a-z]+)*)""#).expect("a good pattern");
    word.captures_iter(&code).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_reason_that_the_programs_write_is_explained() {
    let written: BTreeSet<String> = REASONS.iter().flat_map(|path| camel_cased(path)).collect();
    let written: BTreeSet<&str> =
        written.iter().map(String::as_str).filter(|word| !NOT_REASONS.contains(word)).collect();
    let text = read("docs/status.md");
    let table = text.split("## By reason").nth(1).expect("the page has the section");
    let row = Regex::new(r"(?m)^\| `([A-Za-z]+)` \|").expect("a good pattern");
    let explained: BTreeSet<&str> = row.captures_iter(table).map(|found| found.extract::<1>().1[0]).collect();
    assert!(written.len() > 30, "{written:?}");
    assert_eq!(written.difference(&explained).collect::<Vec<_>>(), Vec::<&&str>::new(), "not in status.md");
    assert_eq!(explained.difference(&written).collect::<Vec<_>>(), Vec::<&&str>::new(), "nothing writes these");
}

/// Whoever writes conditions or Events in another file adds it to [`REASONS`].
#[test]
fn reasons_are_written_in_the_files_that_are_looked_at() {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(workspace_folder()).output();
    let names = String::from_utf8(listed.expect("git runs").stdout).expect("names are UTF-8");
    let literal = Regex::new(
        r#"reason: "[A-Z]|const [A-Z_]+: &str = "[A-Z][a-z]+[A-Z][a-zA-Z]+(Failed|Succeeded|NotReady|Pending)""#,
    );
    let literal = literal.expect("a good pattern");
    let others: Vec<&str> = names
        .lines()
        .filter(|name| name.contains("/src/") && !name.starts_with("tests/") && !name.contains("tests"))
        // OLM v0's kinds have OLM's words, which its own documentation explains.
        .filter(|name| !REASONS.contains(name) && !name.starts_with("provisioners/platform/src/olmv0/"))
        .filter(|name| literal.is_match(read(name).split("#[cfg(test)]").next().unwrap_or_default()))
        .collect();
    assert_eq!(others, Vec::<&str>::new());
}

#[test]
fn the_readme_installs_as_the_page_about_installing_does() {
    let readme = read("README.md");
    let block = readme.split("```console\n").find(|block| block.starts_with("make image")).expect("the block is there");
    let commands = block.split("```").next().unwrap_or_default();
    let page = read("docs/install.md");
    for command in commands.lines() {
        assert!(page.lines().any(|line| line.starts_with(command)), "docs/install.md does not have {command:?}");
    }
}

/// The tests that a page names are there.
fn assert_tests_exist(page: &str) {
    let test = Regex::new(r"`(\w+(?:::\w+)+)`").expect("a good pattern");
    let tests: Vec<&str> = test.captures_iter(page).map(|found| found.extract::<1>().1[0]).collect();
    assert!(tests.len() > 20, "{tests:?}");
    for path in tests {
        let (modules, name) = path.rsplit_once("::").expect("the pattern has it");
        let source = read(&format!("tests/suite/{}.rs", modules.replace("::", "/")));
        assert!(source.contains(&format!("fn {name}(")), "there is no test {path}");
    }
}

#[test]
fn the_page_of_olm_v1_names_tests_that_exist() {
    assert_tests_exist(&read("docs/olmv1.md"));
}

/// The name of the module that a file is; its tests may be in a file of their own.
fn module(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let stem = stem.strip_suffix("/tests").unwrap_or(stem);
    stem.rsplit('/').next().unwrap_or(stem)
}

/// Numbers as the list of points has them: `1, 2, 5-8`.
fn points(text: &str) -> Vec<u32> {
    let number = |text: &str| text.trim().parse::<u32>().unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    text.split(',').flat_map(range).collect()
}

#[test]
fn every_point_of_olm_v0_names_a_test_that_exists_or_says_what_differs() {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(workspace_folder())
        .output();
    let files = String::from_utf8(listed.expect("git runs").stdout).expect("names are UTF-8");
    let files = files.lines().filter(|name| workspace_folder().join(name).is_file());
    let sources: Vec<(&str, String)> = files.map(|name| (module(name), read(name))).collect();
    let is_there = |wanted: &str, name: &str| {
        sources.iter().any(|(module, source)| *module == wanted && source.contains(&format!("fn {name}(")))
    };

    let page = read("docs/olmv0.md");
    let list = page.split("## Point by point").nth(1).expect("the page has the section");
    let row = Regex::new(r"(?m)^\| ([\d, -]+) \| .* \| (.*) \| (.*) \|$").expect("a good pattern");
    let path = Regex::new(r"`(\w+)::(\w+)`").expect("a good pattern");
    let mut numbers = Vec::new();
    for found in row.captures_iter(list) {
        let (_, [text, here, tests]) = found.extract();
        numbers.extend(points(text));
        let named: Vec<[&str; 2]> = path.captures_iter(tests).map(|found| found.extract().1).collect();
        assert!(!named.is_empty() || here.starts_with("differs"), "{text}: no test, and nothing differs");
        for [module, name] in named {
            assert!(is_there(module, name), "{text}: there is no test {module}::{name}");
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=170).collect::<Vec<u32>>(), "each point is there once");
}

/// `make reproductions` runs the tests that the page names, and its table says which small story finds the same.
#[test]
fn reproductions_name_tests_and_stories_that_exist() {
    let page = read("tests/reproductions.md");
    assert_tests_exist(&page);

    let story = Regex::new(r"(?m)\| `(\w+)` \|$").expect("a good pattern");
    let stories: BTreeSet<&str> = story.captures_iter(&page).map(|found| found.extract::<1>().1[0]).collect();
    assert!(stories.len() > 5, "{stories:?}");
    let source = read("provisioners/install/tests/simulation/small.rs");
    for name in stories {
        assert!(source.contains(&format!("pub fn {name}(")), "there is no story {name}");
    }
}
