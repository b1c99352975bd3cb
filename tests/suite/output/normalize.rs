//! What differs from run to run, and the words that stand for it in the goldens.

use std::collections::BTreeMap;
use std::iter;

use regex::{Captures, Regex};

/// Patterns whose matches are replaced by a word.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r#"("resourceVersion": )"\d+""#, r#"$1"<version>""#),
    // Archives hold the port of the registry.
    (r"loading sha256:[0-9a-f]{12}:", "loading <blob>:"),
    (r"\b\d+ bytes\b", "<number> bytes"),
    (r#"("bundleDigest": )"[0-9a-f]{32}""#, r#"$1"<digest>""#),
    (r"\basking-[0-9a-f]{10}\b", "asking-<digest>"),
    // Kubernetes 1.37 prints a selector as JSON, and 1.28 in Go's notation, so long that messages are cut in the middle of it.
    (
        r#"(spec\.selector: Invalid value: )(\{\\?"matchLabels.*?\}\}|v1\.LabelSelector\{.*?(\(nil\)\}|LabelSelecto\b))(: field is immutable)?"#,
        "$1<selector>",
    ),
];
/// Patterns whose matches are replaced by a word and a number, the same for the same text.
const NUMBERED: &[(&str, &str)] =
    &[(r"sha256:[0-9a-f]{64}", "sha256:<digest>"), (r"\b[0-9a-f]{64}\b", "<hex>"), (r"\b[0-9a-z]{36,50}\b", "<hash>")];
/// Between two columns of a table.
const GAP: &str = "   ";

/// Replaces what differs.
pub struct Normalizer {
    /// Texts of this run, and what stands for them.
    names: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
    numbered: Vec<(Regex, &'static str)>,
}

impl Normalizer {
    /// For a run with these `names`: what it calls something, and what the goldens do.
    pub fn new(names: Vec<(String, String)>) -> Self {
        let compiled = |patterns: &[(&str, &'static str)]| {
            patterns.iter().map(|(pattern, word)| (Regex::new(pattern).expect("it is one"), *word)).collect()
        };
        Self { names, patterns: compiled(PATTERNS), numbered: compiled(NUMBERED) }
    }

    /// The text as it stands in a golden. Lines of progress are left out: a quick machine has none.
    pub fn normalize(&self, text: &str) -> String {
        let text = self.names.iter().fold(text.to_owned(), |text, (here, golden)| text.replace(here, golden));
        let text =
            self.patterns.iter().fold(text, |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned());
        let text = self.numbered.iter().fold(text, |text, (pattern, word)| numbered(&text, pattern, word));
        let mut lines: Vec<String> = text.lines().filter(|line| !is_progress(line)).map(str::to_owned).collect();
        lines.dedup();
        aligned(&lines)
    }
}

fn numbered(text: &str, pattern: &Regex, word: &str) -> String {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let replaced = pattern.replace_all(text, |found: &Captures<'_>| {
        let next = numbers.len() + 1;
        let number = *numbers.entry(found[0].to_owned()).or_insert(next);
        word.replace('>', &format!(" {number}>"))
    });
    replaced.into_owned()
}

/// Whether a line says what is waited for: whether there is one, and which, depends on when somebody looked.
fn is_progress(line: &str) -> bool {
    let (sign, rest) = line.split_once("<time> ").unwrap_or(("", ""));
    !rest.is_empty() && sign == super::session::STDERR
}

/// Widths of columns depend on what was replaced. A table has a heading in capitals.
fn aligned(lines: &[String]) -> String {
    let mut text = String::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let is_heading = cells(first).len() > 1 && !first.chars().any(char::is_lowercase);
        let rows = if is_heading { rest.iter().take_while(|line| cells(line).len() > 1).count() } else { 1 };
        let (table, after) = rest.split_at(rows);
        let rows: Vec<Vec<&str>> = table.iter().map(|line| cells(line)).collect();
        for (line, row) in table.iter().zip(&rows) {
            let shown = if is_heading { row_of(row, &rows) } else { line.clone() };
            text.push_str(&shown);
            text.push('\n');
        }
        rest = after;
    }
    text
}

fn cells(line: &str) -> Vec<&str> {
    line.split(GAP).map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

fn row_of(row: &[&str], rows: &[Vec<&str>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let padded = row.iter().enumerate().map(|(column, cell)| {
        let missing = width(column).unwrap_or_default().saturating_sub(cell.chars().count());
        iter::once(*cell).chain(iter::repeat_n(" ", missing)).collect::<String>()
    });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

#[test]
fn what_differs_is_replaced_and_tables_stay_tables() {
    let normalizer = Normalizer::new(vec![("localhost:41234".to_owned(), "registry.example.com".to_owned())]);
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let text = format!(
        "IMAGE   DIGEST   AGE\nlocalhost:41234/a   {}   1\nb                   {}   2\n",
        digest("a"),
        digest("b")
    );
    let golden = "IMAGE                    DIGEST              AGE\n\
                  registry.example.com/a   sha256:<digest 1>   1\n\
                  b                        sha256:<digest 2>   2\n";
    assert_eq!(normalizer.normalize(&text), golden);
    let waits = "2> 2026-11-23T08:00:01Z a\n2> 2026-11-23T08:00:02Z b\ndone\n";
    assert_eq!(normalizer.normalize(waits), "done\n");
}

#[test]
fn a_selector_is_replaced_in_every_notation() {
    let normalizer = Normalizer::new(Vec::new());
    let refusal = |selector: &str| format!("spec.selector: Invalid value: {selector}");
    let older = r#"v1.LabelSelector{MatchLabels:map[string]string{"app":"p"}, MatchExpressions:[]v1.LabelSelectorRequirement(nil)}"#;
    let cut = &older[..older.len() - "rRequirement(nil)}".len()];
    let newer = r#"{"matchLabels":{"app":"p"}}: field is immutable"#;
    for selector in [older, cut, newer] {
        assert_eq!(normalizer.normalize(&refusal(selector)), refusal("<selector>\n"));
        let in_json = refusal(selector).replace('"', "\\\"");
        assert_eq!(normalizer.normalize(&in_json), refusal("<selector>\n"));
    }
}
